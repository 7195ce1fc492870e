"""Eigenvectors of graph matrices, for the spectral embeddings."""

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from manihash.embeddings._embedding import too_many
from manihash.linalg import fix_signs
from manihash.types import Floats

# As in the authors' code, eigenvectors with an eigenvalue up to this are dropped: the constant one, and those
# of a graph with (nearly) disconnected components.
TRIVIAL = 1e-3
# Eigenvalues of M y = λ D y lie between 0 and 2 whatever the weights: only those that are zero are dropped.
ZERO = 1e-6


def smallest_eigenvectors(M: Any, r: int, degrees: Floats | None = None) -> Floats:
    """Return Y (m, r) that minimizes trace(Yᵀ M Y) with Yᵀ Y = m I, without the trivial eigenvectors of M.

    With ``degrees``, the diagonal of D, the constraint is Yᵀ D Y = m I. A sparse M is not made dense.
    """
    m, trivial = M.shape[0], TRIVIAL if degrees is None else ZERO
    if sp.issparse(M):
        values, vectors = _smallest_of_sparse(M, r, degrees, trivial)
    else:
        values, vectors = eigh(M) if degrees is None else eigh(M, np.diag(degrees))
    vectors = vectors[:, values > trivial]
    if vectors.shape[1] < r:
        raise too_many(r, vectors.shape[1], f"the neighbor graph of {m} points")
    return fix_signs(vectors[:, :r]) * np.sqrt(m)


def _smallest_of_sparse(M: Any, r: int, degrees: Floats | None, trivial: float) -> tuple[Floats, Floats]:
    """Return the smallest eigenvalues and their vectors, enough for r above the trivial ones."""
    m = M.shape[0]
    root = np.ones(m) if degrees is None else np.sqrt(degrees)
    scale = sp.diags_array(1 / root)
    k = r + 8
    while k < m // 2:
        values, vectors = extreme_eigenvectors(scale @ M @ scale, k, "SA")
        if (values > trivial).sum() >= r:
            return values, vectors / root[:, None]
        k *= 2
    values, vectors = eigh((scale @ M @ scale).toarray())
    return values, vectors / root[:, None]


def extreme_eigenvectors(M: Any, k: int, which: Literal["SA", "LA"]) -> tuple[Floats, Floats]:
    """Return the k smallest ("SA") or largest ("LA") eigenvalues, ascending, and vectors, by Lanczos."""
    m = M.shape[0]
    start = np.random.default_rng(0).standard_normal(m)  # the same for the same matrix
    values, vectors = eigsh(M, k, which=which, v0=start, ncv=min(m, 4 * k + 20), tol=1e-10, maxiter=100 * m)
    order = np.argsort(values)
    return values[order], vectors[:, order]
