"""Exact search by Hamming distance, with FAISS where it is installed and with numpy alone where it is not.

Inside, an answer is one whole number, ``distance * n + position``: in order of it, answers are in order of
distance and ties in order of position. Codes are kept in order of id, so a position stands for an id.
"""

import importlib
import logging
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import Codes, check_codes, hamming
from manihash.truth import query_block, smallest

_log = logging.getLogger(__name__)

Ints = NDArray[np.int64]


class HammingIndex:
    """Codes (n, ceil(n_bits / 8)) that are searched whole: exact answers, ties by id.

    ``ids`` are n different whole numbers; without them a code's id is its position.
    """

    def __init__(self, codes: ArrayLike, n_bits: int, ids: ArrayLike | None = None) -> None:
        self.n_bits = positive_int(n_bits, "n_bits")
        database = check_codes(codes, self.n_bits)
        if not len(database):
            raise ValueError("no codes came: an index needs at least one, give it the output of encode()")
        self._ids: Ints | None = None
        if ids is not None:
            given = _distinct(ids, len(database))
            order = np.argsort(given)
            self._ids, database = given[order], database[order]
        self._n = len(database)
        faiss = _faiss()
        self._engine: _Engine = _NumpyScan(database) if faiss is None else _FaissScan(database, faiss)

    def __len__(self) -> int:
        return self._n

    def search(self, queries: ArrayLike, k: int) -> tuple[NDArray[np.int32], Ints]:
        """Distances and ids of the k nearest codes of each query, nearest first: two (q, k).

        Where k is larger than the index, there are as many columns as codes.
        """
        k = positive_int(k, "k")
        if k > self._n:
            _log.warning("%d nearest asked of an index of %d codes: all %d are given", k, self._n, self._n)
        return self._answers(self._engine.nearest(self._checked(queries), min(k, self._n)))

    def within(self, queries: ArrayLike, radius: int) -> tuple[Ints, NDArray[np.int32], Ints]:
        """All codes at a distance of at most ``radius``: lims (q + 1,), distances and ids.

        The answers of query i are those from lims[i] to lims[i + 1], nearest first.
        """
        radius = min(positive_int(radius, "radius", least=0), self.n_bits)
        lims, keys = self._engine.within(self._checked(queries), radius)
        return lims, *self._answers(keys)

    def _checked(self, queries: ArrayLike) -> Codes:
        return np.ascontiguousarray(check_codes(queries, self.n_bits, "queries"))

    def _answers(self, keys: Ints) -> tuple[NDArray[np.int32], Ints]:
        distance, position = np.divmod(keys, self._n)
        return distance.astype(np.int32), position if self._ids is None else self._ids[position]


class _Engine(Protocol):
    """Finds answers as keys, distance * n + position."""

    def nearest(self, queries: Codes, k: int) -> Ints:
        """The k smallest keys of each query, in order: (q, k)."""

    def within(self, queries: Codes, radius: int) -> tuple[Ints, Ints]:
        """Limits (q + 1,), and the keys of all answers within the radius, each query's in order."""


class _NumpyScan:
    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._block = query_block(len(codes))

    def nearest(self, queries: Codes, k: int) -> Ints:
        keys = np.empty((len(queries), k), np.int64)
        for i in range(0, len(queries), self._block):
            distance = hamming(queries[i : i + self._block], self._codes)
            position = smallest(distance, k)
            keys[i : i + self._block] = self._keys(np.take_along_axis(distance, position, axis=1), position)
        return keys

    def within(self, queries: Codes, radius: int) -> tuple[Ints, Ints]:
        counts, keys = [np.zeros(1, np.int64)], [np.empty(0, np.int64)]
        for i in range(0, len(queries), self._block):
            distance = hamming(queries[i : i + self._block], self._codes)
            near = distance <= radius
            counts.append(np.count_nonzero(near, axis=1))
            keys.append(self._keys(distance[near], np.nonzero(near)[1]))
        return _in_order(np.cumsum(np.concatenate(counts)), np.concatenate(keys))

    def _keys(self, distance: NDArray[Any], position: Ints) -> Ints:
        return distance.astype(np.int64) * len(self._codes) + position


class _FaissScan:
    def __init__(self, codes: Codes, faiss: ModuleType) -> None:
        self._n = len(codes)
        self._index = faiss.IndexBinaryFlat(8 * codes.shape[1])
        self._index.add(np.ascontiguousarray(codes))

    def nearest(self, queries: Codes, k: int) -> Ints:
        """FAISS does not promise which rows of a tie it keeps at the end of a list.

        So more than k are fetched: a list that goes on to a larger distance than its k-th holds that whole
        tie. For the others every code as near as the k-th is looked up.
        """
        if not len(queries):
            return np.empty((0, k), np.int64)
        fetch = min(3 * k, self._n)
        distance, position = self._index.search(queries, fetch)
        keys = np.sort(distance.astype(np.int64) * self._n + position, axis=1)
        kth, last = keys[:, k - 1] // self._n, keys[:, -1] // self._n
        keys = keys[:, :k]
        cut = (kth == last) & (fetch < self._n)
        for radius in np.unique(kth[cut]):
            rows = np.flatnonzero(cut & (kth == radius))
            for some in np.array_split(rows, -(-len(rows) // query_block(self._n))):
                lims, near = self.within(queries[some], int(radius))
                keys[some] = near[lims[:-1, None] + np.arange(k)]
        return keys

    def within(self, queries: Codes, radius: int) -> tuple[Ints, Ints]:
        if not len(queries):
            return np.zeros(1, np.int64), np.empty(0, np.int64)
        lims, distance, position = self._index.range_search(queries, radius + 1)  # strictly nearer than that
        return _in_order(lims.astype(np.int64), distance.astype(np.int64) * self._n + position)


def _in_order(lims: Ints, keys: Ints) -> tuple[Ints, Ints]:
    for start, stop in pairwise(lims):
        keys[start:stop].sort()
    return lims, keys


def _distinct(ids: ArrayLike, n: int) -> Ints:
    array = np.asarray(ids)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"ids must be {n} whole numbers, one for each code, not {array.shape} of {array.dtype}"
        )
    if len(np.unique(array)) < n:
        raise ValueError(
            f"ids must differ, but only {len(np.unique(array))} of {n} do: give each code its own"
        )
    return array.astype(np.int64)


def _faiss() -> ModuleType | None:
    """FAISS, if it is installed."""
    try:
        return importlib.import_module("faiss")
    except ImportError:
        return None
