"""The rows of an index that can be saved to a file, with the layout of their codes."""

import os
from dataclasses import replace
from typing import Any, Self

import numpy as np

from manihash.code_layout import CodeLayout
from manihash.errors import DamagedIndexError
from manihash.files.atomic import identity_of, sync_folder
from manihash.search import files
from manihash.search.attached import AttachedRows, append_attached, attached_path, read_attached
from manihash.search.buckets import Buckets
from manihash.search.journal import (
    REMOVE,
    UPDATE,
    Change,
    Journal,
    journal_of,
    locked_journal,
    merged,
    read_journal,
)
from manihash.search.parts import IndexParts
from manihash.search.row_set import RowSet
from manihash.search.string_ids import string_array
from manihash.types import Ids

_ATTEMPTS = 5


def foreign_journal(path: str | os.PathLike[str]) -> str:
    """The message for an index file whose journal belongs to another file."""
    return (
        f"{journal_of(path)} holds changes of another index file than {path}: put that file back or, if its "
        "changes, which were acknowledged, are not needed any more, move the journal away"
    )


class SavedRows(RowSet):
    """Rows of codes, with their layout and the file that they were loaded from, if any."""

    def __init__(
        self, buckets: Buckets, n_bits: int, next_id: int = 0, *, layout: CodeLayout | None = None
    ) -> None:
        super().__init__(buckets, n_bits, next_id)
        self.made_by: str | None = None
        self._file: files.IndexFile | None = None
        self._model: bytes | None = None  # the model file of the hasher, if the index file has it
        self._n_journaled = 0  # changes of the journal of the file that were made
        self._journaled: list[Change] = []  # those of them that concern fields of rows, without codes
        self._attached: AttachedRows | None = None  # fields of rows, if they were asked for
        self.set_layout(layout)

    @property
    def layout(self) -> CodeLayout:
        """The parts of the codes, and the distance that ranks them."""
        return self._parts.layout

    def set_layout(self, layout: CodeLayout | None) -> None:
        """Set the parts of the codes, which decide how queries rank; the codes do not change.

        Parameters
        ----------
        layout : CodeLayout or None
            The layout, such as ``hasher.layout_`` or ``index.layout.with_weight(0.5)``; None for codes that
            are one part of signs.
        """
        layout = CodeLayout(self.n_bits) if layout is None else layout
        if layout.n_bits != self.n_bits:
            raise ValueError(f"the layout is that of codes of {layout.n_bits} bits, expected {self.n_bits}")
        self._parts = IndexParts(layout, self._snapshot.scanner)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, atomically.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced when the new one is complete. The changes in the
            journal of a server that was killed must be in this index, as they are if ``load`` has opened the
            file since then: the journal is emptied.

        Raises
        ------
        BlockingIOError
            If another process, such as ``manihash serve --writable``, writes to the same index.
        ValueError
            If the file to replace has a journal with changes that are not in this index.
        """
        with locked_journal(path) as journal:
            if journal is not None and not journal.empty:
                self._check_journaled(path, journal)
            self._write(path, journal)

    def _write(self, path: str | os.PathLike[str], journal: Journal | None) -> None:
        """Write the index to a file whose journal this process has locked, and empty the journal.

        A crash at any moment leaves the old file with the journal, or the new file.
        """
        snapshot = self._snapshot
        changed = journal is not None and not journal.empty
        fields = self._field_changes(path, journal if changed else None)

        def announce(checksum: str) -> None:
            if fields is not None and self._file is not None:
                checksums = (self._file.sha256, checksum)
                append_attached(path, self._fields(), checksums, fields, self.id_type)
            if journal is not None and changed:
                journal.append_compacted(checksum)

        checksum = files.write(
            path,
            snapshot.merged(),
            self.n_bits,
            snapshot.next_id,
            self.made_by,
            self.layout,
            self._model_bytes(),
            announce,
        )
        if journal is not None and changed:
            sync_folder(journal.path.parent)
            journal.start(checksum, self.id_type)

    def _fields(self) -> AttachedRows:
        """The fields of the rows beside the file of this index, with those in its journal, read once."""
        if self._attached is None:
            self._attached = AttachedRows()
            if self._file is not None:
                self._attached = read_attached(self._file.path, self._file.sha256)
                for change in self._journaled:
                    self._attached.apply(change)
                self._attached.forget(at_once=True)
        return self._attached

    def _field_changes(self, path: str | os.PathLike[str], journal: Journal | None) -> list[Change] | None:
        """The changes of fields to write beside the file that is replaced; None if it has no fields."""
        if self._file is None or os.path.realpath(self._file.path) != os.path.realpath(path):
            return None  # another index: fields that are there do not belong to it
        content = None if journal is None else read_journal(journal.path, self.n_bits)
        changes = [] if content is None else content.since(self._file.sha256) or []
        if not attached_path(path).exists() and all(change.fields is None for change in changes):
            return None
        removed = list(self._removed)
        ids: Ids = string_array(removed) if self.id_type is str else np.array(removed, np.int64)
        return [*changes, Change(REMOVE, ids)] if removed else changes

    def _model_bytes(self) -> bytes | None:
        """The model file to store in the index file; None if the index has no model."""
        return self._model

    def _check_journaled(self, path: str | os.PathLike[str], journal: Journal) -> None:
        """Raise if the journal of a file has changes that this index does not have."""
        try:
            checksum, n_bits = (old := files.read(path, mmap=True)).sha256, old.n_bits
        except (DamagedIndexError, FileNotFoundError):
            checksum, n_bits = "", self.n_bits
        content = read_journal(journal.path, n_bits)
        changes = [] if content is None else content.since(checksum)
        if changes is None:
            raise ValueError(foreign_journal(path))
        if changes and (
            self._file is None or (self._file.sha256, self._n_journaled) != (checksum, len(changes))
        ):
            raise ValueError(
                f"{journal.path} has {len(changes):,} changes of {path} that are not in the index to write "
                f"there: open {path} again, which reads them, or write to another file"
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True) -> Self:
        """Open an index file, with the changes in the journal of its server if there are any.

        Header, sizes and offsets are checked; ``verify`` checks every byte. Do not modify a file in place
        while it is mapped; ``save`` to the same path is safe, because it replaces the file.

        Parameters
        ----------
        path : str or path-like
            File that ``save`` wrote.
        mmap : bool, default=True
            Map the file into memory, which is immediate for any size, instead of reading it.

        Returns
        -------
        HammingIndex
            The index.
        """
        damage = None
        for _ in range(_ATTEMPTS):  # another process may replace the file, and then empty the journal
            before = identity_of(path)
            file = files.read(path, mmap=mmap)
            try:
                content = read_journal(journal_of(path), file.n_bits)
            except DamagedIndexError as error:
                damage = error
                continue
            changes = [] if content is None else content.since(file.sha256)
            if changes is not None and identity_of(path) == before:
                return cls._of_file(file, changes)
        raise ValueError(foreign_journal(path)) if damage is None else damage

    @classmethod
    def _of_file(cls, file: files.IndexFile, changes: list[Change]) -> Self:
        """The index of a file after changes."""
        index = cls.__new__(cls)
        SavedRows.__init__(index, file.buckets, file.n_bits, file.next_id, layout=file.layout)
        index.made_by, index._file, index._n_journaled = file.made_by, file, len(changes)
        index._model = file.model
        if attached_path(file.path).exists() or any(change.fields is not None for change in changes):
            index._journaled = [replace(change, codes=None) for change in changes]
        for change in merged(changes):
            index._apply(change)
        index._removed.clear()
        return index

    def _apply(self, change: Change) -> None:
        """Make a change that has ids; its rows are codes, also in an index that encodes vectors."""
        ids: Any = change.ids
        if change.kind == REMOVE:
            self.remove(ids)
        elif change.kind == UPDATE:
            RowSet.update(self, change.codes, ids)  # type: ignore[arg-type]
        else:
            RowSet.add(self, change.codes, ids)  # type: ignore[arg-type]

    def verify(self) -> None:
        """Check every byte of the file that was loaded; raise ``DamagedIndexError`` if it is damaged."""
        if self._file is None:
            raise ValueError("verify() checks the file of an index: this index was not loaded from a file")
        self._file.verify()
