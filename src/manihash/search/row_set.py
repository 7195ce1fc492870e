"""The rows of an index, which can be added, removed and updated.

The rows are one snapshot, which does not change: a change makes the next snapshot and replaces the old one in
a single assignment. A query takes the snapshot once and is therefore not disturbed by changes.
"""

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manihash.codes import check_codes, n_bytes
from manihash.compute.threads import ForkSafeLock
from manihash.search.buckets import Buckets, aligned
from manihash.search.ids import check_ids, next_id_after, next_ids
from manihash.search.scanners import default_scanner
from manihash.search.segments import Segment
from manihash.search.snapshot import Change, ChangeLog, Snapshot, rows_after
from manihash.search.string_ids import shown_id
from manihash.types import Codes, Ids, Mask

# The log may hold this many times the square root of the number of rows: the first query after a change takes
# time in proportion to the log, and a merge in proportion to the number of rows.
_RECENT = 16


class RowSet:
    """Rows of codes of n_bits under distinct ids."""

    def __init__(self, buckets: Buckets, n_bits: int, next_id: int = 0) -> None:
        self.n_bits = n_bits
        self._snapshot = Snapshot(buckets, n_bits, default_scanner(), next_id)
        self._writing = ForkSafeLock()
        self._removed: set[Any] = set()  # ids of rows that were removed, which is in no journal

    def __len__(self) -> int:
        return len(self._snapshot)

    @property
    def ids(self) -> Ids:
        """Ids of all rows, ascending: ndarray of shape (n,), int64 or, if they are strings, object."""
        return self._snapshot.ids()

    @property
    def id_type(self) -> type:
        """The type of all ids: int or str."""
        return str if self._snapshot.base.buckets.has_string_ids else int

    @property
    def codes(self) -> Codes:
        """Codes of all rows in the order of ``ids``: ndarray of shape (n, ceil(n_bits / 8)), uint8."""
        return self._snapshot.merged().by_row()[0][:, : n_bytes(self.n_bits)]

    @property
    def distinct_codes(self) -> int:
        """Number of distinct codes."""
        snapshot = self._snapshot
        buckets = snapshot.merged() if snapshot.n_recent else snapshot.base.live_buckets()
        return len(buckets.codes)

    @property
    def next_id(self) -> int:
        """The id that the next row gets if none is given; 0 if ids are strings, which must be given."""
        return self._snapshot.next_id

    def contains(self, ids: ArrayLike) -> Mask:
        """Return whether each id has a row.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids.

        Returns
        -------
        ndarray of shape (n,), bool
            True where the index has a row with this id.
        """
        given = check_ids(ids, id_type=self.id_type)
        found = [segment.locate(given)[1] for segment in self._snapshot.segments()]
        return np.logical_or.reduce(found)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add rows.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array-like of shape (n,), default=None
            Distinct ids that are not in the index, of the type of its other ids. By default the next unused
            integers; strings must be given.

        Returns
        -------
        ndarray of shape (n,)
            Ids of the added rows.
        """
        new = self._checked(codes, "codes")
        given = None if ids is None else check_ids(ids, len(new), id_type=self.id_type)
        if given is None and self.id_type is str:
            raise ValueError("the ids of this index are strings: pass one id per code")
        with self._writing:
            old = self._snapshot
            if given is None:
                given = next_ids(old.next_id, len(new))
            else:
                self._check_presence(given, expected=False)
            self._insert(new, given, old.base, next_id_after(given, old.next_id))
        return given

    def remove(self, ids: ArrayLike) -> None:
        """Remove rows; if an id is not in the index, nothing is removed.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        given = check_ids(ids, id_type=self.id_type)
        with self._writing:
            self._check_presence(given, expected=True)
            recent = self._log().rows
            self._append(self._base_without(given), [(i, None) for i in recent.keys() & given.tolist()])
            self._removed.update(given.tolist())

    def update(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Replace the codes of rows; if an id is not in the index, nothing is changed.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            New packed codes.
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        new = self._checked(codes, "codes")
        given = check_ids(ids, len(new), id_type=self.id_type)
        with self._writing:
            self._check_presence(given, expected=True)
            self._insert(new, given, self._base_without(given), self._snapshot.next_id)

    def _insert(self, codes: Codes, ids: Ids, base: Segment, next_id: int) -> None:
        """Add rows of aligned codes, or replace those in the log; the large segment has none of the ids."""
        recent = self._log().rows
        numbers = ids.tolist()
        if len(recent) + len(numbers) <= _log_limit(base):
            self._append(base, list(zip(numbers, map(bytes, codes), strict=True)), next_id)
        else:
            self._append(base, [(i, None) for i in recent.keys() & numbers], next_id, (codes, ids))

    def _append(
        self, base: Segment, changes: list[Change], next_id: int = 0, *more: tuple[Codes, Ids]
    ) -> None:
        """Replace the snapshot by one with this large segment and these changes.

        If there are more rows, or if few rows of the segment are left, all are merged into a new segment.
        """
        old, log = self._snapshot, self._log()
        if len(log.changes) + len(changes) > 2 * _log_limit(base):  # some rows have changed often
            log = ChangeLog(list(log.rows.items()), log.rows.copy())
        log.append(changes)
        changed = old.after(base, log, max(old.next_id, next_id))
        if more or (base is not old.base and 2 * len(base) < base.buckets.size):
            changed = Snapshot(changed.merged(*more), self.n_bits, old.scanner, changed.next_id)
        self._snapshot = changed

    def _base_without(self, ids: Ids) -> Segment:
        """The large segment without the rows of these ids; the segment itself if it has none of them."""
        base = self._snapshot.base
        rank, present = base.locate(ids)
        return base.without(rank[present]) if present.any() else base

    def _log(self) -> ChangeLog:
        """The log of the snapshot, without the entries of a change that was interrupted."""
        snapshot, log = self._snapshot, self._snapshot.log
        if len(log.changes) == snapshot.n_changes:
            return log
        changes = log.changes[: snapshot.n_changes]
        return ChangeLog(changes, rows_after(changes))

    def _check_presence(self, ids: Ids, *, expected: bool) -> None:
        """Raise unless all ids are in the index, or unless none is."""
        base, recent = self._snapshot.base, self._log().rows
        in_log = np.fromiter((i in recent for i in ids.tolist()), np.bool_, len(ids))
        wrong = (base.locate(ids)[1] | in_log) != expected
        if wrong.any():
            fault = "is not in the index" if expected else "is already in the index: use update()"
            more = int(wrong.sum()) - 1
            others = f" (and {more} others)" if more else ""
            raise ValueError(f"id {shown_id(ids[wrong][0])}{others} {fault}. Nothing was changed")

    def _checked(self, codes: ArrayLike, name: str) -> Codes:
        """The codes, checked and aligned."""
        return aligned(check_codes(codes, self.n_bits, name))


def _log_limit(base: Segment) -> int:
    """Number of rows that the log may hold beside a large segment."""
    return _RECENT * isqrt(1 + base.buckets.size)
