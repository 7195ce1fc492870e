"""npy and npz files, among them the npz files of ``scipy.sparse.save_npz``."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.files.stored import choose_key, parser_errors


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an npy file, memory-mapped."""
    with parser_errors(path):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path, key: str | None) -> NDArray[Any]:
    """One array of an npz file, in memory."""
    with parser_errors(path), zipfile.ZipFile(path), np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[choose_key(path, list(archive.files), key)])


def is_sparse_npz(path: Path) -> bool:
    """Whether ``scipy.sparse.save_npz`` wrote an npz file."""
    with parser_errors(path), zipfile.ZipFile(path) as archive:
        return {"data.npy", "format.npy", "shape.npy"} <= set(archive.namelist())


def read_sparse_npz(path: Path) -> Any:
    """The CSR matrix (n, d) of an npz file of ``scipy.sparse.save_npz``."""
    from scipy.sparse import load_npz

    with parser_errors(path):
        X: Any = load_npz(path)
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
