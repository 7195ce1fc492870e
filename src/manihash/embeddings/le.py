"""Laplacian eigenmaps (Belkin and Niyogi, 2001) of the base set alone: the paper's LE_B."""

import numpy as np

from manihash import checks
from manihash.arrays import Floats
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import smallest_eigenvectors
from manihash.weights import affinity


class LaplacianEigenmaps(Embedding):
    """min trace(Yᵀ M Y), Yᵀ Y = m I, with M = D_B - W_B on the graph of the ``n_neighbors`` nearest points.

    As in the authors' code a point is among its own neighbours, and the bandwidth is the mean distance to the
    farthest of them. ``n_neighbors=None`` takes the complete graph.
    """

    def __init__(self, n_components: int = 2, n_neighbors: int | None = 20) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _embed(self, B: Floats) -> Floats:
        return smallest_eigenvectors(laplacian(B, self.n_neighbors), self.n_components)


def laplacian(B: Floats, n_neighbors: int | None) -> Floats:
    """M = D_B - W_B (m, m), the graph Laplacian of the points."""
    W = affinity(B, len(B) if n_neighbors is None else checks.neighbours_of(n_neighbors, len(B)))
    return np.diag(W.sum(axis=1)) - W
