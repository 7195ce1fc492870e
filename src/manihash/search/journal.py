"""Journals: the changes of an index since its file was written, each durable before it is acknowledged.

A journal is a file beside an index file, ``codes.mhx.journal``. Its first line names the format. Its second
line is the checksum of the index file to which the changes belong. Records follow: the length and the CRC-32
of the content, then the content: a kind, a number of rows, their ids and their codes. Format 1 has ids of
eight bytes; format 2 has strings: their lengths, two bytes each, and their bytes in UTF-8. Records are only
appended. A record that is not complete was never acknowledged, so reading stops there.

When the changes are written into a new index file, the journal first gets a record with the checksum of that
file. A process that is killed before or after the file is put in place therefore leaves a readable pair.
"""

import errno
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manihash.codes import n_bytes
from manihash.files.atomic import sync_folder
from manihash.files.locks import lock_at_once
from manihash.search.string_ids import are_strings, string_array
from manihash.types import Codes, Ids

ADD, UPDATE, REMOVE, COMPACTED = 1, 2, 3, 4
_FORMAT, _FORMAT_OF_STRINGS = b"manihash-journal 1\n", b"manihash-journal 2\n"
_CHECKSUM = 64  # hexadecimal digits
_HEAD = len(_FORMAT) + _CHECKSUM + 1
_FRAME = struct.Struct("<II")  # length and CRC-32 of the content
_CONTENT = struct.Struct("<BI")  # kind and number of rows
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, eq=False)
class Change:
    """Rows to add, update or remove; without ids, rows to add get the next free ones."""

    kind: int
    ids: Ids | None = None
    codes: Codes | None = None

    def __len__(self) -> int:
        return len(self.codes if self.ids is None else self.ids)  # type: ignore[arg-type]


def journal_of(index: str | os.PathLike[str]) -> Path:
    """The path of the journal of an index file."""
    path = Path(os.path.realpath(index))
    return path.with_name(f"{path.name}.journal")


@dataclass(frozen=True, eq=False)
class JournalContent:
    """What a journal file holds, up to the first record that is not complete."""

    base: str  # checksum of the index file that the changes belong to
    changes: list[Change]
    compacted: list[tuple[str, int]]  # checksums of new index files, and how many changes they contain
    size: int  # bytes up to the end of the last complete record

    def since(self, checksum: str) -> list[Change] | None:
        """The changes since an index file with this checksum was written; None if it is another file."""
        if checksum == self.base or not self.changes:
            return self.changes
        return next((self.changes[n:] for known, n in self.compacted if known == checksum), None)


def read_journal(path: Path, n_bits: int) -> JournalContent | None:
    """What a journal holds; None if there is none, or if its creation was interrupted."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content.startswith((_FORMAT, _FORMAT_OF_STRINGS)):
        if _FORMAT.startswith(content):
            return None
        raise ValueError(f"{path} is not a journal of an index: move it away, or upgrade manihash")
    if len(content) < _HEAD:
        return None
    base = content[len(_FORMAT) : _HEAD - 1].decode("ascii", "replace")
    read_ids = _strings_of if content.startswith(_FORMAT_OF_STRINGS) else _integers_of
    changes: list[Change] = []
    compacted: list[tuple[str, int]] = []
    start = _HEAD
    while (record := _record_at(content, start)) is not None:
        kind, n = _CONTENT.unpack_from(record)
        values = record[_CONTENT.size :]
        if kind == COMPACTED:
            compacted.append((values.decode("ascii"), len(changes)))
        else:
            ids, rest = read_ids(values, n)
            changes.append(_change(kind, ids, rest, n_bytes(n_bits)))
        start += _FRAME.size + len(record)
    return JournalContent(base, changes, compacted, start)


def _record_at(content: bytes, start: int) -> bytes | None:
    """The content of the record at a position; None if it is not complete."""
    if start + _FRAME.size > len(content):
        return None
    length, checksum = _FRAME.unpack_from(content, start)
    record = content[start + _FRAME.size : start + _FRAME.size + length]
    complete = len(record) == length >= _CONTENT.size and zlib.crc32(record) == checksum
    return record if complete else None


def _integers_of(values: bytes, n: int) -> tuple[Ids, bytes]:
    """The n ids at the start of the content of a record, and the rest of it."""
    return np.frombuffer(values, "<i8", n).astype(np.int64), values[8 * n :]


def _strings_of(values: bytes, n: int) -> tuple[Ids, bytes]:
    """The n ids, which are strings, at the start of the content of a record, and the rest of it."""
    ends = 2 * n + np.cumsum(np.frombuffer(values, "<u2", n), dtype=np.int64)
    starts = [2 * n, *ends[:-1].tolist()]
    ids = string_array(values[a:b].decode() for a, b in zip(starts, ends.tolist(), strict=False))
    return ids, values[ends[-1] if n else 0 :]


def _change(kind: int, ids: Ids, values: bytes, width: int) -> Change:
    n = len(ids)
    codes = None if kind == REMOVE else np.frombuffer(values, np.uint8, n * width).reshape(n, width)
    return Change(kind, ids, codes)


def _framed(kind: int, n: int, values: bytes) -> bytes:
    record = _CONTENT.pack(kind, n) + values
    return _FRAME.pack(len(record), zlib.crc32(record)) + record


def _record_of(change: Change) -> bytes:
    ids: Ids = change.ids  # type: ignore[assignment]
    codes = b"" if change.codes is None else np.ascontiguousarray(change.codes, np.uint8).tobytes()
    if are_strings(ids):
        encoded = [value.encode() for value in ids.tolist()]
        values = np.array([len(value) for value in encoded], "<u2").tobytes() + b"".join(encoded)
    else:
        values = ids.astype("<i8").tobytes()
    return _framed(change.kind, len(ids), values + codes)


class Journal:
    """A journal that this process writes; the file is locked until ``close``.

    Parameters
    ----------
    path : Path
        The file; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.failed = path, False
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        if not lock_at_once(self._handle):
            os.close(self._handle)
            raise BlockingIOError(f"another process writes to the index of {path}: stop it first")
        sync_folder(path.parent)
        self.size = os.fstat(self._handle).st_size

    def start(self, base: str, id_type: type = int) -> None:
        """Empty the journal, for the changes of the index file with this checksum and ids of this type."""
        os.ftruncate(self._handle, 0)
        self.size = 0
        try:
            self._write((_FORMAT_OF_STRINGS if id_type is str else _FORMAT) + base.encode() + b"\n")
        except OSError:
            self.failed = True
            raise

    def resume(self, size: int) -> None:
        """Append after this many bytes; what follows them is not complete, and is cut off."""
        os.ftruncate(self._handle, size)
        self.size = size

    def append(self, changes: list[Change]) -> None:
        """Append changes; they are durable when this returns. After an error, none of them is there."""
        self._write(b"".join(map(_record_of, changes)))

    def append_compacted(self, checksum: str) -> None:
        """Append that the changes so far are in the index file with this checksum."""
        self._write(_framed(COMPACTED, 0, checksum.encode()))

    def close(self) -> None:
        """Close the file, which ends the lock."""
        os.close(self._handle)

    @property
    def empty(self) -> bool:
        """Whether no record was written since ``start``."""
        return self.size <= _HEAD

    def _write(self, content: bytes) -> None:
        if self.failed:
            raise OSError(f"{self.path} could not be written before: restart the server")
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(self._handle, content[written:], self.size + written)
            os.fsync(self._handle)
        except OSError as error:
            # After a failed fsync nobody knows what the disk holds. A full disk is known before it.
            self.failed = error.errno not in _FULL
            os.ftruncate(self._handle, self.size)
            raise
        self.size += len(content)
