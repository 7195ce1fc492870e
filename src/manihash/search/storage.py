"""The files of an index: the index file, its journal, and a file with the fields of its rows.

The file ``codes.mhx.rows`` holds vectors, labels, images and texts of rows, as records of a journal, with
changes that have fields and no codes. When a journal is written into its index file, the fields of its
changes are appended here first, and then a record with the checksum of the new index file. So the records up
to the last one with the checksum of an index file are those of its rows; what follows was interrupted, and is
still in the journal. Fields are replaced as a whole, so that a change that is read twice does no harm. An
index file that is equal to an earlier one, because no code has changed, has the same checksum: then the file
is written again, so that it has each checksum once, and the loss of its last record is noticed.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from manihash.errors import DamagedIndexError
from manihash.files.atomic import atomic_write, identity_of, sync_folder
from manihash.search import files
from manihash.search.files import IndexContent, IndexFile
from manihash.search.ids import string_array
from manihash.search.journal import (
    ADD,
    IMAGES,
    LABELS,
    REMOVE,
    TEXTS,
    UPDATE,
    VECTORS,
    Change,
    Journal,
    Records,
    RowFields,
    compacted,
    content_of,
    framed,
    journal_of,
    read_journal,
)
from manihash.types import Ids

_ATTEMPTS = 5
_FORMATS = (b"manihash-rows 1\n", b"manihash-rows 2\n")  # ids are integers, or strings
_OWN = {LABELS, IMAGES, TEXTS}  # fields that a row has since it was added, be they None
_HEAD = len(_FORMATS[0])
_FRAME = 8  # bytes of a record besides its content
_PER_RECORD = 1000  # rows of a record of a file that is written again
_FEW = 1000  # rows that were replaced before a file is written again


def attached_path(index: str | os.PathLike[str]) -> Path:
    """The path of the file beside an index file."""
    path = Path(os.path.realpath(index))
    return path.with_name(f"{path.name}.rows")


class AttachedRows:
    """Fields of rows by id. Another thread may read while one makes changes.

    A row that was added has its label, image and text, None for those that were not given. A row that was
    only updated has those that were given; the others are where they were before, such as in a file of
    labels. A vector is here if it was given.
    """

    def __init__(self) -> None:
        self._rows: dict[Any, dict[str, Any]] = {}
        # Rows that were removed, which a search that has begun may still find.
        self._gone: tuple[dict[Any, dict[str, Any]], ...] = ({}, {})
        self._given: set[str] = set()
        self.end = 0  # bytes of the file up to the last record of its index file
        self.n_stored = 0  # rows in the records of the file, of which later ones may replace earlier ones
        self.checksums: set[str] = set()  # of index files, in the records of the file

    def __len__(self) -> int:
        return len(self._rows)

    def knows(self, identity: Any, name: str) -> bool:
        """Whether a field of a row is here, be it None."""
        return name in self._of(identity)

    def value(self, identity: Any, name: str) -> Any:
        """A field of a row that ``knows`` it."""
        return self._of(identity)[name]

    def has(self, name: str) -> bool:
        """Whether a field was given for any row."""
        return name in self._given

    def _of(self, identity: Any) -> dict[str, Any]:
        places = (self._rows, *self._gone)
        return next((rows[identity] for rows in places if identity in rows), {})

    def apply(self, change: Change) -> None:
        """Make a change that has ids."""
        if change.fields is None and not self._rows:
            return
        fields = {} if change.fields is None else change.fields.given()
        self._given |= {name for name, values in fields.items() if any(value is not None for value in values)}
        for i, identity in enumerate(change.ids.tolist()):  # type: ignore[union-attr]
            if change.kind == REMOVE:
                if identity in self._rows:
                    self._gone[0][identity] = self._rows[identity]
                    del self._rows[identity]
                continue
            old = self._rows.get(identity, {}) if change.kind == UPDATE else dict.fromkeys(_OWN)
            old = {name: value for name, value in old.items() if name != VECTORS}  # that of another code
            self._rows[identity] = {**old, **{name: values[i] for name, values in fields.items()}}

    def after(self, changes: list[Change]) -> "AttachedRows":
        """These rows after changes, which they may have already."""
        made = AttachedRows()
        made._rows = dict(self._rows)
        for change in changes:
            made.apply(change)
        return made

    def forget(self, *, at_once: bool = False) -> None:
        """Forget the rows that were removed before the last call: no search that has begun can find them."""
        self._gone = ({}, {} if at_once else self._gone[0])

    def changes(self, id_type: type) -> Iterator[list[Change]]:
        """Changes that give these fields to rows, in parts."""
        rows = list(self._rows.items())
        for start in range(0, len(rows), _PER_RECORD):
            yield [_change_of(identity, row, id_type) for identity, row in rows[start : start + _PER_RECORD]]


def _change_of(identity: Any, row: dict[str, Any], id_type: type) -> Change:
    given = {name: [value] for name, value in row.items() if name != VECTORS}
    vector = row.get(VECTORS)
    fields = RowFields(None if vector is None else vector[None], **given)
    ids: Ids = string_array([identity]) if id_type is str else np.array([identity], np.int64)
    return Change(ADD if row.keys() >= _OWN else UPDATE, ids, None, fields)


def read_attached(index: str | os.PathLike[str], checksum: str) -> AttachedRows:
    """The fields of the rows of an index file with this checksum, without those in its journal.

    Raises
    ------
    ValueError
        If the file beside the index file belongs to another one.
    DamagedIndexError
        If it is damaged.
    """
    path = attached_path(index)
    rows = AttachedRows()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return rows
    if content[:_HEAD] not in _FORMATS:
        raise ValueError(
            f"{path} does not hold fields of rows, or is damaged: restore it, move it away, or upgrade "
            "manihash"
        )
    records = Records(content, 0, has_strings=content[:_HEAD] == _FORMATS[1])
    waiting: list[Change] = []
    start = _HEAD
    while (inside := records.at(start)) is not None:
        start += _FRAME + len(inside)
        try:
            found = records.parsed(inside)
        except (ValueError, TypeError, KeyError, struct.error) as error:
            raise DamagedIndexError(f"{path} has a record that cannot be read: restore it") from error
        if not isinstance(found, str):
            waiting += found
            continue
        rows.checksums.add(found)
        if found == checksum:
            rows.end = start
            for change in waiting:
                rows.apply(change)
                rows.n_stored += len(change)
            waiting = []
    if framed(compacted(checksum)) in content[start:]:
        raise DamagedIndexError(f"{path} is damaged at byte {start:,}: restore it from a copy")
    if not rows.end:
        raise ValueError(
            f"{path} holds vectors, labels, images or texts of rows of another index file than {index}: put "
            "that file back or, if they are not needed any more, move it away"
        )
    return rows


def append_attached(
    index: str | os.PathLike[str],
    rows: AttachedRows,
    checksums: tuple[str, str],
    changes: list[Change],
    id_type: type,
) -> None:
    """Write the fields of changes beside an index file, before it is replaced by one with another checksum.

    ``rows`` are those of the old one, and may have the changes already. ``checksums`` are those of the old
    and the new index file: until the new one is in place, the file belongs to both.
    """
    path = attached_path(index)
    old, new = checksums
    added = b"".join(content_of(replace(change, codes=None)) for change in changes)
    ending = (framed(added) if added else b"") + framed(compacted(new))
    if rows.end and new not in rows.checksums and rows.n_stored <= 2 * len(rows) + _FEW:
        with open(path, "r+b") as file:
            file.truncate(rows.end)
            file.seek(rows.end)
            file.write(ending)
            file.flush()
            os.fsync(file.fileno())
        rows.end += len(ending)
        rows.n_stored += sum(map(len, changes))
        rows.checksums.add(new)
        return
    written = rows
    if old == new:
        written, ending = rows.after(changes), b""
    with atomic_write(path) as part, open(part, "wb") as file:
        file.write(_FORMATS[id_type is str])
        for some in written.changes(id_type):
            file.write(framed(b"".join(map(content_of, some))))
        file.write(framed(compacted(old)) + ending)
        end = file.tell()
    rows.end, rows.n_stored = end, len(written) + (sum(map(len, changes)) if ending else 0)
    rows.checksums = {old, new}
    sync_folder(path.parent)


@dataclass(eq=False)
class StoredIndex:
    """The files that an index was loaded from, if any, and what it needs to know to replace them."""

    file: IndexFile | None = None
    changes: list[Change] = field(default_factory=list)  # of the journal that were made, without codes
    removed: set[Any] = field(default_factory=set)  # ids of rows that were removed, which is in no journal
    attached: AttachedRows | None = None  # fields of rows, if they were asked for

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, mmap: bool) -> tuple["StoredIndex", list[Change]]:
        """The files of an index, and the changes of its journal."""
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
                return cls(file, [replace(change, codes=None) for change in changes]), changes
        raise ValueError(_foreign_journal(path)) if damage is None else damage

    @property
    def sha256(self) -> str:
        """The checksum of the index file; empty if there is none."""
        return "" if self.file is None else self.file.sha256

    def fields(self) -> AttachedRows:
        """The fields of the rows beside the index file, with those in its journal, read once."""
        if self.attached is None:
            attached = AttachedRows()
            if self.file is not None:
                if self.file.has_fields and not attached_path(self.file.path).exists():
                    raise FileNotFoundError(_missing_fields(self.file.path))
                attached = read_attached(self.file.path, self.file.sha256)
                for change in self.changes:
                    attached.apply(change)
                attached.forget(at_once=True)
            self.attached = attached
        return self.attached

    def check_journaled(self, path: str | os.PathLike[str], journal: Journal, n_bits: int) -> None:
        """Raise if the journal of a file has changes that this index of codes of ``n_bits`` does not have."""
        try:
            checksum, n_bits = (old := files.read(path, mmap=True)).sha256, old.n_bits
        except (DamagedIndexError, FileNotFoundError):
            checksum = ""
        content = read_journal(journal.path, n_bits)
        changes = [] if content is None else content.since(checksum)
        if changes is None:
            raise ValueError(_foreign_journal(path))
        if changes and (self.file is None or (self.sha256, len(self.changes)) != (checksum, len(changes))):
            raise ValueError(
                f"{journal.path} has {len(changes):,} changes of {path} that are not in the index to write "
                f"there: open {path} again, which reads them, or write to another file"
            )

    def write(
        self, path: str | os.PathLike[str], content: IndexContent, journal: Journal | None, id_type: type
    ) -> None:
        """Write an index file whose journal this process has locked, and empty the journal.

        A crash at any moment leaves the old file with the journal, or the new file.
        """
        changed = None if journal is None or journal.empty else journal
        fields = self._field_changes(path, content.n_bits, changed, id_type)
        content = replace(content, has_fields=fields is not None)
        with files.written(path, content) as checksum:
            if fields is not None:
                append_attached(path, self.fields(), (self.sha256, checksum), fields, id_type)
            if changed is not None:
                changed.append_compacted(checksum)
        if changed is not None:
            sync_folder(changed.path.parent)
            changed.start(checksum, id_type)

    def _field_changes(
        self, path: str | os.PathLike[str], n_bits: int, journal: Journal | None, id_type: type
    ) -> list[Change] | None:
        """The changes of fields to write beside the file that is replaced; None if it has no fields."""
        if self.file is None or os.path.realpath(self.file.path) != os.path.realpath(path):
            return None  # another index: fields that are there do not belong to it
        content = None if journal is None else read_journal(journal.path, n_bits)
        changes = [] if content is None else content.since(self.sha256) or []
        has_fields = self.file.has_fields or attached_path(path).exists()
        if not has_fields and all(change.fields is None for change in changes):
            return None
        removed = list(self.removed)
        ids: Ids = string_array(removed) if id_type is str else np.array(removed, np.int64)
        return [*changes, Change(REMOVE, ids)] if removed else changes


def _missing_fields(path: str | os.PathLike[str]) -> str:
    """The message for an index file without the file with the fields of its rows."""
    return (
        f"{path} has vectors, labels, images or texts of its rows in {attached_path(path).name}, which is "
        "missing: put that file back or, if they are not needed any more, save the index under another name "
        "with manihash.load(...).save(...), which leaves them out"
    )


def _foreign_journal(path: str | os.PathLike[str]) -> str:
    """The message for an index file whose journal belongs to another file."""
    return (
        f"{journal_of(path)} holds changes of another index file than {path}: put that file back or, if its "
        "changes, which were acknowledged, are not needed any more, move the journal away"
    )
