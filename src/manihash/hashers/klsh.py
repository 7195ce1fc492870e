"""Kernelized locality-sensitive hashing (Kulis and Grauman, 2009): random hyperplanes in a kernel's space."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.hashers._kernel_hasher import KernelHasher, training_points
from manihash.linalg import inverse_square_root
from manihash.rows import Rows
from manihash.types import Floats

# Eigenvalues below this share of the largest one are rounding errors.
_ROUNDING = 1e-10


class KLSH(KernelHasher):
    """Kernelized LSH: random hyperplanes in the feature space of a kernel.

        h_S(x) = sign(Σ_i w_i κ(x, z_i)),   w = K^-1/2 e_S

    The z_i are p sampled rows, K (p, p) contains their kernel values, and e_S is 1 for t of the p rows and 0
    for the others; K and κ are centered in feature space. By the central limit theorem the hyperplane is
    nearly Gaussian, with equal variance in all directions that the z_i span. Two rows therefore differ in a
    bit with probability of about θ / π, where θ is their angle as seen from the mean of the φ(z_i).

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    kernel : {"rbf", "linear"} or callable, default="rbf"
        "rbf" is exp(-γ |x - z|²) and "linear" is xᵀz. A function takes X of shape (b, d) and Z of shape (s,
        d) and returns κ of shape (b, s); each row of its result must depend on the same row of X only. Model
        files do not contain functions: after ``load``, set it again with ``set_params(kernel=...)``.
    gamma : float or None, default=None
        Width parameter γ of the Gaussian kernel. None means 1 / (2 σ²), where σ is the mean distance of a row
        to its 50th nearest neighbor in a sample of 2,000 rows.
    n_train : int, default=300
        Number p of sampled rows; all rows if there are fewer. A matrix of shape (p, p) is computed.
    n_summed : int, default=30
        Number t of rows in each subset S, at most p / 2: complementary subsets give the same bit up to its
        sign.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of sampled rows and subsets. The same seed gives the same codes.

    Attributes
    ----------
    points_ : ndarray of shape (s, d) or None
        The sampled rows z_i; None for the linear kernel.
    weights_ : ndarray of shape (s, n_bits) or (d, n_bits)
        The weights w_i, one column per bit; for the linear kernel the sums Σ_i z_i w_i.
    offset_ : ndarray of shape (n_bits,)
        The offset that centers the kernel values.
    gamma_ : float or None
        The γ used; None for a kernel other than "rbf".
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
    .. [1] B. Kulis and K. Grauman, "Kernelized locality-sensitive hashing for scalable image search", ICCV
       2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import KLSH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = KLSH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    def __init__(
        self,
        n_bits: int = 64,
        kernel: Any = "rbf",
        gamma: float | None = None,
        n_train: int = 300,
        n_summed: int = 30,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.kernel = kernel
        self.gamma = gamma
        self.n_train = n_train
        self.n_summed = n_summed
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_train, "n_train", least=2)
        checks.positive_int(self.n_summed, "n_summed")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        p = min(self.n_train, len(rows))
        Z = training_points(rows, rng.choice(len(rows), p, replace=False))
        e_S = subsets(p, min(self.n_summed, p // 2), self.n_bits, rng)
        self._set_gamma(rows, rng)
        K = self._kernel(Z, Z)
        W = inverse_root(centered(K)) @ e_S
        # The columns of W sum to zero, so centering κ(x, z_i) only subtracts its mean over the sample.
        self._expand(rows.dtype, Z, W, K.mean(axis=0) @ W)


def subsets(p: int, t: int, r: int, rng: np.random.Generator) -> Floats:
    """e_S (p, r): t ones at random positions in each column, zeros elsewhere."""
    e_S = np.zeros((p, r))
    for column in e_S.T:
        column[rng.choice(p, t, replace=False)] = 1
    return e_S


def centered(K: Floats) -> Floats:
    """The kernel values (p, p) after centering φ(z) in feature space."""
    means = K.mean(axis=0)
    return K - means - K.mean(axis=1)[:, None] + means.mean()


def inverse_root(K: Floats) -> Floats:
    """K^-1/2 (p, p) on the directions in which K is not zero."""
    return inverse_square_root(*eigh(K), _ROUNDING)
