"""Model files: arrays and JSON, never pickle; a version, a checksum; written whole or not at all.

A file is a safetensors file: its tensors are the arrays; its metadata hold one JSON header with the version
of the format, the document (the state without its arrays) and the SHA-256 of both. Reading executes nothing.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "manihash"
VERSION = 1

Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A model file that is damaged, foreign or too new."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which becomes ``path`` when the block ends well and vanishes when it does not.

    The file stands beside its target, so that the last step is one rename; an error, an interrupt or a full
    disk leaves the old file as it was.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise _unwritten(target, error, "Give a target in a folder you can write to") from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        os.chmod(part, 0o666 & ~_umask())
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        if type(error) is not OSError:  # of another file, or of the network
            raise
        raise _unwritten(target, error, "Make room, or give a target elsewhere") from error
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _unwritten(target: Path, error: OSError, remedy: str) -> OSError:
    if error.errno is None:  # of numpy, which says how many bytes were written
        return OSError(f"cannot write {target}: {error}. {remedy}")
    return type(error)(error.errno, f"cannot write {target}: {os.strerror(error.errno)}. {remedy}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write(path: str | os.PathLike[str], document: dict[str, Any], arrays: Arrays) -> None:
    """Write a document and its arrays as one model file, whole or not at all."""
    from safetensors.numpy import save

    arrays = {name: _plain(array) for name, array in arrays.items()}
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    header = {"version": VERSION, "document": text, "sha256": _checksum(text, arrays)}
    # One key: safetensors writes several in any order, and equal models are to be equal files.
    content = save(arrays, {FORMAT: json.dumps(header, sort_keys=True)})
    with whole_file(path) as part:
        part.write_bytes(content)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The array in the byte order and layout that safetensors writes."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """The document and arrays of a model file, after its version and checksum were verified."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}: give the path that save() or `manihash fit` wrote")
    with open(path, "rb") as start:
        if start.read(6) == b"\x93NUMPY":
            raise ModelFileError(f"{path} is an npy file: give the model that save() or `manihash fit` wrote")
    try:
        with safe_open(path, framework="numpy") as file:
            header = _header(path, file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, ModelFileError | PermissionError):
            raise
        raise ModelFileError(
            f"{path} is no manihash model file, or a damaged one ({error}): give the file that save() or "
            "`manihash fit` wrote; if it is that, copy it again or fit anew"
        ) from error
    text = str(header.get("document", ""))
    if header.get("sha256") != _checksum(text, arrays):
        raise ModelFileError(f"{path} is damaged (its checksum does not match): copy it again or fit anew")
    try:
        return json.loads(text), arrays
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} holds no description of a model ({error}): fit anew") from error


def format_version(path: str | os.PathLike[str]) -> int:
    """The version of the format that a model file is written in."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return int(_header(Path(path), file.metadata() or {})["version"])


def _header(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """Version, document and checksum, if this manihash can read them."""
    if FORMAT not in metadata:
        raise ModelFileError(
            f"{path} is a safetensors file, but no manihash model: give one written by save()"
        )
    header = json.loads(metadata[FORMAT])
    version = header.get("version") if isinstance(header, dict) else None
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(
            f"{path} has model format {version!r}, and this manihash reads up to {VERSION}: upgrade manihash"
        )
    return header


def _checksum(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
