"""Laplacian eigenmaps (Belkin and Niyogi, 2001) of the base set alone: the paper's LE_B."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.weights import affinity
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import smallest_eigenvectors
from manihash.types import Floats


class LaplacianEigenmaps(Embedding):
    """min trace(Yᵀ M Y), Yᵀ Y = m I, with M = D_B - W_B on the graph of the ``n_neighbors`` nearest points.

    As in the authors' code a point is among its own neighbors, and the bandwidth is the mean distance to the
    farthest of them. ``normalized=True`` has the constraint of the original algorithm, Yᵀ D_B Y = m I.
    """

    def __init__(self, n_components: int = 2, n_neighbors: int = 20, normalized: bool = False) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.normalized = normalized

    def _embed(self, B: Floats) -> Floats:
        M, degrees = laplacian(B, self.n_neighbors)
        return smallest_eigenvectors(M, self.n_components, degrees if self.normalized else None)


def laplacian(B: Floats, n_neighbors: int) -> tuple[Any, Floats]:
    """M = D_B - W_B (m, m), the graph Laplacian of the points, and the degrees on the diagonal of D_B."""
    W = affinity(B, checks.neighbors_of(n_neighbors, len(B)))
    degrees = W.sum(axis=1)
    return (sp.diags_array(degrees) if sp.issparse(W) else np.diag(degrees)) - W, degrees
