"""FAISS: files of its indexes, read and written without the library.

Loading a file with FAISS itself is safe only if the file is trusted. Here a file is a header, an array of
codes and an array of ids, and their sizes are compared with the file size before they are used: a damaged or
hostile file causes an error, or at worst a wrong result.

Supported for reading: ``IndexBinaryFlat``, and ``IndexBinaryIDMap`` or ``IndexBinaryIDMap2`` over it. Files
are written as ``IndexBinaryIDMap``, followed by n_bits, which FAISS ignores: FAISS only supports whole bytes.
FAISS has no strings as ids: the ids are row numbers then, and the strings follow n_bits.

Codes with fields of a product quantizer are written as ``IndexIDMap`` over ``IndexPQ``, which FAISS ranks as
we do, with n_bits and the layout of the codes behind them. Such files are read if manihash wrote them.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes
from manihash.errors import StoreError, StoreNotFoundError
from manihash.files.atomic import atomic_write
from manihash.files.locks import locked
from manihash.search import HammingIndex
from manihash.search.ids import StringIds, are_strings, check_ids, is_in
from manihash.stores.driver import Matches, RowFormat, creating, file_version, version_of
from manihash.stores.faiss_quantizer import (
    ID_MAPS,
    read_header,
    read_layout,
    read_quantizer,
    write_layout,
    write_quantizer,
)
from manihash.types import Codes, Ids

_FLAT, _ID_MAPS = b"IBxF", (b"IBMp", b"IBM2")
_HEADER = struct.Struct("<4siiq?i")  # kind, bits, bytes per code, rows, trained, metric
_LENGTH = struct.Struct("<Q")
_TRAILER = struct.Struct("<8sq")  # "manihash", n_bits
_TRAILER_NAME = b"manihash"
_STRINGS = struct.Struct("<8sQ")  # "strings", bytes of all strings; offsets (n + 1) and strings follow
_STRINGS_NAME = b"strings\0"
_METRIC = 1  # FAISS writes this for every binary index
_ROWS_PER_WRITE = 2**16


@dataclass(frozen=True)
class _Content:
    n_bits: int
    codes: Codes
    ids: Ids
    layout: CodeLayout | None = None  # if codes have fields

    @property
    def id_type(self) -> type:
        return str if are_strings(self.ids) else int

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The rows by ascending id."""
        return np.argsort(self.ids)

    @cached_property
    def bits(self) -> HammingIndex:
        """The index that ranks all bits of the codes alike."""
        return HammingIndex(self.codes, self.n_bits, self.ids)

    @cached_property
    def ranked(self) -> HammingIndex:
        """The index that ranks by the layout of the codes."""
        if self.layout is None:
            return self.bits
        return HammingIndex(self.codes, self.n_bits, self.ids, layout=self.layout)

    @cached_property
    def first(self) -> HammingIndex:
        """The index of the first parts of the codes."""
        if self.layout is None:
            return self.bits
        return HammingIndex(self.layout.first(self.codes), self.layout.look_up_bits, self.ids)

    def within(self, queries: Codes, radius: int, *, first: bool = False) -> list[Matches]:
        """The rows of which all bits, or the first part, are within the radius of each query's."""
        if not len(self.ids):
            return [(np.empty(0, np.int64), self.ids)] * len(queries)
        lims, distances, ids = (self.first if first else self.bits).within(queries, radius)
        parts = zip(np.split(distances, lims[1:-1]), np.split(ids, lims[1:-1]), strict=True)
        return [(distance.astype(np.int64), number) for distance, number in parts][: len(queries)]


class FaissFile:
    """An index file: searched in memory, rewritten on each change.

    Threads can share it: each call reads one version of the file, and a change keeps the others out.
    """

    rewrites_on_add = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._in_use = RLock()  # of the two attributes below, and of a thread that changes rows
        self._content, self._version = _read(path)
        self.n_bits, self.id_type = self._content.n_bits, self._content.id_type
        self.layout = self._content.layout
        self.look_up_bits = self.layout.look_up_bits if self.layout and self.layout.has_two_parts else None

    @classmethod
    def open(cls, path: Path) -> "FaissFile":
        """Open an index file written by FAISS or manihash."""
        if not path.is_file():
            raise StoreNotFoundError(f"no FAISS index file at {path}: create it, or give the path of one")
        return cls(path)

    @classmethod
    def create(cls, path: Path, form: RowFormat) -> "FaissFile":
        """Create a file with an empty index."""
        ids = np.empty(0, object if form.id_type is str else np.int64)
        codes = np.empty((0, n_bytes(form.n_bits)), np.uint8)
        content = _Content(form.n_bits, codes, ids, form.layout)
        with creating(path):
            _write(path, content)
        return cls.open(path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file; other threads that share this object wait."""
        self._current()
        with locked(self._path), self._in_use:
            yield

    def add(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file with these rows appended."""
        old = self._current()
        self._replace(np.concatenate([old.codes, codes]), np.concatenate([old.ids, ids]))

    def delete(self, ids: Ids) -> None:
        """Rewrite the file without these rows."""
        old = self._current()
        kept = ~is_in(old.ids, ids)
        self._replace(old.codes[kept], old.ids[kept])

    def put(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file once, with these codes instead of those that it has under these ids."""
        old = self._current()
        kept = ~is_in(old.ids, ids)
        self._replace(np.concatenate([old.codes[kept], codes]), np.concatenate([old.ids[kept], ids]))

    def search(self, queries: Codes, k: int, values: NDArray[Any] | None = None) -> list[Matches]:
        """Return the k nearest of each query, by its real values if given, found by a HammingIndex."""
        distances, ids = self._current().ranked.search(queries, k, asymmetric=values)
        kind = np.int64 if self.layout is None else np.float32
        return list(zip(distances.astype(kind), ids, strict=True))

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, found by a HammingIndex."""
        if self.layout is not None and radius:
            raise StoreError(
                f"the codes in {self._path} have fields of a product quantizer, and their Hamming distance "
                "means nothing: use search, or within with part='first' if they have a first part of signs"
            )
        return self._current().within(queries, radius)

    def within_first(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all rows whose first part is within the radius of each query's."""
        return self._current().within(queries, radius, first=True)

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        content = self._current()
        place = np.searchsorted(content.ids, ids, sorter=content.order)
        inside = place < len(content.order)
        position = content.order[place[inside]]
        found = content.ids[position] == ids[inside]
        return ids[inside][found], np.asarray(content.codes[position[found]])

    def count(self) -> int:
        """Return the number of rows in the file."""
        return len(self._current().ids)

    def close(self) -> None:
        """Do nothing: no file stays open, and the file is always complete."""

    def _replace(self, codes: Codes, ids: Ids) -> None:
        """Write these rows; the thread that changes rows calls it."""
        content = _Content(self.n_bits, codes, ids, self.layout)
        self._version = _write(self._path, content)
        self._content = content

    def _current(self) -> _Content:
        """The rows of the file, which is read again if another handle has replaced it."""
        with self._in_use:
            if file_version(self._path) != self._version:
                content, version = _read(self._path)
                found = content.n_bits, content.id_type, content.layout
                if found != (self.n_bits, self.id_type, self.layout):
                    raise StoreError(
                        f"{self._path} was replaced: it has codes of {content.n_bits} bits instead of "
                        f"{self.n_bits}, or other parts of codes, or ids of another type. Open it again"
                    )
                self._content, self._version = content, version
            return self._content


def _write(path: Path, content: _Content) -> tuple[int, ...]:
    """Write an index file; return its version, which the path may not have any more when this returns."""
    n = len(content.codes)
    with atomic_write(path) as part, open(part, "wb") as file:
        if content.layout is None:
            _write_flat(file, content.codes)
        else:
            write_quantizer(file, content.layout, content.codes)
        file.write(_LENGTH.pack(n))
        strings = StringIds.of(content.ids) if are_strings(content.ids) else None
        file.write((content.ids if strings is None else np.arange(n)).astype("<i8").tobytes())
        file.write(_TRAILER.pack(_TRAILER_NAME, content.n_bits))
        if content.layout is not None:
            write_layout(file, content.layout)
        if strings is not None:
            file.write(_STRINGS.pack(_STRINGS_NAME, len(strings.text)))
            file.write(strings.offsets.astype("<i8").tobytes() + strings.text.tobytes())
        file.flush()
        return version_of(os.fstat(file.fileno()))


def _write_flat(file: BinaryIO, codes: Codes) -> None:
    """Write an ``IndexBinaryIDMap`` and its ``IndexBinaryFlat``; the ids follow."""
    n, width = codes.shape
    for kind in (_ID_MAPS[0], _FLAT):
        file.write(_HEADER.pack(kind, 8 * width, width, n, True, _METRIC))
    file.write(_LENGTH.pack(n * width))
    for i in range(0, n, _ROWS_PER_WRITE):
        file.write(codes[i : i + _ROWS_PER_WRITE].tobytes())


def _read(path: Path) -> tuple[_Content, tuple[int, ...]]:
    """Return the content of an index file, its codes as a memory map, and the version that was read.

    All is read from one open file: another process may give its name to another one at any moment.
    """
    with open(path, "rb") as file:
        start_of_file = file.read(4)
        file.seek(0)
        content = _read_quantizer(path, file) if start_of_file in ID_MAPS else _read_flat(path, file)
        return content, version_of(os.fstat(file.fileno()))


def _size(file: BinaryIO) -> int:
    """Return the size of an open file."""
    return os.fstat(file.fileno()).st_size


def _read_flat(path: Path, file: BinaryIO) -> _Content:
    """Return the content of a file of an ``IndexBinaryFlat``, with or without ids."""
    kind, width, n = _read_header(path, file)
    mapped = kind in _ID_MAPS
    if mapped and _read_header(path, file) != (_FLAT, width, n):
        raise StoreError(f"{path} maps ids to an index that is not flat: {_CONVERT}")
    start = _skip(path, file, n * width)
    ids = _read_ids(path, file, n) if mapped else np.arange(n, dtype=np.int64)
    n_bits = _true_bits(path, file.read(_TRAILER.size), width)
    strings = _read_strings(path, file, n)
    return _Content(n_bits, _mapped(file, start, n, width), ids if strings is None else strings)


def _read_quantizer(path: Path, file: BinaryIO) -> _Content:
    """Return the content of a file of an ``IndexPQ`` with ids, written by manihash."""
    size = _size(file)
    try:
        read_header(file)
        n, width, start = read_quantizer(file, size)
    except ValueError as error:
        raise StoreError(
            f"{path} is damaged, or was not written by manihash ({error}): copy it again, or read it with "
            "FAISS itself"
        ) from error
    ids = _read_ids(path, file, n)
    trailer = file.read(_TRAILER.size)
    if len(trailer) < _TRAILER.size or not trailer.startswith(_TRAILER_NAME):
        raise StoreError(
            f"{path} holds an IndexPQ that was not written by manihash, so that the parts of its codes are "
            "not known: read it with FAISS itself, or export the index file again"
        )
    n_bits = int(_TRAILER.unpack(trailer)[1])
    try:
        layout = read_layout(file, size, n_bits)
        if layout.split(np.zeros((1, n_bytes(n_bits)), np.uint8)).shape[1] != width:
            raise ValueError(f"codes of {n_bits} bits in {width} bytes")
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}): copy it again") from error
    strings = _read_strings(path, file, n)
    codes = layout.joined(_mapped(file, start, n, width))
    return _Content(n_bits, codes, ids if strings is None else strings, layout)


def _mapped(file: BinaryIO, start: int, n: int, width: int) -> Codes:
    """Return codes (n, width) of a file as a memory map."""
    return np.memmap(file, np.uint8, "r", start, (n, width)) if n else np.empty((0, width), np.uint8)


def _read_ids(path: Path, file: BinaryIO, n: int) -> Ids:
    """Return the ids that start here."""
    try:
        file.seek(_skip(path, file, n, item=8))
        return check_ids(np.fromfile(file, "<i8", n))
    except StoreError:
        raise
    except ValueError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


def _read_strings(path: Path, file: BinaryIO, n: int) -> Ids | None:
    """Return the string ids of the rows after the trailer; None if ids are integers."""
    head = file.read(_STRINGS.size)
    if len(head) < _STRINGS.size or not head.startswith(_STRINGS_NAME):
        return None
    size = _STRINGS.unpack(head)[1]
    try:
        if file.tell() + 8 * (n + 1) + size != _size(file):
            raise ValueError(f"{size:,} bytes of ids expected")
        offsets = np.fromfile(file, "<i8", n + 1)
        strings = StringIds(np.fromfile(file, np.uint8, size), offsets)
        strings.check_offsets()
        return check_ids(strings.take(np.arange(n)), id_type=str)
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}): copy it again") from error


def _read_header(path: Path, file: BinaryIO) -> tuple[bytes, int, int]:
    """Return kind, bytes per code and number of rows of an index."""
    raw = file.read(_HEADER.size)
    if len(raw) < _HEADER.size or raw[:2] != b"IB":
        raise StoreError(
            f"{path} is not a binary index file of FAISS: give one, or another name to create a new file"
        )
    kind, bits, width, n, _, _ = _HEADER.unpack(raw)
    if kind not in (_FLAT, *_ID_MAPS):
        raise StoreError(f"{path} holds an index of kind {kind!r}, not a flat one: {_CONVERT}")
    if width < 1 or bits != 8 * width or n < 0:
        raise StoreError(
            f"{path} is damaged (codes of {bits} bits in {width} bytes, {n} rows): copy it again"
        )
    return kind, width, n


def _skip(path: Path, file: BinaryIO, length: int, item: int = 1) -> int:
    """Return the offset of an array of `length` items, and move the file position behind the array."""
    raw = file.read(_LENGTH.size)
    start = file.tell()
    stated = _LENGTH.unpack(raw)[0] if len(raw) == _LENGTH.size else None
    size = _size(file)
    if stated != length or start + length * item > size:
        raise StoreError(
            f"{path} is damaged ({length:,} items expected in a file of {size:,} bytes): copy it again"
        )
    file.seek(start + length * item)
    return start


def _true_bits(path: Path, trailer: bytes, width: int) -> int:
    """Return n_bits from the trailer of manihash; in a file of FAISS, all bits of the bytes."""
    if len(trailer) < _TRAILER.size or not trailer.startswith(_TRAILER_NAME):
        return 8 * width
    n_bits = int(_TRAILER.unpack(trailer)[1])
    if n_bits < 1 or n_bytes(n_bits) != width:
        raise StoreError(
            f"{path} is damaged ({n_bits} bits recorded for codes of {width} bytes): copy it again"
        )
    return n_bits


_CONVERT = "read it with FAISS itself, if you trust the file, and write its codes as an IndexBinaryFlat"
