"""The array types used in annotations throughout the package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 or float64; a tensor if torch computes with the rows
Ints = NDArray[np.intp]  # positions of rows, base points or bits
Ids = NDArray[Any]  # ids of rows, chosen by the user: int64, or strings in an array of objects
Codes = NDArray[np.uint8]  # packed codes (n, bytes)
Mask = NDArray[np.bool_]
