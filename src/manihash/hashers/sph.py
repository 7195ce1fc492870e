"""Spherical hashing (Heo, Lee, He, Chang and Yoon, 2012)."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.hashers._hasher import Hasher
from manihash.progress import advance
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats

_log = logging.getLogger(__name__)

_ROWS_PER_CENTER = 5


class SpH(Hasher):
    """Spherical hashing: inside or outside of balanced spheres.

        h_i(x) = sign(t_i - |x - p_i|)

    Each sphere with center p_i and radius t_i contains half of the training rows. The centers are moved until
    two spheres share about a quarter of the n training rows: the overlaps o_ij have a mean |o_ij - n/4| of at
    most ``tolerance`` n/4 and a standard deviation of at most ``deviation`` n/4. The real values are signed
    distances to the surfaces of the spheres.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    n_train : int or None, default=20_000
        Number of training rows, sampled at random; None means all. With 20,000 rows the standard error of an
        overlap is 1.2 % of n/4, well below the tolerance. n_train × n_bits numbers are kept in memory.
    tolerance : float, default=0.10
        Accepted mean deviation of the overlaps from n/4, as a share of n/4.
    deviation : float, default=0.15
        Accepted standard deviation of the overlaps, as a share of n/4.
    max_iter : int, default=100
        Maximum number of moves. If the tolerances are not reached, a warning is logged.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of training rows and initial centers. The same seed gives the same codes.

    Attributes
    ----------
    centers_ : ndarray of shape (n_bits, d)
        The centers p_i.
    radii_ : ndarray of shape (n_bits,)
        The radii t_i.
    n_iter_ : int
        Number of moves.
    overlap_error_ : float
        Mean |o_ij - n/4| of the final centers, as a share of n/4.
    overlap_deviation_ : float
        Standard deviation of o_ij of the final centers, as a share of n/4.
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
    .. [1] J.-P. Heo, Y. Lee, J. He, S.-F. Chang and S.-E. Yoon, "Spherical hashing", CVPR 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import SpH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = SpH(n_bits=16, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 2)
    """

    _by_distance = True

    def __init__(
        self,
        n_bits: int = 64,
        n_train: int | None = 20_000,
        tolerance: float = 0.10,
        deviation: float = 0.15,
        max_iter: int = 100,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_train = n_train
        self.tolerance = tolerance
        self.deviation = deviation
        self.max_iter = max_iter
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.n_train is not None:
            checks.positive_int(self.n_train, "n_train", least=2)
        checks.positive_number(self.tolerance, "tolerance", zero=True)
        checks.positive_number(self.deviation, "deviation", zero=True)
        checks.positive_int(self.max_iter, "max_iter", least=0)

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        n = len(rows)
        if self.n_train is not None and self.n_train < n:
            rows = LocalRows(rows.take(rng.choice(n, self.n_train, replace=False)))
        first = rows.block(0, 1)
        if all(rows.map(lambda X: bool((first == X).all()))):
            raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
        sampled = rng.integers(len(rows), size=(self.n_bits, _ROWS_PER_CENTER))
        start = rows.take(sampled.ravel()).reshape(*sampled.shape, -1).mean(axis=1, dtype=np.float64)
        A = self._move(_squared_distances(rows, start))
        self.centers_ = (A @ start).astype(rows.dtype)
        self.radii_ = middles(np.sqrt(_squared_distances(rows, self.centers_)))

    def _move(self, squared: Floats) -> Floats:
        """A (r, r) such that A P are the final centers; ``squared`` (r, n) is |x - p|² of the initial P.

        A move adds differences of centers, so the rows of A sum to one, and |x - Σ_j a_j p_j|² equals
        Σ_j a_j |x - p_j|² minus a number that does not depend on x. The half of the rows that is closer to a
        center thus follows from the initial distances, and an iteration costs n r² instead of n r d.
        """
        A = np.eye(len(squared))
        for done in range(self.max_iter + 1):
            advance("spheres", done, self.max_iter)
            self.n_iter_ = done
            with single_blas_thread():
                overlap = overlaps(A.astype(squared.dtype) @ squared)
            self.overlap_error_, self.overlap_deviation_ = imbalance(overlap)
            if self.overlap_error_ <= self.tolerance and self.overlap_deviation_ <= self.deviation:
                advance("spheres", self.max_iter, self.max_iter)
                return A
            if done < self.max_iter:
                A += forces(A, overlap)
        _log.warning(
            "SpH: after %d iterations the overlaps differ from n/4 by %.2f (standard deviation %.2f) of n/4, "
            "expected at most %.2f (%.2f): raise max_iter, tolerance or deviation",
            *(self.max_iter, self.overlap_error_, self.overlap_deviation_, self.tolerance, self.deviation),
        )
        return A

    def _embed(self, X: Floats) -> Floats:
        squared = numpy_backend.rowwise_squared_distances(X, self.centers_.astype(X.dtype, copy=False))
        return self.radii_.astype(X.dtype, copy=False) - np.sqrt(squared)


def _squared_distances(rows: Rows, centers: Floats) -> Floats:
    """|x - p|² between all centers (r, d) and all n rows, (r, n)."""
    C = centers.astype(rows.dtype, copy=False)
    by_row = rows.stack(lambda X: numpy_backend.squared_distances(X, C), len(C), rows.dtype)
    return np.ascontiguousarray(by_row.T)


def middles(values: Floats) -> Floats:
    """The middle (r,) of each row of values (r, n): half of the values are below it."""
    half = values.shape[1] // 2
    parted = np.partition(values, half, axis=1)
    return (parted[:, :half].max(axis=1) + parted[:, half]) / 2


def overlaps(values: Floats) -> NDArray[np.float64]:
    """o_ij / (n/4) (r, r): o_ij counts the columns below the middles of rows i and j of values (r, n)."""
    inside = (values < middles(values)[:, None]).astype(np.float32)
    return (inside @ inside.T).astype(np.float64) * 4 / values.shape[1]


def imbalance(overlap: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of |o_ij / (n/4) - 1| over the pairs i < j, and the standard deviation of o_ij / (n/4)."""
    pairs = overlap[np.triu_indices(len(overlap), 1)]
    return (float(np.abs(pairs - 1).mean()), float(pairs.std())) if len(pairs) else (0.0, 0.0)


def forces(P: Floats, overlap: NDArray[np.float64]) -> Floats:
    """f_i = 1/r Σ_j ½ (o_ij / (n/4) - 1) (p_i - p_j) (r, d): away from spheres with too large an overlap."""
    push = (overlap - 1) / (2 * len(P))
    return push.sum(axis=1)[:, None] * P - push @ P
