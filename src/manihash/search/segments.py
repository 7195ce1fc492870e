"""Segments: rows that do not change, the mask of those removed since, and the answers to queries."""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.compute.threads import ForkSafeLock
from manihash.search.buckets import Buckets
from manihash.search.expansion import (
    QUERY_BITS,
    Queries,
    SomeQueries,
    nearest_rows,
    ordered_rows,
    rows_of_matches,
)
from manihash.search.parts import FirstPartLookUp
from manihash.search.routes import CodeFinder
from manihash.search.scanners import Matches
from manihash.search.string_ids import StringIds
from manihash.types import Codes, Ids, Ints, Mask

# Nearest rows are searched among rows of which this many times the square root of their number were removed.
_REMOVED = 4
# Rows requested beside twice as many as before, if some of those that were found have been removed.
_FEW_MORE = 16

# lims (q + 1,), distances and ids: those of query i are at lims[i] to lims[i + 1], nearest first, ties by id.
RowsWithin = tuple[Ints, NDArray[Any], Ids]


class Segment:
    """Rows in buckets that do not change; ``live`` (size,) is False for rows removed since then.

    The nearest rows are searched in buckets in which a few rows may have been removed: to filter all rows
    takes much longer than a query, so it is done once for many removals.
    """

    def __init__(self, buckets: Buckets, finder: CodeFinder, live: Mask | None = None) -> None:
        self.buckets, self.finder, self.live = buckets, finder, live
        self._n_rows = len(buckets) if live is None else int(np.count_nonzero(live))
        self._lock = ForkSafeLock()
        self._searched = (buckets, 0)  # and the number of their rows that were removed

    def without(self, ranks: Ints) -> "Segment":
        """A segment of the same buckets and finder without the rows of some ranks, which are live."""
        live = np.ones(self.buckets.size, np.bool_) if self.live is None else self.live.copy()
        live[ranks] = False
        smaller = Segment(self.buckets, self.finder, live)
        searched, n_removed = self._searched
        smaller._searched = searched, n_removed + len(ranks)
        return smaller

    def __len__(self) -> int:
        return self._n_rows

    def live_buckets(self) -> Buckets:
        """Buckets of the rows that were not removed."""
        if self.live is not None and self._searched[1]:
            with self._lock:
                if self._searched[1]:
                    self._searched = self.buckets.filtered(self.live), 0
        return self._searched[0]

    def searched_buckets(self) -> tuple[Buckets, int]:
        """Buckets of all rows that were not removed, and of a few others; the number of the others."""
        if self._searched[1] > _REMOVED * isqrt(self.buckets.size):
            self.live_buckets()
        return self._searched

    @property
    def next_id(self) -> int:
        """One more than the largest id, removed rows included; at least 0, and 0 if ids are strings."""
        size, ids = self.buckets.size, self.buckets.ids
        if isinstance(ids, StringIds):
            return 0
        return size if ids is None or not size else max(0, 1 + int(ids[-1]))

    def ids(self) -> Ids:
        """Ids of all rows, ascending."""
        every = self.buckets.ids_of(np.arange(self.buckets.size))
        return every if self.live is None else every[self.live]

    def locate(self, ids: Ids) -> tuple[Ints, Mask]:
        """Ranks of ids (m,), and whether each id has a row here; without one, the rank is arbitrary."""
        rank, present = self.buckets.ranks_of(ids)
        if self.live is not None:
            present[present] = self.live[rank[present]]
        return rank, present

    def nearest(self, queries: Queries, k: int, mask: Mask | None) -> tuple[Ints, Ids]:
        """Levels and ids (q, min(k, rows)) of the nearest rows that the mask (size,) selects."""
        buckets, n_removed = self.searched_buckets() if mask is None else (self.buckets.filtered(mask), 0)
        q, k = len(queries), min(k, len(buckets) - n_removed)
        if not k or not q:
            none = np.empty((q, k), np.int64)
            return none, buckets.ids_of(none)
        level, rank = nearest_rows(queries, buckets, k)
        if n_removed and self.live is not None:
            self._replace_removed(queries, buckets, n_removed, (level, rank), self.live)
        return level, buckets.ids_of(rank)

    @staticmethod
    def _replace_removed(
        queries: Queries, buckets: Buckets, n_removed: int, found: tuple[Ints, Ints], live: Mask
    ) -> None:
        """Replace the levels and ranks (q, k) of queries that found rows which are not live.

        More rows are requested for them, at most as many more as were removed.
        """
        level, rank = found
        k = m = level.shape[1]
        again = np.flatnonzero(~live[rank].all(axis=1))
        while len(again):
            m = min(2 * m + _FEW_MORE, k + n_removed)
            levels, ranks = nearest_rows(SomeQueries(queries, again), buckets, m)
            kept = live[ranks]
            first = np.argsort(~kept, axis=1, kind="stable")[:, :k]
            enough = kept.sum(axis=1) >= k
            level[again[enough]] = np.take_along_axis(levels, first, axis=1)[enough]
            rank[again[enough]] = np.take_along_axis(ranks, first, axis=1)[enough]
            again = again[~enough]

    def within(
        self, queries: Codes, radius: int, mask: Mask | None, look_up: FirstPartLookUp | None = None
    ) -> RowsWithin:
        """The rows within the radius of queries (q, b) that the mask (size,) selects."""
        starts = range(0, max(1, len(queries)), 2**QUERY_BITS)
        found = [self._block_within(i, queries[i : i + 2**QUERY_BITS], radius, mask, look_up) for i in starts]
        if len(found) == 1:
            counts, distance, ids = found[0]
        else:
            counts, distance, ids = (np.concatenate(column) for column in zip(*found, strict=True))
        lims = np.zeros(len(queries) + 1, np.int64)
        counts.cumsum(out=lims[1:])
        return lims, distance, ids

    def _block_within(
        self, start: int, queries: Codes, radius: int, mask: Mask | None, look_up: FirstPartLookUp | None
    ) -> RowsWithin:
        """Number of rows found by each of queries (q, b), which start at ``start``; distances and ids."""
        query, distance, rank = self._rows_within(start, queries, radius, look_up)
        for keep in (self.live, mask):
            if keep is not None:
                kept = keep[rank]
                query, distance, rank = query[kept], distance[kept], rank[kept]
        return np.bincount(query, minlength=len(queries)), distance, self.buckets.ids_of(rank)

    def _rows_within(
        self, start: int, queries: Codes, radius: int, look_up: FirstPartLookUp | None
    ) -> tuple[Ints, NDArray[Any], Ints]:
        """Query, distance and rank of the rows found by queries (q, b), those from ``start`` on."""
        matches = self._codes_within(start, queries, radius, look_up)
        if look_up is None:
            return rows_of_matches(matches, self.buckets)
        return ordered_rows(matches, look_up.distances(start, matches, self.buckets.codes), self.buckets)

    def count(
        self, queries: Codes, radius: int, mask: Mask | None, look_up: FirstPartLookUp | None = None
    ) -> Ints:
        """Number of rows within the radius of each query that the mask (size,) selects: (q,)."""
        if mask is not None or self.live is not None:
            return np.diff(self.within(queries, radius, mask, look_up)[0])
        lims, _, position = self._codes_within(0, queries, radius, look_up)
        rows = np.concatenate([[0], np.cumsum(self.buckets.counts(position))])
        return np.diff(rows[lims])

    def codes_within(self, queries: Codes, radius: int) -> Matches:
        """Distinct codes within the radius of queries (q, b), in any order for one query."""
        return self._codes_within(0, queries, radius, None)

    def _codes_within(
        self, start: int, queries: Codes, radius: int, look_up: FirstPartLookUp | None
    ) -> Matches:
        if not len(queries) or not len(self.buckets):
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        if look_up is not None:
            return look_up.within(start, start + len(queries), self.buckets.codes, radius)
        return self.finder.within(queries, radius)


def nearest_of(
    segments: Sequence[Segment], masks: Sequence[Mask | None], queries: Queries, k: int
) -> tuple[Ints, Ids]:
    """Levels and ids of the k nearest rows of all segments, or of all rows if there are fewer than k."""
    found = [s.nearest(queries, k, mask) for s, mask in zip(segments, masks, strict=True)]
    if len(found) == 1:
        return found[0]
    levels, ids = (np.concatenate(column, axis=1) for column in zip(*found, strict=True))
    order = np.lexsort((ids, levels), axis=1)[:, :k]
    return np.take_along_axis(levels, order, axis=1), np.take_along_axis(ids, order, axis=1)


def within_of(
    segments: Sequence[Segment],
    masks: Sequence[Mask | None],
    queries: Codes,
    radius: int,
    look_up: FirstPartLookUp | None = None,
) -> RowsWithin:
    """The rows of all segments within the radius of queries (q, b)."""
    found = [s.within(queries, radius, mask, look_up) for s, mask in zip(segments, masks, strict=True)]
    if len(found) == 1:
        return found[0]
    query = np.concatenate([np.repeat(np.arange(len(queries)), np.diff(f[0])) for f in found])
    distance, ids = (np.concatenate([f[i] for f in found]) for i in (1, 2))
    order = np.lexsort((ids, distance, query))
    return found[0][0] + found[1][0], distance[order], ids[order]


def count_of(
    segments: Sequence[Segment],
    masks: Sequence[Mask | None],
    queries: Codes,
    radius: int,
    look_up: FirstPartLookUp | None = None,
) -> Ints:
    """Number of rows of all segments within the radius of each query: (q,)."""
    counts = [s.count(queries, radius, mask, look_up) for s, mask in zip(segments, masks, strict=True)]
    return np.sum(counts, axis=0)
