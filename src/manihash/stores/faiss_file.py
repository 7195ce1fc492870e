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

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
from manihash.stores.driver import Matches, RowFormat, creating, file_version
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


class FaissFile:
    """An index file: searched in memory, rewritten on each change."""

    rewrites_on_add = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._indexes: dict[str, HammingIndex] = {}
        self._version = file_version(path)
        self._set_content(_read(path))
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
        """Lock the file, and read it again if another process has changed it."""
        self._refresh()
        with locked(self._path):
            self._refresh()
            yield

    def add(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file with these rows appended."""
        old = self._content
        self._replace(np.concatenate([old.codes, codes]), np.concatenate([old.ids, ids]))

    def delete(self, ids: Ids) -> None:
        """Rewrite the file without these rows."""
        kept = ~is_in(self._content.ids, ids)
        self._replace(self._content.codes[kept], self._content.ids[kept])

    def put(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file once, with these codes instead of those that it has under these ids."""
        kept = ~is_in(self._content.ids, ids)
        old = self._content.codes[kept], self._content.ids[kept]
        self._replace(np.concatenate([old[0], codes]), np.concatenate([old[1], ids]))

    def search(self, queries: Codes, k: int, values: NDArray[Any] | None = None) -> list[Matches]:
        """Return the k nearest of each query, by its real values if given, found by a HammingIndex."""
        self._refresh()
        distances, ids = self._index("ranked").search(queries, k, asymmetric=values)
        kind = np.int64 if self.layout is None else np.float32
        return list(zip(distances.astype(kind), ids, strict=True))

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, found by a HammingIndex."""
        if self.layout is not None and radius:
            raise StoreError(
                f"the codes in {self._path} have fields of a product quantizer, and their Hamming distance "
                "means nothing: use search, or within with part='first' if they have a first part of signs"
            )
        return self._within("bits", queries, radius)

    def within_first(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all rows whose first part is within the radius of each query's."""
        return self._within("first", queries, radius)

    def _within(self, part: str, queries: Codes, radius: int) -> list[Matches]:
        if not self.count():  # it reads the file again if necessary
            return [(np.empty(0, np.int64), self._content.ids)] * len(queries)
        lims, distances, ids = self._index(part).within(queries, radius)
        parts = zip(np.split(distances, lims[1:-1]), np.split(ids, lims[1:-1]), strict=True)
        return [(distance.astype(np.int64), number) for distance, number in parts][: len(queries)]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        self._refresh()
        place = np.searchsorted(self._content.ids, ids, sorter=self._order)
        inside = place < len(self._order)
        position = self._order[place[inside]]
        found = self._content.ids[position] == ids[inside]
        return ids[inside][found], np.asarray(self._content.codes[position[found]])

    def count(self) -> int:
        """Return the number of rows in the file."""
        self._refresh()
        return len(self._content.ids)

    def close(self) -> None:
        """Release the index; the file is always complete."""
        self._indexes = {}

    def _index(self, part: str) -> HammingIndex:
        """Return the index that ranks all codes, one of their bits alike, or one of their first parts."""
        if part not in self._indexes:
            codes, ids, layout = self._content.codes, self._content.ids, self.layout
            if layout is not None and part == "first":
                self._indexes[part] = HammingIndex(layout.first(codes), layout.look_up_bits, ids)
            else:
                ranked_by = layout if part == "ranked" else None
                self._indexes[part] = HammingIndex(codes, self.n_bits, ids, layout=ranked_by)
        return self._indexes[part]

    def _replace(self, codes: Codes, ids: Ids) -> None:
        content = _Content(self.n_bits, codes, ids, self.layout)
        _write(self._path, content)
        self._version = file_version(self._path)
        self._set_content(content)

    def _refresh(self) -> None:
        """Read the file again if another handle has replaced it."""
        version = file_version(self._path)
        if version == self._version:
            return
        content = _read(self._path)
        if (content.n_bits, content.id_type, content.layout) != (self.n_bits, self.id_type, self.layout):
            raise StoreError(
                f"{self._path} was replaced: it has codes of {content.n_bits} bits instead of {self.n_bits}, "
                f"or other parts of codes, or ids of another type. Open it again"
            )
        self._version = version
        self._set_content(content)

    def _set_content(self, content: _Content) -> None:
        self._content = content
        self._order = np.argsort(content.ids)
        self._indexes = {}


def _write(path: Path, content: _Content) -> None:
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


def _write_flat(file: BinaryIO, codes: Codes) -> None:
    """Write an ``IndexBinaryIDMap`` and its ``IndexBinaryFlat``; the ids follow."""
    n, width = codes.shape
    for kind in (_ID_MAPS[0], _FLAT):
        file.write(_HEADER.pack(kind, 8 * width, width, n, True, _METRIC))
    file.write(_LENGTH.pack(n * width))
    for i in range(0, n, _ROWS_PER_WRITE):
        file.write(codes[i : i + _ROWS_PER_WRITE].tobytes())


def _read(path: Path) -> _Content:
    """Return the content of an index file, its codes as a memory map."""
    with open(path, "rb") as file:
        start_of_file = file.read(4)
        file.seek(0)
        return _read_quantizer(path, file) if start_of_file in ID_MAPS else _read_flat(path, file)


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
    return _Content(n_bits, _mapped(path, start, n, width), ids if strings is None else strings)


def _read_quantizer(path: Path, file: BinaryIO) -> _Content:
    """Return the content of a file of an ``IndexPQ`` with ids, written by manihash."""
    size = path.stat().st_size
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
    codes = layout.joined(_mapped(path, start, n, width))
    return _Content(n_bits, codes, ids if strings is None else strings, layout)


def _mapped(path: Path, start: int, n: int, width: int) -> Codes:
    """Return codes (n, width) of a file as a memory map."""
    return np.memmap(path, np.uint8, "r", start, (n, width)) if n else np.empty((0, width), np.uint8)


def _read_ids(path: Path, file: BinaryIO, n: int) -> Ids:
    """Return the ids that start here."""
    try:
        return check_ids(np.fromfile(path, "<i8", n, offset=_skip(path, file, n, item=8)))
    except StoreError:
        raise
    except ValueError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


def _read_strings(path: Path, file: BinaryIO, n: int) -> Ids | None:
    """Return the string ids of the rows after the trailer; None if ids are integers."""
    head = file.read(_STRINGS.size)
    if len(head) < _STRINGS.size or not head.startswith(_STRINGS_NAME):
        return None
    size, start = _STRINGS.unpack(head)[1], file.tell()
    try:
        if start + 8 * (n + 1) + size != path.stat().st_size:
            raise ValueError(f"{size:,} bytes of ids expected")
        offsets = np.fromfile(path, "<i8", n + 1, offset=start)
        strings = StringIds(np.fromfile(path, np.uint8, size, offset=start + offsets.nbytes), offsets)
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
    size = path.stat().st_size
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
