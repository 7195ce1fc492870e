"""Diffusion maps (Coifman and Lafon, 2006; the paper cites Lafon and Lee, 2006)."""

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.base.graph import MANY
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._spectral import extreme_eigenvectors
from manihash.linalg import fix_signs
from manihash.types import Floats


class DiffusionMaps(Embedding):
    """Diffusion maps: eigenvectors of a random walk on a Gaussian graph of the points.

    The kernel is K_ij = exp(-|b_i - b_j|² / sigma²). Its density q = K 1 is divided out, K_ij / (q_i
    q_j)^alpha, and the rows are normalized to the transition matrix P of a random walk. The coordinates are
    λ_j^t ψ_j, where ψ_j are the right eigenvectors of P without the constant one. The bandwidth sigma is the
    mean distance of the points to their ``n_neighbors``-th nearest neighbor.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    n_neighbors : int, default=20
        Rank of the neighbor whose mean distance is the bandwidth.
    alpha : float, default=1.0
        Exponent of the density normalization. With 1 the result depends on the geometry only, not on how
        densely it was sampled; with 0 the density is not removed.
    t : float, default=1.0
        Diffusion time: exponent of the eigenvalues.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.

    References
    ----------
    Coifman and Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis, 2006.

    Lafon and Lee, "Diffusion maps and coarse-graining", IEEE TPAMI, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import DiffusionMaps
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> DiffusionMaps(n_components=3).fit_transform(B).shape
    (60, 3)
    """

    def __init__(
        self, n_components: int = 2, n_neighbors: int = 20, alpha: float = 1.0, t: float = 1.0
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.t = t

    def _embed(self, B: Floats) -> Floats:
        values, psi = random_walk(
            B.astype(np.float64),
            checks.neighbor_count(self.n_neighbors, len(B) - 1),
            checks.positive_number(self.alpha, "alpha", zero=True),
            self.n_components + 1,
        )
        t = checks.positive_number(self.t, "t", zero=True)
        r = self.n_components
        return psi[:, 1 : r + 1] * np.abs(values[1 : r + 1]) ** t


def random_walk(B: Floats, n_neighbors: int, alpha: float, k: int | None = None) -> tuple[Floats, Floats]:
    """Return eigenvalues, largest first, and right eigenvectors of P = D⁻¹ K; the first vector is constant.

    The kernel covers all pairs. For many points only the first k eigenvectors are computed.
    """
    with single_blas_thread():
        E = numpy_backend.squared_distances(B, B)
    np.fill_diagonal(E, 0)
    sigma = np.sqrt(np.partition(E, n_neighbors, axis=1)[:, n_neighbors]).mean()
    E /= -(sigma**2)
    K = np.exp(E, out=E)
    density = K.sum(axis=1) ** alpha
    _divide(K, density)
    root = np.sqrt(K.sum(axis=1))
    _divide(K, root)
    values, vectors = eigh(K) if k is None or len(B) <= MANY else extreme_eigenvectors(K, k, "LA")
    return values[::-1], fix_signs(vectors[:, ::-1] / root[:, None])


def _divide(K: Floats, v: Floats) -> None:
    """Divide K_ij by v_i v_j in place, without a second matrix."""
    for start in range(0, len(K), 1024):
        part = slice(start, start + 1024)
        K[part] /= v[part, None] * v
