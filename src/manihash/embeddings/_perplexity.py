"""Neighbor probabilities p(j | i) of a given perplexity, which t-SNE, SNE and EE start from."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.embeddings.pca import principal_components
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

_BISECTIONS = 60


def conditional_probabilities(B: Floats, perplexity: float, dims: int) -> Floats:
    """p(j | i) (m, m): Gaussian in |b_i - b_j|, with a width for each i such that exp(entropy) = perplexity.

    Distances are taken among the first ``dims`` principal components, as the authors do.
    """
    check_perplexity(perplexity, len(B))
    Z = principal_components(B.astype(np.float64), min(dims, *B.shape))
    with single_blas_thread():
        E = numpy_backend.squared_distances(Z, Z)
    np.fill_diagonal(E, np.inf)
    E -= E.min(axis=1, keepdims=True)
    return _bisect(E, float(np.log(perplexity)))


def near_probabilities(B: Floats, perplexity: float, dims: int) -> sp.csr_array:
    """As ``conditional_probabilities``, of the 3 x perplexity nearest points alone: sparse (m, m)."""
    check_perplexity(perplexity, len(B))
    k = min(int(np.ceil(3 * perplexity)), len(B) - 1)
    Z = B - B.mean(axis=0) if B.shape[1] <= dims else principal_components(B, dims)
    near = list(LocalRows(Z).map(lambda X: numpy_backend.k_nearest(X, Z, k + 1), "neighbors"))
    E, index = (np.concatenate(column) for column in zip(*near, strict=True))
    others = _without(index, np.arange(len(B)))
    E, index = E[others].reshape(len(B), k).astype(np.float64), index[others].reshape(len(B), k)
    P = _bisect(E - E[:, :1], float(np.log(perplexity)))
    return numpy_backend.weight_matrix(P, index, len(B))


def _without(index: Ints, own: Ints) -> NDArray[np.bool_]:
    """Which entries (m, k + 1) to keep: all but the point itself, or the last if it is missing."""
    kept = index != own[:, None]
    kept[kept.all(axis=1), -1] = False
    return kept


def check_perplexity(perplexity: float, m: int) -> None:
    """Raise unless m points can have this perplexity."""
    if not 1 <= checks.positive_number(perplexity, "perplexity") <= m - 1:
        raise ValueError(
            f"perplexity {perplexity:g} asked of {m} points: "
            f"it counts neighbors, so give 1 to {m - 1}, or use a larger base set"
        )


def _bisect(E: Floats, entropy: float) -> Floats:
    """Each row's exp(-beta E) normalized, beta bisected on its entropy; where E is inf, zero."""
    m = len(E)
    finite = np.where(np.isfinite(E), E, 0.0)
    scale = finite.sum(axis=1) / (m - 1)
    beta = 1 / np.where(scale > 0, scale, 1.0)
    low, high = np.zeros(m), np.full(m, np.inf)
    for _ in range(_BISECTIONS):
        P = np.exp(-beta[:, None] * E)
        total = P.sum(axis=1)
        too_flat = np.log(total) + beta * (P * finite).sum(axis=1) / total > entropy
        low, high = np.where(too_flat, beta, low), np.where(too_flat, high, beta)
        beta = np.where(np.isinf(high), np.minimum(beta * 2, 1e300), (low + np.minimum(high, 1e300)) / 2)
    P = np.exp(-beta[:, None] * E)
    return P / P.sum(axis=1, keepdims=True)
