"""fvecs, ivecs and bvecs: each row is its dimension (int32) followed by its values, all little-endian."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DataFileError

VALUE_TYPES = {"fvecs": "<f4", "ivecs": "<i4", "bvecs": "u1"}
DIMENSION = np.dtype("<i4")
ROWS_CHECKED = 4096
ROWS_AT_ONCE = 65536


def read_vecs(path: Path, *, kind: str) -> NDArray[Any]:
    """The rows (n, d) of a vecs file, memory-mapped: a view that skips the dimension of each row.

    The dimension is checked in a sample of ``ROWS_CHECKED`` rows, the first and the last among them, so that
    opening a file of many gigabytes does not read all of it.
    """
    value = np.dtype(VALUE_TYPES[kind])
    size = path.stat().st_size
    if size < DIMENSION.itemsize:
        raise DataFileError(f"{path} is truncated: its {size} bytes are less than one row. Copy it again")
    d = int(np.fromfile(path, DIMENSION, count=1)[0])
    if d < 1:
        raise DataFileError(f"{path} has rows of {d} values: it is damaged, or not a {kind} file")
    step = DIMENSION.itemsize + d * value.itemsize
    if size % step:
        raise DataFileError(
            f"{path} is truncated or damaged: rows of {d} values take {step} bytes, and its {size} bytes "
            f"are {size // step} rows and {size % step} more bytes. Copy it again"
        )
    rows = np.memmap(path, np.uint8, "r", shape=(size // step, step))
    _check_dimensions(path, rows, d)
    values: NDArray[Any] = rows[:, DIMENSION.itemsize :].view(value)
    return values


def _check_dimensions(path: Path, rows: NDArray[np.uint8], d: int) -> None:
    """Raise if a row in a sample does not have d values; ``rows`` (n, bytes) include the dimension."""
    sample = np.unique(np.linspace(0, len(rows) - 1, ROWS_CHECKED).astype(np.int64))
    dimensions = np.ascontiguousarray(rows[sample, : DIMENSION.itemsize]).view(DIMENSION)[:, 0]
    if (dimensions != d).any():
        at = int((dimensions != d).argmax())
        raise DataFileError(
            f"{path}: row {sample[at]} has {dimensions[at]} values, row 0 has {d}. Expected rows of one "
            "length: the file is damaged, or in another format"
        )


def write_vecs(part: Path, array: NDArray[Any], *, kind: str) -> None:
    """Write the rows (n, d) of an array to ``part`` as fvecs, ivecs or bvecs."""
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"got an array of shape {array.shape}: {kind} files hold at least one row of at least one value"
        )
    value = np.dtype(VALUE_TYPES[kind])
    _check_values(array, value, kind)
    record = np.dtype([("d", DIMENSION), ("values", value, (array.shape[1],))])
    with open(part, "wb") as file:
        for start in range(0, len(array), ROWS_AT_ONCE):
            block = array[start : start + ROWS_AT_ONCE]
            rows = np.empty(len(block), record)
            rows["d"] = array.shape[1]
            rows["values"] = block
            rows.tofile(file)


def _check_values(array: NDArray[Any], value: np.dtype[Any], kind: str) -> None:
    """Raise if the type of the file would change a value by more than rounding to float32."""
    if value.kind == "f":
        return
    limits = np.iinfo(value)
    if array.dtype.kind not in "bui" or array.min() < limits.min or array.max() > limits.max:
        raise ValueError(
            f"got values of type {array.dtype} from {array.min()} to {array.max()}: {kind} files hold "
            f"integers from {limits.min} to {limits.max}. Convert them first, or write .fvecs or .npy"
        )
