"""Read the input files of the commands, and check their options and output files."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from manihash.cli import _tables
from manihash.cli._options import INDEX_SUFFIX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import Hasher

_SAMPLES, _SAMPLE_BYTES = 64, 4096  # of a file, spread over it, that its fingerprint contains


def check_inputs(*paths: str | None, model: Path | None = None) -> None:
    """Raise if an input file does not exist, before the libraries that compute are imported."""
    from manihash.files.formats import split_key

    for path in (*paths, model):
        if path is not None and not (file := split_key(path)[0]).is_file():
            kind = "model file" if path is model else "index file" if file.suffix == INDEX_SUFFIX else "file"
            raise FileNotFoundError(f"no {kind} at {file}: check the path and the current folder")


def read_vectors(path: str) -> "NDArray[Any]":
    """Return the vectors (n, d) of a file; images (n, h, w) become rows of pixels."""
    array = _tables.read(path)
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{path} holds no rows, an array of shape {array.shape}: give a file with at least one vector"
            if len(array.shape) > 1 and array.shape[0] == 0
            else f"{path} holds an array of shape {array.shape}: expected one vector per row (n, d). "
            "Reshape it, or give another file"
        )
    return array.reshape(len(array), -1)


def read_stored_vectors(path: str) -> Any:
    """Return the vectors (n, d) beside an index, which may have one byte per value."""
    from manihash.search.byte_vectors import ByteVectors, is_byte_vectors

    return ByteVectors.load(path) if is_byte_vectors(path) else read_vectors(path)


@contextmanager
def opened(path: str, dask: str | None) -> Iterator[Any]:
    """Open the vectors of a file for reading in blocks, here or by the workers of a Dask cluster."""
    from manihash.files import formats
    from manihash.rows import dask as dask_rows

    table = _tables.keywords()
    X = formats.open_vectors(path, **table)
    if dask is None:
        yield X
        return
    file, key = formats.split_key(path)
    absolute = str(file.absolute()) + (f":{key}" if key else "")
    with dask_rows.connected(dask):
        yield dask_rows.array_of(partial(formats.read_rows, path=absolute, **table), X.shape, X.dtype)


def check_device(device: str | None, dask: str | None) -> None:
    """Raise if the device does not exist, or if a Dask cluster is given as well."""
    if device is None:
        return
    if dask is not None:
        raise typer.BadParameter(
            "got both --device and --dask, but Dask workers compute in numpy: give one of the two"
        )
    from manihash.compute.cuda import checked_device

    checked_device(device)


def on_device(X: Any, device: str | None) -> Any:
    """Return the vectors as rows on a torch device, or unchanged if `device` is None."""
    if device is None:
        return X
    from manihash import on_device

    return on_device(X, device)


def fingerprint(path: str) -> str:
    """Return a hash of the size, the modification time, samples of the bytes, key and table options."""
    import hashlib

    from manihash.files import formats

    file, key = formats.split_key(path)
    size, changed = file.stat().st_size, file.stat().st_mtime_ns
    table = "".join(f" {name}={value}" for name, value in _tables.keywords().items() if value is not None)
    digest = hashlib.sha256(f"{size} {changed} {key}{table}".encode())
    with open(file, "rb") as content:
        for i in range(_SAMPLES):
            content.seek(max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
            digest.update(content.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def read_ids(path: str) -> "NDArray[Any]":
    """Return the ids or booleans of a file."""
    from manihash.files import id_files

    return id_files.read_ids(path, **_tables.keywords())


def read_codes(path: str) -> "NDArray[Any]":
    """Return packed codes; bytes in a CSV file, which are read as floats, become uint8."""
    import numpy as np

    codes = _tables.read(path)
    if codes.ndim != 2:
        raise ValueError(
            f"{path}: expected 2-D codes, one row of bytes each, got {codes.ndim}-D {codes.shape}"
        )
    if codes.dtype != np.float64:  # a memory map, which may be large, is not read here
        return codes
    as_bytes = np.clip(codes, 0, 255).astype(np.uint8)
    return as_bytes if np.array_equal(as_bytes, codes) else codes


def load_hasher(path: Path) -> "Hasher":
    """Return the hasher of a model file, or of an index file that holds its model."""
    from manihash import Hasher, load

    model = load(path)
    model = model if isinstance(model, Hasher) else getattr(model, "hasher", model)  # of an index
    if not isinstance(model, Hasher):
        raise ValueError(
            f"{path} holds {_with_article(type(model).__name__)}, which makes no codes: give a model written "
            "by manihash fit, or an index written by manihash build"
        )
    return model


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def check_output(path: Path | str, *inputs: Path | str | None) -> bool:
    """Raise if the output file cannot be written, or is one of the input files; return whether it exists."""
    from manihash.files.atomic import is_stream, resolved_target
    from manihash.files.formats import split_key

    target = resolved_target(split_key(path)[0])
    for given in inputs:
        source = None if given is None else split_key(given)[0]
        if source is not None and target.exists() and source.exists() and target.samefile(source):
            raise ValueError(f"{path} is also an input file: give another output file with -o")
    if is_stream(target):
        return False
    try:
        # The name is as long as that of the temporary file of an atomic write.
        with tempfile.NamedTemporaryFile(prefix=f".{target.name}.", suffix=".part", dir=target.parent):
            pass
    except OSError as error:
        remedy = "Give a file in an existing, writable folder"
        if error.errno == errno.ENAMETOOLONG:
            remedy = "Give a shorter name: temporary files beside it add 15 characters"
        raise type(error)(f"cannot write {target}: {error.strerror}. {remedy}") from error
    return target.exists()


def check_npz_output(path: Path | None, *inputs: Path | str | None) -> None:
    """Raise if an output file is given that is not an .npz file or cannot be written."""
    if path is None:
        return
    if path.suffix.lower() != ".npz":
        raise ValueError(f"got the output file {path}: expected a name that ends in .npz (several arrays)")
    check_output(path, *inputs)


def comma_separated(text: str, option: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise ValueError(f"got {option} {text!r}: expected one or more values, separated by commas")
    return values


def code_lengths(text: str, option: str = "--bits") -> list[int]:
    """Return the code lengths of an option such as ``--bits 16,32``."""
    values = comma_separated(text, option)
    if not all(value.isdecimal() and int(value) for value in values):
        raise ValueError(
            f"got {option} {text!r}: expected positive integers separated by commas, such as 16,32"
        )
    return [int(value) for value in values]
