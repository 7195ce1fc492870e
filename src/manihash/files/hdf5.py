"""HDF5 files in the layout of ann-benchmarks: arrays train, test, neighbors, distances."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.errors import DataFileError
from manihash.files.stored import StoredRows, choose_key, parser_errors

DEFAULT_KEY = "train"


def read_hdf5(path: Path, key: str | None) -> NDArray[Any]:
    """One array of an HDF5 file, in memory."""
    with parser_errors(path):
        return np.asarray(_dataset(path, key)[()])


def open_hdf5(path: Path, key: str | None) -> StoredRows:
    """The rows (n, d) of one array of an HDF5 file, which stays open and is read in slices."""
    with parser_errors(path):
        held = _dataset(path, key)
        if held.ndim < 2:
            raise DataFileError(f"{path} holds an array of shape {held.shape}: expected one vector per row")
        return StoredRows(path, held.shape, held.dtype, lambda start, stop: held[start:stop])


def _dataset(path: Path, key: str | None) -> Any:
    """The h5py dataset of a key; links to other files are ignored, data in other files is refused."""
    h5py = extra("h5py", "hdf5")
    file = h5py.File(path, "r")
    own = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
    names = [name for name in own if isinstance(file[name], h5py.Dataset)]
    name = choose_key(path, names, DEFAULT_KEY if key is None and DEFAULT_KEY in names else key)
    if file[name].external or file[name].is_virtual:
        raise DataFileError(f"{path}: {name} is stored in other files. Give a file that contains it")
    return file[name]


def write_hdf5(part: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name to ``part`` as HDF5, with the attributes of ann-benchmarks."""
    try:
        with extra("h5py", "hdf5").File(part, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
            train = arrays.get(DEFAULT_KEY)
            if train is not None and train.ndim == 2:
                file.attrs.update(
                    type="dense", distance="euclidean", dimension=train.shape[1], point_type="float"
                )
    except RuntimeError as error:  # h5py raises it if the last bytes could not be written
        if (number := re.search(r"errno = (\d+)", str(error))) is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
