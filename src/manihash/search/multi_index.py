"""Multi-index hashing: codes are indexed by substrings of themselves, since near codes share a substring.

References
----------
M. Norouzi, A. Punjani and D. J. Fleet, "Fast search in Hamming space with multi-index hashing", CVPR 2012.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from manihash.compute.threads import ForkSafeLock
from manihash.search.scanners import Matches
from manihash.types import Codes, Ints, Mask

# Buckets probed, and codes compared, at once: these arrays stay in the cache.
_PROBES = 2**15
_CANDIDATES = 2**16


@dataclass(frozen=True)
class TableLayout:
    """Number of tables, bits of the substring that each indexes, and how many of them a probe may flip.

    Two codes at most n_tables (flips + 1) - 1 bits apart differ in at most ``flips`` bits of one substring.
    """

    n_tables: int
    bits: int
    flips: int

    @property
    def starts(self) -> range:
        """First bit of each substring."""
        return range(0, self.n_tables * self.bits, self.bits)


@dataclass(frozen=True, eq=False)
class BucketTable:
    """The positions of the codes whose substring is v are order[offsets[v]:offsets[v + 1]]."""

    offsets: NDArray[np.uint32]  # (2^bits + 1,)
    order: NDArray[np.uint32]  # (u,)


class MultiIndex:
    """Tables of codes (u, b); each is built when a layout first needs it and is shared by all layouts."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._lock = ForkSafeLock()
        self._tables: dict[tuple[int, int], BucketTable] = {}  # by first bit and number of bits

    @property
    def nbytes(self) -> int:
        """Bytes of the tables built so far."""
        tables = list(self._tables.values())  # a copy, because another thread may add a table
        return sum(table.offsets.nbytes + table.order.nbytes for table in tables)

    def use(self, table: tuple[int, int], built: "BucketTable") -> None:
        """Use a table, known by its first bit and number of bits, that was built before."""
        with self._lock:
            self._tables.setdefault(table, built)

    def build(self, layout: TableLayout) -> dict[tuple[int, int], "BucketTable"]:
        """Build the missing tables of a layout now, and return them."""
        built = set(self._tables)
        self._build(layout)
        every = {(start, layout.bits): self._tables[start, layout.bits] for start in layout.starts}
        return {table: found for table, found in every.items() if table not in built}

    def missing(self, layout: TableLayout) -> int:
        """Number of tables of a layout that are not built yet."""
        return sum((start, layout.bits) not in self._tables for start in layout.starts)

    def within(self, queries: Codes, radius: int, layout: TableLayout) -> Matches:
        """All codes within the radius, which must be at most n_tables (flips + 1) - 1."""
        tables, flipped = self._build(layout), _masks(layout.bits, layout.flips)
        block = max(1, _PROBES // len(flipped))
        found = [_NONE]
        for i in range(0, len(queries), block):
            some = queries[i : i + block]
            for number, (start, table) in enumerate(zip(layout.starts, tables, strict=True)):
                probes = (substring(some, start, layout.bits)[:, None] ^ flipped).ravel()
                for probe, position in _candidates(table, probes):
                    query = probe // len(flipped) if len(flipped) > 1 else probe
                    differ = np.take(self._codes, position, axis=0) ^ np.take(some, query, axis=0)
                    distance = ones(differ)
                    near = np.flatnonzero(distance <= radius)
                    near = near[~_found_before(differ[near], layout, number)]
                    found.append((query[near] + i, distance[near], position[near]))
        query, distance, position = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(query, kind="stable")
        lims = np.searchsorted(query[order], np.arange(len(queries) + 1))
        return lims, distance[order].astype(np.int64), position[order].astype(np.int64)

    def _build(self, layout: TableLayout) -> list[BucketTable]:
        """The tables of a layout; builds the missing ones."""
        with self._lock:
            for start in layout.starts:
                if (start, layout.bits) not in self._tables:
                    self._tables[start, layout.bits] = _table(self._codes, start, layout.bits)
            return [self._tables[start, layout.bits] for start in layout.starts]


_NONE = np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint32)


def substring(codes: Codes, start: int, bits: int) -> Ints:
    """Bits ``start`` to ``start + bits`` of codes (n, b), as one integer per code: (n,)."""
    stop = start + bits
    value = np.zeros(len(codes), np.int64)
    for column in range(start // 8, -(-stop // 8)):
        value <<= 8
        value |= codes[:, column]
    value >>= -stop % 8
    value &= (1 << bits) - 1
    return value


def _table(codes: Codes, start: int, bits: int) -> BucketTable:
    """The table of codes (u, b) by one substring."""
    value = substring(codes, start, bits)
    offsets = np.zeros(2**bits + 1, np.uint32)
    np.cumsum(np.bincount(value, minlength=2**bits), out=offsets[1:])
    value <<= 32
    value |= np.arange(len(codes))
    value.sort()
    return BucketTable(offsets, value.astype(np.uint32))


def _candidates(table: BucketTable, probes: Ints) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Codes in the probed buckets, in blocks of bounded size: index of the probe, position of the code."""
    first = table.offsets.take(probes)
    count = table.offsets.take(probes + 1) - first
    filled = np.flatnonzero(count)
    first, count = first[filled], count[filled].astype(np.int64)
    end = np.cumsum(count)
    i, done = 0, 0
    while i < len(filled):
        j = max(i + 1, int(np.searchsorted(end, done + _CANDIDATES, side="right")))
        each = count[i:j]
        at = np.repeat(first[i:j] - (end[i:j] - each), each)
        at += np.arange(done, end[j - 1])
        yield np.repeat(filled[i:j], each), table.order.take(at)
        i, done = j, int(end[j - 1])


def ones(differ: Codes) -> NDArray[np.uint16]:
    """Number of bits set in each row of (m, b), b a multiple of four: (m,)."""
    word = differ.view(np.uint64 if differ.shape[1] % 8 == 0 else np.uint32)
    count = np.bitwise_count(word[:, 0]).astype(np.uint16)
    for column in range(1, word.shape[1]):
        count += np.bitwise_count(word[:, column])
    return count


def _found_before(differ: Codes, layout: TableLayout, number: int) -> Mask:
    """Whether pairs with these differing bits (m, b) are found in a table before table ``number``: (m,)."""
    before = np.zeros(len(differ), np.bool_)
    for start in layout.starts[:number]:
        before |= np.bitwise_count(substring(differ, start, layout.bits)) <= layout.flips
    return before


@lru_cache(maxsize=16)
def _masks(bits: int, flips: int) -> Ints:
    """All integers of ``bits`` bits with at most ``flips`` bits set."""
    masks = [np.zeros(1, np.int64)]
    for weight in range(1, flips + 1):
        chosen = np.array(list(combinations(range(bits), weight)), np.int64).reshape(-1, weight)
        masks.append((1 << chosen).sum(axis=1))
    return np.concatenate(masks)
