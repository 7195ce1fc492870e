"""HDF5 files in the layout of ann-benchmarks: arrays train, test, neighbors, distances."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.files.errors import DataFileError
from manihash.files.stored import StoredRows, choose, parsing

USUAL = "train"


def read_hdf5(path: Path, key: str | None) -> NDArray[Any]:
    """An array of the file, in memory."""
    with parsing(path):
        return np.asarray(_dataset(path, key)[()])


def open_hdf5(path: Path, key: str | None) -> StoredRows:
    """The rows of an array of the file, which stays open and is read as they are asked for."""
    with parsing(path):
        held = _dataset(path, key)
        if held.ndim < 2:
            raise DataFileError(f"{path} holds an array of shape {held.shape}: one vector a row was wanted")
        return StoredRows(path, held.shape, held.dtype, lambda start, stop: held[start:stop])


def _dataset(path: Path, key: str | None) -> Any:
    h5py = extra("h5py", "hdf5")
    file = h5py.File(path, "r")
    own = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
    names = [name for name in own if isinstance(file[name], h5py.Dataset)]
    name = choose(path, names, USUAL if key is None and USUAL in names else key)
    if file[name].external or file[name].is_virtual:
        raise DataFileError(f"{path}: {name} lies in other files. Give a file that holds it itself")
    return file[name]


def write_hdf5(part: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name."""
    try:
        with extra("h5py", "hdf5").File(part, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
            train = arrays.get(USUAL)
            if train is not None and train.ndim == 2:
                file.attrs.update(
                    type="dense", distance="euclidean", dimension=train.shape[1], point_type="float"
                )
    except RuntimeError as error:  # so h5py tells that the last bytes could not be written
        if (number := re.search(r"errno = (\d+)", str(error))) is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
