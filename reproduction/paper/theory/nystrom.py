"""The Nyström eigenfunction that the paper compares its induction with, as a reference.

Bengio et al. (2004) extend a spectral embedding to a new point by the eigenfunctions of a normalized kernel.
It serves spectral embeddings only; induction (``manihash.induction``) serves any.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from manihash.base.graph import weights
from manihash.compute import numpy as numpy_backend
from manihash.linalg import fix_signs
from manihash.types import Floats


@dataclass(frozen=True)
class NystromEigenfunction:
    """φ(x) = sqrt(m) Σ_j K̃(x, c_j) V_j Σ⁻¹, with K̃(x, c) = w(x, c) / (m sqrt(E[w(x, ·)] E[w(·, c)])).

    V (m, r) and Σ (r,) are the leading eigenvectors and eigenvalues of K̃ on the base set, without the trivial
    first; the means are over the base set. On a base point φ gives back its embedding sqrt(m) V_j.
    """

    B: Floats
    V: Floats
    eigenvalues: Floats
    mean_weight: Floats
    sigma: float

    def __call__(self, X: Floats) -> Floats:
        """φ of each row of X: (b, d) -> (b, r)."""
        m = len(self.B)
        squared = numpy_backend.squared_distances(X.astype(np.float64), self.B)
        nearest = squared.min(axis=1, keepdims=True)
        # Weights relative to the nearest do not underflow; K̃ has a root of the factor left over.
        W = weights(squared - nearest, self.sigma)
        K = W * np.sqrt(weights(nearest, self.sigma) / (W.mean(axis=1, keepdims=True) * self.mean_weight)) / m
        return np.sqrt(m) * K @ self.V / self.eigenvalues


def nystrom(B: Floats, r: int, sigma: float) -> NystromEigenfunction:
    """The Nyström eigenfunctions of Laplacian eigenmaps on the complete Gaussian graph of B (m, d)."""
    B = np.asarray(B, np.float64)
    m = len(B)
    W = weights(numpy_backend.squared_distances(B, B), sigma)
    mean_weight = W.mean(axis=1)
    values, vectors = eigh(W / (m * np.sqrt(np.outer(mean_weight, mean_weight))))
    kept = slice(m - 2, m - 2 - r if m - 2 - r >= 0 else None, -1)
    return NystromEigenfunction(B, fix_signs(vectors[:, kept]), values[kept], mean_weight, sigma)
