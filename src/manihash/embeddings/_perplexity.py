"""Neighbour probabilities p(j | i) of a given perplexity, which t-SNE, SNE and EE start from."""

import numpy as np

from manihash import arrays, checks
from manihash.arrays import Floats
from manihash.embeddings.pca import principal_components

_BISECTIONS = 60


def conditional_probabilities(B: Floats, perplexity: float, dims: int) -> Floats:
    """p(j | i) (m, m): Gaussian in |b_i - b_j|, with a width for each i such that exp(entropy) = perplexity.

    Distances are taken among the first ``dims`` principal components, as the authors do.
    """
    if not 1 <= checks.positive_number(perplexity, "perplexity") <= len(B) - 1:
        raise ValueError(
            f"perplexity {perplexity:g} asked of {len(B)} points: "
            f"it counts neighbours, so give 1 to {len(B) - 1}, or enlarge the base set"
        )
    Z = principal_components(B.astype(np.float64), min(dims, *B.shape))
    with arrays.single_blas_thread():
        E = arrays.squared_distances(Z, Z)
    np.fill_diagonal(E, np.inf)
    E -= E.min(axis=1, keepdims=True)
    return _bisect(E, float(np.log(perplexity)))


def _bisect(E: Floats, entropy: float) -> Floats:
    """Each row's exp(-beta E) normalised, beta bisected on its entropy; the diagonal of E is inf."""
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
