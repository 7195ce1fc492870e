"""Neighbor probabilities p(j | i) of a given perplexity, which t-SNE, SNE and EE start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manihash import checks
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

_BISECTIONS = 60
# Entries of the (m, m) matrix that are bisected at once.
_BISECT_NUMBERS = 2**26


def conditional_probabilities(B: Floats, perplexity: float, dims: int) -> Floats:
    """Return p(j | i) (m, m): Gaussian in |b_i - b_j|, where exp(entropy) of each i is the perplexity.

    Distances are computed in the first ``dims`` principal components, as in the authors' code. The result has
    the type of ``pair_matrix``.
    """
    m, xp = len(B), backend(B)
    check_perplexity(perplexity, m)
    Z, _ = xp.principal_components(xp.to_float64(B), min(dims, *B.shape))
    P, rows = xp.pair_matrix(B), max(1, _BISECT_NUMBERS // m)
    for start in range(0, m, rows):
        with single_blas_thread():
            E = xp.squared_distances(Z[start : start + rows], Z)
        own = np.arange(len(E))
        E[own, start + own] = np.inf
        E -= xp.amin(E, 1)[:, None]
        P[start : start + rows] = _bisect(E, float(np.log(perplexity)), m)
    return P


def near_probabilities(B: Floats, perplexity: float, dims: int) -> sp.csr_array:
    """Return p(j | i) of the 3 x perplexity nearest points only, as a sparse matrix (m, m)."""
    check_perplexity(perplexity, len(B))
    k = min(int(np.ceil(3 * perplexity)), len(B) - 1)
    Z = B - B.mean(axis=0) if B.shape[1] <= dims else numpy_backend.principal_components(B, dims)[0]
    near = list(LocalRows(Z).map(lambda X: numpy_backend.k_nearest(X, Z, k + 1), "neighbors"))
    E, index = (np.concatenate(column) for column in zip(*near, strict=True))
    others = _without(index, np.arange(len(B)))
    E, index = E[others].reshape(len(B), k).astype(np.float64), index[others].reshape(len(B), k)
    P = _bisect(E - E[:, :1], float(np.log(perplexity)), len(B))
    return numpy_backend.weight_matrix(P, index, len(B))


def _without(index: Ints, own: Ints) -> NDArray[np.bool_]:
    """Return which entries (m, k + 1) to keep: all except the point itself, or the last if it is missing."""
    kept = index != own[:, None]
    kept[kept.all(axis=1), -1] = False
    return kept


def check_perplexity(perplexity: float, m: int) -> None:
    """Raise if m points cannot have this perplexity."""
    if not 1 <= checks.positive_number(perplexity, "perplexity") <= m - 1:
        raise ValueError(
            f"perplexity={perplexity:g} is not between 1 and {m - 1}, the number of neighbors in {m} points: "
            "change the perplexity or use a larger base set"
        )


def _bisect(E: Any, entropy: float, m: int) -> Any:
    """Return exp(-beta E) with normalized rows, (b, k), where beta gives each row this entropy.

    E is inf for a point and itself, and 0 for the nearest other point. m is the number of all points.
    """
    xp = backend(E)
    finite = xp.where(xp.isfinite(E), E, 0.0)
    scale = finite.sum(axis=1) / (m - 1)
    beta = 1 / xp.where(scale > 0, scale, 1.0)
    low, high = xp.zeros_like(beta), np.inf * xp.ones_like(beta)
    for _ in range(_BISECTIONS):
        P = xp.exp(-beta[:, None] * E)
        total = P.sum(axis=1)
        P *= finite
        too_flat = xp.log(total) + beta * P.sum(axis=1) / total > entropy
        low, high = xp.where(too_flat, beta, low), xp.where(too_flat, high, beta)
        middle = (low + xp.clip(high, None, 1e300)) / 2
        beta = xp.where(xp.isfinite(high), middle, xp.clip(beta * 2, None, 1e300))
    P = xp.exp(-beta[:, None] * E)
    P /= P.sum(axis=1)[:, None]
    return P
