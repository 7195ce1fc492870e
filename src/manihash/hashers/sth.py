"""Self-taught hashing (Zhang et al., 2010): bits of a spectral embedding, learned by linear SVMs."""

from __future__ import annotations

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

# A dense solver is used for few points, or if more than this share of all eigenvectors is needed.
_DENSE_POINTS, _DENSE_SHARE = 500, 0.25


class STH(LinearHasher):
    """Self-taught hashing: linear SVMs that predict the bits of a neighbor graph.

        h_p(x) = sign(w_pᵀ x)
        w_p minimizes ½ |w|² + C Σ_i max(0, 1 - b_ip wᵀx_i)²,   b_ip = ±1

    b_ip is 1 if y_p of training row i is above the median of y_p. The y_p are the smoothest vectors on the
    cosine neighbor graph of the training rows: L y = λ D y with the smallest λ, without the constant vector.
    Graph and SVMs use rows of unit length, and the SVMs have no intercept, so a bit does not depend on the
    length of x.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, less than the number of training rows.
    n_train : int, default=5000
        Number of training rows, sampled at random; all rows if there are fewer.
    n_neighbors : int, default=25
        Number of neighbors of largest cosine that each training row is connected to.
    C : float, default=1.0
        Penalty of the errors of the SVMs.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of training rows, eigenvectors and SVMs. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions w_p, one per column.
    offset_ : ndarray of shape (n_bits,)
        Zeros: the SVMs have no intercept.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] D. Zhang, J. Wang, D. Cai and J. Lu, "Self-taught hashing for fast similarity search", SIGIR 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import STH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = STH(n_bits=16, n_neighbors=10, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 2)
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
        rows.check_all()
        Z = rows.take(rng.choice(len(rows), n, replace=False))
        Z = numpy_backend.unit_rows(Z, numpy_backend.squared_norms(Z))
        W = cosine_graph(Z, self.n_neighbors)
        with single_blas_thread():
            Y = smoothest_vectors(W, self.n_bits, rng)
        self.projection_ = self._train_svms(Z.astype(np.float64), above_median(Y), checks.seed(rng))
        self.offset_ = np.zeros(self.n_bits)

    def _train_svms(self, Z: Floats, bits: NDArray[np.bool_], seed: int) -> Floats:
        """The weights (d, r) of one linear SVM per bit."""
        from sklearn.svm import LinearSVC

        projection = np.empty((Z.shape[1], self.n_bits))
        for p in range(self.n_bits):
            advance("STH, linear SVMs", p, self.n_bits)
            svm = LinearSVC(C=self.C, loss="squared_hinge", dual=True, fit_intercept=False, random_state=seed)
            projection[:, p] = svm.fit(Z, bits[:, p]).coef_[0]
        advance("STH, linear SVMs", self.n_bits, self.n_bits)
        return projection


def _check_size(n: int, k: int, r: int) -> None:
    """Raise if n training rows are too few for k neighbors or r bits."""
    if k >= n:
        raise ValueError(
            f"n_neighbors={k} exceeds the {n - 1} other rows of {n} training rows: "
            "lower n_neighbors, or give more rows (n_samples, n_train)"
        )
    if r >= n:
        raise ValueError(
            f"n_bits={r} exceeds the {n - 1} eigenvectors of the graph of {n} training rows: "
            "lower n_bits, or give more rows (n_samples, n_train)"
        )


def cosine_graph(Z: Floats, k: int) -> sp.csr_array:
    """W (n, n): the cosines of each unit row of Z (n, d) with its k nearest, symmetrized by the maximum.

    There are no self-loops. Negative cosines are set to zero, because a degree must not be negative.
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
    other[other.all(axis=1), -1] = False  # among many equal rows, a row may not be among its own nearest
    weight = np.maximum(cosine[other].astype(np.float64), 0)
    W = sp.csr_array((weight, index[other], np.arange(0, n * k + 1, k)), shape=(n, n))
    return W.maximum(W.T).tocsr()


def smoothest_vectors(W: sp.csr_array, r: int, rng: np.random.Generator) -> Floats:
    """Y (n, r): the solutions of L y = λ D y, L = D - W, for the r smallest λ, without the constant vector.

    y = D^-1/2 v, where v are the eigenvectors of the largest eigenvalues 1 - λ of S = D^-1/2 W D^-1/2. The
    constant vector is D^1/2 1 for S; S is deflated along it, which also works if the graph is not connected.
    The signs are fixed.
    """
    n, degree = W.shape[0], W.sum(axis=0)
    root = np.sqrt(degree)
    scale = 1 / np.where(degree > 0, root, 1)
    S = sp.diags_array(scale) @ W @ sp.diags_array(scale)
    trivial = root / (np.linalg.norm(root) or 1)
    # The eigenvalues of S lie between -1 and 1; deflation moves the trivial one to -2.
    if n <= _DENSE_POINTS or r > _DENSE_SHARE * n:
        v = eigh(S.toarray() - 3 * np.outer(trivial, trivial), subset_by_index=[n - r, n - 1])[1]
    else:

        def deflated(x: Floats) -> Floats:
            return S @ x - (3 * (trivial @ x)) * trivial

        operator = LinearOperator((n, n), matvec=deflated, dtype=np.float64)
        v = eigsh(operator, r, which="LA", v0=rng.standard_normal(n))[1]
    return fix_signs(v[:, ::-1]) * scale[:, None]


def above_median(Y: Floats) -> NDArray[np.bool_]:
    """Whether a value of Y (n, r) is one of the n // 2 largest of its column; ties go to later rows."""
    n = len(Y)
    bits = np.zeros(Y.shape, bool)
    np.put_along_axis(bits, np.argsort(Y, axis=0, kind="stable")[n - n // 2 :], True, axis=0)
    return bits
