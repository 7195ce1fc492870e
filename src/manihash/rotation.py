"""An orthogonal rotation of an embedding before the sign, which reduces the quantization error."""

from typing import Any, Self

import numpy as np
from scipy.linalg import svd
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.progress import advance
from manihash.rows import Rows, rows_of
from manihash.types import Floats

__all__ = ["ITQRotation"]


class ITQRotation(BaseEstimator):
    """Rotation of iterative quantization (ITQ).

    min |sign(Y R) - Y R|² over orthogonal R, by alternating between the signs S = sign(Y R) and the rotation
    R = U Vᵀ, where U Σ Vᵀ is the singular value decomposition of Yᵀ S.

    Parameters
    ----------
    n_iter : int, default=50
        Number of iterations.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.
    adaptive : bool, default=False
        Whether ``IMH`` leaves the rotation out if affinities from the rows show many small groups. A rotation
        gives the rows of a group the same code: that helps look-up in a few large groups, and many small
        groups would share their codes.

    Attributes
    ----------
    rotation_ : ndarray of shape (r, r)
        The rotation R.
    errors_ : ndarray of shape (n_iter,)
        Mean squared quantization error before each iteration; it never increases.

    References
    ----------
    Gong and Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.rotation import ITQRotation
    >>> Y = np.random.default_rng(0).normal(size=(200, 4))
    >>> rotation = ITQRotation(n_iter=20, random_state=0).fit(Y - Y.mean(axis=0))
    >>> bool(rotation.errors_[-1] < rotation.errors_[0])
    True
    """

    takes_tensors = True

    def __init__(self, n_iter: int = 50, random_state: Any = None, adaptive: bool = False) -> None:
        self.n_iter = n_iter
        self.random_state = random_state
        self.adaptive = adaptive

    def fit(self, Y: Any, y: Any = None) -> Self:
        """Learn the rotation from centered coordinates.

        Parameters
        ----------
        Y : array-like of shape (n, r)
            Coordinates whose mean is zero.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The fitted rotation.
        """
        rows = rows_of(checked(self, Y, fitting=True, least=2)).cached()
        r, n_iter = rows.width, checks.positive_int(self.n_iter, "n_iter")
        checks.flag(self.adaptive, "adaptive")
        R = random_rotation(r, checks.generator(self.random_state))
        self.errors_ = np.empty(n_iter)
        for done in range(n_iter):
            advance("rotation", done, n_iter)
            cross, self.errors_[done] = _quantize(rows, R.astype(rows.dtype))
            with single_blas_thread():
                U, _, Vt = svd(cross)
            R = U @ Vt
        advance("rotation", n_iter, n_iter)
        self.rotation_ = R
        return self


def random_rotation(r: int, rng: np.random.Generator) -> Floats:
    """Return a uniformly random orthogonal matrix (r, r)."""
    Q, triangle = np.linalg.qr(rng.standard_normal((r, r)))
    return Q * np.sign(np.diag(triangle))


def _quantize(rows: Rows, R: Floats) -> tuple[Floats, float]:
    """Return Yᵀ sign(Y R) (r, r) and the mean squared error of the signs, accumulated in float64."""

    def block(Y: Floats) -> tuple[Floats, float]:
        xp = backend(Y)
        V = Y @ xp.like(R, Y)
        signs = xp.signs(V)
        cross = Y.T @ signs
        V -= signs
        flat = V.reshape(-1)
        return cross, float(flat @ flat)

    cross, error = np.zeros(R.shape), 0.0
    for part, squared in rows.map(block):
        cross += part
        error += squared
    return cross, error / (len(rows) * len(R))
