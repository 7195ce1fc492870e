"""A PCA of the input: base points are looked for among the first principal components of the rows."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.linalg import fix_signs, leading_eigenvectors
from manihash.rows import dask as dask_rows
from manihash.rows.local import KEEP_BYTES, Rows
from manihash.types import Floats, Ints

# A covariance is known well from this many rows.
_PCA_ROWS = 20_000
# Up to this width all of a covariance is computed; beyond, its main directions, from so many more than are
# wanted, in so many rounds.
_EXACT_WIDTH, _MORE, _ROUNDS = 2_048, 32, 3


class ReducedNeighbors(BaseEstimator):
    """Rows are projected onto their first ``n_components`` principal components, then ``neighbors`` finds.

    Base points are given in these components. ``directions_`` (p, d) are kept: distances need no center. In a
    fitted model ``neighbors_`` is the part that finds, None for all points.
    """

    def __init__(self, n_components: int = 64, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the directions from the rows of X (n, d)."""
        rows = Rows(checked(self, X, fitting=True, least=2))
        return self.fit_rows(rows)

    def fit_rows(self, rows: Rows) -> Self:
        """As ``fit``, from rows that were checked and prepared."""
        p = checks.positive_int(self.n_components, "n_components")
        n, rng = len(rows), checks.generator(self.random_state)
        some = np.arange(n) if n <= _PCA_ROWS else np.sort(rng.choice(n, _PCA_ROWS, replace=False))
        self.directions_ = principal_directions(rows.only(some).kept(), p, rng)
        self.neighbors_ = None
        return self

    @property
    def recall_(self) -> float | None:
        """The part of the nearest points that is found, where it is less than all by design."""
        return None if self.neighbors_ is None else self.neighbors_.recall_

    def project(self, X: Floats) -> Floats:
        """The components (b, p) of a block of rows (b, d)."""
        return numpy_backend.product(X, self.directions_.astype(X.dtype, copy=False))

    def projected(self, rows: Rows) -> Rows:
        """The components of the rows, as rows to visit: held if they fit, else made anew on each visit."""
        width = len(self.directions_)
        if dask_rows.is_dask(rows.X) or len(rows) * width * rows.dtype.itemsize <= KEEP_BYTES:
            return dask_rows.rows_of(rows.lay(self.project, width, rows.dtype, "projection"))
        return Rows(_Projected(self, rows))

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """As ``numpy_backend.k_nearest``, of rows (b, d) and points B (m, p)."""
        if self.neighbors_ is None:
            return numpy_backend.k_nearest(self.project(X), numpy_backend.like(B, X), k)
        return self.neighbors_.k_nearest(self.project(X), B, k)


class _Projected:
    """Components of rows that are made where they are asked for."""

    def __init__(self, part: ReducedNeighbors, rows: Rows) -> None:
        self.part, self.rows = part, rows
        self.shape, self.dtype = (len(rows), len(part.directions_)), rows.dtype

    def __getitem__(self, places: slice) -> Floats:
        start, stop, _ = places.indices(len(self.rows))
        return self.part.project(self.rows.block(start, stop))

    def rows_at(self, ordered: Ints) -> Floats:
        """The components of the rows at positions that ascend, and of no others."""
        return self.rows.only(ordered).stack(self.part.project, self.shape[1], self.dtype)


def principal_directions(rows: Rows, p: int, rng: np.random.Generator) -> Floats:
    """The p directions (p, d) of largest variance, or all d; signs fixed so that machines agree.

    Rows are visited in blocks. Where they are wide the covariance (d, d) is never held, and the directions
    are near the best.
    """
    d, centered = rows.width, _centering(rows)
    with single_blas_thread():
        if d <= _EXACT_WIDTH:
            vectors = _main_axes(rows, centered, p)
        else:
            Q = _main_subspace(rows, centered, min(p + _MORE, d), rng)
            vectors = Q @ _main_axes(rows, lambda X: centered(X) @ Q, p)
    return np.ascontiguousarray(fix_signs(vectors).T, rows.dtype)


def _centering(rows: Rows) -> Callable[[Floats], Floats]:
    """Subtracts the mean of the rows from a block, and scales it so that no square overflows or vanishes."""
    (largest,), (total,) = rows.fold(
        lambda X: ((np.abs(X).max(axis=1),), (X.sum(axis=0, dtype=np.float64),)), "mean"
    )
    mean, limits = (total / len(rows)).astype(rows.dtype), np.finfo(rows.dtype)
    # A power of two: no digit changes.
    exponent = np.clip(-np.frexp(largest.max())[1], limits.minexp, limits.maxexp - 1)
    scale = np.ldexp(rows.dtype.type(1), exponent)

    def centered(X: Floats) -> Floats:
        Z = X - mean
        Z *= scale
        return Z

    return centered


def _main_axes(rows: Rows, f: Callable[[Floats], Floats], p: int) -> Floats:
    """The p eigenvectors (q, p) of the largest eigenvalues of ZᵀZ, where Z (n, q) is f of the rows."""

    def block(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = f(X)
        return (), (Z.T @ Z,)

    _, (scatter,) = rows.fold(block, "covariance")
    return leading_eigenvectors(scatter, p)[1]


def _main_subspace(
    rows: Rows, centered: Callable[[Floats], Floats], q: int, rng: np.random.Generator
) -> Floats:
    """An orthonormal basis (d, q) of nearly the directions of largest variance: subspace iteration."""
    Q = rng.standard_normal((rows.width, q)).astype(rows.dtype)
    for _ in range(_ROUNDS):

        def block(X: Floats, Q: Floats = Q) -> tuple[tuple[()], tuple[Floats]]:
            Z = centered(X)
            return (), (Z.T @ (Z @ Q),)

        _, (image,) = rows.fold(block, "covariance")
        Q = np.linalg.qr(image)[0].astype(rows.dtype)
    return Q
