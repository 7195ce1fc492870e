"""Isomap (Tenenbaum, de Silva and Langford, 2000), by scikit-learn."""

import warnings

import numpy as np

from manihash import checks
from manihash.base.weights import MANY
from manihash.embeddings._embedding import Embedding, too_many
from manihash.linalg import fix_signs
from manihash.types import Floats


class Isomap(Embedding):
    """Coordinates whose distances are those along the graph of the ``n_neighbors`` nearest points."""

    def __init__(self, n_components: int = 2, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _embed(self, B: Floats) -> Floats:
        from sklearn.manifold import Isomap as SklearnIsomap

        k = checks.neighbors_of(self.n_neighbors, len(B) - 1)
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
    """How many dimensions the distances span: the positive eigenvalues of their Gram matrix."""
    G = distances**2 / -2
    G -= G.mean(axis=0)
    G -= G.mean(axis=1, keepdims=True)
    return int((np.linalg.eigvalsh(G) > 0).sum())
