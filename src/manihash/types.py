"""Types of arrays, one name for each: what annotations say throughout the package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32 or float64; a torch tensor where rows are torch's
Ints = NDArray[np.intp]  # positions: of rows, base points, bits
Ids = NDArray[np.int64]  # ids of rows as users give them
Codes = NDArray[np.uint8]  # packed codes (n, bytes)
Mask = NDArray[np.bool_]
