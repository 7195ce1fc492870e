"""What an index says about itself: how queries are answered, and statistics of its codes."""

from typing import Any

import numpy as np

from manihash.checks import positive_int
from manihash.codes import n_bytes
from manihash.search.parts import look_up_by
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

        Returns
        -------
        QueryPlan
            The chosen route and the estimates of all routes.
        """
        if (k is None) == (radius is None):
            raise ValueError("explain() needs either k or radius, not both")
        n_queries, base, parts = positive_int(n_queries, "n_queries"), self._snapshot.base, self._parts
        if radius is not None:
            radius = self._radius(radius)
            if look_up_by(np.empty((0, n_bytes(self.n_bits)), np.uint8), parts) is None:
                return base.finder.plan(radius, n_queries)
            return parts.finder(base.buckets.codes).plan(radius, n_queries)
        codes, k = base.searched_buckets()[0].codes, positive_int(k, "k")
        if parts.layout.has_fields:
            return parts.scan.plan(codes, k, n_queries)
        compared = codes if parts.layout.copies is None else parts.copied(codes)
        return plan_nearest(compared, self._snapshot.scanner, k, n_queries)

    def stats(self) -> IndexStats:
        """Compute statistics of the codes, with warnings if they have collapsed.

        If codes have two parts, the statistics are those of the first part, which rows are looked up by.

        Returns
        -------
        IndexStats
            Number of rows and distinct codes, bucket sizes, uninformative bits, memory and warnings. The
            memory is that of the whole index.
        """
        snapshot, layout = self._snapshot, self.layout
        if not len(snapshot):
            raise ValueError("the index is empty: add codes before calling stats()")
        segments = snapshot.segments()
        held = sum(segment.buckets.nbytes for segment in segments)
        tables = sum(segment.finder.nbytes for segment in segments)
        merged = snapshot.merged()
        if not layout.has_two_parts:
            return stats(merged, self.n_bits, held, tables)
        return stats(self._parts.buckets_of_first(merged), layout.look_up_bits, held, tables, ranked=False)

    def _radius(self, radius: Any) -> int:
        return min(positive_int(radius, "radius", least=0), self.n_bits)
