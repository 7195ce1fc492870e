"""From the nearest distinct codes to the nearest rows.

An answer is one whole number, ``level << 32 | rank``: in order of it, answers are in order of distance and
ties in order of id. The level is the Hamming distance, or the bits of a real distance of at least 0 in
float32, which are in the same order as the numbers.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.search.buckets import Buckets, Ints
from manihash.types import Codes

_LAST = np.iinfo(np.int64).max
# Answers asked for at once, and sorted at once: these stay in the cache.
_ASKED = 2**22
_SORTED = 2**17
RANK_BITS = 32


class Ask(Protocol):
    """Levels and positions (q, m) of the m nearest of some codes, ties by position, for some queries."""

    def __call__(self, which: Ints, codes: Codes, m: int) -> tuple[Ints, Ints]: ...


def nearest_rows(ask: Ask, buckets: Buckets, q: int, k: int) -> Ints:
    """Keys (q, k) of the k nearest rows of each query, in order; k is at most the number of rows.

    k codes always hold the answer, since codes stand in order of their lowest rank. Where codes repeat, fewer
    do, and so fewer are asked for at first.
    """
    keys = np.empty((q, k), np.int64)
    u, most = len(buckets.codes), min(k, len(buckets.codes))
    few = min(most, 4 + -(-2 * k * u // len(buckets)))
    block = max(1, min(4096, _ASKED // (4 * k)))
    for i in range(0, q, block):
        which = np.arange(i, min(i + block, q))
        keys[which], sure = _rows(*ask(which, buckets.codes, few), buckets, k)
        if few < most and not sure.all():
            again = which[~sure]
            keys[again], _ = _rows(*ask(again, buckets.codes, most), buckets, k)
    return keys


def _rows(level: Ints, position: Ints, buckets: Buckets, k: int) -> tuple[Ints, NDArray[np.bool_]]:
    """``_expanded`` of some queries after the other."""
    step = max(1, _SORTED // (4 * k))
    starts = range(0, len(level), step)
    some = [_expanded(level[i : i + step], position[i : i + step], buckets, k) for i in starts]
    keys, sure = (np.concatenate(column) for column in zip(*some, strict=True))
    return keys, sure


def _expanded(level: Ints, position: Ints, buckets: Buckets, k: int) -> tuple[Ints, NDArray[np.bool_]]:
    """The k smallest keys of the rows of these codes (q, m), and whether no other code can hold a smaller."""
    q, m = level.shape
    count = buckets.counts(position)
    before = np.cumsum(np.minimum(count, k), axis=1) - np.minimum(count, k)
    new = np.ones((q, m), np.bool_)
    new[:, 1:] = level[:, 1:] != level[:, :-1]
    nearer = np.maximum.accumulate(np.where(new, before, 0), axis=1)  # rows at a smaller distance
    take = np.clip(k - nearer, 0, count)
    which, rank = buckets.expand(position.ravel(), take.ravel())
    width = take.sum(axis=1)
    column = np.arange(len(which)) - np.repeat(np.cumsum(width) - width, width)
    table = np.full((q, max(k, int(width.max()))), _LAST)
    table[which // m, column] = level.ravel()[which] << RANK_BITS | rank
    table.sort(axis=1)
    first = buckets.firsts(position[:, -1])
    return table[:, :k], table[:, k - 1] <= (level[:, -1] << RANK_BITS | first)
