"""A PCA of the input: base points are looked for among the first principal components of the rows."""

from typing import Any, Self

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from manihash import arrays, checks, cluster
from manihash.arrays import Floats, Ints
from manihash.blas import single_blas_thread
from manihash.estimator import checked
from manihash.rows import KEEP_BYTES, Rows

# A covariance is known well from this many rows.
_PCA_ROWS = 20_000


class ReducedNeighbors(BaseEstimator):
    """Rows are projected onto their first ``n_components`` principal components, then ``neighbors`` finds.

    Base points are given in these components. ``directions_`` (p, d) are kept: distances need no centre. In a
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
        self.directions_ = principal_directions(rows.take(some), p)
        self.neighbors_ = None
        return self

    @property
    def recall_(self) -> float | None:
        """The part of the nearest points that is found, where it is less than all by design."""
        return None if self.neighbors_ is None else self.neighbors_.recall_

    def project(self, X: Floats) -> Floats:
        """The components (b, p) of a block of rows (b, d)."""
        return arrays.product(X, self.directions_.astype(X.dtype, copy=False))

    def projected(self, rows: Rows) -> Rows:
        """The components of the rows, as rows to visit: held if they fit, else made anew on each visit."""
        width = len(self.directions_)
        if cluster.is_dask(rows.X) or len(rows) * width * rows.dtype.itemsize <= KEEP_BYTES:
            return cluster.rows_of(rows.lay(self.project, width, rows.dtype, "projection"))
        return Rows(_Projected(self, rows))

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """As ``arrays.k_nearest``, of rows (b, d) and points B (m, p)."""
        if self.neighbors_ is None:
            return arrays.k_nearest(self.project(X), arrays.like(B, X), k)
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


def principal_directions(X: Floats, p: int) -> Floats:
    """The p directions (p, d) of largest variance, or all d; signs fixed so that machines agree."""
    centred = X - X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    d = X.shape[1]
    with single_blas_thread():
        covariance = (centred.T @ centred).astype(np.float64)
        vectors = eigh(covariance, subset_by_index=(max(d - p, 0), d - 1))[1].T[::-1]
    sign = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
    return np.ascontiguousarray(vectors * np.where(sign == 0, 1, sign)[:, None], X.dtype)
