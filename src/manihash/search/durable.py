"""An index file that is changed while it is in use: changes go to a journal first, and survive a crash."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from manihash.codes import check_codes
from manihash.errors import KnownIdError, UnknownIdError
from manihash.files.atomic import identity_of
from manihash.search.buckets import MAX_ROWS
from manihash.search.hamming_index import HammingIndex
from manihash.search.ids import MAX_BYTES, check_ids, next_id_after, next_ids, shown_id
from manihash.search.journal import ADD, MOST_BYTES, REMOVE, Change, Journal, journal_of, read_journal
from manihash.types import Ids

_log = logging.getLogger(__name__)
_AT_ONCE = 2**28  # bytes of changes that are written together


class DurableIndex:
    """An index file with its journal, of which this process is the only writer.

    Parameters
    ----------
    path : str or path-like
        The index file.
    load : callable, default=None
        Returns the index of the file with the changes of its journal, such as one that checks to which model
        it belongs. By default ``HammingIndex.load`` reads the file into memory.

    Attributes
    ----------
    index : HammingIndex
        The rows, for queries; ``compact`` replaces it.
    attached : AttachedRows
        The fields of rows: those beside the index file, and those of the changes since then.
    """

    def __init__(self, path: str | os.PathLike[str], load: Callable[[], HammingIndex] | None = None) -> None:
        self.path = Path(os.path.realpath(path))
        self._load = (lambda: HammingIndex.load(self.path, mmap=False)) if load is None else load
        self.journal = Journal(journal_of(path))
        try:
            self.index, self._file = self._load(), identity_of(self.path)
            self.attached = self.index._stored.fields()
            self._resume()
        except BaseException:
            self.journal.close()
            raise

    def _resume(self) -> None:
        """Continue the journal of the index file; start a new one if its changes are in the file."""
        checksum = self.index._stored.sha256
        content = read_journal(self.journal.path, self.index.n_bits)
        if content is None or not content.since(checksum):
            self.journal.start(checksum, self.index.id_type)
            return
        if self.journal.size > content.size:
            _log.warning(
                "%s: the last %d bytes are not a complete record and are removed: it was not acknowledged",
                self.journal.path,
                self.journal.size - content.size,
            )
        self.journal.resume(content.size)
        if not content.is_current:
            self.compact()

    def commit(self, changes: Sequence[Change]) -> list[Ids | Exception]:
        """Make changes, in their order; they are durable when this returns.

        Parameters
        ----------
        changes : sequence of Change
            Rows to add, update or remove.

        Returns
        -------
        list of ndarray or exception
            For each change the ids of its rows, or why it was not made. The others are made nevertheless.
        """
        results: list[Ids | Exception] = []
        valid: list[tuple[int, Change]] = []
        present: dict[int | str, bool] = {}  # of ids that earlier changes concern
        next_id, n_rows = self.index.next_id, len(self.index)
        for change in changes:
            try:
                checked = self._checked(change, present, next_id)
                if change.kind == ADD and n_rows + len(checked) > MAX_ROWS:
                    raise ValueError(f"an index holds at most {MAX_ROWS:,} rows. Nothing was changed")
            except ValueError as error:
                results.append(error)
                continue
            ids: Ids = checked.ids  # type: ignore[assignment]
            present.update(dict.fromkeys(ids.tolist(), change.kind != REMOVE))
            next_id = next_id_after(ids, next_id)
            n_rows += len(ids) if change.kind == ADD else 0
            results.append(ids)
            if len(ids):
                valid.append((len(results) - 1, checked))
        made = 0
        for some in _parts(valid):
            try:
                self.journal.append([change for _, change in some])
            except OSError as error:
                if not made:
                    raise
                for i, _ in some:
                    results[i] = error
                continue
            self._apply([change for _, change in some])
            made += len(some)
        return results

    def _apply(self, changes: list[Change]) -> None:
        """Make changes that are in the journal. If that fails, no further ones are acknowledged."""
        try:
            for change in changes:
                self.attached.apply(change)  # first: a search that finds a row finds its vector
                self.index._apply(change)
            self.index._stored.removed.clear()  # they are in the journal
        except BaseException:
            self.journal.failed = True
            raise

    def _checked(self, change: Change, present: dict[int | str, bool], next_id: int) -> Change:
        """The change with ids, checked codes and fields; raise unless it can be made after earlier ones."""
        if change.fields is not None:
            change.fields.check(len(change))
            if (size := _size(change)) > MOST_BYTES:
                raise ValueError(
                    f"the change has {size:,} bytes, at most {MOST_BYTES:,}: change fewer rows at once"
                )
        codes = None if change.codes is None else check_codes(change.codes, self.index.n_bits)
        if change.ids is None and self.index.id_type is str:
            raise ValueError("the ids of this index are strings: give one id per row")
        if change.ids is None:
            ids = next_ids(next_id, 0 if codes is None else len(codes))
            return Change(change.kind, ids, codes, change.fields)
        ids = check_ids(change.ids, id_type=self.index.id_type)
        known = self.index.contains(ids)
        for i, identity in enumerate(ids.tolist()):
            if present.get(identity, bool(known[i])) == (change.kind == ADD):
                if change.kind == ADD:
                    raise KnownIdError(
                        f"id {shown_id(identity)} is already in the index. Nothing was changed"
                    )
                raise UnknownIdError(f"id {shown_id(identity)} is not in the index. Nothing was changed")
        if codes is not None and len(codes) != len(ids):
            raise ValueError(f"got {len(codes)} rows and {len(ids)} ids: give one id per row")
        return Change(change.kind, ids, codes, change.fields)

    def compact(self) -> bool:
        """Write all changes into the index file, and empty the journal; return whether there were any.

        A crash at any moment leaves the old file with the journal, or the new file.
        """
        if self.journal.empty:
            return False
        if identity_of(self.path) != self._file:
            raise OSError(f"{self.path} was replaced by another program: its journal is kept")
        self.save()
        return True

    def save(self) -> None:
        """Write the index in place of the file, and empty the journal."""
        self.index._write(self.path, self.journal)
        self.index, self._file = self._load(), identity_of(self.path)
        self.attached.forget()
        self.index._stored.attached = self.attached  # the same as in the file, which is not read again

    def close(self) -> None:
        """Close the journal; call ``compact`` before, so that the index file has all changes."""
        self.journal.close()


def _size(change: Change) -> int:
    """About the bytes of a change in a journal, at least as many."""
    fields = 0 if change.fields is None else len(change.fields.to_bytes())
    return fields + (0 if change.codes is None else change.codes.size) + len(change) * (MAX_BYTES + 8)


def _parts(changes: list[tuple[int, Change]]) -> Iterator[list[tuple[int, Change]]]:
    """The changes in parts that a journal stores at once."""
    part: list[tuple[int, Change]] = []
    size = 0
    for numbered in changes:
        size += _size(numbered[1])
        if part and size > _AT_ONCE:
            yield part
            part, size = [], _size(numbered[1])
        part.append(numbered)
    if part:
        yield part
