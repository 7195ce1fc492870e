"""Weights of points to a base set: w(x, c), its bandwidth sigma, and the coupling T.

W_XB is sparse, k entries a row: it is held as two (n, k) arrays, indices of base points and weights. How the
k nearest base points are ``find``-ed is up to the base set.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.numpy import sparse
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

MANY = 2_000  # base points: beyond, matrices over pairs of them are sparse

Find = Callable[[Floats, Floats, int], tuple[Floats, Ints]]


def k_nearest(X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
    """Squared distances and indices (b, k) of the k nearest points of B (m, d), compared with all."""
    return backend(X).k_nearest(X, B, k)


def bandwidth(rows: Rows, B: Floats, k: int, find: Find = k_nearest) -> float:
    """sigma: the mean over the rows of the distance (not squared) to their k-th nearest base point."""

    def block(X: Floats) -> tuple[tuple[()], tuple[Any]]:
        xp = backend(X)
        return (), (xp.sum_of_roots(find(X, xp.like(B, X), k)[0][:, -1]),)

    _, (total,) = rows.fold(block, "bandwidth")
    sigma = float(total) / len(rows)
    if sigma <= 0:
        raise ValueError(
            f"every row coincides with its {k} nearest base points, so the bandwidth would be 0: "
            "the rows are all equal, or hold too few distinct values; give more varied rows or a bandwidth"
        )
    return sigma


def weights(squared: Floats, sigma: float) -> Floats:
    """w(x, c) = exp(-|x - c|² / sigma²) of the neighbors kept, (n, k)."""
    xp = backend(squared)
    limits = np.finfo(xp.float_type(squared))
    with np.errstate(over="ignore"):
        return xp.exp(squared / -float(np.clip(sigma * sigma, limits.tiny, limits.max)))


def normalized_weights(squared: Floats, sigma: float) -> Floats:
    """w̄(x, c) = w(x, c) / Σ_c w(x, c), (n, k); squared distances come nearest first.

    The nearest distance is subtracted first: it cancels in the quotient, and a point far from all base points
    no longer gives 0 / 0.
    """
    w = weights(squared - squared[:, :1], sigma)
    w /= w.sum(axis=1, keepdims=True)
    return w


def coupling(rows: Rows, B: Floats, k: int, sigma: float, find: Find = k_nearest) -> Any:
    """T = D_BX - W̄_XBᵀ W_XB, (m, m), summed over blocks of rows of X.

    Symmetric, positive semi-definite, its rows sum to zero. Costs O(n k²) beyond the distances; n x m is
    never held. Sparse where base points are many. The weights are not shifted here: that does not cancel.
    """
    m = len(B)

    def block(X: Floats) -> tuple[tuple[()], tuple[Any]]:
        xp = backend(X)
        squared, index = find(X, xp.like(B, X), k)
        squared = xp.to_float64(squared)
        w, w_bar = weights(squared, sigma), normalized_weights(squared, sigma)
        return (), (xp.coupling(w, w_bar, index, m),)

    if m > MANY:
        T: Any = sum((part for _, (part,) in rows.map(block, "coupling")), sp.csr_array((m, m)))
    else:
        _, (T,) = rows.fold(block, "coupling")
    return (T + T.T) / 2


def sparse_weights(X: Floats, B: Floats, k: int, sigma: float, find: Find = k_nearest) -> sp.csr_array:
    """W̄ (b, m) of a block of rows, in float64: k weights in a row, which sum to one."""
    squared, index = find(X, B.astype(X.dtype, copy=False), k)
    return sparse(normalized_weights(squared.astype(np.float64), sigma), index, len(B))


def affinity(B: Floats, k: int, sigma: float | None = None) -> Any:
    """W_B (m, m): weights of each point to its k nearest, itself among them, made symmetric by the maximum.

    sigma is, unless given, the mean distance to the k-th of them: the rule of ``bandwidth`` on this graph.
    Sparse where points are many.
    """
    points = B.astype(np.float64)
    near = list(LocalRows(points).map(lambda X: numpy_backend.k_nearest(X, points, k), "neighbors"))
    squared, index = (np.concatenate(column) for column in zip(*near, strict=True))
    if sigma is None:
        sigma = float(np.sqrt(squared[:, -1]).mean()) or 1.0
    if len(B) > MANY:
        sparse_W = sparse(weights(squared, sigma), index, len(B))
        return sparse_W.maximum(sparse_W.T)
    W = np.zeros((len(B), len(B)))
    np.put_along_axis(W, index, weights(squared, sigma), axis=1)
    return np.maximum(W, W.T)
