"""npy and npz files, among them the npz files of ``scipy.sparse.save_npz``."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DataFileError
from manihash.files.stored import choose_key, parser_errors

# One row of more columns would take 16 GiB.
_MOST_COLUMNS = 2**31
_HEADER_READERS: dict[tuple[int, ...], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an npy file, memory-mapped."""
    with parser_errors(path):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path, key: str | None) -> NDArray[Any]:
    """One array of an npz file, in memory."""
    with parser_errors(path), zipfile.ZipFile(path) as zipped, np.load(path, allow_pickle=False) as archive:
        name = choose_key(path, list(archive.files), key)
        _check_claims(path, zipped, [name])
        return np.asarray(archive[name])


def _check_claims(path: Path, zipped: zipfile.ZipFile, names: list[str]) -> None:
    """Raise if an array of an npz file claims more bytes than the file holds: numpy would allocate them."""
    for name in names:
        member = name if name in zipped.namelist() else f"{name}.npy"
        with zipped.open(member) as file:
            if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                continue  # not an array: numpy refuses it
            version = tuple(file.read(2))
            if version not in _HEADER_READERS:
                continue
            shape, _, kind = _HEADER_READERS[version](file)
            claimed, held = math.prod(shape) * kind.itemsize, zipped.getinfo(member).file_size - file.tell()
            if claimed > held and not kind.hasobject:
                raise DataFileError(
                    f"{path}: {name} claims {claimed:,} bytes of numbers, shape {shape}, but holds {held:,}: "
                    "the file is truncated or damaged. Copy it again"
                )


def is_sparse_npz(path: Path) -> bool:
    """Whether ``scipy.sparse.save_npz`` wrote an npz file."""
    with parser_errors(path), zipfile.ZipFile(path) as archive:
        return {"data.npy", "format.npy", "shape.npy"} <= set(archive.namelist())


def read_sparse_npz(path: Path) -> Any:
    """The CSR matrix (n, d) of an npz file of ``scipy.sparse.save_npz``."""
    from scipy.sparse import load_npz

    with parser_errors(path):
        with zipfile.ZipFile(path) as zipped:
            _check_claims(path, zipped, zipped.namelist())
        X: Any = load_npz(path)
        if X.ndim == 2 and X.shape[1] > _MOST_COLUMNS:
            raise DataFileError(
                f"{path} claims {X.shape[1]:,} columns, expected at most {_MOST_COLUMNS:,}: the file is "
                "damaged, or its columns must be reduced first, for example by hashing their numbers"
            )
        if hasattr(X, "check_format"):  # before the conversion, which trusts the indices
            X.check_format(full_check=True)
        X = X.tocsr()
        X.check_format(full_check=True)
        return X


def write_npy(part: Path, array: NDArray[Any]) -> None:
    """Write an array to ``part`` as npy."""
    with open(part, "wb") as file:
        np.save(file, array, allow_pickle=False)


def write_npz(part: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name to ``part`` as npz, without compression."""
    with zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
