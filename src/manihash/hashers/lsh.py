"""Locality-sensitive hashing for angles (Charikar, 2002): signs of random projections."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.hashers._linear import LinearHasher, mean_of
from manihash.rows import Rows


class LSH(LinearHasher):
    """Locality-sensitive hashing for angles: the signs of random projections.

        h_j(x) = sign(p_jᵀ (x - mean)),   p_j ~ N(0, I)

    Two rows differ in a bit with probability θ / π, where θ is the angle between them as seen from the mean.
    ``LSHTables`` searches several tables of such codes.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    center : bool, default=True
        Subtract the mean of the training rows before the projection.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random projections. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions p_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        p_jᵀ mean, which is subtracted from p_jᵀ x.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] M. S. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import LSH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = LSH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    def __init__(
        self, n_bits: int = 64, center: bool = True, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.center = center
        self.normalize = normalize
        self.random_state = random_state

    @property
    def _by_distance(self) -> bool:
        return bool(self.center)

    def _check(self) -> None:
        super()._check()
        checks.flag(self.center, "center")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        self.projection_ = rng.standard_normal((rows.width, self.n_bits))
        mean = mean_of(rows) if self.center else np.zeros(rows.width)
        self.offset_ = mean @ self.projection_
