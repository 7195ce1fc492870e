"""What an index says about itself: how queries are answered, and statistics of its codes."""

from typing import Any

from manihash.checks import positive_int
from manihash.search.parts import check_part
from manihash.search.routes import QueryPlan, plan_nearest
from manihash.search.saved_rows import SavedRows
from manihash.search.stats import IndexStats, stats


class InspectedRows(SavedRows):
    """Rows that explain their queries and describe their codes."""

    def explain(
        self,
        *,
        k: int | None = None,
        radius: int | None = None,
        n_queries: int = 1,
        part: str | None = None,
    ) -> QueryPlan:
        """Show how the next queries would be answered, with the estimated cost of each route.

        Rows added recently, which are few, are not considered.

        Parameters
        ----------
        k : int, default=None
            Explain ``search`` for k rows.
        radius : int, default=None
            Explain ``within`` or ``count`` for this radius; pass either ``k`` or ``radius``.
        n_queries : int, default=1
            Number of queries in one call.
        part : {"first"} or None, default=None
            Explain the look-up by the first part of the codes; None for all bits.

        Returns
        -------
        QueryPlan
            The chosen route and the estimates of all routes.
        """
        if (k is None) == (radius is None):
            raise ValueError("explain() needs either k or radius, not both")
        n_queries, base, parts = positive_int(n_queries, "n_queries"), self._snapshot.base, self._parts
        by_first = check_part(part, parts)
        if radius is not None:
            radius = self._radius(radius)
            if by_first is None:
                return base.finder.plan(radius, n_queries)
            return by_first.finder(base.buckets.codes).plan(radius, n_queries)
        if by_first is not None:
            raise ValueError('part="first" is a look-up within a radius: pass radius, or omit part')
        codes = base.searched_buckets()[0].codes
        compared = codes if parts is None or parts.layout.copies is None else parts.copied(codes)
        return plan_nearest(compared, self._snapshot.scanner, positive_int(k, "k"), n_queries)

    def stats(self, *, part: str | None = None) -> IndexStats:
        """Compute statistics of the codes, with warnings if they have collapsed.

        Parameters
        ----------
        part : {"first"} or None, default=None
            Describe the first part of the codes alone: its distinct values, and the rows that share one.
            None for whole codes.

        Returns
        -------
        IndexStats
            Number of rows and distinct codes, bucket sizes, uninformative bits, memory and warnings. The
            memory is that of the whole index.
        """
        snapshot, parts = self._snapshot, check_part(part, self._parts)
        if not len(snapshot):
            raise ValueError("the index is empty: add codes before calling stats()")
        segments = snapshot.segments()
        held = sum(segment.buckets.nbytes for segment in segments)
        tables = sum(segment.finder.nbytes for segment in segments)
        merged = snapshot.merged()
        if parts is None:
            return stats(merged, self.n_bits, held, tables)
        return stats(parts.buckets_of_first(merged), parts.layout.first_bits, held, tables)

    def _radius(self, radius: Any) -> int:
        return min(positive_int(radius, "radius", least=0), self.n_bits)
