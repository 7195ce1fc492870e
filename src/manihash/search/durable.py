"""An index file that is changed while it is in use: changes go to a journal first, and survive a crash."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from manihash.codes import check_codes
from manihash.files.atomic import sync_folder
from manihash.search import files
from manihash.search.ids import check_ids, next_id_after
from manihash.search.index import HammingIndex
from manihash.search.journal import (
    ADD,
    REMOVE,
    UPDATE,
    Change,
    Journal,
    journal_of,
    read_journal,
)
from manihash.search.string_ids import shown_id
from manihash.types import Ids

_ATTEMPTS = 5


class UnknownIdError(ValueError):
    """Raised for an id that is not in the index."""


class KnownIdError(ValueError):
    """Raised for an id that is already in the index."""


def load_with_changes(path: str | os.PathLike[str], *, mmap: bool = True) -> HammingIndex:
    """Open an index file with the changes of its journal, which another process may be writing.

    Parameters
    ----------
    path : str or path-like
        File that ``HammingIndex.save`` wrote.
    mmap : bool, default=True
        Map the file into memory instead of reading it.

    Returns
    -------
    HammingIndex
        The index with all changes.
    """
    for _ in range(_ATTEMPTS):
        index = HammingIndex.load(path, mmap=mmap)
        content = read_journal(journal_of(path), index.n_bits)
        if content is None:
            return index
        changes = content.since(checksum_of(index))
        if changes is not None:
            for change in changes:
                apply(index, change)
            return index  # otherwise the file was replaced while it was read
    raise ValueError(
        f"{journal_of(path)} holds changes of another index file than {path}: put that file back, or delete "
        "the journal if its changes are not needed"
    )


def checksum_of(index: HammingIndex) -> str:
    """The checksum of the file that an index was loaded from."""
    return "" if index._file is None else index._file.sha256


def apply(index: HammingIndex, change: Change) -> None:
    """Change an index in memory."""
    if change.kind == REMOVE:
        index.remove(change.ids)  # type: ignore[arg-type]
    elif change.kind == UPDATE:
        index.update(change.codes, change.ids)  # type: ignore[arg-type]
    else:
        index.add(change.codes, change.ids)  # type: ignore[arg-type]


class DurableIndex:
    """An index file with its journal, of which this process is the only writer.

    Parameters
    ----------
    path : str or path-like
        The index file.
    load : callable, default=None
        Returns the index of the file with the changes of its journal, such as one that checks to which model
        it belongs. By default `load_with_changes`.

    Attributes
    ----------
    index : HammingIndex
        The rows, for queries; ``compact`` replaces it.
    """

    def __init__(self, path: str | os.PathLike[str], load: Callable[[], HammingIndex] | None = None) -> None:
        self.path = Path(os.path.realpath(path))
        self._load = (lambda: load_with_changes(self.path, mmap=False)) if load is None else load
        self.journal = Journal(journal_of(path))
        try:
            self.index = self._load()
            self._file = _identity(self.path)
            self._resume(checksum_of(self.index))
        except BaseException:
            self.journal.close()
            raise

    def _resume(self, checksum: str) -> None:
        """Continue the journal of the index file; start a new one if its changes are in the file."""
        content = read_journal(self.journal.path, self.index.n_bits)
        if content is None or not content.since(checksum):
            self.journal.start(checksum, self.index.id_type)
        else:
            self.journal.resume(content.size)

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
        valid: list[Change] = []
        present: dict[int | str, bool] = {}  # of ids that earlier changes concern
        next_id = self.index.next_id
        for change in changes:
            try:
                checked = self._checked(change, present, next_id)
            except ValueError as error:
                results.append(error)
                continue
            ids: Ids = checked.ids  # type: ignore[assignment]
            present.update(dict.fromkeys(ids.tolist(), change.kind != REMOVE))
            next_id = next_id_after(ids, next_id)
            valid.append(checked)
            results.append(ids)
        if valid:
            self.journal.append(valid)
            for change in valid:
                apply(self.index, change)
        return results

    def _checked(self, change: Change, present: dict[int | str, bool], next_id: int) -> Change:
        """The change with ids and checked codes; raise unless it can be made after the earlier ones."""
        codes = None if change.codes is None else check_codes(change.codes, self.index.n_bits)
        if change.ids is None and self.index.id_type is str:
            raise ValueError("the ids of this index are strings: give one id per row")
        if change.ids is None:
            n = 0 if codes is None else len(codes)
            return Change(change.kind, np.arange(next_id, next_id + n), codes)
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
        return Change(change.kind, ids, codes)

    def compact(self) -> bool:
        """Write all changes into the index file, and empty the journal; return whether there were any.

        A crash at any moment leaves the old file with the journal, or the new file.
        """
        if self.journal.empty:
            return False
        if _identity(self.path) != self._file:
            raise OSError(f"{self.path} was replaced by another program: its journal is kept")
        new = self.path.with_name(f".{self.path.name}.compacted")
        try:
            self.index.save(new)
            shutil.copymode(self.path, new)
            checksum = files.read(new, mmap=True).sha256
            self.journal.append_compacted(checksum)
            os.replace(new, self.path)
        finally:
            new.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        self.journal.start(checksum, self.index.id_type)
        self.index, self._file = self._load(), _identity(self.path)
        return True

    def close(self) -> None:
        """Close the journal; call ``compact`` before, so that the index file has all changes."""
        self.journal.close()


def _identity(path: Path) -> tuple[int, int, int]:
    """What changes if a file is replaced."""
    info = os.stat(path)
    return info.st_ino, info.st_mtime_ns, info.st_size
