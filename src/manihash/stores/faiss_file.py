"""FAISS: index files of its binary indexes, read and written here without the library.

To load a file with FAISS itself is safe only if one trusts where it comes from. Here a file is a header, an
array of codes and an array of ids, whose sizes are compared with the file's before a byte of them is used: a
damaged or hostile one gives an error, or at worst a wrong answer.

Read: ``IndexBinaryFlat``, and ``IndexBinaryIDMap`` or ``IndexBinaryIDMap2`` over it. Written:
``IndexBinaryIDMap``, and behind it, where FAISS does not look, the true n_bits: FAISS knows whole bytes only.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from manihash.codes import n_bytes
from manihash.files.model import whole_file
from manihash.search import HammingIndex
from manihash.search.ids import check_ids
from manihash.stores._store import Answers, Ints, NoStore, StoreError
from manihash.types import Codes

_FLAT, _MAPPED = b"IBxF", (b"IBMp", b"IBM2")
_HEADER = struct.Struct("<4siiq?i")  # name, bits, bytes of a code, rows, trained, metric
_LENGTH = struct.Struct("<Q")
_TRAILER = struct.Struct("<8sq")  # our name, n_bits
_NAME = b"manihash"
_METRIC = 1  # FAISS writes this for every binary index
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class _Content:
    n_bits: int
    codes: Codes
    ids: Ints


class FaissFile:
    """Codes in an index file; searched in memory, written whole at each change."""

    writes_whole = True

    def __init__(self, path: Path, content: _Content) -> None:
        self._path = path
        self.n_bits = content.n_bits
        self._index: HammingIndex | None = None
        self._take(content)

    @classmethod
    def open(cls, path: Path) -> "FaissFile":
        """The index in a file that FAISS or manihash wrote."""
        if not path.is_file():
            raise NoStore(f"no FAISS index file at {path}: create it, or give the path of one")
        return cls(path, _read(path))

    @classmethod
    def create(cls, path: Path, n_bits: int) -> "FaissFile":
        """An index of no codes, in a new file."""
        if path.exists():
            raise StoreError(f"{path} is there already: open it, or give another name")
        content = _Content(n_bits, np.empty((0, n_bytes(n_bits)), np.uint8), np.empty(0, np.int64))
        _write(path, content)
        return cls(path, content)

    def add(self, codes: Codes, ids: Ints) -> None:
        """The file with these rows behind its own."""
        held = self._content
        self._replace(np.concatenate([held.codes, codes]), np.concatenate([held.ids, ids]))

    def delete(self, ids: Ints) -> None:
        """The file without these rows."""
        kept = ~np.isin(self._content.ids, ids)
        self._replace(self._content.codes[kept], self._content.ids[kept])

    def search(self, queries: Codes, k: int) -> list[Answers]:
        """The k nearest, by our own index."""
        distances, ids = self._searched().search(queries, k)
        return list(zip(distances.astype(np.int64), ids, strict=True))

    def within(self, queries: Codes, radius: int) -> list[Answers]:
        """All within the radius, by our own index."""
        if not self.count():
            return [(np.empty(0, np.int64), np.empty(0, np.int64))] * len(queries)
        lims, distances, ids = self._searched().within(queries, radius)
        parts = zip(np.split(distances, lims[1:-1]), np.split(ids, lims[1:-1]), strict=True)
        return [(distance.astype(np.int64), number) for distance, number in parts][: len(queries)]

    def fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        """Rows by id."""
        place = np.searchsorted(self._content.ids, ids, sorter=self._order)
        inside = place < len(self._order)
        position = self._order[place[inside]]
        found = self._content.ids[position] == ids[inside]
        return ids[inside][found], np.asarray(self._content.codes[position[found]])

    def count(self) -> int:
        """Rows in the file."""
        return len(self._content.ids)

    def close(self) -> None:
        """Let go of the codes; the file is whole at all times."""
        self._index = None

    def _searched(self) -> HammingIndex:
        if self._index is None:
            self._index = HammingIndex(self._content.codes, self.n_bits, self._content.ids)
        return self._index

    def _replace(self, codes: Codes, ids: Ints) -> None:
        content = _Content(self.n_bits, codes, ids)
        _write(self._path, content)
        self._take(content)

    def _take(self, content: _Content) -> None:
        self._content = content
        self._order = np.argsort(content.ids)
        self._index = None


def _write(path: Path, content: _Content) -> None:
    n, width = content.codes.shape
    with whole_file(path) as part, open(part, "wb") as file:
        for name in (_MAPPED[0], _FLAT):
            file.write(_HEADER.pack(name, 8 * width, width, n, True, _METRIC))
        file.write(_LENGTH.pack(n * width))
        for i in range(0, n, _ROWS_AT_ONCE):
            file.write(content.codes[i : i + _ROWS_AT_ONCE].tobytes())
        file.write(_LENGTH.pack(n))
        file.write(content.ids.astype("<i8").tobytes())
        file.write(_TRAILER.pack(_NAME, content.n_bits))


def _read(path: Path) -> _Content:
    """The content of an index file; the codes stay a memory map."""
    with open(path, "rb") as file:
        name, width, n = _read_header(path, file)
        mapped = name in _MAPPED
        if mapped and _read_header(path, file) != (_FLAT, width, n):
            raise StoreError(f"{path} maps ids to something else than one flat index: {_CONVERT}")
        start = _skip(path, file, n * width)
        ids = np.arange(n, dtype=np.int64)
        if mapped:
            ids_at = _skip(path, file, n, item=8)
            ids = check_ids(np.fromfile(path, "<i8", n, offset=ids_at))
        n_bits = _true_bits(path, file.read(_TRAILER.size), width)
    codes = np.memmap(path, np.uint8, "r", start, (n, width)) if n else np.empty((0, width), np.uint8)
    return _Content(n_bits, codes, ids)


def _read_header(path: Path, file: BinaryIO) -> tuple[bytes, int, int]:
    """Name, bytes of a code and rows of an index."""
    raw = file.read(_HEADER.size)
    if len(raw) < _HEADER.size or raw[:2] != b"IB":
        raise StoreError(
            f"{path} is not a binary index file of FAISS: give one, or another name to create it"
        )
    name, bits, width, n, _, _ = _HEADER.unpack(raw)
    if name not in (_FLAT, *_MAPPED):
        raise StoreError(f"{path} holds an index of kind {name!r}, not a flat one: {_CONVERT}")
    if width < 1 or bits != 8 * width or n < 0:
        raise StoreError(
            f"{path} is damaged (codes of {bits} bits in {width} bytes, {n} rows): copy it again"
        )
    return name, width, n


def _skip(path: Path, file: BinaryIO, length: int, item: int = 1) -> int:
    """Where an array of so many items begins; the file stands behind it afterwards."""
    raw = file.read(_LENGTH.size)
    start = file.tell()
    said = _LENGTH.unpack(raw)[0] if len(raw) == _LENGTH.size else None
    size = path.stat().st_size
    if said != length or start + length * item > size:
        raise StoreError(f"{path} is damaged ({length:,} items are not in {size:,} bytes): copy it again")
    file.seek(start + length * item)
    return start


def _true_bits(path: Path, trailer: bytes, width: int) -> int:
    """n_bits as manihash noted it; all bits of the bytes in a file that FAISS wrote."""
    if len(trailer) < _TRAILER.size or not trailer.startswith(_NAME):
        return 8 * width
    n_bits = int(_TRAILER.unpack(trailer)[1])
    if n_bits < 1 or n_bytes(n_bits) != width:
        raise StoreError(f"{path} is damaged ({n_bits} bits noted for codes of {width} bytes): copy it again")
    return n_bits


_CONVERT = (
    "read it with FAISS itself, if you trust where it comes from, and write its codes as an IndexBinaryFlat"
)
