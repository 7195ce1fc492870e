"""What finds codes near codes: FAISS where it is installed, numpy alone where it is not.

This is the one file that imports FAISS. Its kernels are handed the bytes where they lie, in memory or in a
mapped file, so that a scan holds no second copy of the codes.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.codes import hamming
from manihash.evaluation.truth import query_block, smallest
from manihash.types import Codes

Ints = NDArray[np.int64]
# lims (q + 1,), distances, positions: the answers of query i are those from lims[i] to lims[i + 1].
Found = tuple[Ints, Ints, Ints]

# FAISS counts answers in an array of k numbers for each distance and query: as much of it is made at once;
# where one query needs more, numpy is asked.
_COUNTER_BYTES = 2**26
# So few pairs are compared by one thread: waking another takes as long, and much longer on a busy machine.
_FEW_PAIRS = 2**20


class Engine(Protocol):
    """Finds the codes (u, b) near queries (q, b), both contiguous, q at least 1."""

    name: str

    def nearest(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """Distances and positions (q, k) of the k nearest codes, ties and cuts through ties by position."""

    def within(self, queries: Codes, codes: Codes, radius: int) -> Found:
        """All codes within the radius."""

    def threads(self, pairs: int) -> int:
        """How many threads share the work of so many comparisons."""


def engine() -> Engine:
    """FAISS if it is installed and keeps the first codes of a tie, otherwise numpy."""
    faiss = faiss_library()
    return NumpyEngine() if faiss is None else FaissEngine(faiss)


@cache
def faiss_library() -> ModuleType | None:
    """FAISS, if it is installed and its counting scan cuts a tie as promised here."""
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        return None
    return faiss if _cuts_ties_by_position(FaissEngine(faiss)) else None


def _cuts_ties_by_position(found: Engine) -> bool:
    """FAISS's documentation does not promise it, so each installation is asked once."""
    codes = np.random.default_rng(0).integers(0, 256, (600, 1), np.uint8).repeat(8, axis=1)
    distance, position = found.nearest(codes[:20], codes, 50)
    expected = NumpyEngine().nearest(codes[:20], codes, 50)
    return bool((distance == expected[0]).all() and (position == expected[1]).all())


class NumpyEngine:
    """Distances of all pairs, in blocks."""

    name = "numpy"

    def nearest(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """Distances and positions (q, k) of the k nearest codes, ties by position."""
        distance, position = np.empty((2, len(queries), k), np.int64)
        block = query_block(len(codes))
        for i in range(0, len(queries), block):
            pairs = hamming(queries[i : i + block], codes)
            position[i : i + block] = smallest(pairs, k)
            distance[i : i + block] = np.take_along_axis(pairs, position[i : i + block], axis=1)
        return distance, position

    def within(self, queries: Codes, codes: Codes, radius: int) -> Found:
        """All codes within the radius."""
        counts, distances, positions = [np.zeros(1, np.int64)], [], []
        block = query_block(len(codes))
        for i in range(0, len(queries), block):
            pairs = hamming(queries[i : i + block], codes)
            near = pairs <= radius
            counts.append(np.count_nonzero(near, axis=1))
            distances.append(pairs[near].astype(np.int64))
            positions.append(np.nonzero(near)[1].astype(np.int64))
        return np.cumsum(np.concatenate(counts)), np.concatenate(distances), np.concatenate(positions)

    def threads(self, pairs: int) -> int:
        """One."""
        return 1


class FaissEngine:
    """FAISS's counting scan and range search."""

    name = "faiss"

    def __init__(self, faiss: ModuleType) -> None:
        self._faiss = faiss

    def nearest(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """Distances and positions (q, k) of the k nearest codes, ties by position."""
        (u, width), pointer = codes.shape, self._faiss.swig_ptr
        block = _COUNTER_BYTES // (8 * k * (8 * width + 1))
        if not block:
            return NumpyEngine().nearest(queries, codes, k)
        distance, position = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)
        for i in range(0, len(queries), block):
            part = queries[i : i + block]
            out = distance[i : i + block], position[i : i + block]
            with self._shared(u * len(part)):
                self._faiss.hammings_knn_mc(
                    pointer(part), pointer(codes), len(part), u, k, width, pointer(out[0]), pointer(out[1])
                )
        return distance.astype(np.int64), position

    def within(self, queries: Codes, codes: Codes, radius: int) -> Found:
        """All codes within the radius (FAISS's own bound is strict)."""
        faiss, q = self._faiss, len(queries)
        found = faiss.RangeSearchResult(q)
        given = faiss.swig_ptr(queries), faiss.swig_ptr(codes), q, len(codes), radius + 1, codes.shape[1]
        with self._shared(q * len(codes)):
            faiss.hamming_range_search(*given, found)
        lims = faiss.rev_swig_ptr(found.lims, q + 1).astype(np.int64)
        total = int(lims[-1])
        if not total:
            return lims, np.empty(0, np.int64), np.empty(0, np.int64)
        distance = faiss.rev_swig_ptr(found.distances, total).astype(np.int64)
        return lims, distance, faiss.rev_swig_ptr(found.labels, total).copy()

    def threads(self, pairs: int) -> int:
        """As many as FAISS may use, or one."""
        return int(self._faiss.omp_get_max_threads()) if pairs > _FEW_PAIRS else 1

    @contextmanager
    def _shared(self, pairs: int) -> Iterator[None]:
        """Work done by so many threads; the setting is OpenMP's, and that of the calling thread alone."""
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self.threads(pairs))
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)
