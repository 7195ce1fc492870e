"""Codes of two parts in an index: ranked by weighted distance, looked up by their first part."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import words
from manihash.evaluation.truth import query_block, smallest
from manihash.search.asymmetric import AsymmetricQueries, byte_tables, pair_distances
from manihash.search.buckets import Buckets, aligned, build
from manihash.search.routes import CodeFinder, QueryPlan
from manihash.search.scanners import HammingQueries, Matches, Scanner
from manihash.types import Codes, Floats, Ints

T = TypeVar("T")

# Pairs of a query and a code whose bits are compared at once.
_PAIRS = 2**20


class PerCodes(Generic[T]):
    """What is made of arrays of codes, kept as long as these arrays exist.

    Threads need no lock: the list is replaced in one assignment, and what is lost is made again.
    """

    def __init__(self, make: Callable[[Codes], T]) -> None:
        self._make = make
        self._made: tuple[tuple[weakref.ref[Codes], T], ...] = ()

    def of(self, codes: Codes) -> T:
        """What is made of the array ``codes``; it must not refer to this array."""
        for source, made in self._made:
            if source() is codes:
                return made
        made = self._make(codes)
        alive = tuple(pair for pair in self._made if pair[0]() is not None)
        self._made = (*alive, (weakref.ref(codes), made))
        return made


class IndexParts:
    """The two parts of the codes of an index, with what queries need of each array of codes."""

    def __init__(self, layout: CodeLayout, scanner: Scanner) -> None:
        self.layout, self.scanner = layout, scanner
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
        self._finder = CodeFinder(self._buckets.codes, layout.first_bits, scanner)

    def within(self, queries: Codes, radius: int) -> Matches:
        """All codes whose first part is within the radius of that of queries (q, b), in any order."""
        lims, distance, first = self._finder.within(aligned(self._layout.first(queries)), radius)
        ends = np.concatenate([[0], np.cumsum(self._buckets.counts(first))])
        which, position = self._buckets.expand(first)
        return ends[lims], distance[which], position

    def plan(self, radius: int, n_queries: int) -> QueryPlan:
        """As ``CodeFinder.plan``, among the distinct first parts."""
        plan = self._finder.plan(min(radius, self._layout.first_bits), n_queries)
        return replace(plan, what=f"{plan.what} of the first part")


class FirstPartLookUp:
    """Queries (q, b) that find codes by their first part, and what the rows found are ranked by.

    ``rank_by`` is "first", "second" or "both" parts; with ``asymmetric`` (q, n_bits), the real values of the
    queries take the place of their bits in the ranking.
    """

    def __init__(
        self, queries: Codes, parts: IndexParts, rank_by: str | None, asymmetric: ArrayLike | None
    ) -> None:
        rank_by = "first" if rank_by is None else rank_by
        if rank_by not in ("first", "second", "both"):
            raise ValueError(f'rank_by must be "first", "second" or "both", not {rank_by!r}')
        self._queries, self._parts, self._rank_by = queries, parts, rank_by
        self._tables = None
        if asymmetric is not None:
            self._tables = byte_tables(
                asymmetric, parts.layout.n_bits, self._factors(), parts.layout.first_bits
            )
            _check_one_row_each(len(queries), len(self._tables))

    @property
    def dtype(self) -> Any:
        """The type of the distances of the ranking."""
        if self._tables is not None:
            return np.float32
        return np.float64 if self._rank_by == "both" else np.int32

    def _factors(self) -> tuple[float, float]:
        """The factors of the parts in the ranking."""
        both = 1.0, self._parts.layout.weight
        return {"first": (1.0, 0.0), "second": (0.0, 1.0), "both": both}[self._rank_by]

    def within(self, start: int, stop: int, codes: Codes, radius: int) -> Matches:
        """The codes (u, b) found by the queries from start to stop."""
        radius = min(radius, self._parts.layout.first_bits)
        return self._parts.finder(codes).within(self._queries[start:stop], radius)

    def distances(self, start: int, matches: Matches, codes: Codes) -> NDArray[Any] | None:
        """Distances of matches of the queries from ``start`` on; None for those that the matches have."""
        if self._tables is None and self._rank_by == "first":
            return None
        lims, first, position = matches
        query = np.repeat(np.arange(start, start + len(lims) - 1), np.diff(lims))
        if self._tables is not None:
            return pair_distances(self._tables, query, codes, position)
        second = self._second_distances(query, codes, position)
        return second if self._rank_by == "second" else first + self._parts.layout.weight * second

    def _second_distances(self, query: Ints, codes: Codes, position: Ints) -> Ints:
        """Hamming distances (p,) of the second parts of pairs of queries and codes."""
        layout, distance = self._parts.layout, np.empty(len(query), np.int64)
        seconds = words(layout.second(self._queries))
        for i in range(0, len(query), _PAIRS):
            pairs = slice(i, i + _PAIRS)
            differ = words(layout.second(codes[position[pairs]])) ^ seconds[query[pairs]]
            distance[pairs] = np.bitwise_count(differ).sum(axis=1)
        return distance


def ranked_queries(
    queries: Codes, n_bits: int, scanner: Scanner, parts: IndexParts | None, asymmetric: ArrayLike | None
) -> HammingQueries | WeightedQueries | AsymmetricQueries:
    """Queries (q, b) with the distance that ``HammingIndex.search`` ranks by."""
    if asymmetric is not None:
        ranked = AsymmetricQueries(asymmetric, n_bits, None if parts is None else parts.layout)
        _check_one_row_each(len(queries), len(ranked))
        return ranked
    return HammingQueries(queries, scanner) if parts is None else WeightedQueries(queries, parts)


def look_up_by(
    part: str | None,
    queries: Codes,
    parts: IndexParts | None,
    rank_by: str | None = None,
    asymmetric: ArrayLike | None = None,
) -> FirstPartLookUp | None:
    """The look-up of queries (q, b) by a part of the codes; None for all bits."""
    if part is None:
        if rank_by is not None or asymmetric is not None:
            raise ValueError('rank_by and asymmetric order what the first part finds: pass part="first", too')
        return None
    by_first = check_part(part, parts)
    assert by_first is not None
    return FirstPartLookUp(queries, by_first, rank_by, asymmetric)


def check_part(part: str | None, parts: IndexParts | None) -> IndexParts | None:
    """The parts of the codes if a look-up is by the first of them; None if it is by all bits."""
    if part is None:
        return None
    if part != "first":
        raise ValueError(f'part must be "first" or None, not {part!r}')
    if parts is None:
        raise ValueError(
            "the codes of this index have one part: pass first_bits to HammingIndex, or call set_parts()"
        )
    return parts


def _check_one_row_each(n_queries: int, n_rows: int) -> None:
    """Raise unless the real values have one row per query."""
    if n_rows != n_queries:
        raise ValueError(f"got {n_queries} queries, but asymmetric has {n_rows} rows: pass one row per query")
