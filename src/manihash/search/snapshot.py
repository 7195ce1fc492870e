"""One state of the rows of an index: it never changes, so that any thread may read it.

One large segment holds most rows. Later changes are in a log, which a writer only appends to; a snapshot sees
the entries that the log had when the snapshot was made. A small second segment is built from them when a
query needs it.
"""

from dataclasses import dataclass, field

import numpy as np

from manihash.codes import n_bytes
from manihash.compute.threads import ForkSafeLock
from manihash.search.buckets import Buckets, aligned_bytes, merge
from manihash.search.ids import all_ids
from manihash.search.routes import CodeFinder
from manihash.search.scanners import Scanner
from manihash.search.segments import Segment
from manihash.types import Codes, Ids

Change = tuple[int | str, bytes | None]  # id and aligned code; None: the row was removed


def rows_after(changes: list[Change]) -> dict[int | str, bytes]:
    """The rows that result from changes: the last code of each id, if it was not removed."""
    return {i: code for i, code in dict(changes).items() if code is not None}


@dataclass(eq=False)
class ChangeLog:
    """Changes in their order, and the rows that result from them, which only the writer reads."""

    changes: list[Change] = field(default_factory=list)
    rows: dict[int | str, bytes] = field(default_factory=dict)

    def append(self, changes: list[Change]) -> None:
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

    __slots__ = ("_lock", "_recent", "base", "log", "n_bits", "n_changes", "n_recent", "next_id", "scanner")

    def __init__(self, buckets: Buckets, n_bits: int, scanner: Scanner, next_id: int = 0) -> None:
        self.n_bits, self.scanner = n_bits, scanner
        self.base = Segment(buckets, CodeFinder(buckets.codes, n_bits, scanner))
        self.log = ChangeLog()
        self.n_changes = 0  # entries of the log that belong to this state
        self.n_recent = 0  # rows that result from them
        self.next_id = max(next_id, self.base.next_id)
        self._recent: Segment | None = None
        self._lock = ForkSafeLock()  # shared with the states after this one

    def after(self, base: Segment, log: ChangeLog, next_id: int) -> "Snapshot":
        """The state after a change: with this large segment, and all entries of this log."""
        state = Snapshot.__new__(Snapshot)
        state.n_bits, state.scanner, state._lock = self.n_bits, self.scanner, self._lock
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
        buckets = merge([(codes, ids)])
        return Segment(buckets, CodeFinder(buckets.codes, self.n_bits, self.scanner))
