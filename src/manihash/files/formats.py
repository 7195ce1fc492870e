"""Data files by their extension: npy, npz, fvecs, ivecs, bvecs, idx(.gz), HDF5, Parquet and CSV.

Reading executes nothing (no pickles) and believes no header; npy, vecs and unzipped idx files are
memory-mapped. A file is written whole or not at all.
"""

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.files.atomic import atomic_write
from manihash.files.errors import DataFileError
from manihash.files.hdf5 import open_hdf5, read_hdf5, write_hdf5
from manihash.files.idx import read_idx, write_idx
from manihash.files.parquet import open_parquet, read_parquet, write_parquet
from manihash.files.stored import StoredRows, choose, parsing
from manihash.files.vecs import VALUE_TYPES, read_vecs, write_vecs

KNOWN = ".npy, .npz, .fvecs, .ivecs, .bvecs, .idx, .idx.gz, .hdf5, .h5, .parquet or .csv"
DEFAULT_KEYS = {"npz": "X", "hdf5": "train", "parquet": "X"}

_WITH_KEY = re.compile(r"(?P<path>.+\.(?:npz|hdf5|h5|parquet)):(?P<key>[^:/\\]+)", re.IGNORECASE)
_IDX_NAME = re.compile(r".*(?:\.idx|[.-]idx\d+-\w+)(?P<zipped>\.gz)?", re.IGNORECASE)

PathLike = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]


def read(path: PathLike, *, key: str | None = None) -> NDArray[Any]:
    """The array in a data file, memory-mapped where the format allows.

    ``key`` names the array of an npz or HDF5 file (ann-benchmarks': train, test, neighbors, distances) or the
    column of a Parquet file, and ``"file.npz:key"`` does the same. Without it an npz file must hold one array
    and a Parquet file one column of lists, and HDF5 gives ``train``.
    """
    array = _as_it_is(*_found(path, key))
    if array.dtype.kind not in "buif":
        raise DataFileError(f"{path} holds values of type {array.dtype}: real numbers were wanted")
    return _native(array)


def _as_it_is(path: Path, key: str | None, kind: str) -> NDArray[Any]:
    """The array in a data file, in whatever byte order."""
    return _READERS[kind](path) if kind in _READERS else _KEYED_READERS[kind](path, key)


def _native(array: Any) -> Any:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def open_vectors(path: PathLike, *, key: str | None = None) -> Any:
    """The vectors in a data file, one a row, to be visited in blocks by ``fit`` and ``encode``.

    npy, vecs and unzipped idx files are memory-mapped, HDF5 and Parquet files read slice by slice, an npz
    file of ``scipy.sparse.save_npz`` is a sparse matrix; of others an array. Images (n, h, w) are rows of
    pixels.
    """
    path, key, kind = _found(path, key)
    if kind == "hdf5":
        X: Any = open_hdf5(path, key)
    elif kind == "parquet":
        X = open_parquet(path, key)
    elif kind == "npz" and key is None and _is_sparse(path):
        X = _read_sparse(path)
    else:
        X = _as_it_is(path, key, kind)
    if X.dtype.kind not in "buif":
        raise DataFileError(f"{path} holds values of type {X.dtype}: real numbers were wanted")
    if len(X.shape) < 2 or 0 in X.shape:
        raise DataFileError(
            f"{path} holds an array of shape {X.shape}: one vector a row (n, d) was wanted. "
            "Reshape it, or name another file"
        )
    if isinstance(X, np.memmap) and not X.dtype.isnative:
        return StoredRows(path, X.shape, X.dtype, lambda start, stop: X[start:stop])
    return _native(X.reshape(len(X), -1) if len(X.shape) > 2 else X)


def read_rows(start: int, stop: int, *, path: str) -> NDArray[Any]:
    """Rows start to stop of a data file as an array, for workers that share the file; it is opened once."""
    rows = _opened(path, split_key(path)[0].stat().st_mtime_ns)[start:stop]
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


@lru_cache(2)
def _opened(path: str, changed: int) -> Any:
    return open_vectors(path)


def _found(path: PathLike, key: str | None) -> tuple[Path, str | None, str]:
    """Path, key and kind of a file that is there."""
    path, key = split_key(path, key)
    kind = _kind(path)
    if key is not None and kind not in DEFAULT_KEYS:
        raise ValueError(f"{path} holds a single array: leave out the key {key!r}")
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}: check the path and the folder it is taken from")
    return path, key, kind


def write(path: PathLike, array: ArrayLike | Mapping[str, ArrayLike]) -> None:
    """Write an array in the format that the extension names, whole or not at all.

    npz, HDF5 and Parquet also take several arrays by name. One array is called ``train`` in HDF5 and X in the
    others, or what follows the colon in ``"file.npz:key"``.
    """
    path, key = split_key(path, None)
    kind = _kind(path)
    if kind in DEFAULT_KEYS:
        named = array if isinstance(array, Mapping) else {key or DEFAULT_KEYS[kind]: array}
        arrays = {name: _numbers(values) for name, values in named.items()}
        with atomic_write(path) as part:
            _KEYED_WRITERS[kind](part, arrays)
        return
    if isinstance(array, Mapping):
        raise ValueError(
            f"{path} can hold one array, and {len(array)} came by name: write .npz, .hdf5 or .parquet"
        )
    values = _numbers(array)
    with atomic_write(path) as part:
        _WRITERS[kind](part, values)


def split_key(path: PathLike, key: str | None = None) -> tuple[Path, str | None]:
    """``"file.npz:key"`` as path and key; any other path as it is."""
    match = _WITH_KEY.fullmatch(os.fspath(path))
    if match is None or Path(path).is_file():
        return Path(path), key
    if key is not None and key != match["key"]:
        raise ValueError(f"two keys came, {match['key']!r} in the path and {key!r} beside it: give one")
    return Path(match["path"]), match["key"]


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if match := _IDX_NAME.fullmatch(path.name):
        return "idx.gz" if match["zipped"] else "idx"
    kind = "hdf5" if suffix == ".h5" else suffix.removeprefix(".")
    if kind not in _READERS and kind not in _KEYED_READERS:
        raise ValueError(f"the format of {path} is told by its extension: {KNOWN} was wanted, not {suffix!r}")
    return kind


def _numbers(array: ArrayLike) -> NDArray[Any]:
    values = np.asarray(array)
    if values.dtype.kind not in "buif":
        raise ValueError(f"an array of type {values.dtype} came: data files hold real numbers")
    return values


def _read_npy(path: Path) -> NDArray[Any]:
    with parsing(path):
        return np.lib.format.open_memmap(path, mode="r")


def _read_npz(path: Path, key: str | None) -> NDArray[Any]:
    with parsing(path), zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[choose(path, list(archive.files), key)])


def _is_sparse(path: Path) -> bool:
    """Whether an npz file is one of ``scipy.sparse.save_npz``."""
    with parsing(path), zipfile.ZipFile(path) as archive:
        return {"data.npy", "format.npy", "shape.npy"} <= set(archive.namelist())


def _read_sparse(path: Path) -> Any:
    from scipy.sparse import load_npz

    with parsing(path):
        X: Any = load_npz(path)
        X = X.tocsr()
        X.check_format()
        return X


def _read_csv(path: Path) -> NDArray[Any]:
    """Comma-separated numbers as float64; a first line that is not all numbers is taken for a header."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline()
            header = not all(_is_number(field) for field in first.split(","))
            if header:
                first = file.readline()
            if not first.strip():
                raise ValueError("it holds no rows")
            file.seek(0)
            return np.loadtxt(file, delimiter=",", skiprows=int(header), ndmin=2, comments=None)
    except ValueError as error:
        raise DataFileError(
            f"{path} is no table of numbers with commas between them: {str(error)[:100]} (rows are counted "
            "without a header). Remove columns of text such as names, and put commas between the numbers"
        ) from error


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _write_npy(part: Path, array: NDArray[Any]) -> None:
    with open(part, "wb") as file:
        np.save(file, array, allow_pickle=False)


def _write_npz(part: Path, arrays: Arrays) -> None:
    with zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _write_csv(part: Path, array: NDArray[Any]) -> None:
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"an array of shape {array.shape} came: csv files hold rows of numbers, one at least"
        )
    digits = {2: "%.5g", 4: "%.9g"}.get(array.dtype.itemsize, "%.17g")
    np.savetxt(part, array, delimiter=",", fmt=digits if array.dtype.kind == "f" else "%d")


_READERS: dict[str, Callable[[Path], NDArray[Any]]] = {
    "npy": _read_npy,
    "csv": _read_csv,
    "idx": partial(read_idx, zipped=False),
    "idx.gz": partial(read_idx, zipped=True),
    **{kind: partial(read_vecs, kind=kind) for kind in VALUE_TYPES},
}
_KEYED_READERS: dict[str, Callable[[Path, str | None], NDArray[Any]]] = {
    "npz": _read_npz,
    "hdf5": read_hdf5,
    "parquet": read_parquet,
}
_WRITERS: dict[str, Callable[[Path, NDArray[Any]], None]] = {
    "npy": _write_npy,
    "csv": _write_csv,
    "idx": partial(write_idx, zipped=False),
    "idx.gz": partial(write_idx, zipped=True),
    **{kind: partial(write_vecs, kind=kind) for kind in VALUE_TYPES},
}
_KEYED_WRITERS: dict[str, Callable[[Path, Arrays], None]] = {
    "npz": _write_npz,
    "hdf5": write_hdf5,
    "parquet": write_parquet,
}
