"""The map of rows by linear hashers: bits that are certain, and values that do not depend on the batch.

Values t (z·p_j - b_j) are computed in the type of the rows, with a bound on their error. A value beyond the
bound has a certain sign. The others are computed again in float64, in a fixed order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import paired_products, sum_error, underflow_error
from manihash.compute.threads import single_blas_thread
from manihash.rows.raw import DecidedMap, Preparation, ScaledBlock
from manihash.types import Codes, Floats, Ints, Mask

# Values that are computed again at once.
_PAIRS = 1_024


class LinearMap(DecidedMap):
    """Maps rows to signs of Pᵀz - b, for P (d, r) and b (r,)."""

    def __init__(self, P: Floats, b: Floats, preparation: Preparation) -> None:
        self.preparation = preparation
        self._p, self._b = np.ascontiguousarray(P.T, np.float64), b.astype(np.float64)  # (r, d), (r,)
        length = np.sqrt(np.square(self._p).sum(axis=1))
        length[length == 0] = 1
        # In units of |p_j|, one bound holds for all values of a row.
        with np.errstate(over="ignore"):
            self._typed = (self._p / length[:, None]).astype(preparation.dtype)
            self._offset = (self._b / length).astype(preparation.dtype)
        self._highest = float(np.abs(self._b / length).max())
        self._lengths = length

    def bits(self, part: Any, row_numbers: Any) -> NDArray[np.uint8]:
        """As ``RowMap.bits``."""
        with np.errstate(all="ignore"):
            block = self.preparation.scaled(part, row_numbers)
            Y = block.rows @ self._typed.T
            Y -= block.scale[:, None] * self._offset
            uncertain = ~(np.abs(Y) > self._error(block)[:, None])
        signs = Y > 0
        self._repeat(part, uncertain, signs)
        return signs.view(np.uint8)

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """As ``RowMap.codes``."""
        return codes.pack(self.bits(part, row_numbers))

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """As ``RowMap.values``; computed in float64."""
        with np.errstate(all="ignore"):
            self.preparation.scaled(part, row_numbers)  # checks the rows
            Z = self.preparation.exact(part)
            with single_blas_thread():
                Y = numpy_backend.rowwise_product(Z, self._p) - self._b
            size = np.sqrt(numpy_backend.squared_norms(Z))[:, None] + self._highest
            uncertain = ~(np.abs(Y) > sum_error(Z.shape[1], np.float64) * size * self._lengths)
        self._repeat(part, uncertain, Y)
        return Y.astype(self.preparation.dtype)

    def _error(self, block: ScaledBlock) -> Floats:
        """A bound (b,) on the errors of the values of each row, in units of |p_j|."""
        d, dtype = block.rows.shape[1], block.rows.dtype
        relative = sum_error(d, dtype)
        error: Floats = block.length * relative + block.scale * (relative * self._highest)
        return error + (block.error + underflow_error(d, dtype))

    def _repeat(self, part: Any, uncertain: Mask, out: Any) -> None:
        """Set uncertain values in ``out``, or whether they are positive, computed again in a fixed order."""
        i, j = np.nonzero(uncertain)
        self.count(len(np.unique(i)), len(part))
        for start in range(0, len(i), _PAIRS):
            rows, columns = i[start : start + _PAIRS], j[start : start + _PAIRS]
            Y = self._exact(self.preparation.exact(part[rows]), columns)
            out[rows, columns] = Y > 0 if out.dtype == bool else Y

    def _exact(self, Z: Floats, columns: Ints) -> Floats:
        return paired_products(Z, self._p, columns[:, None])[:, 0] - self._b[columns]
