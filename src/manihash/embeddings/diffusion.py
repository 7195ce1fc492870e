"""Diffusion maps (Coifman and Lafon, 2006; the paper cites Lafon and Lee, 2006)."""

import numpy as np
from scipy.linalg import eigh

from manihash import arrays, checks
from manihash.arrays import Floats
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import fixed_signs


class DiffusionMaps(Embedding):
    """Coordinates λ_j^t ψ_j, the right eigenvectors of the random walk on a Gaussian graph of the points.

    The walk's density is divided out to the power ``alpha`` (1: the geometry alone, whatever the sampling).
    The bandwidth is the mean distance to the ``n_neighbors``-th nearest point.
    """

    def __init__(
        self, n_components: int = 2, n_neighbors: int = 20, alpha: float = 1.0, t: float = 1.0
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.t = t

    def _embed(self, B: Floats) -> Floats:
        values, psi = random_walk(
            B.astype(np.float64),
            checks.neighbours_of(self.n_neighbors, len(B) - 1),
            checks.positive_number(self.alpha, "alpha", zero=True),
        )
        t = checks.positive_number(self.t, "t", zero=True)
        r = self.n_components
        return psi[:, 1 : r + 1] * np.abs(values[1 : r + 1]) ** t


def random_walk(B: Floats, n_neighbors: int, alpha: float) -> tuple[Floats, Floats]:
    """Eigenvalues, largest first, and right eigenvectors of P = D⁻¹ K; the first is constant."""
    with arrays.single_blas_thread():
        E = arrays.squared_distances(B, B)
    np.fill_diagonal(E, 0)
    sigma = np.sqrt(np.partition(E, n_neighbors, axis=1)[:, n_neighbors]).mean()
    K = np.exp(-E / sigma**2)
    density = K.sum(axis=1) ** alpha
    K /= density[:, None] * density
    root = np.sqrt(K.sum(axis=1))
    values, vectors = eigh(K / (root[:, None] * root))
    return values[::-1], fixed_signs(vectors[:, ::-1] / root[:, None])
