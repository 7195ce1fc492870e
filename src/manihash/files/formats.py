"""Data files by their extension: npy, npz, fvecs, ivecs, bvecs, idx(.gz), HDF5, Parquet and CSV.

Reading executes nothing (no pickles) and trusts no header. npy, vecs and uncompressed idx files are
memory-mapped. Writes are atomic.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.errors import DataFileError
from manihash.files.atomic import atomic_write
from manihash.files.csv import read_csv, write_csv
from manihash.files.hdf5 import open_hdf5, read_hdf5, write_hdf5
from manihash.files.idx import read_idx, write_idx
from manihash.files.kinds import VECTORS, other_kind
from manihash.files.npy import is_sparse_npz, read_npy, read_npz, read_sparse_npz, write_npy, write_npz
from manihash.files.parquet import open_parquet, read_parquet, write_parquet
from manihash.files.stored import StoredRows
from manihash.files.vecs import VALUE_TYPES, read_vecs, write_vecs

EXTENSIONS = ".npy, .npz, .fvecs, .ivecs, .bvecs, .idx, .idx.gz, .hdf5, .h5, .parquet or .csv"
DEFAULT_KEYS = {"npz": "X", "hdf5": "train", "parquet": "X"}

_WITH_KEY = re.compile(r"(?P<path>.+\.(?:npz|hdf5|h5|parquet)):(?P<key>[^:/\\]+)", re.IGNORECASE)
_IDX_NAME = re.compile(r".*(?:\.idx|[.-]idx\d+-\w+)(?P<zipped>\.gz)?", re.IGNORECASE)

PathLike = str | os.PathLike[str]


def read(
    path: PathLike,
    *,
    key: str | None = None,
    header: bool | None = None,
    index_column: bool | None = None,
) -> NDArray[Any]:
    """Read an array from a data file, memory-mapped where the format allows.

    Parameters
    ----------
    path : str or path-like
        The file. ``"file.npz:key"`` names one array of an npz or HDF5 file, or one column of a Parquet file.
    key : str, default=None
        The array or column, if ``path`` does not name it. Without a key, an npz file must hold one array,
        ``train`` is read from an HDF5 file, and a Parquet file must have one column of lists, or one column
        of numbers per feature: text and columns named like labels or ids (label, target, y, id, …) are left
        out, and a note on the logger ``manihash.note`` lists them.
    header : bool, default=None
        Whether the first line of a CSV file is a header. None decides: a line that is not all numbers, or
        that is 0, 1, 2, … as pandas writes it, is a header. Ignored for other files.
    index_column : bool, default=None
        Whether the first column of a CSV file numbers the rows and is left out. None decides: a column
        without a heading, or 0, 1, 2, … without a heading of its own. In a Parquet file it is the index of
        pandas. A note says what was decided. Ignored for other files.

    Returns
    -------
    ndarray
        The array, of real numbers in native byte order.

    Raises
    ------
    DataFileError
        If the file is damaged, truncated or in another format.
    """
    array = _read_raw(*_resolve(path, key), header, index_column)
    _check_real(path, array.dtype)
    return _native(array)


def open_vectors(
    path: PathLike,
    *,
    key: str | None = None,
    header: bool | None = None,
    index_column: bool | None = None,
) -> Any:
    """Open the vectors in a data file, to be read in blocks by ``fit`` and ``encode``.

    npy, fvecs, ivecs, bvecs and uncompressed idx files are memory-mapped. HDF5 and Parquet files are read
    slice by slice. Other files are read into memory.

    Parameters
    ----------
    path : str or path-like
        The file: npy, npz, fvecs, ivecs, bvecs, idx, idx.gz, hdf5, parquet or csv. ``"file.npz:key"`` names
        one array of an npz or HDF5 file, or one column of a Parquet file.
    key : str, default=None
        The array or column, if ``path`` does not name it. Without a key, an npz file must hold one array,
        ``train`` is read from an HDF5 file, and a Parquet file must have one column of lists, or one column
        of numbers per feature: text and columns named like labels or ids (label, target, y, id, …) are left
        out, and a note on the logger ``manihash.note`` lists them.
    header : bool, default=None
        Whether the first line of a CSV file is a header. None decides: a line that is not all numbers, or
        that is 0, 1, 2, … as pandas writes it, is a header. Ignored for other files.
    index_column : bool, default=None
        Whether the first column of a CSV file numbers the rows and is left out. None decides: a column
        without a heading, or 0, 1, 2, … without a heading of its own. In a Parquet file it is the index of
        pandas. A note says what was decided. Ignored for other files.

    Returns
    -------
    array-like of shape (n, d)
        The vectors, one per row. It is an array, a memory map, a sparse matrix (from an npz file of
        ``scipy.sparse.save_npz``) or an object that reads ``X[start:stop]`` from the file. Images (n, h, w)
        become rows of pixels.

    Raises
    ------
    DataFileError
        If the file is damaged, truncated, in another format, or does not hold vectors.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from manihash import open_vectors
    >>> from manihash.hashers import LSH
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.npy"
    ...     np.save(path, np.random.default_rng(0).normal(size=(100, 8)))
    ...     X = open_vectors(path)
    ...     codes = LSH(n_bits=16, random_state=0).fit(X).encode(X)
    >>> codes.shape
    (100, 2)
    """
    path, key, kind = _resolve(path, key)
    if kind == "hdf5":
        X: Any = open_hdf5(path, key)
    elif kind == "parquet":
        X = open_parquet(path, key, index_column)
    elif kind == "npz" and key is None and is_sparse_npz(path):
        X = read_sparse_npz(path)
    else:
        X = _read_raw(path, key, kind, header, index_column)
    _check_real(path, X.dtype)
    if len(X.shape) < 2 or 0 in X.shape:
        raise DataFileError(
            f"{path} holds no rows, an array of shape {X.shape}: give a file with at least one vector"
            if X.shape[:1] == (0,)
            else f"{path} holds an array of shape {X.shape}: expected one vector per row (n, d). "
            "Reshape it, or give another file"
        )
    if isinstance(X, np.memmap) and not X.dtype.isnative:
        return StoredRows(path, X.shape, X.dtype, lambda start, stop: X[start:stop])
    return _native(X.reshape(len(X), -1) if len(X.shape) > 2 else X)


def read_rows(start: int, stop: int, *, path: str, **table: Any) -> NDArray[Any]:
    """Rows start to stop of a data file as an array (stop - start, d), for workers that share the file.

    The file is opened once per process and again when it has changed; ``table`` are keywords of
    ``open_vectors``.
    """
    changed = split_key(path)[0].stat().st_mtime_ns
    rows = _open_cached(path, changed, tuple(sorted(table.items())))[start:stop]
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


@lru_cache(2)
def _open_cached(path: str, changed: int, table: tuple[tuple[str, Any], ...]) -> Any:
    """The vectors of a file; ``changed`` is its modification time."""
    return open_vectors(path, **dict(table))


def write(path: PathLike, array: ArrayLike | Mapping[str, ArrayLike]) -> None:
    """Write an array to a file in the format of its extension, atomically.

    Parameters
    ----------
    path : str or path-like
        The file. ``"file.npz:key"`` sets the name of the array in an npz, HDF5 or Parquet file; the default
        is ``train`` in HDF5 files and ``X`` in the others.
    array : array-like or mapping of str to array-like
        The array. npz, HDF5 and Parquet files also take several arrays by name, and npz files strings.
    """
    path, key = split_key(path, None)
    kind = _kind(path)
    if kind in DEFAULT_KEYS:
        named = array if isinstance(array, Mapping) else {key or DEFAULT_KEYS[kind]: array}
        strings = kind == "npz"
        arrays = {name: _as_numbers(values, strings=strings) for name, values in named.items()}
        with atomic_write(path) as part:
            _KEYED_WRITERS[kind](part, arrays)
        return
    if isinstance(array, Mapping):
        raise ValueError(
            f"{path} holds a single array, got {len(array)} by name: write .npz, .hdf5 or .parquet instead"
        )
    values = _as_numbers(array)
    with atomic_write(path) as part:
        _WRITERS[kind](part, values)


def split_key(path: PathLike, key: str | None = None) -> tuple[Path, str | None]:
    """Path and key of ``"file.npz:key"``; any other path is returned unchanged, with ``key``."""
    match = _WITH_KEY.fullmatch(os.fspath(path))
    if match is None or Path(path).is_file():
        return Path(path), key
    if key is not None and key != match["key"]:
        raise ValueError(f"got two keys, {match['key']!r} in the path and key={key!r}: give one")
    return Path(match["path"]), match["key"]


def _resolve(path: PathLike, key: str | None) -> tuple[Path, str | None, str]:
    """Path, key and kind of an existing file."""
    path, key = split_key(path, key)
    kind = _kind(path)
    if key is not None and kind not in DEFAULT_KEYS:
        raise ValueError(f"{path} holds a single array: remove the key {key!r}")
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}: check the path and the current folder")
    return path, key, kind


def _kind(path: Path) -> str:
    """The format of a file, by its name."""
    suffix = path.suffix.lower()
    if match := _IDX_NAME.fullmatch(path.name):
        return "idx.gz" if match["zipped"] else "idx"
    kind = "hdf5" if suffix == ".h5" else suffix.removeprefix(".")
    if kind not in _READERS and kind not in _KEYED_READERS:
        if path.is_file() and (message := other_kind(path, VECTORS)):
            raise ValueError(message)
        raise ValueError(f"unknown format of {path}: the extension must be {EXTENSIONS}, not {suffix!r}")
    return kind


def _read_raw(
    path: Path, key: str | None, kind: str, header: bool | None, index_column: bool | None
) -> NDArray[Any]:
    """The array in a data file, in the byte order of the file."""
    if kind == "csv":
        return read_csv(path, header, index_column)
    if kind == "parquet":
        return read_parquet(path, key, index_column)
    return _READERS[kind](path) if kind in _READERS else _KEYED_READERS[kind](path, key)


def _native(array: Any) -> Any:
    """The array in native byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _check_real(path: PathLike, dtype: np.dtype[Any]) -> None:
    """Raise if a file holds anything but real numbers."""
    if dtype.kind not in "buif":
        raise DataFileError(f"{path} holds values of type {dtype}: expected real numbers")


def _as_numbers(array: ArrayLike, *, strings: bool = False) -> NDArray[Any]:
    """An array of real numbers, or of strings if these are accepted."""
    values = np.asarray(array)
    if strings and values.dtype == object and all(isinstance(value, str) for value in values.flat):
        return values.astype(str)
    if values.dtype.kind not in "buif":
        raise ValueError(f"got an array of type {values.dtype}: data files hold real numbers")
    return values


_READERS: dict[str, Callable[[Path], NDArray[Any]]] = {
    "npy": read_npy,
    "csv": read_csv,
    "idx": partial(read_idx, zipped=False),
    "idx.gz": partial(read_idx, zipped=True),
    **{kind: partial(read_vecs, kind=kind) for kind in VALUE_TYPES},
}
_KEYED_READERS: dict[str, Callable[[Path, str | None], NDArray[Any]]] = {
    "npz": read_npz,
    "hdf5": read_hdf5,
    "parquet": read_parquet,
}
_WRITERS: dict[str, Callable[[Path, NDArray[Any]], None]] = {
    "npy": write_npy,
    "csv": write_csv,
    "idx": partial(write_idx, zipped=False),
    "idx.gz": partial(write_idx, zipped=True),
    **{kind: partial(write_vecs, kind=kind) for kind in VALUE_TYPES},
}
_KEYED_WRITERS: dict[str, Callable[[Path, Mapping[str, NDArray[Any]]], None]] = {
    "npz": write_npz,
    "hdf5": write_hdf5,
    "parquet": write_parquet,
}
