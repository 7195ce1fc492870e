"""LSH under a Mahalanobis metric (Kulis, Jain and Grauman, 2009)."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.hashers._linear import LinearHasher, mean_of, moments
from manihash.linalg import inverse_square_root
from manihash.rows import Rows
from manihash.types import Floats

_ROUNDING = 1e-8


class MahalanobisLSH(LinearHasher):
    """Bits sign(rᵀ G (x - mean)) with Gaussian r and A = GᵀG: LSH of the rows as the metric A sees them.

    Two points differ in a bit with probability angle / π, the angle between G (x - mean) and G (y - mean).

    Parameters
    ----------
    metric: A (d, d), symmetric and without negative eigenvalues, such as a metric learner gives; None for the
        inverse covariance of the rows, under which they are white.
    regularization: share of the mean variance that is added to every variance before it is inverted.
    center: subtract the mean, as in ``LSH``.
    """

    def __init__(
        self,
        n_bits: int = 64,
        metric: Any = None,
        regularization: float = 1.0,
        center: bool = True,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.metric = metric
        self.regularization = regularization
        self.center = center
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_number(self.regularization, "regularization", zero=True)

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        r = rng.standard_normal((rows.width, self.n_bits))
        if self.metric is None:
            found = moments(rows)
            mean, G = found.mean, whitening(found.covariance, self.regularization)
        else:
            mean, G = mean_of(rows), root_of(self.metric, rows.width)
        self.projection_ = G.T @ r
        self.offset_ = mean @ self.projection_ if self.center else np.zeros(self.n_bits)


def whitening(covariance: Floats, share: float) -> Floats:
    """G = (S + share · mean variance · I)^-1/2 (d, d), symmetric; 0 in directions still without variance."""
    values, vectors = eigh(covariance)
    mean = values.mean()
    if mean <= 0:
        raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
    values += share * mean
    return inverse_square_root(values, vectors, _ROUNDING)


def root_of(metric: Any, d: int) -> Floats:
    """G = A^1/2 (d, d), symmetric, if A is a metric for vectors of width d."""
    A = np.asarray(metric, np.float64)
    if A.shape != (d, d) or not np.isfinite(A).all():
        raise ValueError(
            f"the metric must be finite numbers ({d}, {d}) for vectors of width {d}, not {A.shape}"
        )
    size = np.abs(A).max()
    if size == 0 or np.abs(A - A.T).max() > _ROUNDING * size:
        raise ValueError("the metric must be symmetric and not zero: give A = GᵀG, not G")
    values, vectors = eigh(A)
    if values[0] < -_ROUNDING * values[-1]:
        raise ValueError(
            f"the metric has the negative eigenvalue {values[0]:.3g}, under which distances are none: "
            "give A = GᵀG, whose eigenvalues are zero or more"
        )
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
