"""usearch: an index file with its HNSW graph of codes (b1x8, Hamming).

A search compares all codes and is exact; ``index=hnsw`` in the address uses the graph. usearch ignores what
follows the index in its file: there are the strings of a store with string ids, whose keys are numbers.
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.codes import n_bytes
from manihash.errors import StoreError, StoreNotFoundError
from manihash.files.atomic import atomic_write
from manihash.files.locks import locked
from manihash.search.ids import string_array
from manihash.stores.driver import (
    Matches,
    creating,
    file_version,
    first_line,
    nearest_with_ties,
    read_version,
    sorted_matches,
)
from manihash.types import Codes, Ids

_TRAILER = struct.Struct("<Q8s")  # the length of the JSON document before it, and "manihash"
_TRAILER_NAME = b"manihash"
_FIRST_LIMIT = 256  # rows that a look-up within a radius asks for at first
# usearch reserves the key 2^64 - 1, which is the id -1: that id has the key of the lowest int64 instead.
_RESERVED, _LOWEST = -1, np.iinfo(np.int64).min

Keys = NDArray[np.uint64]


class UsearchFile:
    """An index file: searched in memory, rewritten on each change.

    Threads can share it: their calls wait for each other, as a change is made in the index that is searched.
    """

    rewrites_on_add = True
    look_up_bits: int | None = None

    def __init__(self, path: Path, *, hnsw: bool) -> None:
        self._path, self._hnsw = path, hnsw
        self._in_use = RLock()
        self._load()
        self.n_bits = int(self._index.ndim)
        self.id_type: type = int if self._names is None else str

    @classmethod
    def open(cls, path: Path, *, hnsw: bool = False) -> "UsearchFile":
        """Open an index file of usearch; with ``hnsw``, searches use its graph."""
        if not path.is_file():
            raise StoreNotFoundError(f"no usearch index file at {path}: create it, or give the path of one")
        return cls(path, hnsw=hnsw)

    @classmethod
    def create(cls, path: Path, n_bits: int, id_type: type, *, hnsw: bool = False) -> "UsearchFile":
        """Create a file with an empty index."""
        with _translated_errors(path):
            index = _library().Index(ndim=n_bits, metric="hamming", dtype="b1")
        with creating(path):
            _write(path, index, {} if id_type is str else None)
        return cls(path, hnsw=hnsw)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file, and read it again if another process has changed it."""
        with self._in_use:
            self._refresh()
        with locked(self._path), self._in_use:
            self._refresh()
            yield

    def add(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file with these rows added."""
        self._change(np.empty(0, np.uint64), codes, ids)

    def delete(self, ids: Ids) -> None:
        """Rewrite the file without these rows."""
        self._change(self._keys(ids)[0], None, ids)

    def put(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file once, with these codes instead of those that it has under these ids."""
        self._change(self._keys(ids)[0], codes, ids)

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query: of all codes, or as the graph finds them."""
        with self._in_use:
            self._refresh()
            if self._hnsw:
                return [self._nearest(query, k, exact=False) for query in queries]
            return [
                nearest_with_ties(k, partial(self._nearest, q), partial(self._within, q)) for q in queries
            ]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, as nearest rows: usearch has no such search."""
        with self._in_use:
            self._refresh()
            return [self._within(query, radius) for query in queries]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        with self._in_use:
            self._refresh()
            keys, stored = self._keys(ids)
            codes = np.empty((len(keys), n_bytes(self.n_bits)), np.uint8)
            if len(keys):
                codes[:] = np.asarray(self._index.get(keys))
            return stored, codes

    def count(self) -> int:
        """Return the number of rows in the file."""
        with self._in_use:
            self._refresh()
            return len(self._index)

    def close(self) -> None:
        """Do nothing: no file stays open, and the file is always complete."""

    def _within(self, query: Codes, radius: int) -> Matches:
        limit, n = _FIRST_LIMIT, len(self._index)
        distance, ids = self._nearest(query, limit)
        while limit < n and distance[-1] <= radius:  # there may be more rows within the radius
            limit *= 8
            distance, ids = self._nearest(query, limit)
        near = distance <= radius
        return distance[near], ids[near]

    def _nearest(self, query: Codes, limit: int, *, exact: bool = True) -> Matches:
        if not len(self._index):
            return sorted_matches([], [])
        with _translated_errors(self._path):
            found = self._index.search(query, min(limit, len(self._index)), exact=exact)
        return sorted_matches(found.distances, self._ids(found.keys))

    def _keys(self, ids: Ids) -> tuple[Keys, Ids]:
        """The keys of the stored rows among ids, and their ids."""
        if self._names is not None:
            stored = [identity for identity in ids.tolist() if identity in self._names]
            return np.array([self._names[identity] for identity in stored], np.uint64), string_array(stored)
        keys, present = _integer_keys(ids), ids != _LOWEST
        if len(self._index) and len(ids):
            present &= np.asarray(self._index.contains(keys), np.bool_)
        else:
            present[:] = False
        return keys[present], ids[present]

    def _ids(self, keys: Keys) -> Ids:
        """The ids of keys."""
        if self._names is not None:
            return string_array(self._by_key[key] for key in keys.tolist())
        ids = keys.view(np.int64).copy()
        ids[ids == _LOWEST] = _RESERVED
        return ids

    def _new_keys(self, ids: Ids) -> Keys:
        """Keys for new rows."""
        if self._names is None:
            if (ids == _LOWEST).any():
                raise StoreError(f"usearch has no key for the id {_LOWEST}: use another id")
            return _integer_keys(ids)
        start = 1 + max(self._names.values(), default=-1)
        return np.arange(start, start + len(ids), dtype=np.uint64)

    def _change(self, removed: Keys, codes: Codes | None, ids: Ids) -> None:
        """Remove rows, add rows, and write the file; read it again if that fails."""
        try:
            with _translated_errors(self._path):
                if len(removed):
                    self._index.remove(removed)
                    self._forget(removed)
                if codes is not None:
                    keys = self._new_keys(ids)
                    self._index.add(keys, codes)
                    if self._names is not None:
                        self._names.update(zip(ids.tolist(), keys.tolist(), strict=True))
                self._version = _write(self._path, self._index, self._names)
        except BaseException:
            self._load()
            raise
        self._set_keys()

    def _forget(self, keys: Keys) -> None:
        """Remove the names of keys."""
        if self._names is not None:
            for key in keys.tolist():
                del self._names[self._by_key[key]]

    def _refresh(self) -> None:
        """Read the file again if another handle has replaced it."""
        if file_version(self._path) == self._version:
            return
        n_bits, id_type = self.n_bits, self.id_type
        self._load()
        if (self._index.ndim, int if self._names is None else str) != (n_bits, id_type):
            raise StoreError(
                f"{self._path} was replaced: it has codes of {self._index.ndim} bits instead of {n_bits}, or "
                "ids of another type. Open it again"
            )

    def _load(self) -> None:
        """Read the index and the names."""
        content, self._version = read_version(self._path, partial(_read, self._path))
        self._index: Any = content[0]
        self._names: dict[str, int] | None = content[1]
        self._set_keys()

    def _set_keys(self) -> None:
        self._by_key = {} if self._names is None else {key: name for name, key in self._names.items()}


def _library() -> Any:
    return extra("usearch.index", "usearch")


def _integer_keys(ids: Ids) -> Keys:
    """The keys of ids that are integers."""
    return np.where(ids == _RESERVED, _LOWEST, ids).astype(np.int64).view(np.uint64)


def _write(path: Path, index: Any, names: dict[str, int] | None) -> tuple[int, ...]:
    """Write an index and, if ids are strings, the keys of the names; return the version of the new file.

    The path may have another version when this returns.
    """
    with atomic_write(path) as part:
        index.save(str(part))
        if names is not None:
            document = json.dumps(names).encode()
            with open(part, "ab") as file:
                file.write(document + _TRAILER.pack(len(document), _TRAILER_NAME))
        return file_version(part)


def _read(path: Path) -> tuple[Any, dict[str, int] | None]:
    """Return the index of a file and, if its ids are strings, the keys of the names."""
    with _translated_errors(path):
        index = _library().Index.restore(str(path))
    if index is None or str(index.dtype) != "ScalarKind.B1":
        raise StoreError(f"{path} is no index file of usearch with binary codes: give one (dtype b1)")
    return index, _read_names(path)


def _read_names(path: Path) -> dict[str, int] | None:
    """The keys of the names of a file; None if its ids are integers."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _TRAILER.size))
        raw = file.read()
        if len(raw) < _TRAILER.size or not raw.endswith(_TRAILER_NAME):
            return None
        length = _TRAILER.unpack(raw)[0]
        if length > size - _TRAILER.size:
            raise StoreError(f"{path} is damaged (names of {length:,} bytes): copy it again")
        file.seek(size - _TRAILER.size - length)
        try:
            return {str(name): int(key) for name, key in json.loads(file.read(length)).items()}
        except (ValueError, AttributeError) as error:
            raise StoreError(f"{path} is damaged (its names cannot be read): copy it again") from error


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    """Raise errors of usearch as StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: usearch reports an error: {first_line(error)}") from error
