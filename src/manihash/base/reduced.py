"""Search for base points in the first principal components of the rows."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.linalg import fix_signs, leading_eigenvectors
from manihash.rows import Rows, rows_of
from manihash.rows.local import LocalRows
from manihash.rows.rows import CACHE_BYTES
from manihash.types import Floats, Ints

# This many rows are enough to estimate a covariance.
_PCA_ROWS = 20_000
# Up to this width the whole covariance is computed; above it, its leading directions by subspace iteration,
# with this many extra directions and power iterations.
_EXACT_WIDTH, _EXTRA_DIRECTIONS, _POWER_ITERATIONS = 2_048, 32, 3


class ReducedNeighbors(BaseEstimator):
    """Project rows to their first principal components before searching the nearest base points.

    The base points are given in these components. ``ReducedBase`` creates this finder.

    Parameters
    ----------
    n_components : int, default=64
        Number of principal components p, at most d.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    directions_ : ndarray of shape (p, d)
        Principal directions. Distances do not need the mean of the rows, so it is not stored.
    neighbors_ : object or None
        Finder among the projected points; None compares with all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import ReducedNeighbors
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> ReducedNeighbors(n_components=8, random_state=0).fit(X).project(X[:5]).shape
    (5, 8)
    """

    def __init__(self, n_components: int = 64, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the principal directions of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The finder, with the directions in ``directions_``.
        """
        rows = LocalRows(checked(self, X, fitting=True, least=2))
        return self.fit_rows(rows)

    def fit_rows(self, rows: Rows) -> Self:
        """Learn the principal directions from rows that are already checked and prepared.

        Parameters
        ----------
        rows : Rows
            Prepared rows. A random sample of 20,000 is used if there are more.

        Returns
        -------
        self
            The finder, with the directions in ``directions_``.
        """
        p = checks.positive_int(self.n_components, "n_components")
        n, rng = len(rows), checks.generator(self.random_state)
        some = np.arange(n) if n <= _PCA_ROWS else np.sort(rng.choice(n, _PCA_ROWS, replace=False))
        self.directions_ = principal_directions(rows.subset(some).cached(), p, rng)
        self.neighbors_ = None
        return self

    @property
    def recall_(self) -> float | None:
        """Share of the nearest base points that is found; None if all are compared."""
        return None if self.neighbors_ is None else self.neighbors_.recall_

    def project(self, X: Floats) -> Floats:
        """Project a block of rows.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.

        Returns
        -------
        ndarray of shape (b, p)
            Their principal components.
        """
        return numpy_backend.product(X, self.directions_.astype(X.dtype, copy=False))

    def projected(self, rows: Rows) -> Rows:
        """Return the projected rows, to be visited like any other rows.

        Parameters
        ----------
        rows : Rows
            Prepared rows of width d.

        Returns
        -------
        Rows
            Rows of width p: kept in memory if they fit, otherwise computed again on each visit.
        """
        width = len(self.directions_)
        if rows.lazy or len(rows) * width * rows.dtype.itemsize <= CACHE_BYTES:
            return rows_of(rows.map_blocks(self.project, width, rows.dtype, "projection"))
        return LocalRows(_Projected(self, rows))

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Find the k nearest base points of each row.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.
        B : ndarray of shape (m, p)
            Base points in principal components.
        k : int
            Number of neighbors.

        Returns
        -------
        squared : ndarray of shape (b, k)
            Squared distances, nearest first.
        index : ndarray of shape (b, k)
            Indices of the base points.
        """
        if self.neighbors_ is None:
            return numpy_backend.k_nearest(self.project(X), numpy_backend.like(B, X), k)
        return self.neighbors_.k_nearest(self.project(X), B, k)


class _Projected:
    """The principal components of rows, computed when they are read."""

    def __init__(self, part: ReducedNeighbors, rows: Rows) -> None:
        self.part, self.rows = part, rows
        self.shape, self.dtype = (len(rows), len(part.directions_)), rows.dtype

    def __getitem__(self, places: slice) -> Floats:
        start, stop, _ = places.indices(len(self.rows))
        return self.part.project(self.rows.block(start, stop))

    def rows_at(self, ordered: Ints) -> Floats:
        """Return the components of the rows at the given ascending positions, and of no others."""
        return self.rows.subset(ordered).stack(self.part.project, self.shape[1], self.dtype)


def principal_directions(rows: Rows, p: int, rng: np.random.Generator) -> Floats:
    """Return the p directions (p, d) of largest variance, or all d, with fixed signs.

    Rows are visited in blocks. For wide rows the covariance (d, d) is never built, and the directions are
    approximate.
    """
    d, centered = rows.width, _centering(rows)
    with single_blas_thread():
        if d <= _EXACT_WIDTH:
            vectors = _main_axes(rows, centered, p)
        else:
            Q = _main_subspace(rows, centered, min(p + _EXTRA_DIRECTIONS, d), rng)
            vectors = Q @ _main_axes(rows, lambda X: centered(X) @ Q, p)
    return np.ascontiguousarray(fix_signs(vectors).T, rows.dtype)


def _centering(rows: Rows) -> Callable[[Floats], Floats]:
    """Return a function that centers a block and scales it so that squares neither overflow nor underflow."""
    (largest,), (total,) = rows.fold(
        lambda X: ((np.abs(X).max(axis=1),), (X.sum(axis=0, dtype=np.float64),)), "mean"
    )
    mean, limits = (total / len(rows)).astype(rows.dtype), np.finfo(rows.dtype)
    # A power of two changes no digit.
    exponent = np.clip(-np.frexp(largest.max())[1], limits.minexp, limits.maxexp - 1)
    scale = np.ldexp(rows.dtype.type(1), exponent)

    def centered(X: Floats) -> Floats:
        Z = X - mean
        Z *= scale
        return Z

    return centered


def _main_axes(rows: Rows, f: Callable[[Floats], Floats], p: int) -> Floats:
    """Return the p eigenvectors (q, p) of the largest eigenvalues of ZᵀZ, where Z (n, q) is f of the rows."""

    def block(X: Floats) -> tuple[tuple[()], tuple[Floats]]:
        Z = f(X)
        return (), (Z.T @ Z,)

    _, (scatter,) = rows.fold(block, "covariance")
    return leading_eigenvectors(scatter, p)[1]


def _main_subspace(
    rows: Rows, centered: Callable[[Floats], Floats], q: int, rng: np.random.Generator
) -> Floats:
    """Return an orthonormal basis (d, q) of approximately the largest variance, by subspace iteration."""
    Q = rng.standard_normal((rows.width, q)).astype(rows.dtype)
    for _ in range(_POWER_ITERATIONS):

        def block(X: Floats, Q: Floats = Q) -> tuple[tuple[()], tuple[Floats]]:
            Z = centered(X)
            return (), (Z.T @ (Z @ Q),)

        _, (image,) = rows.fold(block, "covariance")
        Q = np.linalg.qr(image)[0].astype(rows.dtype)
    return Q
