"""Codes of shift-invariant kernels (Raginsky and Lazebnik, 2009): signs of random Fourier features."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._kernel_hasher import default_gamma
from manihash.rows import Rows
from manihash.types import Floats


class SKLSH(Hasher):
    """Hashing for shift-invariant kernels: the signs of random Fourier features.

        h_j(x) = sign(cos(w_jᵀ x + b_j) + t_j),   w_j ~ N(0, 2γ I),   b_j ~ U[0, 2π),   t_j ~ U[-1, 1)

    For the kernel κ(x, y) = exp(-γ |x - y|²), two rows differ in a bit with probability 8/π² Σ_{m ≥ 1} (1 -
    κ(mx, my)) / (4m² - 1). This probability depends on the distance of the rows only, and increases with it
    from 0 to 4/π².

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    gamma : float or None, default=None
        Width parameter γ of the Gaussian kernel. None means 1 / (2 σ²), where σ is the mean distance of a row
        to its 50th nearest neighbor in a sample of 2,000 rows.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random features. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The frequencies w_j, one per column.
    phases_ : ndarray of shape (n_bits,)
        The phases b_j.
    thresholds_ : ndarray of shape (n_bits,)
        The thresholds t_j.
    gamma_ : float
        The γ used.
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
    .. [1] M. Raginsky and S. Lazebnik, "Locality-sensitive binary codes from shift-invariant kernels", NIPS
       2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import SKLSH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = SKLSH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    _by_distance = True

    def __init__(
        self, n_bits: int = 64, gamma: float | None = None, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.gamma = gamma
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.gamma is not None:
            checks.positive_number(self.gamma, "gamma")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        w = rng.standard_normal((rows.width, self.n_bits))
        self.phases_ = rng.uniform(0, 2 * np.pi, self.n_bits)
        self.thresholds_ = rng.uniform(-1, 1, self.n_bits)
        self.gamma_ = default_gamma(rows, rng) if self.gamma is None else float(self.gamma)
        self.projection_ = np.sqrt(2 * self.gamma_) * w

    def _embed(self, X: Floats) -> Floats:
        Y = numpy_backend.rowwise_product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y += self.phases_.astype(X.dtype, copy=False)
        np.cos(Y, out=Y)
        Y += self.thresholds_.astype(X.dtype, copy=False)
        return Y
