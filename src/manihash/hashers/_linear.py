"""What the linear hashers share: the moments of the rows, and codes from a projection."""

from dataclasses import dataclass

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.linalg import leading_eigenvectors
from manihash.rows import Rows
from manihash.types import Floats


class LinearHasher(Hasher):
    """Bits sign(xᵀP - b): a subclass's ``_fit`` sets ``projection_`` P (d, r) and ``offset_`` b (r,)."""

    projection_: Floats
    offset_: Floats

    def _embed(self, X: Floats) -> Floats:
        Y = numpy_backend.product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y -= self.offset_.astype(X.dtype, copy=False)
        return Y


@dataclass(frozen=True)
class Moments:
    """Mean (d,) and covariance (d, d) of rows, divided by n."""

    mean: Floats
    covariance: Floats


def mean_of(rows: Rows) -> Floats:
    """The mean of the rows (d,), in float64."""
    _, (total,) = rows.fold(lambda X: ((), (X.sum(axis=0, dtype=np.float64),)))
    return total / len(rows)


def moments(rows: Rows) -> Moments:
    """Mean and covariance, summed over blocks in float64; about the mean, so large offsets do no harm."""
    mean = mean_of(rows)
    center = mean.astype(rows.dtype)

    def scatter(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = X - center
        return (), (Z.T @ Z,)

    _, (total,) = rows.fold(scatter, "covariance")
    return Moments(mean, total / len(rows))


def principal_directions(covariance: Floats, r: int) -> tuple[Floats, Floats]:
    """The r directions (d, r) of largest variance, and their variances (r,), largest first; signs fixed."""
    d = len(covariance)
    if r > d:
        raise ValueError(
            f"{r} bits asked of principal components of {d} dimensions, which are {d} at most: "
            "lower n_bits, or take a method that is not bound by the width, such as imh-tsne or lsh"
        )
    values, vectors = leading_eigenvectors(covariance, r)
    return vectors, values
