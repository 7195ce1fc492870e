"""Arrow: rows as lists of one length, in tables and Parquet files. The only file that loads pyarrow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra


def arrow(name: str) -> Any:
    """pyarrow with its reader of Parquet files; ``name`` is the extra of manihash that needs it."""
    extra("pyarrow.parquet", name)
    return extra("pyarrow", name)


def as_lists(array: NDArray[Any], name: str) -> Any:
    """An Arrow column of the rows of a two-dimensional array, or of the values of a one-dimensional one."""
    pa = arrow(name)
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
    )
