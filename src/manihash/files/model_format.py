"""The format of model files: a JSON document and arrays in a safetensors file, never pickle.

The tensors of the file are the arrays. Its metadata hold one JSON header with the version of the format, the
document and the SHA-256 of document and arrays. Reading a file executes nothing.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from manihash.errors import ModelFileError
from manihash.files.atomic import atomic_write
from manihash.files.kinds import MODEL, header_metadata, other_kind

FORMAT = "manihash"
VERSION = 1

Arrays = dict[str, NDArray[Any]]


def write_document(path: str | os.PathLike[str], document: dict[str, Any], arrays: Arrays) -> None:
    """Write a document and its arrays as one model file, atomically."""
    arrays = {name: _plain(array) for name, array in arrays.items()}
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    header = {"version": VERSION, "document": text, "sha256": _checksum(text, arrays)}
    # One key: safetensors writes several keys in any order, and equal models must give equal files.
    content = save(arrays, {FORMAT: json.dumps(header, sort_keys=True)})
    with atomic_write(path) as part:
        part.write_bytes(content)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array in native byte order and C order, as safetensors requires."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def read_document(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a model file, after verifying its version and checksum."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}: give the path of a file that save() wrote")
    try:
        header = _header(path, header_metadata(path))
        arrays = load_file(path)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, ModelFileError | PermissionError):
            raise
        raise ModelFileError(
            other_kind(path, MODEL)
            or f"{path} is not a manihash model file, or it is damaged ({error}): give a file that save() "
            "wrote; if it is one, copy it again or fit the model again"
        ) from error
    text = str(header.get("document", ""))
    if header.get("sha256") != _checksum(text, arrays):
        raise ModelFileError(
            f"{path} is damaged (its checksum does not match): copy it again or fit the model again"
        )
    try:
        return json.loads(text), arrays
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} does not describe a model ({error}): fit the model again") from error


def format_version(path: str | os.PathLike[str]) -> int:
    """The version of the format of a model file."""
    return int(_header(Path(path), header_metadata(Path(path)))["version"])


def _header(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """The header of a model file, if this version of manihash can read it."""
    if FORMAT not in metadata:
        raise ModelFileError(other_kind(path, MODEL))
    header = json.loads(metadata[FORMAT])
    version = header.get("version") if isinstance(header, dict) else None
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(
            f"{path} has format version {version!r}, and this manihash reads up to {VERSION}: "
            "upgrade manihash"
        )
    return header


def _checksum(text: str, arrays: Arrays) -> str:
    """The SHA-256 of a document and of the names, types, shapes and values of its arrays."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
