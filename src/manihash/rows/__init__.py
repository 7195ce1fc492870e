"""How the rows of X are visited in blocks: on this machine, on a Dask cluster, or on a device of torch.

``rows_of`` is the only place that asks what X is. Methods call ``map``, ``fold``, ``stack`` and ``take`` of
the ``Rows`` it returns, and work the same for all of them.
"""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.rows.dask import DaskRows, is_dask
from manihash.rows.local import LocalRows
from manihash.rows.rows import Rows
from manihash.rows.torch import TorchRows, uses_torch
from manihash.types import Floats, Ints

__all__ = ["Rows", "kind_of", "rows_of"]

# An origin is subtracted if |mean|² of the rows is more than this many times their mean squared deviation.
_FAR = 100
# The rows from which the mean is estimated: some ranges of consecutive rows, since files are read in ranges.
_RANGES, _RANGE_ROWS, _RANGE_NUMBERS = 8, 64, 2**17


def rows_of(
    X: Any, *, normalize: bool = False, origin: Floats | None = None, by_distance: bool = False
) -> Rows:
    """The rows of X, to be visited in blocks.

    ``origin`` (d,) is subtracted from each row. If only the distances between rows matter to the method
    (``by_distance``), the origin is chosen here: see ``far_origin``.
    """
    rows = kind_of(X)(X, normalize=normalize, origin=origin)
    if by_distance:
        rows.origin = far_origin(rows)
    return rows


def kind_of(X: Any) -> type[Rows]:
    """The class that visits the rows of X."""
    if isinstance(X, np.ndarray):
        return LocalRows
    if uses_torch(X):
        return TorchRows
    return DaskRows if is_dask(X) else LocalRows


def far_origin(rows: Rows) -> Floats | None:
    """The mean of some rows if float32 rows lie so far from zero that their distances would lose precision.

    |x|² - 2xᵀc + |c|² is then a small difference of large numbers. Distances do not depend on the origin.
    """
    if rows.dtype == np.float64:
        return None
    try:
        some = rows.take(_spread_positions(len(rows), rows.width)).astype(np.float64)
    except checks.BadRowsError:
        for _ in rows.map(len):  # raises the error for the first invalid row
            pass
        raise
    mean = some.mean(axis=0)
    spread = float(numpy_backend.squared_norms(some - mean).mean())
    return mean if float(mean @ mean) > _FAR * spread > 0 else None


def _spread_positions(n: int, width: int) -> Ints:
    """Positions of some rows out of n: a few ranges, evenly spaced."""
    rows = min(_RANGE_ROWS, 2 + _RANGE_NUMBERS // max(width, 1))
    starts = np.linspace(0, max(n - rows, 0), _RANGES).astype(np.intp)
    positions = np.unique(starts[:, None] + np.arange(rows))
    return positions[positions < n]
