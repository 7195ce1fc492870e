"""Isomap (Tenenbaum, de Silva and Langford, 2000), by scikit-learn."""

import warnings

import numpy as np

from manihash import checks
from manihash.base.graph import MANY
from manihash.embeddings._embedding import Embedding, too_many
from manihash.linalg import fix_signs
from manihash.types import Floats


class Isomap(Embedding):
    """Isomap, by scikit-learn.

    Distances between points are measured along the graph of the nearest neighbors, and classical
    multidimensional scaling turns them into coordinates: |y_i - y_j| approximates the length of the shortest
    path between b_i and b_j. A graph with several components is connected through its shortest gaps.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    n_neighbors : int, default=10
        Number of neighbors of each point in the graph.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.

    References
    ----------
    Tenenbaum, de Silva and Langford, "A global geometric framework for nonlinear dimensionality reduction",
    Science, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import Isomap
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> Isomap(n_components=3).fit_transform(B).shape
    (60, 3)
    """

    def __init__(self, n_components: int = 2, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _embed(self, B: Floats) -> Floats:
        from sklearn.manifold import Isomap as SklearnIsomap

        k = checks.neighbor_count(self.n_neighbors, len(B) - 1)
        solver = "dense" if len(B) <= MANY else "arpack"
        model = SklearnIsomap(n_neighbors=k, n_components=self.n_components, eigen_solver=solver)
        with warnings.catch_warnings():
            # A graph in pieces is joined by its shortest gaps, which is what a base set needs.
            warnings.filterwarnings("ignore", message="The number of connected components")
            warnings.filterwarnings("ignore", message="Changing the sparsity structure")
            try:
                return fix_signs(model.fit_transform(B.astype(np.float64)))
            except ValueError as error:
                if "negative eigenvalues" not in str(error):
                    raise
                most = _dimensions(model.dist_matrix_)
                raise too_many(
                    self.n_components, most, f"{len(B)} points by distances along their graph"
                ) from error


def _dimensions(distances: Floats) -> int:
    """Return the number of positive eigenvalues of the Gram matrix of distances (m, m)."""
    G = distances**2 / -2
    G -= G.mean(axis=0)
    G -= G.mean(axis=1, keepdims=True)
    return int((np.linalg.eigvalsh(G) > 0).sum())
