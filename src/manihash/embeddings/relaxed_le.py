"""Relaxed similarity preservation, the paper's IMH-LE: smooth within the base set and towards the data."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.base.weights import bandwidth, coupling
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import smallest_eigenvectors
from manihash.embeddings.le import laplacian
from manihash.rows.local import Rows
from manihash.types import Floats


class RelaxedLE(Embedding):
    """min trace(Yᵀ (M + lam T) Y), Yᵀ Y = m I, with the coupling T between base set and data.

    Within ``IMH`` and ``InductiveEmbedding`` T comes from the rows fitted on. Alone, the points are their own
    data, each with its ``coupling_neighbors`` nearest.
    """

    needs_coupling = True

    def __init__(
        self,
        n_components: int = 2,
        lam: float = 2.0,
        n_neighbors: int = 20,
        coupling_neighbors: int = 5,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.n_neighbors = n_neighbors
        self.coupling_neighbors = coupling_neighbors

    def fit_transform(self, X: Any, y: Any = None, *, coupling: Floats | None = None) -> Floats:
        """The coordinates (m, r) of the points of X (m, d), given their coupling T (m, m) to the data."""
        B = self._points(X)
        T = self._own_coupling(B) if coupling is None else coupling
        lam = checks.positive_number(self.lam, "lam", zero=True)
        M, _ = laplacian(B, self.n_neighbors)
        self.embedding_ = smallest_eigenvectors(M + lam * T, self.n_components)
        return self.embedding_

    def _own_coupling(self, B: Floats) -> Floats:
        rows = Rows(B.astype(np.float64))
        k = checks.neighbors_of(self.coupling_neighbors, len(B), "coupling_neighbors")
        return coupling(rows, rows.X, k, bandwidth(rows, rows.X, k))
