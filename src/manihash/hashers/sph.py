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

_POINTS_OF_A_CENTRE = 5


class SpH(Hasher):
    """Bits t_i - |x - p_i| > 0: is x inside the sphere of center p_i and radius t_i?

    Each sphere holds half of the training rows, and any two of them share about a quarter: centers are moved
    until the overlaps o_ij have mean |o_ij - n/4| <= ``tolerance`` n/4 and deviation <= ``deviation`` n/4.
    The real values are signed distances to the surfaces of the spheres.

    After ``fit``: ``centers_`` p (r, d), ``radii_`` t (r,), ``n_iter_``, and ``overlap_error_`` and
    ``overlap_deviation_``, the two numbers above as shares of n/4, for the centers kept.

    Parameters
    ----------
    n_train: rows drawn to learn from, or None for all. An overlap is then known to 1.2 % of n/4 (one standard
        error for the default), far within the tolerance; memory is n_train x n_bits numbers.
    max_iter: rounds after which the centers are taken as they are; a warning is logged.
    """

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
        n = len(rows)
        if self.n_train is not None and self.n_train < n:
            rows = LocalRows(rows.take(rng.choice(n, self.n_train, replace=False)))
        first = rows.block(0, 1)
        if all(rows.map(lambda X: bool((first == X).all()))):
            raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
        drawn = rng.integers(len(rows), size=(self.n_bits, _POINTS_OF_A_CENTRE))
        start = rows.take(drawn.ravel()).reshape(*drawn.shape, -1).mean(axis=1, dtype=np.float64)
        A = self._move(_squared_distances(rows, start))
        self.centers_ = (A @ start).astype(rows.dtype)
        self.radii_ = middle(np.sqrt(_squared_distances(rows, self.centers_)))

    def _move(self, squared: Floats) -> Floats:
        """A (r, r): the centers sought are A P, where ``squared`` (r, n) holds |x - p|² of rows x to P.

        A move adds differences of centers, so rows of A sum to one, and |x - Σ_j a_j p_j|² is
        Σ_j a_j |x - p_j|² less a number that does not depend on x. Which half of the rows is nearer is thus
        known from the first distances: a round costs n r², not n r d.
        """
        A = np.eye(len(squared))
        for done in range(self.max_iter + 1):
            advance("spheres", done, self.max_iter)
            self.n_iter_ = done
            with single_blas_thread():
                overlap = shared(A.astype(squared.dtype) @ squared)
            self.overlap_error_, self.overlap_deviation_ = imbalance(overlap)
            if self.overlap_error_ <= self.tolerance and self.overlap_deviation_ <= self.deviation:
                advance("spheres", self.max_iter, self.max_iter)
                return A
            if done < self.max_iter:
                A += forces(A, overlap)
        _log.warning(
            "after %d rounds spheres' overlaps are off n/4 by %.2f (deviation %.2f) of it, where %.2f (%.2f) "
            "was wanted: raise max_iter or the tolerances",
            *(self.max_iter, self.overlap_error_, self.overlap_deviation_, self.tolerance, self.deviation),
        )
        return A

    def _embed(self, X: Floats) -> Floats:
        squared = numpy_backend.squared_distances(X, self.centers_.astype(X.dtype, copy=False))
        return self.radii_.astype(X.dtype, copy=False) - np.sqrt(squared)


def _squared_distances(rows: Rows, centers: Floats) -> Floats:
    """|x - p|² of all rows to all centers, (r, n)."""
    C = centers.astype(rows.dtype, copy=False)
    by_row = rows.stack(lambda X: numpy_backend.squared_distances(X, C), len(C), rows.dtype)
    return np.ascontiguousarray(by_row.T)


def middle(values: Floats) -> Floats:
    """Of each row of values the mean of the two between which half of them end, (r,)."""
    half = values.shape[1] // 2
    parted = np.partition(values, half, axis=1)
    return (parted[:, :half].max(axis=1) + parted[:, half]) / 2


def shared(values: Floats) -> NDArray[np.float64]:
    """o_ij / (n/4): how many columns lie within the medians of both row i and row j, (r, r)."""
    inside = (values < middle(values)[:, None]).astype(np.float32)
    return (inside @ inside.T).astype(np.float64) * 4 / values.shape[1]


def imbalance(overlap: NDArray[np.float64]) -> tuple[float, float]:
    """Mean of |o_ij / (n/4) - 1| over the pairs i < j, and the deviation of o_ij / (n/4)."""
    pairs = overlap[np.triu_indices(len(overlap), 1)]
    return (float(np.abs(pairs - 1).mean()), float(pairs.std())) if len(pairs) else (0.0, 0.0)


def forces(P: Floats, overlap: NDArray[np.float64]) -> Floats:
    """f_i = 1/r Σ_j ½ (o_ij / (n/4) - 1) (p_i - p_j): away from those that share too much with it."""
    push = (overlap - 1) / (2 * len(P))
    return push.sum(axis=1)[:, None] * P - push @ P
