"""Multi-index hashing: codes filed under parts of themselves, so that codes near each other share a part.

M. Norouzi, A. Punjani and D. J. Fleet, "Fast search in Hamming space with multi-index hashing", CVPR 2012.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from manihash.search.engines import Found, Ints
from manihash.types import Codes

# Buckets looked into, and codes compared, at once: what is held of them stays in the cache.
_PROBES = 2**15
_CANDIDATES = 2**16


@dataclass(frozen=True)
class Layout:
    """How many tables, of how many bits of the code each, and how many of these bits a look-up flips.

    Two codes at most n_tables (flips + 1) - 1 apart differ by at most ``flips`` bits in one of the parts.
    """

    n_tables: int
    bits: int
    flips: int

    @property
    def starts(self) -> range:
        """The first bit of each part."""
        return range(0, self.n_tables * self.bits, self.bits)


@dataclass(frozen=True, eq=False)
class _Table:
    """The codes of which a part has the value v stand at order[offsets[v]:offsets[v + 1]]."""

    offsets: NDArray[np.uint32]  # (2^bits + 1,)
    order: NDArray[np.uint32]  # (u,)


class Tables:
    """Tables of some codes (u, b), each made when a layout first needs it and shared by all that do."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._lock = threading.Lock()
        self._made: dict[tuple[int, int], _Table] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the tables that were made."""
        return sum(table.offsets.nbytes + table.order.nbytes for table in self._made.values())

    def missing(self, layout: Layout) -> int:
        """How many tables of a layout are not made yet."""
        return sum((start, layout.bits) not in self._made for start in layout.starts)

    def within(self, queries: Codes, radius: int, layout: Layout) -> Found:
        """All codes within the radius, which the layout must reach."""
        tables, flipped = self._tables(layout), _masks(layout.bits, layout.flips)
        block = max(1, _PROBES // len(flipped))
        found = [_NONE]
        for i in range(0, len(queries), block):
            some = queries[i : i + block]
            for number, (start, table) in enumerate(zip(layout.starts, tables, strict=True)):
                probes = (part(some, start, layout.bits)[:, None] ^ flipped).ravel()
                for probe, position in _candidates(table, probes):
                    query = probe // len(flipped) if len(flipped) > 1 else probe
                    differ = np.take(self._codes, position, axis=0) ^ np.take(some, query, axis=0)
                    distance = ones(differ)
                    near = np.flatnonzero(distance <= radius)
                    near = near[~_met(differ[near], layout, number)]
                    found.append((query[near] + i, distance[near], position[near]))
        query, distance, position = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(query, kind="stable")
        lims = np.searchsorted(query[order], np.arange(len(queries) + 1))
        return lims, distance[order].astype(np.int64), position[order].astype(np.int64)

    def _tables(self, layout: Layout) -> list[_Table]:
        with self._lock:
            for start in layout.starts:
                if (start, layout.bits) not in self._made:
                    self._made[start, layout.bits] = _table(self._codes, start, layout.bits)
            return [self._made[start, layout.bits] for start in layout.starts]


_NONE = np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint32)


def part(codes: Codes, start: int, bits: int) -> Ints:
    """Bits from ``start`` on of codes (n, b), read as one number each: (n,)."""
    stop = start + bits
    value = np.zeros(len(codes), np.int64)
    for column in range(start // 8, -(-stop // 8)):
        value <<= 8
        value |= codes[:, column]
    value >>= -stop % 8
    value &= (1 << bits) - 1
    return value


def _table(codes: Codes, start: int, bits: int) -> _Table:
    value = part(codes, start, bits)
    offsets = np.zeros(2**bits + 1, np.uint32)
    np.cumsum(np.bincount(value, minlength=2**bits), out=offsets[1:])
    value <<= 32
    value |= np.arange(len(codes))
    value.sort()
    return _Table(offsets, value.astype(np.uint32))


def _candidates(table: _Table, probes: Ints) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """The codes in the buckets of some values, a bounded number at once: which probe, and the position."""
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
    """How many bits are set in each row (m, b), b a multiple of four."""
    word = differ.view(np.uint64 if differ.shape[1] % 8 == 0 else np.uint32)
    count = np.bitwise_count(word[:, 0]).astype(np.uint16)
    for column in range(1, word.shape[1]):
        count += np.bitwise_count(word[:, column])
    return count


def _met(differ: Codes, layout: Layout, number: int) -> NDArray[np.bool_]:
    """Whether a pair that differs so (m, b) met already in one of the tables before this one."""
    met = np.zeros(len(differ), np.bool_)
    for start in layout.starts[:number]:
        met |= np.bitwise_count(part(differ, start, layout.bits)) <= layout.flips
    return met


@lru_cache(maxsize=16)
def _masks(bits: int, flips: int) -> Ints:
    """All numbers of so many bits of which at most ``flips`` are set."""
    masks = [np.zeros(1, np.int64)]
    for weight in range(1, flips + 1):
        chosen = np.array(list(combinations(range(bits), weight)), np.int64).reshape(-1, weight)
        masks.append((1 << chosen).sum(axis=1))
    return np.concatenate(masks)
