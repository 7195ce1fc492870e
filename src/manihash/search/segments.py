"""Segments: rows that do not change, the mask of those removed since, and the answers to queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.compute.threads import ForkSafeLock
from manihash.search.buckets import Buckets
from manihash.search.expansion import QUERY_BITS, Queries, nearest_rows, ordered_rows, rows_of_matches
from manihash.search.parts import FirstPartLookUp
from manihash.search.routes import CodeFinder
from manihash.search.scanners import Matches
from manihash.search.string_ids import StringIds
from manihash.types import Codes, Ids, Ints, Mask

# lims (q + 1,), distances and ids: those of query i are at lims[i] to lims[i + 1], nearest first, ties by id.
RowsWithin = tuple[Ints, NDArray[Any], Ids]


class Segment:
    """Rows in buckets that do not change; ``live`` (size,) is False for rows removed since then."""

    def __init__(self, buckets: Buckets, finder: CodeFinder, live: Mask | None = None) -> None:
        self.buckets, self.finder, self.live = buckets, finder, live
        self._lock = ForkSafeLock()
        self._live_buckets: Buckets | None = None

    def without(self, ranks: Ints) -> "Segment":
        """A segment of the same buckets and finder without the rows of some ranks."""
        live = np.ones(self.buckets.size, np.bool_) if self.live is None else self.live.copy()
        live[ranks] = False
        return Segment(self.buckets, self.finder, live)

    def __len__(self) -> int:
        return len(self.buckets) if self.live is None else int(np.count_nonzero(self.live))

    def live_buckets(self) -> Buckets:
        """Buckets of the rows that were not removed."""
        if self.live is None:
            return self.buckets
        with self._lock:
            if self._live_buckets is None:
                self._live_buckets = self.buckets.filtered(self.live)
            return self._live_buckets

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
        buckets = self.live_buckets() if mask is None else self.live_buckets().filtered(mask)
        q, k = len(queries), min(k, len(buckets))
        if not k or not q:
            none = np.empty((q, k), np.int64)
            return none, buckets.ids_of(none)
        level, rank = nearest_rows(queries, buckets, k)
        return level, buckets.ids_of(rank)

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
        distance = None if look_up is None else look_up.distances(start, matches, self.buckets.codes)
        if distance is None:
            return rows_of_matches(matches, self.buckets)
        return ordered_rows(matches, distance, self.buckets)

    def count(
        self, queries: Codes, radius: int, mask: Mask | None, look_up: FirstPartLookUp | None = None
    ) -> Ints:
        """Number of rows within the radius of each query that the mask (size,) selects: (q,)."""
        if mask is not None or self.live is not None:
            return np.diff(self.within(queries, radius, mask, look_up)[0])
        lims, _, position = self._codes_within(0, queries, radius, look_up)
        rows = np.concatenate([[0], np.cumsum(self.buckets.counts(position))])
        return np.diff(rows[lims])

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
