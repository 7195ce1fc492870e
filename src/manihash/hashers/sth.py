"""Self-taught hashing (Zhang et al., 2010): bits of a spectral embedding, learned by linear SVMs."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.hashers._linear import LinearHasher
from manihash.linalg import fix_signs
from manihash.progress import advance
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

# Up to so many points, or where so large a share of the vectors is wanted, all eigenvectors are computed.
_DENSE_POINTS, _DENSE_SHARE = 500, 0.25


class STH(LinearHasher):
    """Bits sign(w_pᵀ x): w_p a linear SVM that learns bit p of the training rows, y_p above its median.

    The y_p are the smoothest vectors on the cosine neighbor graph of the training rows: L y = λ D y, least λ
    first, without the constant one. The SVMs have no bias: min ½|w|² + C Σ max(0, 1 - b wᵀx)² with b = ±1.
    Graph and SVMs see the training rows at unit length; a bit does not depend on the length of x.

    Parameters
    ----------
    n_train: training rows, drawn at random; all rows where there are fewer.
    n_neighbors: rows of largest cosine that each is joined with, itself not among them.
    C: how much errors of the SVMs cost.
    """

    def __init__(
        self,
        n_bits: int = 64,
        n_train: int = 5000,
        n_neighbors: int = 25,
        C: float = 1.0,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_train = n_train
        self.n_neighbors = n_neighbors
        self.C = C
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_train, "n_train", least=2)
        checks.positive_int(self.n_neighbors, "n_neighbors")
        checks.positive_number(self.C, "C")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        n = min(self.n_train, len(rows))
        _check_size(n, self.n_neighbors, self.n_bits)
        Z = rows.take(rng.choice(len(rows), n, replace=False))
        Z = numpy_backend.unit_rows(Z, numpy_backend.squared_norms(Z))
        W = cosine_graph(Z, self.n_neighbors)
        with single_blas_thread():
            Y = smoothest_vectors(W, self.n_bits, rng)
        self.projection_ = self._machines(Z.astype(np.float64), above_median(Y), checks.seed(rng))
        self.offset_ = np.zeros(self.n_bits)

    def _machines(self, Z: Floats, bits: NDArray[np.bool_], seed: int) -> Floats:
        """One linear SVM a bit: (d, r)."""
        from sklearn.svm import LinearSVC

        projection = np.empty((Z.shape[1], self.n_bits))
        for p in range(self.n_bits):
            advance("STH, linear SVMs", p, self.n_bits)
            svm = LinearSVC(C=self.C, loss="squared_hinge", dual=True, fit_intercept=False, random_state=seed)
            projection[:, p] = svm.fit(Z, bits[:, p]).coef_[0]
        advance("STH, linear SVMs", self.n_bits, self.n_bits)
        return projection


def _check_size(n: int, k: int, r: int) -> None:
    if k >= n:
        raise ValueError(
            f"{k} neighbors asked of {n} training rows, each of which has {n - 1} others: "
            "lower n_neighbors, or give more rows (n_samples, n_train)"
        )
    if r >= n:
        raise ValueError(
            f"{r} bits asked of a graph of {n} training rows, which gives {n - 1} at most: "
            "lower n_bits, or give more rows (n_samples, n_train)"
        )


def cosine_graph(Z: Floats, k: int) -> sp.csr_array:
    """W (n, n) of unit rows Z: cosines of each row's k nearest, no self loops, symmetric by the maximum.

    A cosine below zero counts as zero: a degree must not be negative.
    """
    n = len(Z)

    def nearest(X: Floats) -> tuple[Ints, Floats]:
        cosines = numpy_backend.product(X, Z)
        index = np.argpartition(-cosines, k, axis=1)[:, : k + 1]
        best = np.take_along_axis(cosines, index, axis=1)
        order = np.argsort(-best, axis=1, kind="stable")
        return np.take_along_axis(index, order, axis=1), np.take_along_axis(best, order, axis=1)

    parts = list(LocalRows(Z).map(nearest, "STH, neighbor graph"))
    index, cosine = (np.concatenate(part) for part in zip(*parts, strict=True))
    other = index != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may miss itself
    weight = np.maximum(cosine[other].astype(np.float64), 0)
    W = sp.csr_array((weight, index[other], np.arange(0, n * k + 1, k)), shape=(n, n))
    return W.maximum(W.T).tocsr()


def smoothest_vectors(W: sp.csr_array, r: int, rng: np.random.Generator) -> Floats:
    """Y (n, r): L y = λ D y with L = D - W, the r least λ in order, without the constant vector; signs fixed.

    y = D^-1/2 v, with v of the largest eigenvalues 1 - λ of S = D^-1/2 W D^-1/2. Of S the part along D^1/2 1,
    the constant vector's, is taken away, so that it is dropped in a graph of several pieces too.
    """
    n, degree = W.shape[0], W.sum(axis=0)
    root = np.sqrt(degree)
    scale = 1 / np.where(degree > 0, root, 1)
    S = sp.diags_array(scale) @ W @ sp.diags_array(scale)
    trivial = root / (np.linalg.norm(root) or 1)
    # All eigenvalues of S are -1 to 1; the trivial one becomes -2.
    if n <= _DENSE_POINTS or r > _DENSE_SHARE * n:
        v = eigh(S.toarray() - 3 * np.outer(trivial, trivial), subset_by_index=[n - r, n - 1])[1]
    else:

        def deflated(x: Floats) -> Floats:
            return S @ x - (3 * (trivial @ x)) * trivial

        operator = LinearOperator((n, n), matvec=deflated, dtype=np.float64)
        v = eigsh(operator, r, which="LA", v0=rng.standard_normal(n))[1]
    return fix_signs(v[:, ::-1]) * scale[:, None]


def above_median(Y: Floats) -> NDArray[np.bool_]:
    """The larger half of each column, (n, r): n // 2 ones exactly, of equal values the last."""
    n = len(Y)
    bits = np.zeros(Y.shape, bool)
    np.put_along_axis(bits, np.argsort(Y, axis=0, kind="stable")[n - n // 2 :], True, axis=0)
    return bits
