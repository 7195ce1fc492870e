"""The base class of the linear hashers, the mean and covariance of rows, and the map of rows to bits.

Bits are certain, and values do not depend on the batch: values t (z·p_j - b_j) are computed in the type of
the rows, with a bound on their error. A value beyond the bound has a certain sign. The others are computed
again in float64, in a fixed order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.base.principal import principal_directions
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import paired_products, sum_error, underflow_error
from manihash.compute.threads import single_blas_thread
from manihash.hashers._hasher import Hasher
from manihash.linalg import leading_eigenvectors
from manihash.rows import Rows
from manihash.rows.mapping import RowMap
from manihash.rows.raw import DecidedMap, Preparation, ScaledBlock
from manihash.types import Codes, Floats, Ints, Mask

# Up to this width directions are computed from the whole covariance (512 MiB); wider ones are not built.
_WIDE, _WIDEST_COVARIANCE = 8_192, 32_768


class LinearHasher(Hasher):
    """Bits sign(Pᵀx - b): the ``_fit`` of a subclass sets ``projection_`` P (d, r) and ``offset_`` b (r,)."""

    maps_tensors = True
    projection_: Floats
    offset_: Floats

    def _embed(self, X: Any) -> Any:
        return linear_values(X, self.projection_, self.offset_)

    def _make_map(self, preparation: Preparation) -> RowMap:
        return LinearMap(self.projection_, self.offset_, preparation)


def linear_values(X: Any, P: Floats, b: Floats) -> Any:
    """Pᵀx - b (n, r) of each row of a block X (n, d), an array or a tensor, for P (d, r) and b (r,)."""
    xp = backend(X)
    product = numpy_backend.rowwise_product if xp is numpy_backend else xp.product
    return product(X, xp.like(P.T, X)) - xp.like(b, X)


@dataclass(frozen=True)
class Moments:
    """The mean (d,) and the covariance (d, d) of n rows, normalized by n."""

    mean: Floats
    covariance: Floats


def mean_of(rows: Rows) -> Floats:
    """The mean of the rows (d,), in float64."""
    _, (total,) = rows.fold(lambda X: ((), (X.sum(axis=0, dtype=np.float64),)))
    return total / len(rows)


def moments(rows: Rows) -> Moments:
    """Mean and covariance of the rows, summed over blocks in float64.

    The mean is subtracted before squaring, so that a large mean costs no precision.
    """
    if rows.width > _WIDEST_COVARIANCE:
        raise ValueError(
            f"the covariance of {rows.width:,} columns would take {8 * rows.width**2 / 2**30:.0f} GiB, "
            f"expected at most {_WIDEST_COVARIANCE:,} columns: reduce them first, for example with "
            "scikit-learn's TruncatedSVD, or use a method without it, such as ITQ, LSH or IMH"
        )
    mean = mean_of(rows)
    center = mean.astype(rows.dtype)

    def scatter(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = X - center
        return (), (Z.T @ Z,)

    _, (total,) = rows.fold(scatter, "covariance")
    return Moments(mean, total / len(rows))


def principal_axes(rows: Rows, r: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """The mean (d,), and the r directions (d, r) of largest variance with their variances (r,), descending.

    The covariance (d, d) of wide rows would not fit into memory: their directions are approximate, by
    subspace iteration.
    """
    if rows.width <= _WIDE:
        stats = moments(rows)
        return stats.mean, *leading_eigenvectors(stats.covariance, r)[::-1]
    mean = mean_of(rows)
    directions = principal_directions(rows, r, rng)  # (r, d)
    center = mean.astype(rows.dtype)

    def squares(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        V = numpy_backend.product(X - center, directions)
        return (), (np.square(V, dtype=np.float64).sum(axis=0),)

    _, (total,) = rows.fold(squares, "variances")
    return mean, directions.T.astype(np.float64), total / len(rows)


def check_n_bits(n_bits: int, d: int, alternative: str) -> None:
    """Raise if a method that derives one bit from each of d orthogonal directions is asked for more bits."""
    if n_bits > d:
        raise ValueError(f"n_bits={n_bits} exceeds the {d} columns of X: lower n_bits, or {alternative}")


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
