"""Principal components of the base set: the linear embedding that the paper compares with (IMH-PCA)."""

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.embeddings._embedding import Embedding, too_many
from manihash.linalg import column_signs
from manihash.types import Floats


class PCA(Embedding):
    """Principal component analysis of the base set: the linear embedding of the paper's IMH-PCA.

    The coordinates are Y = (B - mean) V, where the columns of V are the directions of largest variance.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding, at most min(m - 1, d).

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points. The sign of each direction is fixed, so results are reproducible.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import PCA
    >>> B = np.random.default_rng(0).normal(size=(50, 8))
    >>> PCA(n_components=3).fit_transform(B).shape
    (50, 3)
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def _embed(self, B: Floats) -> Floats:
        most = min(len(B) - 1, B.shape[1])
        if self.n_components > most:
            raise too_many(self.n_components, most, f"{len(B)} points in {B.shape[1]} dimensions")
        Y, directions = numpy_backend.principal_components(B.astype(np.float64), self.n_components)
        return Y * column_signs(directions.T)
