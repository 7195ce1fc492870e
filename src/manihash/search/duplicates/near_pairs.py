"""All pairs of codes within a radius, without comparing all pairs.

The bits are divided into c chunks. Two codes that differ in at most r bits differ in at most r chunks, so at
least c - r chunks are equal. Each choice of c - r chunks is a table: codes are sorted by the bits of these
chunks, and only codes with equal keys are compared. A pair belongs to the table of its first c - r equal
chunks, so that it is found once. Many codes with one key are divided again by their other bits.

A key is a hash of the chosen bits. Two keys may therefore be equal by chance; codes are always compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.search.routes import ball
from manihash.types import Floats, Ints, Mask

Words = NDArray[np.uint64]  # codes (m, w) or bits that are chosen (w,)
Pairs = Iterator[tuple[Ints, Ints]]

_SORT = 6e-8  # seconds to put one code into one table and to sort it there
_COMPARE = 1.8e-8  # to compare two codes of one key
_SCAN = 1.5e-9  # to compare two codes of a block, per word
_LOOK_UP = 1e-8  # to look up one code in a table of all values
_MOST_TABLES = 1500
_MORE_CHUNKS = 7  # at most radius + 7 chunks
_VALUES_BITS = 20  # of codes that are looked up in a table of all values
_SHORT = 256  # runs of so many codes are compared together
_LONG = 4096  # runs of more codes are divided again
_BLOCK = 2**20  # codes of short runs, each of which is compared with one other at once
_SQUARE = 2**17  # pairs of a long run that are compared at once, in the cache
_FEWEST, _MOST = 2**12, 2**18  # hashes among which repeated ones are looked for before they are sorted
_MANY = 0.3  # share of repeated hashes from which on all are sorted
_CACHED = 2**15  # codes that are hashed at once, in the cache
_SAMPLE = 2048  # codes that represent all
_SAMPLE_TABLES = 6
_FACTORS = np.random.default_rng(7).integers(2**63, size=1024, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True, eq=False)
class Table:
    """Bits (w,) that codes must have in common, and sets of bits in each of which they must differ."""

    key: Words
    differ: tuple[Words, ...] = ()


@dataclass(frozen=True, eq=False)
class Scheme:
    """The tables that find all pairs, with the estimated numbers of pairs compared and of seconds.

    No chunks: one table of all codes, which are compared in blocks or looked up.
    """

    chunks: tuple[Words, ...]
    radius: int
    compared: float
    seconds: float

    def tables(self) -> list[Table]:
        """The tables, in the order in which a pair belongs to the first that finds it."""
        if not self.chunks:
            return [Table(np.zeros(1, np.uint64))]
        found = []
        for some in combinations(range(len(self.chunks)), len(self.chunks) - self.radius):
            key = np.bitwise_or.reduce([self.chunks[i] for i in some])
            before = (i for i in range(some[-1]) if i not in some)
            found.append(Table(key, tuple(self.chunks[i] for i in before)))
        return found


def choose_scheme(
    sample: Words, n: int, radius: int, *, sort: float = _SORT, one_part: bool = True
) -> Scheme:
    """The cheapest scheme for n distinct codes like the sample (s, w); a single table needs ``one_part``."""
    entropy = _entropy(sample)
    order = np.argsort(-entropy, kind="stable")
    order = order[entropy[order] > 0] if one_part else order
    found = []
    if one_part:
        found.append(Scheme((), radius, n * n / 2, _direct_seconds(n, sample.shape[1], len(order), radius)))
    for c in range(radius + 1, radius + 1 + _MORE_CHUNKS):
        if c > len(order) or comb(c, radius) > _MOST_TABLES:
            break
        chunks = _chunks(order, c, sample.shape[1])
        scheme = Scheme(chunks, radius, 0, 0)
        share = _equal_keys(sample, scheme.tables())
        bits = entropy.sum() * (c - radius) / c
        compared = comb(c, radius) * n * n / 2 * max(share, 0.5 ** min(bits, 1000))
        seconds = comb(c, radius) * n * sort + compared * _COMPARE
        found.append(Scheme(chunks, radius, compared, seconds))
    every = Scheme(
        (), radius, n * n / 2, n * n / 2 * _SCAN
    )  # if there are more bits in the radius than chunks
    return min(found, key=lambda scheme: scheme.seconds, default=every)


def near_pairs(words: Words, radius: int) -> Pairs:
    """All pairs of codes (m, w) within the radius, each once, as blocks of two arrays of positions."""
    some = words[np.linspace(0, len(words) - 1, min(len(words), _SAMPLE)).astype(np.int64)]
    scheme = choose_scheme(some, len(words), radius) if len(words) > _LONG else Scheme((), radius, 0, 0)
    if scheme.chunks:
        for table in scheme.tables():
            yield from table_pairs(words, table, radius)
        return
    varying = np.bitwise_or.reduce(words ^ words[:1])
    bits = _set_bits(varying)
    looked_up = len(words) * ball(len(bits), radius) * _LOOK_UP / 2
    if len(bits) <= _VALUES_BITS and looked_up < len(words) ** 2 / 2 * _SCAN * words.shape[1]:
        yield from _flipped_pairs(_compact(words, bits), len(bits), radius)
    else:
        yield from _block_pairs(words, radius)


def table_pairs(words: Words, table: Table, radius: int) -> Pairs:
    """The pairs of codes (m, w) within the radius that belong to a table."""
    order, start = runs(hashed(words, table.key))
    size = np.diff(start, append=len(order))
    short = size <= _SHORT
    some = order[np.repeat(short, size)]
    for a, b, differ in _short_runs(words[some], size[short], radius):
        own = _belong(differ, table)
        yield some[a[own]], some[b[own]]
    for first, length in zip(start[~short].tolist(), size[~short].tolist(), strict=True):
        members = order[first : first + length]
        codes = words[members]
        for a, b in near_pairs(codes, radius):
            own = _belong(codes[a] ^ codes[b], table)
            yield members[a[own]], members[b[own]]


def hashed(words: Words, key: Words) -> Words:
    """A hash (m,) of the bits ``key`` (w,) of codes (m, w)."""
    hashes = np.zeros(len(words), np.uint64)
    for start in range(0, len(words), _CACHED):
        value, some = hashes[start : start + _CACHED], words[start : start + _CACHED]
        for j in range(min(words.shape[1], len(key))):
            if key[j]:
                value += (some[:, j] & key[j]) * _FACTORS[j % len(_FACTORS)]
        value ^= value >> np.uint64(32)
        value *= _FACTORS[-1]
        value ^= value >> np.uint64(29)
        value *= _FACTORS[-2]
    return hashes


def runs(hashes: Words) -> tuple[Ints, Ints]:
    """Positions of hashes that occur more than once, ascending in each run of equal ones; starts of runs.

    Equal are the first bits of hashes, 64 less those that number the positions. ``hashes`` is overwritten.
    """
    low = np.uint64((1 << len(hashes).bit_length()) - 1)
    candidates = _maybe_repeated(hashes) if _FEWEST <= len(hashes) <= _MOST else None
    hashes &= ~low
    hashes |= np.arange(len(hashes), dtype=np.uint64)
    if candidates is not None:
        hashes = hashes[candidates]
    hashes.sort()
    same = np.zeros(len(hashes) + 1, np.bool_)  # as the hash before it
    if len(hashes):
        same[1:-1] = (hashes[1:] ^ hashes[:-1]) <= low
    repeated = np.flatnonzero(same[1:] | same[:-1])
    start = np.flatnonzero(~same[:-1][repeated])
    return (hashes[repeated] & low).astype(np.int64), start


def _maybe_repeated(hashes: Words) -> Mask | None:
    """Whether other hashes may be equal to each (m,), much faster than a sort; None if many may be.

    The first bits of a hash are its slot. The last hash of a slot finds its own number there, and others do
    not: their slots hold more than one.
    """
    slot = (hashes >> np.uint64(62 - len(hashes).bit_length())).view(np.int64)
    number = np.arange(len(hashes), dtype=np.uint32)
    last = np.empty(2 ** (len(hashes).bit_length() + 2), np.uint32)
    last[slot] = number
    shared = slot[last[slot] != number]
    if len(shared) > _MANY * len(hashes):
        return None
    several = np.zeros(len(last), np.bool_)
    several[shared] = True
    return several[slot]


def _short_runs(words: Words, size: Ints, radius: int) -> Iterator[tuple[Ints, Ints, Words]]:
    """Near pairs of codes (m, w) in runs of the given sizes: positions and differing bits."""
    end = np.repeat(np.cumsum(size), size)
    for first in range(0, len(words), _BLOCK):
        left = np.arange(first, min(first + _BLOCK, len(words)))
        for shift in range(1, _SHORT):
            left = left[left + shift < end[left]]
            if not len(left):
                break
            differ = words[left] ^ words[left + shift]
            near = ones(differ) <= radius
            yield left[near], left[near] + shift, differ[near]


def _block_pairs(words: Words, radius: int) -> Pairs:
    """Near pairs of codes (m, w), by comparing all of them."""
    columns = np.ascontiguousarray(words.T)
    first = 0
    while first < len(words):
        wide = len(words) - first
        stop = min(len(words), first + max(1, _SQUARE // wide))
        distance: NDArray[Any] = np.bitwise_count(columns[0, first:stop, None] ^ columns[0, first:])
        for column in columns[1:]:
            distance = distance + np.bitwise_count(column[first:stop, None] ^ column[first:]).astype(
                np.uint16
            )
        a, b = np.divmod(np.flatnonzero(distance <= radius), wide)
        later = a < b
        yield a[later] + first, b[later] + first
        first = stop


def _flipped_pairs(values: Ints, bits: int, radius: int) -> Pairs:
    """Near pairs of codes that are small integers (m,): each with at most ``radius`` bits flipped."""
    position = np.full(2**bits, -1, np.int64)
    order = np.argsort(values, kind="stable")
    position[values[order[::-1]]] = order[::-1]  # the first position of each value
    following = np.full(len(values), -1, np.int64)  # the next position of the same value
    equal = np.flatnonzero(values[order[1:]] == values[order[:-1]])
    following[order[equal]] = order[equal + 1]
    a, b = np.arange(len(values)), following
    while (have := b >= 0).any():
        a, b = a[have], b[have]
        yield a, b
        b = following[b]
    for weight in range(1, min(radius, bits) + 1):
        for chosen in combinations(range(bits), weight):
            other = values ^ sum(1 << bit for bit in chosen)
            a = np.flatnonzero((other > values) & (position[other] >= 0))
            b = position[other[a]]
            while len(a):
                yield a, b
                b = following[b]
                a, b = a[b >= 0], b[b >= 0]


def _belong(differ: Words, table: Table) -> Mask:
    """Whether near pairs with these differing bits (m, w) belong to a table, and not to an earlier one."""
    own: Mask = np.logical_not((differ & table.key).any(axis=1))  # hashes of different keys may be equal
    for bits in table.differ:
        own = own & (differ & bits).any(axis=1)
    return own


def ones(differ: Words) -> NDArray[np.uint16]:
    """Number of bits set in each row of (m, w): (m,)."""
    count = np.bitwise_count(differ[:, 0]).astype(np.uint16)
    for column in range(1, differ.shape[1]):
        count += np.bitwise_count(differ[:, column])
    return count


def _direct_seconds(n: int, width: int, bits: int, radius: int) -> float:
    """Estimated seconds to find the pairs of n codes without tables."""
    seconds = n * n / 2 * _SCAN * width
    return min(seconds, n * ball(bits, radius) * _LOOK_UP / 2) if bits <= _VALUES_BITS else seconds


def _entropy(sample: Words) -> Floats:
    """The entropy of each bit of words (s, w): (64 w,). Bit j is bit j % 64 of word j // 64."""
    bits = np.unpackbits(sample.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    p = bits.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return np.asarray(np.nan_to_num(entropy))


def _chunks(bits: Ints, c: int, width: int) -> tuple[Words, ...]:
    """c sets of bits (width,), equally good: the bits come in order of their entropy."""
    chunk = np.arange(len(bits)) % (2 * c)
    chunk = np.minimum(chunk, 2 * c - 1 - chunk)
    return tuple(_bit_set(bits[chunk == i], width) for i in range(c))


def _bit_set(bits: Ints, width: int) -> Words:
    """A set of bits as words (width,)."""
    words = np.zeros(width, np.uint64)
    np.bitwise_or.at(words, bits // 64, np.uint64(1) << (bits % 64).astype(np.uint64))
    return words


def _set_bits(words: Words) -> Ints:
    """The numbers of the bits that are set in words (w,)."""
    return np.flatnonzero(np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little"))


def _compact(words: Words, bits: Ints) -> Ints:
    """Some bits of codes (m, w) as one integer each: (m,)."""
    values = np.zeros(len(words), np.int64)
    for place, bit in enumerate(bits.tolist()):
        value = words[:, bit // 64] >> np.uint64(bit % 64) & np.uint64(1)
        values |= value.astype(np.int64) << place
    return values


def _equal_keys(sample: Words, tables: list[Table]) -> float:
    """The mean share of the pairs of a sample that have equal keys, over some of the tables."""
    pairs = len(sample) * (len(sample) - 1) / 2
    shares = []
    for table in tables[:: -(-len(tables) // _SAMPLE_TABLES)]:
        order, start = runs(hashed(sample, table.key))
        size = np.diff(start, append=len(order)).astype(np.float64)
        shares.append(float((size * (size - 1) / 2).sum()))
    return float(np.mean(shares)) / max(1.0, pairs)
