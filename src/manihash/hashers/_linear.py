"""The base class of the linear hashers, and the mean and covariance of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear_map import LinearMap
from manihash.rows import Rows
from manihash.rows.mapping import Result, RowMap
from manihash.rows.raw import Preparation
from manihash.types import Floats


class LinearHasher(Hasher):
    """Bits sign(Pᵀx - b): the ``_fit`` of a subclass sets ``projection_`` P (d, r) and ``offset_`` b (r,)."""

    maps_tensors = True
    projection_: Floats
    offset_: Floats

    def _embed(self, X: Floats) -> Floats:
        Y = numpy_backend.rowwise_product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y -= self.offset_.astype(X.dtype, copy=False)
        return Y

    def _map_tensor(self, X: Any, result: Result) -> Any:
        """As ``RowEstimator._map_tensor``: one product."""
        xp = backend(X)
        Y = xp.product(X, xp.like(self.projection_.T, X)) - xp.like(self.offset_, X)
        return Y if result == "values" else Y > 0 if result == "bits" else xp.pack(Y > 0)

    def _make_map(self, preparation: Preparation) -> RowMap:
        return LinearMap(self.projection_, self.offset_, preparation)


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
    mean = mean_of(rows)
    center = mean.astype(rows.dtype)

    def scatter(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = X - center
        return (), (Z.T @ Z,)

    _, (total,) = rows.fold(scatter, "covariance")
    return Moments(mean, total / len(rows))


def check_n_bits(n_bits: int, d: int, alternative: str) -> None:
    """Raise if a method that derives one bit from each of d orthogonal directions is asked for more bits."""
    if n_bits > d:
        raise ValueError(f"n_bits={n_bits} exceeds the {d} columns of X: lower n_bits, or {alternative}")
