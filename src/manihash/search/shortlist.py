"""Shortlists of whole buckets: the rows of the codes nearest to a query, all rows of a code or none."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from manihash.search.buckets import Buckets
from manihash.search.expansion import Queries
from manihash.search.segments import Segment, within_of
from manihash.types import Codes, Ids, Ints, Mask

# Codes requested at once.
_REQUESTED = 2**22


def whole_buckets(
    segments: Sequence[Segment], masks: Sequence[Mask | None], queries: Queries, size: int
) -> Iterator[Ids]:
    """For each query the ids of its nearest buckets, ties by lowest id, until they hold ``size`` rows.

    The last bucket is not cut, so a shortlist may have more rows. It has fewer if the masks select fewer.
    """
    some = [
        segment.searched_buckets() if mask is None else (segment.buckets.filtered(mask), 0)
        for segment, mask in zip(segments, masks, strict=True)
    ]
    held = [
        (segment.live, buckets, n_removed)
        for segment, (buckets, n_removed) in zip(segments, some, strict=True)
        if len(buckets) > n_removed
    ]
    block = max(1, _REQUESTED // size)
    for start in range(0, len(queries), block):
        which = np.arange(start, min(start + block, len(queries)))
        # Each row that was removed can take the place of one code.
        found = [
            (b, *queries.nearest(which, b.codes, min(size + n_removed, len(b.codes))))
            for _, b, n_removed in held
        ]
        if len(found) == 1 and not held[0][2]:
            yield from _of_one_segment(*found[0], size)
        elif len(found) == 1:
            yield from _of_live_rows(*found[0], size, held[0][0])
        elif found:
            yield from _of_several(segments, masks, found, size)
        else:
            yield from np.empty((len(which), 0), np.int64)


def _of_one_segment(buckets: Buckets, level: Ints, position: Ints, size: int) -> Iterator[Ids]:
    """The shortlists of queries with nearest codes at ``position`` (q, m), which are in the right order."""
    before = np.cumsum(buckets.counts(position), axis=1) - buckets.counts(position)
    for codes, rows in zip(position, before, strict=True):
        yield buckets.ids_of(buckets.expand(codes[rows < size])[1])


def _of_live_rows(
    buckets: Buckets, level: Ints, position: Ints, size: int, live: Mask | None
) -> Iterator[Ids]:
    """As ``_of_one_segment`` if some rows of the buckets are not live."""
    assert live is not None
    for codes, levels in zip(position, level, strict=True):
        which, rank = buckets.expand(codes)
        which, rank = which[live[rank]], rank[live[rank]]
        code, first, count = np.unique(which, return_index=True, return_counts=True)
        order = np.lexsort((rank[first], levels[code]))
        taken = order[np.cumsum(count[order]) - count[order] < size]
        yield buckets.ids_of(np.concatenate([rank[first[i] : first[i] + count[i]] for i in taken]))


def _of_several(
    segments: Sequence[Segment],
    masks: Sequence[Mask | None],
    found: list[tuple[Buckets, Ints, Ints]],
    size: int,
) -> Iterator[Ids]:
    """The shortlists if several segments may hold rows of one code, by looking up each candidate code.

    The segment with the lowest id of a code that belongs to a shortlist has it among its nearest codes.
    """
    codes: list[Codes] = [
        buckets.codes[position].reshape(-1, buckets.codes.shape[1]) for buckets, _, position in found
    ]
    distinct, number = np.unique(np.concatenate(codes), axis=0, return_inverse=True)
    lims, _, ids = within_of(segments, masks, np.ascontiguousarray(distinct), 0)
    rows = [ids[start:stop] for start, stop in pairwise(lims)]
    splits = np.cumsum([len(part) for part in codes])[:-1]
    numbers = [
        part.reshape(level.shape)
        for part, (_, level, _) in zip(np.split(number.ravel(), splits), found, strict=True)
    ]
    for candidates, levels in zip(
        np.concatenate(numbers, axis=1), np.concatenate([f[1] for f in found], axis=1), strict=True
    ):
        nearest = sorted(
            {
                (level, rows[c][0], c)
                for c, level in zip(candidates.tolist(), levels.tolist(), strict=True)
                if len(rows[c])
            }
        )
        taken, total = [], 0
        for _, _, c in nearest:
            if total >= size:
                break
            taken.append(rows[c])
            total += len(rows[c])
        yield np.concatenate(taken)
