"""Relaxed similarity preservation, the paper's IMH-LE: smooth within the base set and towards the data."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.base.graph import BaseGraph, mean_distance
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import smallest_eigenvectors
from manihash.embeddings.le import laplacian
from manihash.rows.local import LocalRows
from manihash.types import Floats


class RelaxedLE(Embedding):
    """Relaxed similarity preservation: the embedding of the paper's IMH-LE.

    min trace(Yᵀ (M + lam T) Y) with Yᵀ Y = m I. M = D_B - W_B is the Laplacian of the base set (see
    ``LaplacianEigenmaps``), and T = D_BX - W̄_XBᵀ W_XB couples the base set to the training rows. Inside
    ``IMH`` and ``InductiveEmbedding``, T is computed from the training rows. On its own, the embedding takes
    the points themselves as training rows.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    lam : float, default=2.0
        Weight of the coupling to the training rows.
    n_neighbors : int, default=20
        Number of neighbors of each point in the graph of M, itself included.
    coupling_neighbors : int, default=5
        Number of base points each point is coupled to if ``fit_transform`` gets no coupling.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.

    References
    ----------
    Shen, Shen, Shi, van den Hengel and Tang, "Inductive hashing on manifolds", CVPR, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import RelaxedLE
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> RelaxedLE(n_components=3).fit_transform(B).shape
    (60, 3)
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
        """Embed the points of X, given their coupling to the training rows.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Points to embed.
        y : None
            Ignored; present for compatibility with scikit-learn.
        coupling : ndarray or sparse array of shape (m, m), default=None
            The matrix T. None computes it from the points themselves.

        Returns
        -------
        ndarray of shape (m, n_components)
            Coordinates of the points.
        """
        B = self._points(X)
        T = self._own_coupling(B) if coupling is None else coupling
        lam = checks.positive_number(self.lam, "lam", zero=True)
        M, _ = laplacian(B, self.n_neighbors)
        self.embedding_ = smallest_eigenvectors(M + lam * T, self.n_components)
        return self.embedding_

    def _own_coupling(self, B: Floats) -> Any:
        """Return the coupling T (m, m) of the points to themselves."""
        rows = LocalRows(B.astype(np.float64))
        k = checks.neighbor_count(self.coupling_neighbors, len(B), "coupling_neighbors")
        return BaseGraph(rows.X, k, mean_distance(rows, rows.X, k)).coupling(rows)
