"""Random maximum margin hashing (Joly and Buisson, 2011): wide margins between halves of a few rows."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from manihash import checks
from manihash.hashers._kernel_hasher import KernelHasher, training_points
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats

# A variance below this share of the mean square is a rounding error.
_ROUNDING = 1e-12
# An SVM of a few dozen points needs some hundred iterations.
_MAX_ITER = 1_000_000


class RMMH(KernelHasher):
    """Random maximum margin hashing: SVMs that separate random halves of a few rows.

        h(x) = sign(Σ_i α_i y_i κ(x, z_i) + b)

    For each bit, M rows z_i are sampled; a random half has the label y_i = 1 and the other half -1, and a
    support vector machine separates them. The bits are thus nearly independent of each other, and the wide
    margins make them generalize. A bit whose M rows are all equal is always 0.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    n_train : int, default=32
        Number M of rows sampled for each bit; all rows if there are fewer.
    kernel : {"rbf", "linear"} or callable, default="linear"
        "rbf" is exp(-γ |x - z|²) and "linear" is xᵀz. A function takes X of shape (b, d) and Z of shape (s,
        d) and returns κ of shape (b, s); each row of its result must depend on the same row of X only. Model
        files do not contain functions: after ``load``, set it again with ``set_params(kernel=...)``.
    gamma : float or None, default=None
        Width parameter γ of the Gaussian kernel. None means 1 / (2 σ²), where σ is the mean distance of a row
        to its 50th nearest neighbor in a sample of 2,000 rows.
    C : float, default=1.0
        Penalty of the errors of the SVMs, where the M rows are scaled to variance 1 in feature space.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of sampled rows and halves. The same seed gives the same codes.

    Attributes
    ----------
    points_ : ndarray of shape (s, d) or None
        The sampled rows z_i of all bits, without duplicates; None for the linear kernel.
    weights_ : ndarray of shape (s, n_bits) or (d, n_bits)
        The coefficients α_i y_i, one column per bit; for the linear kernel the sums Σ_i z_i w_i.
    offset_ : ndarray of shape (n_bits,)
        The negated intercepts -b.
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
    .. [1] A. Joly and O. Buisson, "Random maximum margin hashing", CVPR 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import RMMH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = RMMH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    def __init__(
        self,
        n_bits: int = 64,
        n_train: int = 32,
        kernel: Any = "linear",
        gamma: float | None = None,
        C: float = 1.0,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_train = n_train
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_train, "n_train", least=2)
        checks.positive_number(self.C, "C")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        n, M = len(rows), min(self.n_train, len(rows))
        chosen = np.stack([rng.choice(n, M, replace=False) for _ in range(self.n_bits)])
        self._set_gamma(rows, rng)
        index, place = np.unique(chosen, return_inverse=True)
        Z = training_points(rows, index)
        W, b = np.zeros((len(index), self.n_bits)), np.zeros(self.n_bits)
        for bit, some in enumerate(place.reshape(chosen.shape)):
            advance("RMMH, margins", bit, self.n_bits)
            W[some, bit], b[bit] = widest_margin(self._kernel(Z[some], Z[some]), self.C)
        advance("RMMH, margins", self.n_bits, self.n_bits)
        self._expand(rows.dtype, Z, W, -b)


def widest_margin(K: Floats, C: float) -> tuple[Floats, float]:
    """α_i y_i (M,) and b of the SVM that separates the first half of the points from the rest; K (M, M)."""
    from sklearn.svm import SVC

    M = len(K)
    variance = K.diagonal().mean() - K.mean()
    weights = np.zeros(M)
    if variance <= _ROUNDING * K.diagonal().mean():
        return weights, 0.0
    svm = SVC(C=C, kernel="precomputed", max_iter=_MAX_ITER)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            svm.fit(K / variance, np.arange(M) < M // 2)
    except ConvergenceWarning as error:
        raise ValueError(
            f"an SVM did not converge in {_MAX_ITER:,} iterations: lower C, or use a kernel whose values "
            "differ more between rows (a positive definite one)"
        ) from error
    weights[svm.support_] = svm.dual_coef_[0]
    return weights / variance, float(svm.intercept_[0])
