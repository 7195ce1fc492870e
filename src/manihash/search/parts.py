"""The parts of the codes of an index: ranked by the distance of the layout, looked up by the first part."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import words
from manihash.compute.largest import query_block, smallest
from manihash.search.buckets import Buckets, aligned, build
from manihash.search.per_codes import PerCodes
from manihash.search.routes import CodeFinder, QueryPlan
from manihash.search.scanners import HammingQueries, Matches, Scanner
from manihash.search.tables import TableQueries, TableScan, pair_distances
from manihash.types import Codes, Floats, Ints

# Pairs of a query and a code whose bits are compared at once.
_PAIRS = 2**20


class IndexParts:
    """The layout of the codes of an index, with what queries need of each array of codes."""

    def __init__(self, layout: CodeLayout, scanner: Scanner) -> None:
        self.layout, self.scanner = layout, scanner
        self.scan = TableScan(layout, scanner)
        self._copied: PerCodes[Codes] = PerCodes(lambda codes: aligned(layout.copied(codes)))
        self._finders = PerCodes(lambda codes: FirstPartFinder(codes, layout, scanner))

    def copied(self, codes: Codes) -> Codes:
        """Codes (u, b) as copies of their parts, whose Hamming distances are the levels."""
        return codes if self.layout.copies == (1, 1) else self._copied.of(codes)

    def finder(self, codes: Codes) -> "FirstPartFinder":
        """The finder of codes (u, b) by their first part."""
        return self._finders.of(codes)

    def buckets_of_first(self, buckets: Buckets) -> Buckets:
        """Rows by the first part of their codes alone, without their ids."""
        return build(self.layout.first(buckets.by_row()[0]), None)


class WeightedQueries:
    """Query codes (q, b) that rank codes by the weighted distance of their parts."""

    def __init__(self, queries: Codes, parts: IndexParts) -> None:
        self._parts, self._layout = parts, parts.layout
        copied = parts.layout.copies not in (None, (1, 1))
        self._queries = aligned(parts.layout.copied(queries)) if copied else queries

    def __len__(self) -> int:
        return len(self._queries)

    def nearest(self, which: Ints, codes: Codes, m: int) -> tuple[Ints, Ints]:
        """Levels and positions (len(which), m) of the m codes nearest to some queries, ties by position."""
        if self._layout.copies is not None:
            return self._parts.scanner.nearest(self._queries[which], self._parts.copied(codes), m)
        level, position = np.empty((2, len(which), m), np.int64)
        for i in range(0, len(which), step := query_block(len(codes))):
            levels = self._layout.levels(self._queries[which[i : i + step]], codes)
            position[i : i + step] = smallest(levels, m)
            level[i : i + step] = np.take_along_axis(levels, position[i : i + step], axis=1)
        return level, position

    def distances(self, level: Ints) -> Floats:
        """Distances for levels."""
        return self._layout.distances(level)


class FirstPartFinder:
    """Finds the codes (u, b) whose first part is within a radius, through the distinct first parts."""

    def __init__(self, codes: Codes, layout: CodeLayout, scanner: Scanner) -> None:
        self._layout = layout
        self._buckets = build(layout.first(codes), None)  # its rows are positions of codes
        self._finder = CodeFinder(self._buckets.codes, layout.look_up_bits, scanner)

    def within(self, queries: Codes, radius: int) -> Matches:
        """All codes whose first part is within the radius of that of queries (q, b), in any order."""
        lims, distance, first = self._finder.within(aligned(self._layout.first(queries)), radius)
        ends = np.concatenate([[0], np.cumsum(self._buckets.counts(first))])
        which, position = self._buckets.expand(first)
        return ends[lims], distance[which], position

    def plan(self, radius: int, n_queries: int) -> QueryPlan:
        """As ``CodeFinder.plan``, among the distinct first parts."""
        plan = self._finder.plan(min(radius, self._layout.look_up_bits), n_queries)
        return replace(plan, what=f"{plan.what} of the first part")


class FirstPartLookUp:
    """Queries (q, b) that find codes by their first part, and rank what was found by the whole code.

    With ``tables`` (q, b, 256), these rank; otherwise both parts are signs, and their Hamming distances do.
    """

    def __init__(self, queries: Codes, parts: IndexParts, tables: NDArray[np.float32] | None) -> None:
        self._queries, self._parts, self._tables = queries, parts, tables

    def within(self, start: int, stop: int, codes: Codes, radius: int) -> Matches:
        """The codes (u, b) found by the queries from start to stop."""
        radius = min(radius, self._parts.layout.look_up_bits)
        return self._parts.finder(codes).within(self._queries[start:stop], radius)

    def distances(self, start: int, matches: Matches, codes: Codes) -> Floats:
        """Distances of matches of the queries from ``start`` on."""
        lims, first, position = matches
        query = np.repeat(np.arange(start, start + len(lims) - 1), np.diff(lims))
        if self._tables is not None:
            return pair_distances(self._tables, query, self._parts.scan.split(codes), position)
        return first + float(self._parts.layout.weight) * self._second_distances(query, codes, position)

    def _second_distances(self, query: Ints, codes: Codes, position: Ints) -> Ints:
        """Hamming distances (p,) of the second parts of pairs of queries and codes."""
        layout, distance = self._parts.layout, np.empty(len(query), np.int64)
        seconds = words(layout.second(self._queries))
        for i in range(0, len(query), _PAIRS):
            pairs = slice(i, i + _PAIRS)
            differ = words(layout.second(codes[position[pairs]])) ^ seconds[query[pairs]]
            distance[pairs] = np.bitwise_count(differ).sum(axis=1)
        return distance


def query_tables(queries: Codes, layout: CodeLayout, values: ArrayLike | None) -> NDArray[np.float32] | None:
    """The tables that rank codes for queries (q, b), or for their real values; None if codes rank by bits."""
    if values is not None:
        tables = layout.tables(values)
        if len(tables) != len(queries):
            raise ValueError(
                f"got {len(queries)} queries, but asymmetric has {len(tables)} rows: pass one row per query"
            )
        return tables
    return layout.tables(layout.values_of(queries)) if layout.has_fields else None


def ranked_queries(
    queries: Codes, parts: IndexParts, values: ArrayLike | None
) -> HammingQueries | WeightedQueries | TableQueries:
    """Queries (q, b) with the distance that ``HammingIndex.search`` ranks by."""
    tables = query_tables(queries, parts.layout, values)
    if tables is not None:
        return TableQueries(tables, parts.scan)
    return (
        HammingQueries(queries, parts.scanner) if parts.layout.is_hamming else WeightedQueries(queries, parts)
    )


def look_up_by(queries: Codes, parts: IndexParts, values: ArrayLike | None = None) -> FirstPartLookUp | None:
    """The look-up of queries (q, b) by the first part of the codes; None if codes are one part of signs."""
    layout = parts.layout
    if not layout.look_up_bits:
        raise ValueError(
            "codes of a product quantizer have no Hamming radius: search for the k nearest rows, or use "
            "codes with a part of signs, such as those of recipe('imh-hybrid')"
        )
    if layout.is_hamming:
        if values is not None:
            raise ValueError(
                "asymmetric orders what the first of two parts finds: these codes have one part, whose "
                "Hamming distance orders the rows within a radius"
            )
        return None
    return FirstPartLookUp(queries, parts, query_tables(queries, layout, values))
