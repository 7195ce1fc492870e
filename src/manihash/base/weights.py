"""Gaussian weights w(x, c) of points to their nearest base points, and of base points to each other."""

from typing import Any

import numpy as np

from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.rows.local import LocalRows
from manihash.types import Floats

MANY = 2_000  # for more base points, matrices over pairs of them are sparse


def weights(squared: Floats, sigma: float) -> Floats:
    """Return w(x, c) = exp(-|x - c|² / sigma²) for squared distances (n, k)."""
    xp = backend(squared)
    limits = np.finfo(xp.float_type(squared))
    with np.errstate(over="ignore"):
        return xp.exp(squared / -float(np.clip(sigma * sigma, limits.tiny, limits.max)))


def normalized_weights(squared: Floats, sigma: float) -> Floats:
    """Return w̄(x, c) = w(x, c) / Σ_c w(x, c), (n, k), for squared distances sorted nearest first.

    The nearest distance is subtracted first: it cancels in the quotient, and a point far from all base points
    does not give 0 / 0.
    """
    w = weights(squared - squared[:, :1], sigma)
    w /= w.sum(axis=1, keepdims=True)
    return w


def affinity(B: Floats, k: int, sigma: float | None = None) -> Any:
    """Return W_B (m, m): weights of each point to its k nearest, itself included, symmetrized by the maximum.

    If sigma is None, it is the mean distance to the k-th nearest. Sparse if there are many points.
    """
    points = B.astype(np.float64)
    near = list(LocalRows(points).map(lambda X: numpy_backend.k_nearest(X, points, k), "neighbors"))
    squared, index = (np.concatenate(column) for column in zip(*near, strict=True))
    if sigma is None:
        sigma = float(np.sqrt(squared[:, -1]).mean()) or 1.0
    if len(B) > MANY:
        sparse_W = numpy_backend.weight_matrix(weights(squared, sigma), index, len(B))
        return sparse_W.maximum(sparse_W.T)
    W = np.zeros((len(B), len(B)))
    np.put_along_axis(W, index, weights(squared, sigma), axis=1)
    return np.maximum(W, W.T)
