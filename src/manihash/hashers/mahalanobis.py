"""LSH under a Mahalanobis metric (Kulis, Jain and Grauman, 2009)."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.hashers._linear import LinearHasher, mean_of, moments
from manihash.linalg import inverse_square_root
from manihash.rows import Rows
from manihash.types import Floats

# Eigenvalues below this share of the largest one are rounding errors.
_ROUNDING = 1e-8


class MahalanobisLSH(LinearHasher):
    """Locality-sensitive hashing under a Mahalanobis metric.

        h_j(x) = sign(r_jᵀ G (x - mean)),   r_j ~ N(0, I),   A = GᵀG

    This is LSH of the rows G x, whose Euclidean distances are the distances of the metric A. Two rows differ
    in a bit with probability θ / π, where θ is the angle between G (x - mean) and G (y - mean).

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    metric : array-like of shape (d, d) or None, default=None
        A, symmetric and positive semidefinite, for example from a metric learner. None means the inverse
        covariance of the rows, which whitens them.
    regularization : float, default=1.0
        Share of the mean variance that is added to every variance before it is inverted. Used if metric is
        None.
    center : bool, default=True
        Subtract the mean of the training rows before the projection.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random projections. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions Gᵀ r_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        The projection of the mean, which is subtracted; zeros if ``center=False``.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] B. Kulis, P. Jain and K. Grauman, "Fast similarity search for learned metrics", IEEE TPAMI 31(12),
       2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import MahalanobisLSH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = MahalanobisLSH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
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
        checks.flag(self.center, "center")
        checks.positive_number(self.regularization, "regularization", zero=True)

    @property
    def _by_distance(self) -> bool:
        return bool(self.center)

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        r = rng.standard_normal((rows.width, self.n_bits))
        if self.metric is None:
            stats = moments(rows)
            mean, G = stats.mean, whitening(stats.covariance, self.regularization)
        else:
            mean, G = mean_of(rows), metric_root(self.metric, rows.width)
        self.projection_ = G.T @ r
        self.offset_ = mean @ self.projection_ if self.center else np.zeros(self.n_bits)


def whitening(covariance: Floats, share: float) -> Floats:
    """G = (S + share · mean variance · I)^-1/2 (d, d), symmetric; 0 in directions without variance."""
    values, vectors = eigh(covariance)
    mean = values.mean()
    if mean <= 0:
        raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
    values += share * mean
    return inverse_square_root(values, vectors, _ROUNDING)


def metric_root(metric: Any, d: int) -> Floats:
    """G = A^1/2 (d, d), symmetric; raises if A is not a metric for rows of d columns."""
    A = np.asarray(metric, np.float64)
    if A.shape != (d, d) or not np.isfinite(A).all():
        raise ValueError(
            f"metric must have shape ({d}, {d}) and finite numbers for rows of {d} columns, got {A.shape}"
        )
    size = np.abs(A).max()
    if size == 0 or np.abs(A - A.T).max() > _ROUNDING * size:
        raise ValueError("metric must be symmetric and not zero: give A = GᵀG, not G")
    values, vectors = eigh(A)
    if values[0] < -_ROUNDING * values[-1]:
        raise ValueError(
            f"metric has the negative eigenvalue {values[0]:.3g}, so it does not define distances: "
            "give A = GᵀG, which has no negative eigenvalues"
        )
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
