"""How the rows of X are visited in blocks: on this machine, on a Dask cluster, or on a device of torch.

``rows_of`` is the only place that asks what X is. Methods call ``map``, ``fold``, ``stack`` and ``take`` of
the ``Rows`` it returns, and work the same for all of them.
"""

from typing import Any

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.errors import BadRowsError
from manihash.rows.dask import DaskRows, is_dask
from manihash.rows.local import LocalRows
from manihash.rows.rows import Rows
from manihash.rows.torch import TorchRows, uses_torch
from manihash.types import Floats, Ints

__all__ = ["Rows", "kind_of", "rows_of", "rows_to_fit"]

# Rows are far from zero if |mean|² is more than this many times their mean squared deviation.
_FAR = 100
# float32 rows are computed in float64 if their mean squared deviation is outside of this range.
_SAFE = 1e-24, 1e24
# The smallest mean squared deviation that float64 rows may have.
_FAINTEST = 1e-250
# The rows from which the mean is estimated: some ranges of consecutive rows, since files are read in ranges.
_RANGES, _RANGE_ROWS, _RANGE_NUMBERS = 8, 64, 2**17


def rows_of(X: Any, *, normalize: bool = False, origin: Floats | None = None, dtype: Any = None) -> Rows:
    """The rows of X, to be visited in blocks; ``origin`` (d,) is subtracted from each row."""
    return kind_of(X)(X, normalize=normalize, origin=origin, dtype=dtype)


def rows_to_fit(X: Any, *, normalize: bool = False, by_distance: bool) -> Rows:
    """The rows of X to fit a model to, with an origin and a type in which squared distances are precise.

    If the result of the method does not change when a vector is added to all rows (``by_distance``), rows far
    from zero get an origin; otherwise they are computed in float64. So are float32 rows whose squares would
    leave the range of float32.
    """
    rows = kind_of(X)(X, normalize=normalize)
    mean, spread = _mean_and_spread(rows)
    far = _is_far(mean, spread)
    if far and by_distance:
        rows.origin = _short_mantissa(mean)
    if (far and not by_distance) or (spread > 0 and not _SAFE[0] <= spread <= _SAFE[1]):
        rows.needs_float64 = True
        rows.dtype = np.dtype(np.float64)
    return rows


def kind_of(X: Any) -> type[Rows]:
    """The class that visits the rows of X."""
    if isinstance(X, np.ndarray):
        return LocalRows
    if uses_torch(X):
        return TorchRows
    return DaskRows if is_dask(X) else LocalRows


def far_origin(rows: Rows) -> Floats | None:
    """The mean of some rows if they lie so far from zero that their distances would lose precision.

    |x|² - 2xᵀc + |c|² is then a small difference of large numbers. Distances do not depend on the origin.
    """
    mean, spread = _mean_and_spread(rows)
    return _short_mantissa(mean) if _is_far(mean, spread) else None


def _is_far(mean: Floats, spread: float) -> bool:
    """Whether squared distances of rows lose precision, given their mean (d,) and mean squared deviation."""
    return float(mean @ mean) > _FAR * spread > 0


def _mean_and_spread(rows: Rows) -> tuple[Floats, float]:
    """The mean (d,) and the mean squared deviation of some rows, in float64."""
    try:
        some = rows.take(_spread_positions(len(rows), rows.width)).astype(np.float64)
    except BadRowsError:
        rows.check_all()  # raises the error for the first invalid row
        raise
    mean = some.mean(axis=0)
    spread = float(numpy_backend.squared_norms(some - mean).mean())
    if spread < _FAINTEST and np.ptp(some, axis=0).any():
        raise BadRowsError(
            f"the squares of the differences between rows underflow float64 (mean {spread:.0e}): "
            "scale the vectors up"
        )
    return mean, spread


def _short_mantissa(origin: Floats) -> Floats:
    """The origin (d,) rounded to 24 significant bits: then it is the same number in float32 and float64."""
    mantissa, exponent = np.frexp(origin)
    return np.ldexp(np.round(np.ldexp(mantissa, 24)), exponent - 24)


def _spread_positions(n: int, width: int) -> Ints:
    """Positions of some rows out of n: a few ranges, evenly spaced."""
    rows = min(_RANGE_ROWS, 2 + _RANGE_NUMBERS // max(width, 1))
    starts = np.linspace(0, max(n - rows, 0), _RANGES).astype(np.intp)
    positions = np.unique(starts[:, None] + np.arange(rows))
    return positions[positions < n]
