"""Locally linear embedding (Roweis and Saul, 2000), by scikit-learn."""

import numpy as np

from manihash import checks
from manihash.base.weights import MANY
from manihash.embeddings._embedding import Embedding, too_many
from manihash.linalg import fix_signs
from manihash.types import Floats


class LLE(Embedding):
    """Each point as a weighted mean of its ``n_neighbors`` nearest, and coordinates that keep the weights."""

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
            n_neighbors=checks.neighbors_of(self.n_neighbors, m - 1),
            n_components=self.n_components,
            reg=checks.positive_number(self.reg, "reg"),
            eigen_solver="dense" if m <= MANY else "arpack",
            random_state=0,
        )
        return fix_signs(model.fit_transform(B.astype(np.float64)))
