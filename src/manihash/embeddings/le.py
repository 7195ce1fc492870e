"""Laplacian eigenmaps (Belkin and Niyogi, 2001) of the base set alone: the paper's LE_B."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.graph import affinity
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import smallest_eigenvectors
from manihash.types import Floats


class LaplacianEigenmaps(Embedding):
    """Laplacian eigenmaps of the base set alone: the paper's LE_B.

    min trace(Yᵀ M Y) with Yᵀ Y = m I, where M = D_B - W_B is the Laplacian of the graph of nearest neighbors.
    As in the authors' code, a point is one of its own neighbors, and the bandwidth of the weights is the mean
    distance to the farthest of the ``n_neighbors``.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    n_neighbors : int, default=20
        Number of neighbors of each point in the graph, itself included.
    normalized : bool, default=False
        Whether to use the constraint of the original algorithm, Yᵀ D_B Y = m I.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.

    References
    ----------
    Belkin and Niyogi, "Laplacian eigenmaps and spectral techniques for embedding and clustering", NIPS, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import LaplacianEigenmaps
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> LaplacianEigenmaps(n_components=3).fit_transform(B).shape
    (60, 3)
    """

    def __init__(self, n_components: int = 2, n_neighbors: int = 20, normalized: bool = False) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.normalized = normalized

    def _embed(self, B: Floats) -> Floats:
        M, degrees = laplacian(B, self.n_neighbors)
        return smallest_eigenvectors(
            M, self.n_components, degrees if checks.flag(self.normalized, "normalized") else None
        )


def laplacian(B: Floats, n_neighbors: int) -> tuple[Any, Floats]:
    """Return the graph Laplacian M = D_B - W_B (m, m) and the degrees (m,), the diagonal of D_B."""
    W = affinity(B, checks.neighbor_count(n_neighbors, len(B)))
    degrees = W.sum(axis=1)
    return (sp.diags_array(degrees) if sp.issparse(W) else np.diag(degrees)) - W, degrees
