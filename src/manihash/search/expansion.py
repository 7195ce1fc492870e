"""From distinct codes near a query to their rows, nearest first, ties by id.

A row found for a query is one integer, ``level << 32 | rank``: sorted integers are rows sorted by distance
and then by id. The level is the Hamming distance, or the bits of a distance in float32 that is at least 0:
these bits order as the numbers do.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.search.buckets import Buckets
from manihash.search.scanners import Matches
from manihash.types import Ints, Mask

_LAST = np.iinfo(np.int64).max
_RANK_BITS = 32
_RANK = 2**_RANK_BITS - 1
# Queries, levels and ranks share one integer of 63 bits while rows within a radius are sorted.
QUERY_BITS = 15
LEVEL_BITS = 16
# Answers requested at once, and sorted at once: these stay in the cache.
_REQUESTED = 2**22
_SORTED = 2**17
# Up to this k, the rows of a single query are collected one code at a time: few codes hold them.
_FEW = 64


class Queries(Protocol):
    """Queries that rank codes by a distance."""

    def __len__(self) -> int: ...

    def nearest(self, which: Ints, buckets: Buckets, m: int) -> tuple[Ints, Ints]:
        """Levels and positions (len(which), m) of the m codes nearest to some queries, ties by position."""
        raise NotImplementedError


def nearest_rows(queries: Queries, which: Ints, buckets: Buckets, k: int) -> tuple[Ints, Ints]:
    """Levels and ranks (len(which), k) of the k rows nearest to some queries; there are at least k rows.

    The k nearest codes always contain the answer, because codes are ordered by their lowest rank. If codes
    repeat, fewer are enough in most cases, so fewer are requested first.
    """
    u = len(buckets.codes)
    most = min(k, u)
    few = min(most, 4 + -(-2 * k * u // len(buckets)))
    if len(which) == 1 and k <= _FEW and not buckets.is_single:
        return _nearest_rows_of_one(queries, which, buckets, k, (few, most))
    keys = _nearest_rows_of_many(queries, which, buckets, k, (few, most))
    rank = keys & _RANK
    buckets.check_ranks(rank)
    return keys >> _RANK_BITS, rank


def _nearest_rows_of_many(
    queries: Queries, which: Ints, buckets: Buckets, k: int, requests: tuple[int, int]
) -> Ints:
    """Keys (len(which), k) of the rows nearest to some queries."""
    few, most = requests
    keys = np.empty((len(which), k), np.int64)
    block = max(1, min(4096, _REQUESTED // (4 * k)))
    for i in range(0, len(which), block):
        some, out = which[i : i + block], keys[i : i + block]
        out[:], complete = _k_smallest(*queries.nearest(some, buckets, few), buckets, k)
        if few < most and not complete.all():
            out[~complete], _ = _k_smallest(*queries.nearest(some[~complete], buckets, most), buckets, k)
    return keys


def _k_smallest(level: Ints, position: Ints, buckets: Buckets, k: int) -> tuple[Ints, Mask]:
    """``_k_smallest_block`` in blocks of queries."""
    step = max(1, _SORTED // (4 * k))
    starts = range(0, len(level), step)
    some = [_k_smallest_block(level[i : i + step], position[i : i + step], buckets, k) for i in starts]
    if len(some) == 1:
        return some[0]
    keys, complete = (np.concatenate(column) for column in zip(*some, strict=True))
    return keys, complete


def _nearest_rows_of_one(
    queries: Queries, which: Ints, buckets: Buckets, k: int, requests: tuple[int, int]
) -> tuple[Ints, Ints]:
    """As ``nearest_rows`` for one query, for small k, with few operations on arrays."""
    for m in requests:
        level, position = queries.nearest(which, buckets, m)
        start, end = buckets.spans(position[0])
        # Sorted, because codes are ordered by their lowest rank.
        firsts = level[0] << _RANK_BITS | buckets.rows[start]
        keys, collected, reached = firsts.tolist(), 0, -1
        for i in (end - start > 1).nonzero()[0].tolist():
            if collected >= k and keys[i] >> _RANK_BITS > reached:
                break
            reached = keys[i] >> _RANK_BITS
            others = buckets.rows[start[i] + 1 : min(end[i], start[i] + k)].tolist()
            keys += [reached << _RANK_BITS | rank for rank in others]
            collected += 1 + len(others)
        if len(keys) > len(firsts):
            keys.sort()
        if len(keys) >= k and keys[k - 1] <= firsts[-1]:
            break
    ranks = [key & _RANK for key in keys[:k]]
    if max(ranks) >= buckets.size:
        buckets.check_ranks(np.array(ranks))
    return np.array([[key >> _RANK_BITS for key in keys[:k]]]), np.array([ranks])


def _k_smallest_block(level: Ints, position: Ints, buckets: Buckets, k: int) -> tuple[Ints, Mask]:
    """The k smallest keys (q, k) of the rows of codes (q, m), and whether no other code has a smaller one."""
    q, m = level.shape
    if buckets.is_single:  # codes are in the order of their rows
        return level << _RANK_BITS | buckets.rows[position], np.ones(q, np.bool_)
    count = buckets.counts(position)
    before = np.cumsum(np.minimum(count, k), axis=1) - np.minimum(count, k)
    new = np.ones((q, m), np.bool_)
    new[:, 1:] = level[:, 1:] != level[:, :-1]
    nearer = np.maximum.accumulate(np.where(new, before, 0), axis=1)  # number of rows at smaller distances
    take = np.clip(k - nearer, 0, count)
    which, rank = buckets.expand(position.ravel(), take.ravel())
    width = take.sum(axis=1)
    column = np.arange(len(which)) - np.repeat(np.cumsum(width) - width, width)
    table = np.full((q, max(k, int(width.max()))), _LAST)
    table[which // m, column] = level.ravel()[which] << _RANK_BITS | rank
    table.sort(axis=1)
    lowest = buckets.lowest_ranks(position[:, -1])
    return table[:, :k], table[:, k - 1] <= (level[:, -1] << _RANK_BITS | lowest)


def rows_of_matches(
    matches: Matches, buckets: Buckets, distances: NDArray[Any] | None = None
) -> tuple[Ints, NDArray[Any], Ints]:
    """Query, distance and rank of every row of the matching codes, sorted in this order.

    ``distances`` (matches,) are those to sort by; by default the Hamming distances of the matches.
    """
    if distances is None:
        return _by_hamming(matches, buckets)
    lims, _, position = matches
    which, rank = buckets.expand(position)
    query, distance = np.repeat(np.arange(len(lims) - 1), np.diff(lims))[which], distances[which]
    order = np.lexsort((rank, distance, query))
    return query[order], distance[order], rank[order]


def _by_hamming(matches: Matches, buckets: Buckets) -> tuple[Ints, NDArray[np.int32], Ints]:
    """As ``rows_of_matches``. Only rows of several codes at one distance need sorting."""
    lims, distance, position = matches
    keys = distance << _RANK_BITS | position
    if len(lims) > 2:
        query = np.repeat(np.arange(len(lims) - 1), np.diff(lims))
        keys |= query << (LEVEL_BITS + _RANK_BITS)
    keys.sort()
    level, position = keys >> _RANK_BITS, keys & _RANK
    which, rank = buckets.expand(position)
    several = np.zeros(len(level), np.bool_)
    several[1:] = level[1:] == level[:-1]
    several[:-1] |= several[1:]
    level = level[which]
    if several.any():
        mixed = several[which]
        rank[mixed] = np.sort(level[mixed] << _RANK_BITS | rank[mixed]) & _RANK
    return level >> LEVEL_BITS, (level & (2**LEVEL_BITS - 1)).astype(np.int32), rank
