"""Index files: written whole or not at all, mapped into memory when they are opened.

A file is a safetensors file: ids (where they are not 0 … n - 1), offsets, rows and codes, in this order, so
that each starts where its type may start. Its metadata hold n_bits, the next free id, what made the codes if
that was said, the SHA-256 of the arrays and that of the header. Opening one reads the header and the offsets;
``verify`` reads every byte.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import check_codes, n_bytes
from manihash.files.atomic import atomic_write
from manihash.search.buckets import MOST_ROWS, Buckets, DamagedIndexError, aligned_bytes
from manihash.search.offsets import Offsets

FORMAT = "manihash-index"
VERSION = 1

_TYPES = {"ids": ("I64", "<i8"), "offsets": ("U32", "<u4"), "rows": ("U32", "<u4"), "codes": ("U8", "<u1")}
_LONGEST_HEADER = 2**16
_ALIGNED = 64
_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class IndexFile:
    """An index file that was opened."""

    path: Path
    n_bits: int
    next_id: int
    sha256: str
    made_by: str | None
    body: NDArray[np.uint8]
    buckets: Buckets

    def verify(self) -> None:
        """Read every byte; raise ``DamagedIndexError`` where it is not what was written."""
        if _checksum([self.body]) != self.sha256:
            raise DamagedIndexError(
                f"{self.path} is damaged (its checksum does not match): copy it again or build the index anew"
            )
        buckets = self.buckets
        width = n_bytes(self.n_bits)
        check_codes(buckets.codes[:, :width], self.n_bits, f"codes of {self.path}")
        seen = np.bincount(buckets.rows, minlength=buckets.size)
        ascending = buckets.ids is None or bool((buckets.ids[1:] > buckets.ids[:-1]).all())
        if len(seen) > buckets.size or (seen != 1).any() or not ascending or buckets.codes[:, width:].any():
            raise DamagedIndexError(f"{self.path} lists rows twice or out of order: build the index anew")


def write(
    path: str | os.PathLike[str], buckets: Buckets, n_bits: int, next_id: int, made_by: str | None = None
) -> None:
    """Write buckets of all their rows as one index file, whole or not at all."""
    begin = buckets.offsets.dense()
    given = {"ids": buckets.ids, "offsets": begin, "rows": buckets.rows, "codes": buckets.codes}
    arrays = {
        name: np.ascontiguousarray(array, _TYPES[name][1])
        for name, array in given.items()
        if array is not None
    }
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "n_bits": str(n_bits),
        "next_id": str(next_id),
        "sha256": _checksum(list(arrays.values())),
    }
    if made_by is not None:
        metadata["made_by"] = made_by
    header: dict[str, Any] = {"__metadata__": metadata}
    header |= _places({name: array.shape for name, array in arrays.items()})
    metadata["header_sha256"] = _seal(header)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNED)
    with atomic_write(path) as part, open(part, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.data)


def read(path: str | os.PathLike[str], *, mmap: bool) -> IndexFile:
    """Open an index file; header, sizes and offsets are checked, the rest is as it is in the file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no index file at {path}: give the path that save() wrote")
    try:
        return _read(path, mmap)
    except DamagedIndexError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedIndexError(
            f"{path} is not a whole index file of manihash ({error}): copy it again or build the index anew"
        ) from error


def _read(path: Path, mmap: bool) -> IndexFile:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LONGEST_HEADER, size - 8) or (8 + length) % _ALIGNED:
            raise ValueError("its first bytes name no header")
        header = json.loads(file.read(length))
    metadata = header["__metadata__"]
    _check_format(path, metadata)
    if metadata.pop("header_sha256") != _seal(header):
        raise ValueError("its header was changed")
    n_bits, next_id = int(metadata["n_bits"]), int(metadata["next_id"])
    shapes = {name: tuple(header[name]["shape"]) for name in _TYPES if name in header}
    (u, _), (n,) = shapes["codes"], shapes["rows"]
    expected = {"ids": (n,), "offsets": (u + 1,), "rows": (n,), "codes": (u, aligned_bytes(n_bytes(n_bits)))}
    if "ids" not in shapes:
        expected.pop("ids")
    places = _places(expected)
    if header != {"__metadata__": metadata} | places or not 0 <= u <= n <= MOST_ROWS:
        raise ValueError("its header names other arrays than an index has")
    if not 1 <= n_bits < 2**16 or not 0 <= next_id <= 2**63:
        raise ValueError(f"{n_bits} bits, next id {next_id}")
    if size != 8 + length + places["codes"]["data_offsets"][1]:
        raise ValueError(f"{size} bytes came, {8 + length + places['codes']['data_offsets'][1]} were wanted")
    body: NDArray[np.uint8] = (
        np.asarray(np.memmap(path, np.uint8, "r")) if mmap else np.fromfile(path, np.uint8)
    )[8 + length :]
    arrays = {name: _array(body, name, place) for name, place in places.items()}
    _check_offsets(arrays["offsets"], n)
    buckets = Buckets(arrays["codes"], Offsets(arrays["offsets"]), arrays["rows"], arrays.get("ids"), n)
    return IndexFile(path, n_bits, next_id, metadata["sha256"], metadata.get("made_by"), body, buckets)


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise DamagedIndexError(
            f"{path} is no index file of manihash: give one written by HammingIndex.save()"
        )
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > VERSION:
        raise DamagedIndexError(
            f"{path} has index format {version!r}, and this manihash reads up to {VERSION}: upgrade manihash"
        )


def _check_offsets(offsets: NDArray[Any], n: int) -> None:
    if offsets[0] != 0 or offsets[-1] != n or not (offsets[1:] > offsets[:-1]).all():
        raise ValueError("its lists of rows overlap or are empty")


def _places(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Type, shape and place of each array, one behind the other."""
    places, start = {}, 0
    for name, shape in shapes.items():
        stop = start + int(np.prod(shape, dtype=object)) * np.dtype(_TYPES[name][1]).itemsize
        places[name] = {"dtype": _TYPES[name][0], "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    return places


def _array(body: NDArray[np.uint8], name: str, place: dict[str, Any]) -> NDArray[Any]:
    start, stop = place["data_offsets"]
    return body[start:stop].view(_TYPES[name][1]).reshape(place["shape"])


def _seal(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _checksum(arrays: list[NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        flat = array.reshape(-1).view(np.uint8)
        for i in range(0, len(flat), _CHUNK):
            digest.update(flat[i : i + _CHUNK].data)
    return digest.hexdigest()
