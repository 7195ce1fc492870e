"""One state of the rows of an index, and the answers to queries; a state never changes.

One large segment holds most rows. Later changes are in a log, which a writer only appends to; a snapshot sees
the entries that the log had when the snapshot was made. A small second segment is built from them when a
query needs it. So any thread may read a snapshot while another one makes the next.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.codes import n_bytes
from manihash.compute.threads import ForkSafeLock
from manihash.search.buckets import Buckets, aligned_bytes, merge
from manihash.search.expansion import QUERY_BITS, Queries, nearest_rows, rows_of_matches
from manihash.search.ids import LARGEST_ID, StringIds, as_id_array
from manihash.search.ranking import LookUp, Ranking
from manihash.types import Codes, Ids, Ints, Mask

_log = logging.getLogger(__name__)

Filter = ArrayLike | Iterable[int] | Iterable[str] | None
LogEntry = tuple[int | str, bytes | None]  # id and aligned code; None: the row was removed
# lims (q + 1,), distances and ids: those of query i are at lims[i] to lims[i + 1], nearest first, ties by id.
RowsWithin = tuple[Ints, NDArray[Any], Ids]

# Nearest rows are searched among rows of which this many times the square root of their number were removed.
_REMOVED = 4
# Rows requested beside twice as many as before, if some of those that were found have been removed.
_FEW_MORE = 16
# Codes requested at once for shortlists.
_REQUESTED = 2**22


class Segment:
    """Rows in buckets that do not change; ``live`` (size,) is False for rows removed since then.

    The nearest rows are searched in buckets in which a few rows may have been removed: to filter all rows
    takes much longer than a query, so it is done once for many removals.
    """

    def __init__(self, buckets: Buckets, live: Mask | None = None) -> None:
        self.buckets, self.live = buckets, live
        self._n_rows = len(buckets) if live is None else int(np.count_nonzero(live))
        self._lock = ForkSafeLock()
        self._searched = (buckets, 0)  # and the number of their rows that were removed

    def without(self, ranks: Ints) -> "Segment":
        """A segment of the same buckets without the rows of some ranks, which are live."""
        live = np.ones(self.buckets.size, np.bool_) if self.live is None else self.live.copy()
        live[ranks] = False
        smaller = Segment(self.buckets, live)
        searched, n_removed = self._searched
        smaller._searched = searched, n_removed + len(ranks)
        return smaller

    def __len__(self) -> int:
        return self._n_rows

    def live_buckets(self) -> Buckets:
        """Buckets of the rows that were not removed."""
        if self.live is not None and self._searched[1]:
            with self._lock:
                if self._searched[1]:
                    self._searched = self.buckets.filtered(self.live), 0
        return self._searched[0]

    def searched_buckets(self, mask: Mask | None = None) -> tuple[Buckets, int]:
        """Buckets of the rows that the mask (size,) selects, and of a few others; the number of these."""
        if mask is not None:
            return self.buckets.filtered(mask), 0
        if self._searched[1] > _REMOVED * isqrt(self.buckets.size):
            self.live_buckets()
        return self._searched

    @property
    def next_id(self) -> int:
        """One more than the largest id, removed rows included; at least 0, and 0 if ids are strings."""
        size, ids = self.buckets.size, self.buckets.ids
        if isinstance(ids, StringIds):
            return 0
        return size if ids is None or not size else max(0, 1 + int(ids[-1]))

    def ids(self) -> Ids:
        """Ids of all rows, ascending."""
        every = self.buckets.ids_of(np.arange(self.buckets.size))
        return every if self.live is None else every[self.live]

    def locate(self, ids: Ids) -> tuple[Ints, Mask]:
        """Ranks of ids (m,), and whether each id has a row here; without one, the rank is arbitrary."""
        rank, present = self.buckets.ranks_of(ids)
        if self.live is not None:
            present[present] = self.live[rank[present]]
        return rank, present

    def nearest(self, queries: Queries, k: int, mask: Mask | None) -> tuple[Ints, Ids]:
        """Levels and ids (q, min(k, rows)) of the nearest rows that the mask (size,) selects."""
        buckets, n_removed = self.searched_buckets(mask)
        q, k = len(queries), min(k, len(buckets) - n_removed)
        if not k or not q:
            none = np.empty((q, k), np.int64)
            return none, buckets.ids_of(none)
        level, rank = nearest_rows(queries, np.arange(q), buckets, k)
        if n_removed and self.live is not None:
            self._replace_removed(queries, buckets, n_removed, (level, rank), self.live)
        return level, buckets.ids_of(rank)

    @staticmethod
    def _replace_removed(
        queries: Queries, buckets: Buckets, n_removed: int, found: tuple[Ints, Ints], live: Mask
    ) -> None:
        """Replace the levels and ranks (q, k) of queries that found rows which are not live.

        More rows are requested for them, at most as many more as were removed.
        """
        level, rank = found
        k = m = level.shape[1]
        again = np.flatnonzero(~live[rank].all(axis=1))
        while len(again):
            m = min(2 * m + _FEW_MORE, k + n_removed)
            levels, ranks = nearest_rows(queries, again, buckets, m)
            kept = live[ranks]
            first = np.argsort(~kept, axis=1, kind="stable")[:, :k]
            enough = kept.sum(axis=1) >= k
            level[again[enough]] = np.take_along_axis(levels, first, axis=1)[enough]
            rank[again[enough]] = np.take_along_axis(ranks, first, axis=1)[enough]
            again = again[~enough]

    def within(self, look_up: LookUp, radius: int, mask: Mask | None) -> RowsWithin:
        """The rows within the radius of queries that the mask (size,) selects."""
        q = len(look_up)
        starts = range(0, max(1, q), 2**QUERY_BITS)
        found = [
            self._block_within(look_up, slice(i, min(i + 2**QUERY_BITS, q)), radius, mask) for i in starts
        ]
        counts, distance, ids = (
            found[0] if len(found) == 1 else (np.concatenate(column) for column in zip(*found, strict=True))
        )
        lims = np.zeros(q + 1, np.int64)
        counts.cumsum(out=lims[1:])
        return lims, distance, ids

    def _block_within(self, look_up: LookUp, some: slice, radius: int, mask: Mask | None) -> RowsWithin:
        """Number of rows found by each of some queries; distances and ids."""
        matches = look_up.codes(some, self.buckets, radius)
        distances = look_up.distances(some.start, matches, self.buckets)
        query, distance, rank = rows_of_matches(matches, self.buckets, distances)
        for keep in (self.live, mask):
            if keep is not None:
                kept = keep[rank]
                query, distance, rank = query[kept], distance[kept], rank[kept]
        return np.bincount(query, minlength=some.stop - some.start), distance, self.buckets.ids_of(rank)

    def count(self, look_up: LookUp, radius: int, mask: Mask | None) -> Ints:
        """Number of rows within the radius of each query that the mask (size,) selects: (q,)."""
        if mask is not None or self.live is not None:
            return np.diff(self.within(look_up, radius, mask)[0])
        lims, _, position = look_up.codes(slice(0, len(look_up)), self.buckets, radius)
        rows = np.concatenate([[0], np.cumsum(self.buckets.counts(position))])
        return np.diff(rows[lims])


class Selection:
    """The rows of segments that a filter selects, for queries."""

    def __init__(self, segments: list[Segment], filter: Filter = None) -> None:
        self._segments = segments
        self._masks: list[Mask | None] = [None] * len(segments)
        if filter is not None:
            self._masks = self._filter_masks(filter)

    @property
    def _parts(self) -> "zip[tuple[Segment, Mask | None]]":
        return zip(self._segments, self._masks, strict=True)

    def __len__(self) -> int:
        return sum(
            len(segment) if mask is None else int(np.count_nonzero(mask)) for segment, mask in self._parts
        )

    def nearest(self, queries: Queries, k: int) -> tuple[Ints, Ids]:
        """Levels and ids of the k nearest rows, or of all rows if there are fewer than k."""
        found = [segment.nearest(queries, k, mask) for segment, mask in self._parts]
        if len(found) == 1:
            return found[0]
        levels, ids = (np.concatenate(column, axis=1) for column in zip(*found, strict=True))
        order = np.lexsort((ids, levels), axis=1)[:, :k]
        return np.take_along_axis(levels, order, axis=1), np.take_along_axis(ids, order, axis=1)

    def within(self, look_up: LookUp, radius: int) -> RowsWithin:
        """The rows within the radius of queries."""
        found = [segment.within(look_up, radius, mask) for segment, mask in self._parts]
        if len(found) == 1:
            return found[0]
        query = np.concatenate([np.repeat(np.arange(len(look_up)), np.diff(lims)) for lims, _, _ in found])
        distance, ids = (np.concatenate([each[i] for each in found]) for i in (1, 2))
        order = np.lexsort((ids, distance, query))
        return np.sum([each[0] for each in found], axis=0), distance[order], ids[order]

    def count(self, look_up: LookUp, radius: int) -> Ints:
        """Number of rows within the radius of each query: (q,)."""
        return np.sum([segment.count(look_up, radius, mask) for segment, mask in self._parts], axis=0)

    def whole_buckets(self, queries: Queries, size: int, ranking: Ranking) -> Iterator[Ids]:
        """For each query the ids of its nearest buckets, ties by lowest id, until they hold ``size`` rows.

        The last bucket is not cut, so a shortlist may have more rows. It has fewer if fewer are selected.
        """
        every = [(segment, *segment.searched_buckets(mask)) for segment, mask in self._parts]
        held = [(segment, buckets, n) for segment, buckets, n in every if len(buckets) > n]
        block = max(1, _REQUESTED // size)
        for start in range(0, len(queries), block):
            which = np.arange(start, min(start + block, len(queries)))
            # Each row that was removed can take the place of one code.
            found = [
                (buckets, *queries.nearest(which, buckets, min(size + n, len(buckets.codes))))
                for _, buckets, n in held
            ]
            if len(found) == 1 and not held[0][2]:
                yield from _of_one_segment(*found[0], size)
            elif len(found) == 1:
                yield from _of_live_rows(*found[0], size, held[0][0].live)
            elif found:
                yield from self._of_several(found, size, ranking.by_all_bits)
            else:
                yield from np.empty((len(which), 0), np.int64)

    def _of_several(
        self, found: list[tuple[Buckets, Ints, Ints]], size: int, ranking: Ranking
    ) -> Iterator[Ids]:
        """The shortlists if several segments may hold rows of one code, by looking up each candidate code.

        The segment with the lowest id of a code that belongs to a shortlist has it among its nearest codes.
        """
        codes: list[Codes] = [
            buckets.codes[position].reshape(-1, buckets.codes.shape[1]) for buckets, _, position in found
        ]
        distinct, number = np.unique(np.concatenate(codes), axis=0, return_inverse=True)
        lims, _, ids = self.within(ranking.look_up(np.ascontiguousarray(distinct)), 0)
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

    def _filter_masks(self, filter: Filter) -> list[Mask | None]:
        """For each segment the mask (size,) of the ranks that the filter selects."""
        segments = self._segments
        selected = _selected(filter, strings=segments[0].buckets.has_string_ids)
        if selected.dtype == np.bool_:
            n = sum(map(len, segments))
            if selected.shape != (n,):
                raise ValueError(
                    f"got a boolean filter of shape {selected.shape} for an index of {n} rows: "
                    "pass one boolean per row, in ascending order of id, or the ids to select"
                )
            if len(segments) == 1 and segments[0].live is None:
                return [selected]
            selected = all_ids(segments)[selected]
        masks: list[Mask | None] = []
        known = np.zeros(len(selected), np.bool_)
        for segment in segments:
            rank, present = segment.locate(selected)
            mask = np.zeros(segment.buckets.size, np.bool_)
            mask[rank[present]] = True
            known |= present
            masks.append(mask)
        if not known.all():
            _log.warning("%d of %d ids of the filter are not in the index", int((~known).sum()), len(known))
        return masks


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


def all_ids(segments: list[Segment]) -> Ids:
    """Ids of all rows of the segments, ascending."""
    if len(segments) == 1:
        return segments[0].ids()
    return np.sort(np.concatenate([segment.ids() for segment in segments]))


def _selected(filter: Any, *, strings: bool) -> NDArray[Any]:
    """The filter as an array of booleans or of ids, which must be of the type of the ids of the index."""
    given = as_id_array(list(filter) if isinstance(filter, set | frozenset | range) else filter)
    if given.dtype == np.bool_:
        return given
    if given.ndim == 1 and not given.size:
        return np.empty(0, object if strings else np.int64)
    if given.ndim == 1 and (given.dtype == object if strings else given.dtype.kind in "iu"):
        if given.dtype == np.uint64:  # larger ids would become negative in int64, and no row has them
            given = given[given <= LARGEST_ID]
        return given if strings else given.astype(np.int64)
    kind = "strings" if given.dtype == object else given.dtype
    expected = "strings" if strings else "integers"
    raise ValueError(
        f"filter must be a set of ids or one boolean per row, got an array of shape {given.shape} and type "
        f"{kind}: the ids are {expected}"
    )


def rows_after(changes: list[LogEntry]) -> dict[int | str, bytes]:
    """The rows that result from changes: the last code of each id, if it was not removed."""
    return {i: code for i, code in dict(changes).items() if code is not None}


@dataclass(eq=False)
class ChangeLog:
    """Changes in their order, and the rows that result from them, which only the writer reads."""

    changes: list[LogEntry] = field(default_factory=list)
    rows: dict[int | str, bytes] = field(default_factory=dict)

    def append(self, changes: list[LogEntry]) -> None:
        """Append changes. If it is interrupted, ``changes`` is longer than the snapshot says."""
        self.changes.extend(changes)
        for i, code in changes:
            if code is None:
                del self.rows[i]
            else:
                self.rows[i] = code


class Snapshot:
    """The rows of a large segment, without those removed, and the rows of the first entries of a log.

    It is a plain class, and ``after`` copies what it can, because each change of an index makes one.
    """

    __slots__ = ("_lock", "_recent", "base", "log", "n_bits", "n_changes", "n_recent", "next_id")

    def __init__(self, buckets: Buckets, n_bits: int, next_id: int = 0) -> None:
        self.n_bits = n_bits
        self.base = Segment(buckets)
        self.log = ChangeLog()
        self.n_changes = 0  # entries of the log that belong to this state
        self.n_recent = 0  # rows that result from them
        self.next_id = max(next_id, self.base.next_id)
        self._recent: Segment | None = None
        self._lock = ForkSafeLock()  # shared with the states after this one

    def after(self, base: Segment, log: ChangeLog, next_id: int) -> "Snapshot":
        """The state after a change: with this large segment, and all entries of this log."""
        state = Snapshot.__new__(Snapshot)
        state.n_bits, state._lock = self.n_bits, self._lock
        state.base, state.log, state.next_id = base, log, next_id
        state.n_changes, state.n_recent = len(log.changes), len(log.rows)
        state._recent = None
        return state

    def __len__(self) -> int:
        return len(self.base) + self.n_recent

    @property
    def unchanged(self) -> bool:
        """Whether all rows are those of the large segment, none removed."""
        return not self.n_recent and self.base.live is None

    def segments(self) -> list[Segment]:
        """The segments to search, the large one first."""
        if not self.n_recent:
            return [self.base]
        if self._recent is None:
            with self._lock:
                if self._recent is None:
                    self._recent = self._recent_segment()
        return [self.base, self._recent]

    def ids(self) -> Ids:
        """Ids of all rows, ascending."""
        return all_ids(self.segments())

    def merged(self, *more: tuple[Codes, Ids]) -> Buckets:
        """Buckets of all rows, and of more rows given as aligned codes and ids."""
        if not more and self.unchanged:
            return self.base.buckets
        return merge([*(segment.live_buckets().by_row() for segment in self.segments()), *more])

    def _recent_segment(self) -> Segment:
        """The segment of the rows in the log."""
        rows = rows_after(self.log.changes[: self.n_changes])
        width = aligned_bytes(n_bytes(self.n_bits))
        codes = np.frombuffer(b"".join(rows.values()), np.uint8).reshape(-1, width)
        ids = np.array(list(rows), object if self.base.buckets.has_string_ids else np.int64)
        return Segment(merge([(codes, ids)]))
