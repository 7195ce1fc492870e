"""The eigenvectors that the spectral embeddings are made of."""

import numpy as np
from scipy.linalg import eigh

from manihash.arrays import Floats
from manihash.embeddings._embedding import too_many

# The authors drop every eigenvector with an eigenvalue up to this: the trivial one, and those of a graph that
# (nearly) falls into pieces.
TRIVIAL = 1e-3


# The eigenvalues of M y = λ D y lie between 0 and 2 whatever the weights: only what is zero is dropped.
ZERO = 1e-6


def smallest_eigenvectors(M: Floats, r: int, degrees: Floats | None = None) -> Floats:
    """Y (m, r) that minimises trace(Yᵀ M Y) with Yᵀ Y = m I, without the trivial eigenvectors of M.

    Given ``degrees``, the diagonal of D, with Yᵀ D Y = m I instead.
    """
    values, vectors = eigh(M) if degrees is None else eigh(M, np.diag(degrees))
    vectors = vectors[:, values > (TRIVIAL if degrees is None else ZERO)]
    if vectors.shape[1] < r:
        raise too_many(r, vectors.shape[1], f"the neighbour graph of {len(M)} points")
    return fixed_signs(vectors[:, :r]) * np.sqrt(len(M))


def fixed_signs(vectors: Floats) -> Floats:
    """Columns with their largest entry made positive: eigenvectors have no sign of their own."""
    largest = np.abs(vectors).argmax(axis=0)
    sign = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return vectors * np.where(sign == 0, 1, sign)
