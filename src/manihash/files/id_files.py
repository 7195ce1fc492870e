"""Files of ids: integers of any data file, or strings of a text file, an npy, npz or Parquet file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.files.csv import read_lines
from manihash.files.formats import read, split_key
from manihash.files.npy import read_npy, read_npz
from manihash.files.parquet import EXTRA, arrow
from manihash.files.stored import parser_errors


def read_ids(path: str, **table: Any) -> NDArray[Any]:
    """The ids or booleans (n,) of a file: strings as objects; whole numbers of a CSV file as int64."""
    file, key = split_key(path)
    strings = _strings(file, key)
    if strings is not None:
        return strings
    ids = read(path, **table)
    if ids.ndim == 2 and 1 in ids.shape:
        ids = ids.reshape(-1)
    if ids.dtype != np.float64 or not np.isfinite(ids).all() or np.abs(ids).max(initial=0) >= 2**53:
        return ids
    whole = ids.astype(np.int64)
    return whole if np.array_equal(whole, ids) else ids


def _strings(file: Path, key: str | None) -> NDArray[Any] | None:
    """The strings of a file; None if it holds numbers."""
    suffix = file.suffix.lower()
    if suffix == ".txt":
        return np.array(read_lines(file), object)
    if suffix in (".npy", ".npz"):
        array = read_npy(file) if suffix == ".npy" else read_npz(file, key)
        return array.astype(object).reshape(-1) if array.dtype.kind == "U" else None
    if suffix == ".parquet" and key is not None:
        pa = arrow(EXTRA)
        with parser_errors(file), pa.parquet.ParquetFile(file) as parquet:
            kinds = {field.name: field.type for field in parquet.schema_arrow}
            if kinds.get(key) not in (pa.string(), pa.large_string()):
                return None
            values: NDArray[Any] = parquet.read([key])[key].to_numpy()
            return values.astype(object)
    return None
