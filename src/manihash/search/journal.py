"""Journals: the changes of an index since its file was written, each durable before it is acknowledged.

A journal is a file beside an index file, ``codes.mhx.journal``. Its first line names the format. Its second
line is the checksum of the index file to which the changes belong. Records follow: the length and the CRC-32
of the content, then the content. A record holds the changes that were written together, each with a kind, a
number of rows, their ids, their codes, and their fields (vectors, labels, images, texts) after the length of
these in bytes. Formats 1, 3 and 5 have ids of eight bytes; formats 2, 4 and 6 have strings: their lengths,
two bytes each, and their bytes in UTF-8. Formats 1 to 4, of earlier versions, have no fields, and formats 1
and 2 have one change per record.

Records are only appended, each after the one before it is on the disk. So the last record alone can be
incomplete: it was never acknowledged, and reading stops there. A record that cannot be read but has others
behind it was damaged later, which is an error.

When the changes are written into a new index file, the journal first gets a record with the checksum of that
file. A process that is killed before or after the file is put in place therefore leaves a readable pair.
"""

import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import n_bytes
from manihash.errors import DamagedIndexError
from manihash.files.atomic import is_stream, sync_folder
from manihash.files.locks import lock_at_once
from manihash.search.ids import are_strings, string_array
from manihash.types import Codes, Ids, Ints

ADD, UPDATE, REMOVE, COMPACTED = 1, 2, 3, 4
_FORMATS = [f"manihash-journal {i}\n".encode() for i in range(1, 7)]
_FORMAT, _FORMAT_OF_STRINGS = _FORMATS[4:]  # of new journals
_CHECKSUM = 64  # hexadecimal digits
_HEAD = len(_FORMAT) + _CHECKSUM + 1
_FRAME = struct.Struct("<II")  # length and CRC-32 of the content
_CONTENT = struct.Struct("<BI")  # kind and number of rows
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_SCANNED = 2**20  # places that are looked at together, in the search for a record behind a damaged one
_SIZE = struct.Struct("<I")  # bytes of the fields of a change, and of their JSON header
_FLOATS = ("<f4", "<f8")  # types of vectors
MOST_BYTES = 2**31  # of a record
VECTORS, LABELS, IMAGES, TEXTS = NAMES = ("vectors", "labels", "images", "texts")  # of rows, besides codes

# Returns the n ids at a position of a record, and the position behind them.
_ReadIds = Callable[[bytes, int, int], tuple[Ids, int]]


@dataclass(frozen=True, eq=False)
class RowFields:
    """Fields of n rows; None for a field that is not given, and None inside it for a row without a value.

    ``vectors`` are rows (n, d) of float32 or float64, ``labels`` strings and numbers, ``images`` PNG files.
    """

    vectors: NDArray[Any] | None = None
    labels: Sequence[str | float | None] | None = None
    images: Sequence[bytes | None] | None = None
    texts: Sequence[str | None] | None = None

    def check(self, n: int) -> None:
        """Raise ``ValueError`` unless each field has one value for each of n rows."""
        for name, values in self.given().items():
            if len(values) != n:
                raise ValueError(f"got {n} rows and {len(values)} {name}: give one for each row, or null")

    def given(self) -> dict[str, Any]:
        """The fields that are given, by name."""
        return {name: values for name in NAMES if (values := getattr(self, name)) is not None}

    def to_bytes(self) -> bytes:
        """The fields as bytes: a JSON header with its length, then the vectors and the images."""
        header: dict[str, Any] = {}
        parts = []
        if self.vectors is not None:
            dtype = _FLOATS[self.vectors.dtype == np.float64]
            header[VECTORS] = [dtype, self.vectors.shape[1]]
            parts.append(np.ascontiguousarray(self.vectors, dtype).tobytes())
        for name in (LABELS, TEXTS):
            if (values := getattr(self, name)) is not None:
                header[name] = list(values)
        if self.images is not None:
            header[IMAGES] = [None if image is None else len(image) for image in self.images]
            parts += [image for image in self.images if image is not None]
        text = json.dumps(header, allow_nan=False).encode()
        return b"".join([_SIZE.pack(len(text)), text, *parts])

    @classmethod
    def of_bytes(cls, content: bytes, n: int) -> "RowFields":
        """The fields of n rows that ``to_bytes`` has written; raise ``ValueError`` if they are not that."""
        if len(content) < _SIZE.size:
            raise ValueError("the fields of rows are incomplete")
        start = _SIZE.size + _SIZE.unpack_from(content)[0]
        header = json.loads(content[_SIZE.size : start])
        vectors = images = None
        if VECTORS in header:
            dtype, width = header[VECTORS]
            if dtype not in _FLOATS:
                raise ValueError("vectors have an unknown type")
            flat = (
                np.frombuffer(content, dtype, n * int(width), start) if n * int(width) else np.empty(0, dtype)
            )
            vectors, start = flat.reshape(n, int(width)), start + flat.nbytes
        if IMAGES in header:
            images = []
            for size in header[IMAGES]:
                images.append(None if size is None else content[start : start + size])
                start += size or 0
        if start != len(content):
            raise ValueError("the fields of rows have another length")
        found = cls(vectors, header.get(LABELS), images, header.get(TEXTS))
        found.check(n)
        return found


@dataclass(frozen=True, eq=False)
class Change:
    """Rows to add, update or remove; without ids, rows to add get the next free ones."""

    kind: int
    ids: Ids | None = None
    codes: Codes | None = None
    fields: RowFields | None = None  # what else belongs to the rows

    def __len__(self) -> int:
        return len(self.codes if self.ids is None else self.ids)  # type: ignore[arg-type]


def journal_of(index: str | os.PathLike[str]) -> Path:
    """The path of the journal of an index file."""
    path = Path(os.path.realpath(index))
    return path.with_name(f"{path.name}.journal")


@dataclass(frozen=True, eq=False)
class JournalContent:
    """What a journal file holds, up to the end of its last complete record."""

    base: str  # checksum of the index file that the changes belong to
    changes: list[Change]
    compacted: list[tuple[str, int]]  # checksums of new index files, and how many changes they contain
    size: int  # bytes up to the end of the last complete record
    is_current: bool  # whether new records have the format of the others

    def since(self, checksum: str) -> list[Change] | None:
        """The changes since an index file with this checksum was written; None if it is another file."""
        if checksum == self.base or not self.changes:
            return self.changes
        return next((self.changes[n:] for known, n in self.compacted if known == checksum), None)


def read_journal(path: Path, n_bits: int) -> JournalContent | None:
    """What a journal holds; None if there is none, or if its creation was interrupted.

    Raises
    ------
    DamagedIndexError
        If a record cannot be read although it was acknowledged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    first_line = content[: len(_FORMAT)]
    if first_line not in _FORMATS:
        if any(known.startswith(content) for known in _FORMATS):
            return None
        raise ValueError(f"{path} is not a journal of an index: move it away, or upgrade manihash")
    if len(content) < _HEAD:
        return None
    number = _FORMATS.index(first_line)
    records = Records(content, n_bytes(n_bits), has_strings=number % 2 == 1, has_fields=number >= 4)
    base = content[len(_FORMAT) : _HEAD - 1].decode("ascii", "replace")
    changes: list[Change] = []
    compacted: list[tuple[str, int]] = []
    start = _HEAD
    while (inside := records.at(start)) is not None:
        try:
            found = records.parsed(inside)
        except (ValueError, TypeError, KeyError, struct.error) as error:
            raise DamagedIndexError(
                f"{path} has a record at byte {start:,} that is not one of codes of {n_bits} bits: put back "
                "the index file that it belongs to, or upgrade manihash"
            ) from error
        if isinstance(found, str):
            compacted.append((found, len(changes)))
        else:
            changes += found
        start += _FRAME.size + len(inside)
    if (behind := records.first_after(start)) is not None:
        raise DamagedIndexError(
            f"{path} is damaged: the record at byte {start:,} cannot be read, but the one at byte {behind:,} "
            f"can, so that acknowledged changes would be lost. The file was not changed: restore it from a "
            f"copy. To open the index without its changes from there on, keep a copy and run: "
            f"truncate -s {start} {path}"
        )
    return JournalContent(base, changes, compacted, start, first_line in (_FORMAT, _FORMAT_OF_STRINGS))


class Records:
    """The records in the bytes of a journal with codes of ``width`` bytes; 0 for changes without codes."""

    def __init__(self, content: bytes, width: int, *, has_strings: bool, has_fields: bool = True) -> None:
        self._content, self._width, self._has_fields = content, width, has_fields
        self._read_ids: _ReadIds = _strings_at if has_strings else _integers_at
        self._least_bytes = 3 if has_strings else 8  # of an id

    def at(self, start: int) -> bytes | None:
        """The content of the record at a position; None if it is not complete."""
        first = start + _FRAME.size
        if first > len(self._content):
            return None
        length, checksum = _FRAME.unpack_from(self._content, start)
        inside = self._content[first : first + length]
        complete = len(inside) == length >= _CONTENT.size and zlib.crc32(inside) == checksum
        return inside if complete else None

    def first_after(self, start: int) -> int | None:
        """Position of the first complete record behind a position; None if there is none."""
        last = len(self._content) - _FRAME.size - _CONTENT.size
        for first in range(start + 1, last + 1, _SCANNED):
            for place in self._possible(first, min(first + _SCANNED, last + 1)):
                if self.at(place) is not None:
                    return place
        return None

    def _possible(self, start: int, stop: int) -> list[int]:
        """Positions from start to stop whose bytes can be the start of a record."""

        def numbers(offset: int, dtype: str) -> Ints:  # of all positions, which overlap
            values: NDArray[Any] = np.ndarray(
                stop - start, dtype, self._content, start + offset, strides=(1,)
            )
            return values.astype(np.int64)

        length, kind, rows = numbers(0, "<u4"), numbers(_FRAME.size, "u1"), numbers(_FRAME.size + 1, "<u4")
        fits = np.arange(start, stop) + _FRAME.size + length <= len(self._content)
        fits &= (kind >= ADD) & (kind <= COMPACTED)
        fits &= length >= _CONTENT.size + self._least_bytes * rows
        places: list[int] = (start + np.flatnonzero(fits)).tolist()
        return places

    def parsed(self, inside: bytes) -> list[Change] | str:
        """What the content of a record holds; raise unless it is exactly that."""
        if inside[:1] == bytes([COMPACTED]):
            if len(inside) != _CONTENT.size + _CHECKSUM:
                raise ValueError("not a checksum")
            return inside[_CONTENT.size :].decode("ascii")
        changes, start = [], 0
        while start < len(inside):
            kind, n = _CONTENT.unpack_from(inside, start)
            if kind not in (ADD, UPDATE, REMOVE):
                raise ValueError("not a change")
            ids, start = self._read_ids(inside, start + _CONTENT.size, n)
            codes = fields = None
            if kind != REMOVE and self._width:
                flat = np.frombuffer(inside, np.uint8, n * self._width, start)
                codes, start = flat.reshape(n, self._width), start + flat.size
            if self._has_fields:
                fields, start = _fields_at(inside, start, n)
            changes.append(Change(kind, ids, codes, fields))
        return changes


def _fields_at(inside: bytes, start: int, n: int) -> tuple[RowFields | None, int]:
    """The fields of n rows at a position of a record, if there are any, and the position behind them."""
    (size,) = _SIZE.unpack_from(inside, start)
    start += _SIZE.size
    if start + size > len(inside):
        raise ValueError("the fields are longer than the record")
    return RowFields.of_bytes(inside[start : start + size], n) if size else None, start + size


def _integers_at(inside: bytes, start: int, n: int) -> tuple[Ids, int]:
    """The n ids at a position of a record, and the position behind them."""
    return np.frombuffer(inside, "<i8", n, start).astype(np.int64), start + 8 * n


def _strings_at(inside: bytes, start: int, n: int) -> tuple[Ids, int]:
    """The n ids, which are strings, at a position of a record, and the position behind them."""
    lengths = np.frombuffer(inside, "<u2", n, start)
    ends = (start + 2 * n + np.cumsum(lengths, dtype=np.int64)).tolist()
    starts = [start + 2 * n, *ends]
    if starts[-1] > len(inside):
        raise ValueError("the ids are longer than the record")
    return string_array(inside[a:b].decode() for a, b in zip(starts, ends, strict=False)), starts[-1]


def merged(changes: list[Change]) -> Iterator[Change]:
    """The same changes in fewer steps: neighbors of one kind are one, which is much faster for many rows."""
    for kind, same in groupby(changes, lambda change: change.kind):
        some = list(same)
        ids = np.concatenate([change.ids for change in some])
        if kind == REMOVE:
            yield Change(kind, ids)
            continue
        codes = np.concatenate([change.codes for change in some])
        if kind == UPDATE:  # rows can be updated several times: the last code counts
            last = np.array(list({identity: i for i, identity in enumerate(ids.tolist())}.values()), np.intp)
            ids, codes = ids[last], codes[last]
        yield Change(kind, ids, codes)


def framed(content: bytes) -> bytes:
    """A record with this content."""
    return _FRAME.pack(len(content), zlib.crc32(content)) + content


def content_of(change: Change) -> bytes:
    """A change that has ids, as the content of a record."""
    ids: Ids = change.ids  # type: ignore[assignment]
    codes = b"" if change.codes is None else np.ascontiguousarray(change.codes, np.uint8).tobytes()
    if are_strings(ids):
        encoded = [value.encode() for value in ids.tolist()]
        values = np.array([len(value) for value in encoded], "<u2").tobytes() + b"".join(encoded)
    else:
        values = ids.astype("<i8").tobytes()
    fields = b"" if change.fields is None else change.fields.to_bytes()
    return _CONTENT.pack(change.kind, len(ids)) + values + codes + _SIZE.pack(len(fields)) + fields


def compacted(checksum: str) -> bytes:
    """The content of a record which says that the changes before it are in an index file."""
    return _CONTENT.pack(COMPACTED, 0) + checksum.encode()


def _open(path: Path) -> int:
    """A handle of a file that is created if it does not exist."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise type(error)(
            error.errno, f"cannot open {path}, the journal of an index to change: {reason}"
        ) from error


@contextmanager
def locked_journal(index: str | os.PathLike[str]) -> Iterator["Journal | None"]:
    """The journal of an index file that this process may replace; None for a pipe, which has none."""
    path = journal_of(index)
    journal = None
    try:
        if not is_stream(Path(index)):
            journal = Journal(path)
    except BlockingIOError:
        raise
    except OSError:  # no file can be created there, as who writes the index file will report
        if path.exists():
            raise
    try:
        yield journal
    finally:
        if journal is not None:
            journal.close()


class Journal:
    """A journal that this process writes; the file is locked until ``close``.

    Parameters
    ----------
    path : Path
        The file; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.failed = path, False
        while True:
            self._handle = _open(path)
            if not lock_at_once(self._handle):
                os.close(self._handle)
                raise BlockingIOError(
                    f"another process writes to the index of {path}: stop it, or try again when it has ended"
                )
            if self._has_its_name():
                break
            os.close(self._handle)  # the last writer has removed the file: create another one
        self.size = os.fstat(self._handle).st_size

    def _has_its_name(self) -> bool:
        """Whether the open file is the one at the path."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except FileNotFoundError:
            return False

    def start(self, base: str, id_type: type = int) -> None:
        """Empty the journal, for the changes of the index file with this checksum and ids of this type."""
        os.ftruncate(self._handle, 0)
        self.size = 0
        try:
            self._write((_FORMAT_OF_STRINGS if id_type is str else _FORMAT) + base.encode() + b"\n")
            sync_folder(self.path.parent)
        except OSError:
            self.failed = True
            raise

    def resume(self, size: int) -> None:
        """Append after this many bytes; what follows them is not complete, and is cut off."""
        os.ftruncate(self._handle, size)
        self.size = size

    def append(self, changes: list[Change]) -> None:
        """Append changes; they are durable when this returns. After an error, none of them is there."""
        content = b"".join(map(content_of, changes))
        if len(content) > MOST_BYTES:
            raise ValueError(
                f"the changes have {len(content):,} bytes, more than a journal stores at once "
                f"({MOST_BYTES:,}): change fewer rows at once"
            )
        self._write(framed(content))

    def append_compacted(self, checksum: str) -> None:
        """Append that the changes so far are in the index file with this checksum."""
        self._write(framed(compacted(checksum)))

    def close(self) -> None:
        """Close the file, which ends the lock; remove it if there are no changes in it.

        A second call does nothing.
        """
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        if self.empty and not self.failed:
            with suppress(OSError):
                os.unlink(self.path)
        os.close(handle)

    @property
    def empty(self) -> bool:
        """Whether there is no record."""
        return self.size <= _HEAD

    def _write(self, content: bytes) -> None:
        if self.failed:
            raise OSError(f"{self.path} could not be written before: restart the server")
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(self._handle, memoryview(content)[written:], self.size + written)
            os.fsync(self._handle)
        except OSError as error:
            # After a failed fsync nobody knows what the disk holds. A full disk is known before it.
            self.failed = error.errno not in _FULL
            os.ftruncate(self._handle, self.size)
            raise
        self.size += len(content)
