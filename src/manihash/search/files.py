"""Index files: written atomically, mapped into memory when they are opened.

An index file is a safetensors file with the arrays ids (unless they are 0 … n - 1), offsets, rows and codes.
If ids are strings, it has the arrays string_offsets, first, and strings, last, instead of ids: the strings in
UTF-8, one after another. The arrays codebooks, before codes, and model, last, are optional: the centers of
the fields of the codes, and the model file of the hasher that made them. Arrays are in this order so that
each is aligned to its type. The metadata hold n_bits, the next free id, ``made_by`` if it is set,
the layout if codes are not one part of signs, whether there is a file with fields of the rows beside it, the
SHA-256 of the arrays and the SHA-256 of the header.
Opening a file reads the header and the offsets; ``verify`` reads every byte.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import check_codes, n_bytes
from manihash.errors import DamagedIndexError
from manihash.files.atomic import atomic_write
from manihash.files.kinds import INDEX, other_kind
from manihash.search.buckets import MAX_ROWS, Buckets, DenseOffsets, aligned_bytes
from manihash.search.ids import StringIds

FORMAT = "manihash-index"
# 4 if there are codebooks or a model, 3 if ids are strings, 2 if codes have two parts, otherwise 1: earlier
# versions of manihash read these, too.
VERSION = 4

_TYPES = {"ids": ("I64", "<i8"), "string_offsets": ("I64", "<i8"), "offsets": ("U32", "<u4")}
_TYPES |= {"rows": ("U32", "<u4"), "codebooks": ("F32", "<f4"), "codes": ("U8", "<u1")}
_TYPES |= {"strings": ("U8", "<u1"), "model": ("U8", "<u1")}
_MAX_HEADER = 2**16
_ALIGNMENT = 64
_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class IndexContent:
    """What an index file holds."""

    buckets: Buckets
    n_bits: int
    next_id: int
    made_by: str | None
    layout: CodeLayout
    model: bytes | None  # the model file of the hasher
    has_fields: bool  # whether the file beside it has fields of its rows


@dataclass(frozen=True, eq=False)
class IndexFile(IndexContent):
    """An open index file."""

    path: Path
    sha256: str
    body: NDArray[np.uint8]

    def verify(self) -> None:
        """Read every byte; raise ``DamagedIndexError`` if one was changed."""
        if _checksum([self.body]) != self.sha256:
            raise DamagedIndexError(
                f"{self.path} is damaged (its checksum does not match): copy the file or rebuild the index"
            )
        buckets = self.buckets
        width = n_bytes(self.n_bits)
        check_codes(buckets.codes[:, :width], self.n_bits, f"codes of {self.path}")
        seen = np.bincount(buckets.rows, minlength=buckets.size)
        if len(seen) > buckets.size or (seen != 1).any() or buckets.codes[:, width:].any():
            raise DamagedIndexError(f"{self.path} lists rows twice: rebuild the index")
        if not _are_ascending(buckets.ids):
            raise DamagedIndexError(f"{self.path} has ids out of order or not valid: rebuild the index")


def _are_ascending(ids: Any) -> bool:
    """Whether the ids of buckets are distinct and ascending."""
    if isinstance(ids, StringIds):
        return ids.are_ascending()
    return ids is None or bool((ids[1:] > ids[:-1]).all())


@contextmanager
def written(path: str | os.PathLike[str], content: IndexContent) -> Iterator[str]:
    """Write an index file, atomically.

    The block gets the checksum of the new file when it is complete, and ends before it replaces the old one.
    """
    buckets, layout, model = content.buckets, content.layout, content.model
    offsets = buckets.offsets.dense()
    strings = buckets.ids if isinstance(buckets.ids, StringIds) else None
    given = {
        "ids": None if strings is not None else buckets.ids,
        "string_offsets": None if strings is None else strings.offsets,
        "offsets": offsets,
        "rows": buckets.rows,
        "codebooks": layout.codebooks,
        "codes": buckets.codes,
        "strings": None if strings is None else strings.text,
        "model": None if model is None else np.frombuffer(model, np.uint8),
    }
    arrays = {
        name: np.ascontiguousarray(array, _TYPES[name][1])
        for name, array in given.items()
        if array is not None
    }
    metadata = {
        "format": FORMAT,
        "version": str(_version(arrays, layout)),
        "n_bits": str(content.n_bits),
        "next_id": str(content.next_id),
        "sha256": _checksum(list(arrays.values())),
    }
    if content.made_by is not None:
        metadata["made_by"] = content.made_by
    if content.has_fields:
        metadata["fields"] = "beside"
    metadata |= layout.to_metadata()
    header: dict[str, Any] = {"__metadata__": metadata}
    header |= _descriptions({name: array.shape for name, array in arrays.items()})
    metadata["header_sha256"] = _seal(header)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.data)
        yield metadata["sha256"]


def _version(arrays: dict[str, Any], layout: CodeLayout) -> int:
    """The lowest version of the format that has all of this."""
    if "codebooks" in arrays or "model" in arrays:
        return VERSION
    return 3 if "strings" in arrays else 1 if layout.is_hamming else 2


def read(path: str | os.PathLike[str], *, mmap: bool) -> IndexFile:
    """Open an index file; checks header, sizes and offsets, and no other values."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no index file at {path}: pass a path that HammingIndex.save() wrote")
    try:
        return _read(path, mmap)
    except DamagedIndexError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedIndexError(
            other_kind(path, INDEX)
            or f"{path} is not a complete index file of manihash ({error}): copy the file or rebuild the "
            "index"
        ) from error


def _read(path: Path, mmap: bool) -> IndexFile:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MAX_HEADER, size - 8) or (8 + length) % _ALIGNMENT:
            raise ValueError("its first bytes are not the length of a header")
        header = json.loads(file.read(length))
    metadata = header["__metadata__"]
    _check_format(path, metadata)
    if metadata.pop("header_sha256") != _seal(header):
        raise ValueError("its header was changed")
    n_bits, next_id = int(metadata["n_bits"]), int(metadata["next_id"])
    shapes = {name: tuple(header[name]["shape"]) for name in _TYPES if name in header}
    (u, _), (n,) = shapes["codes"], shapes["rows"]
    expected: dict[str, tuple[int, ...]]
    expected = {"ids": (n,), "string_offsets": (n + 1,), "offsets": (u + 1,), "rows": (n,)}
    expected |= {"codebooks": shapes.get("codebooks", (0,)), "codes": (u, aligned_bytes(n_bytes(n_bits)))}
    expected |= {name: (shapes.get(name, (0,))[0],) for name in ("strings", "model")}
    absent = {"ids"} if "strings" in shapes else {"string_offsets", "strings"}
    absent |= {"ids", "codebooks", "model"} - shapes.keys()
    described = _descriptions({name: shape for name, shape in expected.items() if name not in absent})
    if header != {"__metadata__": metadata} | described or not 0 <= u <= n <= MAX_ROWS:
        raise ValueError("its header describes other arrays than those of an index")
    if not 1 <= n_bits < 2**16 or not 0 <= next_id <= 2**63:
        raise ValueError(f"its header has n_bits={n_bits} and next_id={next_id}")
    full_size = 8 + length + max(entry["data_offsets"][1] for entry in described.values())
    if size != full_size:
        raise ValueError(f"got {size} bytes, expected {full_size}")
    body: NDArray[np.uint8] = (
        np.asarray(np.memmap(path, np.uint8, "r")) if mmap else np.fromfile(path, np.uint8)
    )[8 + length :]
    arrays = {name: _array(body, name, entry) for name, entry in described.items()}
    _check_offsets(arrays["offsets"], n)
    ids = _string_ids(arrays) if "strings" in arrays else arrays.get("ids")
    buckets = Buckets(arrays["codes"], DenseOffsets(arrays["offsets"]), arrays["rows"], ids, n)
    made_by = metadata.get("made_by")
    layout = CodeLayout.from_metadata(n_bits, metadata, arrays.get("codebooks"))
    model = arrays["model"].tobytes() if "model" in arrays else None
    fields, checksum = "fields" in metadata, metadata["sha256"]
    return IndexFile(buckets, n_bits, next_id, made_by, layout, model, fields, path, checksum, body)


def _string_ids(arrays: dict[str, NDArray[Any]]) -> StringIds:
    """The string ids of a file; raise unless each is in the text."""
    ids = StringIds(arrays["strings"], arrays["string_offsets"])
    ids.check_offsets()
    return ids


def _check_format(path: Path, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise DamagedIndexError(other_kind(path, INDEX))
    version = metadata.get("version", "")
    if not version.isdecimal() or int(version) > VERSION:
        raise DamagedIndexError(
            f"{path} has index format {version!r}, but this manihash reads formats up to {VERSION}: "
            "upgrade manihash"
        )


def _check_offsets(offsets: NDArray[Any], n: int) -> None:
    if offsets[0] != 0 or offsets[-1] != n or not (offsets[1:] > offsets[:-1]).all():
        raise ValueError("its row lists overlap or are empty")


def _descriptions(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The header entry of each array, with type, shape and byte range; arrays follow each other."""
    described, start = {}, 0
    for name, shape in shapes.items():
        stop = start + int(np.prod(shape, dtype=object)) * np.dtype(_TYPES[name][1]).itemsize
        described[name] = {"dtype": _TYPES[name][0], "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    return described


def _array(body: NDArray[np.uint8], name: str, entry: dict[str, Any]) -> NDArray[Any]:
    start, stop = entry["data_offsets"]
    return body[start:stop].view(_TYPES[name][1]).reshape(entry["shape"])


def _seal(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _checksum(arrays: list[NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        flat = array.reshape(-1).view(np.uint8)
        for i in range(0, len(flat), _CHUNK):
            digest.update(flat[i : i + _CHUNK].data)
    return digest.hexdigest()
