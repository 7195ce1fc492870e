"""Locally linear embedding (Roweis and Saul, 2000), by scikit-learn."""

import numpy as np

from manihash import checks
from manihash.base.graph import MANY
from manihash.embeddings._embedding import Embedding, too_many
from manihash.linalg import fix_signs
from manihash.types import Floats


class LLE(Embedding):
    """Locally linear embedding, by scikit-learn.

    Each point is written as a weighted mean of its nearest neighbors,
    min Σ_i |b_i - Σ_j w_ij b_j|² with Σ_j w_ij = 1, and the coordinates keep these weights:
    min Σ_i |y_i - Σ_j w_ij y_j|² with Yᵀ Y = I.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding, at most min(m - 1, d).
    n_neighbors : int, default=20
        Number of neighbors of each point.
    reg : float, default=1e-3
        Regularization of the weights, relative to the trace of each point's local Gram matrix.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.

    References
    ----------
    Roweis and Saul, "Nonlinear dimensionality reduction by locally linear embedding", Science, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import LLE
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> LLE(n_components=3, n_neighbors=10).fit_transform(B).shape
    (60, 3)
    """

    def __init__(self, n_components: int = 2, n_neighbors: int = 20, reg: float = 1e-3) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.reg = reg

    def _embed(self, B: Floats) -> Floats:
        from sklearn.manifold import LocallyLinearEmbedding

        m, d = B.shape
        if self.n_components > d:
            raise too_many(self.n_components, min(m - 1, d), f"{m} points in {d} dimensions")
        model = LocallyLinearEmbedding(
            n_neighbors=checks.neighbor_count(self.n_neighbors, m - 1),
            n_components=self.n_components,
            reg=checks.positive_number(self.reg, "reg"),
            eigen_solver="dense" if m <= MANY else "arpack",
            random_state=0,
        )
        return fix_signs(model.fit_transform(B.astype(np.float64)))
