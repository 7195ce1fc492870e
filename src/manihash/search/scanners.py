"""Scanners compare queries with all codes: FAISS's kernels if FAISS is installed, numpy otherwise.

This is the only file that imports FAISS. Its kernels read the codes in place, in memory or in a mapped file,
so that a scan makes no copy of the codes.
"""

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import ModuleType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.codes import hamming
from manihash.compute.largest import query_block, smallest
from manihash.types import Codes, Floats, Ints

# lims (q + 1,), distances and positions of codes: those of query i are at lims[i] to lims[i + 1].
Matches = tuple[Ints, Ints, Ints]

# FAISS counts answers in an array of k numbers per distance and query. At most this much is allocated at
# once; if a single query needs more, numpy scans.
_COUNTER_BYTES = 2**26
# Up to this many pairs are compared by one thread: waking a second one takes as long as the work.
_FEW_PAIRS = 2**20
# Queries whose tables are the centers of one product quantizer. Larger entries are cut,
# so that no query makes the sums of another one infinite.
_TABLES, _MOST = 64, 2.0**100
# One query in many codes: a bound on the k-th distance comes from one code in so many, and FAISS's range
# search, which is faster than its counting scan, finds the codes within it.
_MANY_CODES, _ONE_IN = 2**14, 16


class PackedCodes(Protocol):
    """Codes (u, b) as a fast scan reads them."""

    def smallest(self, tables: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], Ints]:
        """Sums and positions (q, k) of codes with the smallest sums of entries of tables (q, t, 16).

        Entries are whole numbers from 0 to 255, with a 0 in each table and a 255 for each query.
        """


class Scanner(Protocol):
    """Finds the codes (u, b) near queries (q, b), both contiguous, q at least 1."""

    name: str

    def nearest(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """Distances and positions (q, k) of the k nearest codes, ties by position."""

    def within(self, queries: Codes, codes: Codes, radius: int) -> Matches:
        """All codes within the radius."""

    def by_tables(self, tables: Floats, codes: Codes, k: int) -> tuple[Floats, Ints] | None:
        """Distances and positions (q, k) of the k smallest sums of entries of tables (q, b, 256), unordered.

        Sums are rounded in any order, and ties are broken in any way. Where a table is not finite, any answer
        is possible. None if there is no such scan.
        """

    def packed(self, codes: Codes, n_tables: int) -> PackedCodes | None:
        """Codes (u, b) of ``n_tables`` half bytes for a fast scan by tables; None if there is none."""

    def threads(self, pairs: int) -> int:
        """Number of threads that compare this many pairs."""


def default_scanner() -> Scanner:
    """FAISS if it is installed and breaks ties by position, otherwise numpy."""
    faiss = faiss_library()
    return NumpyScanner() if faiss is None else FaissScanner(faiss)


@cache
def faiss_library() -> ModuleType | None:
    """The faiss module, or None if it is not installed or does not break ties by position."""
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        return None
    return faiss if _breaks_ties_by_position(FaissScanner(faiss)) else None


def installed_faiss() -> ModuleType:
    """The faiss module, for baselines; the error names the extra that installs it."""
    return extra("faiss", "faiss")


def _breaks_ties_by_position(scanner: Scanner) -> bool:
    """Whether ``nearest`` breaks ties as numpy does: FAISS does not document it, so it is tested once."""
    codes = np.random.default_rng(0).integers(0, 256, (600, 1), np.uint8).repeat(8, axis=1)
    distance, position = scanner.nearest(codes[:20], codes, 50)
    expected = NumpyScanner().nearest(codes[:20], codes, 50)
    return bool((distance == expected[0]).all() and (position == expected[1]).all())


class NumpyScanner:
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

    def within(self, queries: Codes, codes: Codes, radius: int) -> Matches:
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

    def by_tables(self, tables: Floats, codes: Codes, k: int) -> None:
        """None: ``TableScan`` adds the entries of all codes itself."""

    def packed(self, codes: Codes, n_tables: int) -> None:
        """None: there is no fast scan."""

    def threads(self, pairs: int) -> int:
        """Always one."""
        return 1


class FaissScanner:
    """FAISS's counting scan and range search."""

    name = "faiss"

    def __init__(self, faiss: ModuleType) -> None:
        self._faiss = faiss

    def nearest(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """Distances and positions (q, k) of the k nearest codes, ties by position."""
        if len(queries) == 1 and len(codes) >= max(_MANY_CODES, _ONE_IN * _ONE_IN * k):
            return self._nearest_of_one(queries, codes, k)
        return self._counted(queries, codes, k)

    def _nearest_of_one(self, query: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        """``nearest`` for a query (1, b): the k-th distance among some codes bounds that among all."""
        faiss, pointer, (n, width) = self._faiss, self._faiss.swig_ptr, codes.shape
        near, some = np.empty(k, np.int32), np.empty(k, np.int64)
        asked, among, found = pointer(query), pointer(codes), faiss.RangeSearchResult(1)
        threads = faiss.omp_get_max_threads()
        try:
            if threads > 1:
                faiss.omp_set_num_threads(1)
            faiss.hammings_knn_mc(asked, among, 1, n // _ONE_IN, k, width, pointer(near), pointer(some))
            faiss.hamming_range_search(asked, among, 1, n, int(near[-1]) + 1, width, found)
        finally:
            if threads > 1:
                faiss.omp_set_num_threads(threads)
        total = int(faiss.rev_swig_ptr(found.lims, 2)[1])
        keys = faiss.rev_swig_ptr(found.distances, total).astype(np.int64)
        keys <<= 32
        keys |= faiss.rev_swig_ptr(found.labels, total)
        keys.sort()
        keys = keys[None, :k]
        return keys >> 32, keys & (2**32 - 1)

    def _counted(self, queries: Codes, codes: Codes, k: int) -> tuple[Ints, Ints]:
        (u, width), pointer = codes.shape, self._faiss.swig_ptr
        block = _COUNTER_BYTES // (8 * k * (8 * width + 1))
        if not block:
            return NumpyScanner().nearest(queries, codes, k)
        distance, position = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)
        for i in range(0, len(queries), block):
            some = queries[i : i + block]
            out = distance[i : i + block], position[i : i + block]
            with self._threads_for(u * len(some)):
                self._faiss.hammings_knn_mc(
                    pointer(some), pointer(codes), len(some), u, k, width, pointer(out[0]), pointer(out[1])
                )
        return distance.astype(np.int64), position

    def within(self, queries: Codes, codes: Codes, radius: int) -> Matches:
        """All codes within the radius (FAISS's bound is exclusive)."""
        faiss, q = self._faiss, len(queries)
        found = faiss.RangeSearchResult(q)
        given = faiss.swig_ptr(queries), faiss.swig_ptr(codes), q, len(codes), radius + 1, codes.shape[1]
        with self._threads_for(q * len(codes)):
            faiss.hamming_range_search(*given, found)
        lims = faiss.rev_swig_ptr(found.lims, q + 1).astype(np.int64)
        total = int(lims[-1])
        if not total:
            return lims, np.empty(0, np.int64), np.empty(0, np.int64)
        distance = faiss.rev_swig_ptr(found.distances, total).astype(np.int64)
        return lims, distance, faiss.rev_swig_ptr(found.labels, total).copy()

    def by_tables(self, tables: Floats, codes: Codes, k: int) -> tuple[Floats, Ints] | None:
        """As ``Scanner.by_tables``: a product quantizer of FAISS whose centers are the tables.

        Center c of a byte has the entries c of all queries as its coordinates. Its inner product with unit
        vector i is the entry of query i.
        """
        largest, position = np.empty((len(tables), k), np.float32), np.empty((len(tables), k), np.int64)
        for i in range(0, len(tables), _TABLES):
            some = slice(i, i + _TABLES)
            self._search_tables(tables[some], codes, largest[some], position[some])
        return np.negative(largest, out=largest), position

    def _search_tables(self, tables: Floats, codes: Codes, largest: Floats, position: Ints) -> None:
        """Set ``largest`` and ``position`` (q, k) to the k largest negative sums and their codes."""
        faiss, (q, width), pointer = self._faiss, tables.shape[:2], self._faiss.swig_ptr
        quantizer = faiss.ProductQuantizer(q * width, width, 8)
        centers = np.ascontiguousarray(np.minimum(tables, _MOST).transpose(1, 2, 0), np.float32)
        faiss.copy_array_to_vector(centers.reshape(-1), quantizer.centroids)
        units = np.tile(-np.eye(q, dtype=np.float32), width)
        heaps = faiss.float_minheap_array_t()
        heaps.nh, heaps.k, heaps.ids, heaps.val = q, position.shape[1], pointer(position), pointer(largest)
        with self._threads_for(q * len(codes)):
            quantizer.search_ip(pointer(units), q, pointer(codes), len(codes), heaps, True)

    def packed(self, codes: Codes, n_tables: int) -> PackedCodes | None:
        """As ``Scanner.packed``: a copy of the codes in the order of ``IndexPQFastScan``."""
        return _FastScan(self, codes, n_tables) if _adds_whole_numbers(self._faiss) else None

    def threads(self, pairs: int) -> int:
        """FAISS's number of threads, or one for few pairs."""
        return int(self._faiss.omp_get_max_threads()) if pairs > _FEW_PAIRS else 1

    def _threads_for(self, pairs: int) -> AbstractContextManager[None]:
        return faiss_threads(self._faiss, self.threads(pairs))


class _FastScan:
    """An ``IndexPQFastScan`` whose 16 centers of each half byte are unit vectors: queries are tables."""

    def __init__(self, scanner: FaissScanner, codes: Codes, n_tables: int) -> None:
        faiss = scanner._faiss
        flat = faiss.IndexPQ(16 * n_tables, n_tables, 4, faiss.METRIC_INNER_PRODUCT)
        centers = np.broadcast_to(np.eye(16, dtype=np.float32), (n_tables, 16, 16))
        faiss.copy_array_to_vector(np.ascontiguousarray(centers).reshape(-1), flat.pq.centroids)
        faiss.copy_array_to_vector(np.ascontiguousarray(codes).reshape(-1), flat.codes)
        flat.is_trained, flat.ntotal = True, len(codes)
        self._scanner, self._n, self._index = scanner, len(codes), faiss.IndexPQFastScan(flat)

    def smallest(self, tables: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], Ints]:
        """As ``PackedCodes.smallest``; entries are whole numbers, which FAISS's rounding does not change."""
        q = len(tables)
        with self._scanner._threads_for(q * self._n):
            largest, position = self._index.search(np.negative(tables).reshape(q, -1), k)
        return np.negative(largest, out=largest), position


@cache
def _adds_whole_numbers(faiss: ModuleType) -> bool:
    """Whether the fast scan adds the entries of tables of whole numbers: other versions may round them."""
    rng = np.random.default_rng(0)
    codes, tables = rng.integers(0, 256, (600, 4), np.uint8), rng.integers(0, 256, (9, 8, 16))
    tables[:, :, 0], tables[:, 0, 1] = 0, 255
    halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    expected = np.sort(tables[:, np.arange(8), halves].sum(axis=2), axis=1)[:, :50]
    found = _FastScan(FaissScanner(faiss), codes, 8).smallest(tables.astype(np.float32), 50)
    return bool((np.sort(found[0], axis=1) == expected).all())


@contextmanager
def faiss_threads(faiss: ModuleType, n: int) -> Iterator[None]:
    """Limit FAISS to n threads inside the block; OpenMP keeps the setting per calling thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
