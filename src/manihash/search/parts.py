"""One set of buckets, the routes to its codes, and those of its rows that are still there."""

import threading

import numpy as np
from numpy.typing import NDArray

from manihash.search.buckets import Buckets, Ints
from manihash.search.engines import Found
from manihash.search.routes import Routes
from manihash.search.topk import RANK_BITS, Ask, nearest_rows
from manihash.types import Codes

Mask = NDArray[np.bool_]

# Queries, distances and ranks share one number of 63 bits while answers are put in order.
_QUERY_BITS = 15
_LEVEL_BITS = 16


class Part:
    """Buckets that do not change; ``alive`` (size,) leaves out rows removed since they were made."""

    def __init__(self, buckets: Buckets, routes: Routes, alive: Mask | None = None) -> None:
        self.buckets, self.routes, self.alive = buckets, routes, alive
        self._lock = threading.Lock()
        self._living: Buckets | None = None

    def without(self, ranks: Ints) -> "Part":
        """The same buckets and routes less some rows."""
        alive = np.ones(self.buckets.size, np.bool_) if self.alive is None else self.alive.copy()
        alive[ranks] = False
        return Part(self.buckets, self.routes, alive)

    def __len__(self) -> int:
        return len(self.buckets) if self.alive is None else int(np.count_nonzero(self.alive))

    def living(self) -> Buckets:
        """The buckets of the rows that are there."""
        if self.alive is None:
            return self.buckets
        with self._lock:
            if self._living is None:
                self._living = self.buckets.only(self.alive)
            return self._living

    @property
    def next_id(self) -> int:
        """One more than the largest id that is or was here; at least 0."""
        size, ids = self.buckets.size, self.buckets.ids
        return size if ids is None or not size else max(0, 1 + int(ids[-1]))

    def ids(self) -> Ints:
        """Ids of the rows that are there, ascending."""
        every = self.buckets.names(np.arange(self.buckets.size))
        return every if self.alive is None else every[self.alive]

    def holds(self, ids: Ints) -> tuple[Ints, Mask]:
        """The ranks of ids, and whether such a row is there."""
        rank, there = self.buckets.ranks(ids)
        if self.alive is not None:
            there[there] = self.alive[rank[there]]
        return rank, there

    def nearest(self, ask: Ask, q: int, k: int, mask: Mask | None) -> tuple[Ints, Ints]:
        """Levels and ids of the k nearest rows, or of as many as there are: two (q, k)."""
        buckets = self.living() if mask is None else self.living().only(mask)
        k = min(k, len(buckets))
        if not k or not q:
            return np.empty((q, k), np.int64), np.empty((q, k), np.int64)
        keys = nearest_rows(ask, buckets, q, k)
        rank = keys & (2**RANK_BITS - 1)
        buckets.check_ranks(rank)
        return keys >> RANK_BITS, buckets.names(rank)

    def within(self, queries: Codes, radius: int, mask: Mask | None) -> Found:
        """lims, distances and ids of all rows within the radius, nearest first, ties by id."""
        counts, found = [np.zeros(1, np.int64)], []
        for i in range(0, len(queries), 2**_QUERY_BITS):
            some = queries[i : i + 2**_QUERY_BITS]
            level, rank = self._rows(*self._codes_within(some, radius))
            for keep in (self.alive, mask):
                if keep is not None:
                    level, rank = level[keep[rank]], rank[keep[rank]]
            counts.append(np.bincount(level >> _LEVEL_BITS, minlength=len(some)))
            found.append((level & (2**_LEVEL_BITS - 1), self.buckets.names(rank)))
        none = np.empty(0, np.int64)
        distance, ids = (np.concatenate(part) for part in zip((none, none), *found, strict=True))
        return np.cumsum(np.concatenate(counts)), distance, ids

    def _rows(self, lims: Ints, distance: Ints, position: Ints) -> tuple[Ints, Ints]:
        """The rows of codes that were found, in order: query and distance in one number, and the rank.

        The rows of one code are in order as they are listed. Only where a query has several codes at one
        distance are their rows put in order.
        """
        query = np.repeat(np.arange(len(lims) - 1), np.diff(lims))
        keys = np.sort((query << _LEVEL_BITS | distance) << RANK_BITS | position)
        level, position = keys >> RANK_BITS, keys & (2**RANK_BITS - 1)
        which, rank = self.buckets.expand(position)
        several = np.zeros(len(level), np.bool_)
        several[1:] = level[1:] == level[:-1]
        several[:-1] |= several[1:]
        level = level[which]
        if several.any():
            mixed = several[which]
            rank[mixed] = np.sort(level[mixed] << RANK_BITS | rank[mixed]) & (2**RANK_BITS - 1)
        return level, rank

    def count(self, queries: Codes, radius: int, mask: Mask | None) -> Ints:
        """How many rows lie within the radius of each query: (q,)."""
        if mask is not None or self.alive is not None:
            return np.diff(self.within(queries, radius, mask)[0])
        lims, _, position = self._codes_within(queries, radius)
        rows = np.concatenate([[0], np.cumsum(self.buckets.counts(position))])
        return np.diff(rows[lims])

    def _codes_within(self, queries: Codes, radius: int) -> Found:
        if not len(queries) or not len(self.buckets):
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        return self.routes.within(queries, radius)
