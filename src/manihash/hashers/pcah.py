"""PCA hashing (Wang, Kumar and Chang, 2012): signs of the principal components."""

from typing import Any

import numpy as np

from manihash.hashers._linear import LinearHasher, check_n_bits, principal_axes
from manihash.rows import Rows


class PCAH(LinearHasher):
    """PCA hashing: the signs of the principal components.

        h_j(x) = sign(p_jᵀ (x - mean)),   p_j = the direction of the j-th largest variance

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, at most the number of columns d.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Not used: the method has no randomness.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions p_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        p_jᵀ mean, which is subtracted from p_jᵀ x.
    variances_ : ndarray of shape (n_bits,)
        Variance of the rows along each direction, descending.
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
    .. [1] J. Wang, S. Kumar and S.-F. Chang, "Semi-supervised hashing for large-scale search", IEEE TPAMI
       34(12), 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import PCAH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = PCAH(n_bits=16).fit(X)
    >>> hasher.encode(X).shape
    (500, 2)
    """

    _by_distance = True

    def __init__(self, n_bits: int = 64, normalize: bool = False, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.normalize = normalize
        self.random_state = random_state

    def _most_bits(self, n: int, d: int) -> int | None:
        return d

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        check_n_bits(self.n_bits, rows.width, "use a method without this limit, such as SignQuantizer or LSH")
        mean, self.projection_, self.variances_ = principal_axes(rows, self.n_bits, rng)
        self.offset_ = mean @ self.projection_
