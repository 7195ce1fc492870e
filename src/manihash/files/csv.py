"""CSV files: rows of numbers with commas between them, with or without a header."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.files.errors import DataFileError


def read_csv(path: Path) -> NDArray[Any]:
    """The numbers (n, d) of a CSV file as float64; a first line that is not all numbers is a header."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline()
            header = not all(_is_number(field) for field in first.split(","))
            if header:
                first = file.readline()
            if not first.strip():
                raise ValueError("the file has no rows")
            file.seek(0)
            return np.loadtxt(file, delimiter=",", skiprows=int(header), ndmin=2, comments=None)
    except ValueError as error:
        raise DataFileError(
            f"{path} is not a table of numbers with commas between them: {str(error)[:100]} (rows are "
            "counted without the header). Remove columns of text, and separate the numbers by commas"
        ) from error


def _is_number(field: str) -> bool:
    """Whether a field of a CSV file is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def write_csv(part: Path, array: NDArray[Any]) -> None:
    """Write an array (n,) or (n, d) to ``part`` as CSV; floats are read back exactly."""
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"got an array of shape {array.shape}: csv files hold at least one row of numbers")
    digits = {2: "%.5g", 4: "%.9g"}.get(array.dtype.itemsize, "%.17g")
    np.savetxt(part, array, delimiter=",", fmt=digits if array.dtype.kind == "f" else "%d")
