"""How the codes of an index are ranked, by the distance of their layout, and looked up, by the first part."""

from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import words
from manihash.compute.largest import query_block, smallest
from manihash.search.buckets import Buckets, aligned, build
from manihash.search.expansion import Queries
from manihash.search.routes import CodeFinder, QueryPlan, plan_nearest
from manihash.search.scanners import Matches, Scanner
from manihash.search.tables import TableScan, pair_distances
from manihash.types import Codes, Floats, Ints

# Pairs of a query and a code whose bits are compared at once.
_PAIRS = 2**20


class Ranking:
    """The layout of the codes of an index, and the scanner that compares them."""

    def __init__(self, layout: CodeLayout, scanner: Scanner) -> None:
        self.layout, self.scanner = layout, scanner
        self._ranked: WeakKeyDictionary[Buckets, RankedCodes] = WeakKeyDictionary()
        self._layout_of_ranked = layout  # has another weight if another ranking shares the codes
        self._reweighted: Ranking | None = None

    @cached_property
    def by_all_bits(self) -> "Ranking":
        """The ranking of the same codes by the Hamming distance of all bits."""
        layout = self.layout
        return self if layout.is_hamming else Ranking(CodeLayout(layout.n_bits), self.scanner)

    def with_weight(self, weight: float) -> "Ranking":
        """The ranking of the same codes with another weight of their second part; the last one is kept."""
        if not self.layout.has_two_parts:
            raise ValueError(
                f"weight={weight} is that of the second part of a code, but these codes have one part: "
                "omit it"
            )
        layout, found = self.layout.with_weight(weight), self._reweighted
        if found is None or found.layout.weight != layout.weight:
            found = Ranking(layout, self.scanner)
            if layout.has_fields:  # the weight is only in the tables of the queries
                found._ranked, found._layout_of_ranked = self._ranked, self.layout
            self._reweighted = found
        return found

    def of(self, buckets: Buckets) -> "RankedCodes":
        """The codes of buckets, kept as long as the buckets are. Threads need no lock: all find the same."""
        found = self._ranked.get(buckets)
        if found is None:
            codes = RankedCodes(buckets.codes, self._layout_of_ranked, self.scanner)
            found = self._ranked.setdefault(buckets, codes)
        return found

    def queries(self, codes: Codes | None, values: ArrayLike | None) -> "RankedQueries":
        """Queries (q, b), or their real values, with the distance that ``HammingIndex.search`` ranks by."""
        tables = self.tables(codes, values)
        if tables is not None or codes is None:
            assert tables is not None
            return TableQueries(self, tables)
        return (HammingQueries if self.layout.is_hamming else WeightedQueries)(self, codes)

    def look_up(self, codes: Codes, values: ArrayLike | None = None) -> "LookUp":
        """The look-up of queries (q, b) by the first part of the codes."""
        layout = self.layout
        if not layout.look_up_bits:
            raise ValueError(
                "codes of a product quantizer have no Hamming radius: search for the k nearest rows, or use "
                "codes with a part of signs, such as those of recipe('imh-hybrid')"
            )
        if layout.is_hamming and values is not None:
            raise ValueError(
                "asymmetric orders what the first of two parts finds: these codes have one part, whose "
                "Hamming distance orders the rows within a radius"
            )
        return LookUp(self, codes, values)

    def tables(self, queries: Codes | None, values: ArrayLike | None) -> NDArray[np.float32] | None:
        """The tables that rank codes for queries, or for their real values; None if codes rank by bits."""
        layout = self.layout
        if values is None:
            assert queries is not None
            return layout.tables(layout.values_of(queries)) if layout.has_fields else None
        tables = layout.tables(values)
        if queries is not None and len(tables) != len(queries):
            raise ValueError(
                f"got {len(queries)} queries, but asymmetric has {len(tables)} rows: pass one row per query"
            )
        return tables


class RankedCodes:
    """Distinct codes (u, b) of a layout, with what queries need of them, made when it is first needed."""

    def __init__(self, codes: Codes, layout: CodeLayout, scanner: Scanner) -> None:
        self.codes, self._layout, self._scanner = codes, layout, scanner

    @cached_property
    def copied(self) -> Codes:
        """The codes as copies of their parts, whose Hamming distances are the levels."""
        layout = self._layout
        return self.codes if layout.copies in (None, (1, 1)) else aligned(layout.copied(self.codes))

    @cached_property
    def scan(self) -> TableScan:
        """The scan of the codes by tables."""
        return TableScan(self.codes, self._layout, self._scanner)

    @cached_property
    def _firsts(self) -> Buckets:
        """The distinct first parts of the codes; their rows are positions of codes."""
        return build(self._layout.first(self.codes), None)

    @cached_property
    def finder(self) -> CodeFinder:
        """Finds codes, or the distinct first parts of codes of two parts, within a radius."""
        codes = self.codes if self._layout.is_hamming else self._firsts.codes
        return CodeFinder(codes, self._layout.look_up_bits, self._scanner)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables that look-ups have built."""
        return self.finder.nbytes if "finder" in vars(self) else 0

    def within(self, queries: Codes, radius: int) -> Matches:
        """All codes whose first part is within the radius of that of queries (q, b), in any order."""
        if self._layout.is_hamming:
            return self.finder.within(queries, radius)
        radius = min(radius, self._layout.look_up_bits)
        lims, distance, first = self.finder.within(aligned(self._layout.first(queries)), radius)
        ends = np.concatenate([[0], np.cumsum(self._firsts.counts(first))])
        which, position = self._firsts.expand(first)
        return ends[lims], distance[which], position

    def plan_within(self, radius: int, n_queries: int) -> QueryPlan:
        """The plan of a look-up within a radius."""
        plan = self.finder.plan(min(radius, self._layout.look_up_bits), n_queries)
        return plan if self._layout.is_hamming else replace(plan, what=f"{plan.what} of the first part")

    def plan_nearest(self, k: int, n_queries: int) -> QueryPlan:
        """The plan of a search for the k nearest rows."""
        if self._layout.has_fields:
            return self.scan.plan(k, n_queries)
        return plan_nearest(self.copied, self._scanner, k, n_queries)


class RankedQueries(Queries):
    """Queries, with the distances that their levels stand for."""

    def distances(self, level: Ints) -> NDArray[Any]:
        """Distances for levels."""
        raise NotImplementedError


class HammingQueries(RankedQueries):
    """Query codes (q, b) that rank codes by Hamming distance; levels are distances."""

    def __init__(self, ranking: Ranking, queries: Codes) -> None:
        self._queries, self._scanner = queries, ranking.scanner

    def __len__(self) -> int:
        return len(self._queries)

    def nearest(self, which: Ints, buckets: Buckets, m: int) -> tuple[Ints, Ints]:
        asked = self._queries if len(which) == len(self._queries) else self._queries[which]
        return self._scanner.nearest(asked, buckets.codes, m)

    def distances(self, level: Ints) -> NDArray[np.int32]:
        return level.astype(np.int32)


class WeightedQueries(RankedQueries):
    """Query codes (q, b) that rank codes by the weighted distance of their parts."""

    def __init__(self, ranking: Ranking, queries: Codes) -> None:
        self._ranking, self._layout = ranking, ranking.layout
        copied = self._layout.copies not in (None, (1, 1))
        self._queries = aligned(self._layout.copied(queries)) if copied else queries

    def __len__(self) -> int:
        return len(self._queries)

    def nearest(self, which: Ints, buckets: Buckets, m: int) -> tuple[Ints, Ints]:
        codes = self._ranking.of(buckets).copied
        if self._layout.copies is not None:
            return self._ranking.scanner.nearest(self._queries[which], codes, m)
        level, position = np.empty((2, len(which), m), np.int64)
        for i in range(0, len(which), step := query_block(len(codes))):
            levels = self._layout.levels(self._queries[which[i : i + step]], codes)
            position[i : i + step] = smallest(levels, m)
            level[i : i + step] = np.take_along_axis(levels, position[i : i + step], axis=1)
        return level, position

    def distances(self, level: Ints) -> Floats:
        return self._layout.distances(level)


class TableQueries(RankedQueries):
    """Queries that rank codes by tables (q, b, 256); levels are the bits of distances in float32."""

    def __init__(self, ranking: Ranking, tables: NDArray[np.float32]) -> None:
        self._ranking, self._tables = ranking, tables

    def __len__(self) -> int:
        return len(self._tables)

    def nearest(self, which: Ints, buckets: Buckets, m: int) -> tuple[Ints, Ints]:
        tables = self._tables if len(which) == len(self._tables) else self._tables[which]
        distance, position = self._ranking.of(buckets).scan.nearest(tables, m)
        return distance.view(np.int32).astype(np.int64), position

    def distances(self, level: Ints) -> NDArray[np.float32]:
        return level.astype(np.int32).view(np.float32)


class LookUp:
    """Queries (q, b) that find codes by their first part, and rank what was found by the whole code."""

    def __init__(self, ranking: Ranking, queries: Codes, values: ArrayLike | None) -> None:
        self._ranking, self._queries, self._values = ranking, queries, values

    @cached_property
    def _tables(self) -> NDArray[np.float32] | None:
        """The tables that rank; None if all parts are signs, whose Hamming distances do."""
        return self._ranking.tables(self._queries, self._values)

    def __len__(self) -> int:
        return len(self._queries)

    def codes(self, some: slice, buckets: Buckets, radius: int) -> Matches:
        """The codes of buckets within the radius of some of the queries."""
        queries = self._queries[some]
        if not len(queries) or not len(buckets):
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        return self._ranking.of(buckets).within(queries, radius)

    def distances(self, start: int, matches: Matches, buckets: Buckets) -> NDArray[Any] | None:
        """Distances of matches of the queries from ``start`` on; None if codes are one part of signs."""
        if self._ranking.layout.is_hamming:
            return None
        lims, first, position = matches
        query = np.repeat(np.arange(start, start + len(lims) - 1), np.diff(lims))
        if self._tables is not None:
            return pair_distances(self._tables, query, self._ranking.of(buckets).scan.split, position)
        layout, second = self._ranking.layout, np.empty(len(query), np.int64)
        seconds = words(layout.second(self._queries))
        for i in range(0, len(query), _PAIRS):
            pairs = slice(i, i + _PAIRS)
            differ = words(layout.second(buckets.codes[position[pairs]])) ^ seconds[query[pairs]]
            second[pairs] = np.bitwise_count(differ).sum(axis=1)
        return first + float(layout.weight) * second
