"""The base class of the linear hashers, and the mean and covariance of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manihash.base.principal import principal_directions
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear_map import LinearMap
from manihash.linalg import leading_eigenvectors
from manihash.rows import Rows
from manihash.rows.mapping import RowMap
from manihash.rows.raw import Preparation
from manihash.types import Floats

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
