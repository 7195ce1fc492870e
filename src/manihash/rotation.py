"""An orthogonal rotation of an embedding before the sign, so that the sign loses less."""

from typing import Any, Self

import numpy as np
from scipy.linalg import svd
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.progress import advance
from manihash.rows.local import Rows
from manihash.rows.torch import rows_of
from manihash.types import Floats


class ITQRotation(BaseEstimator):
    """ITQ's rotation (Gong and Lazebnik, 2011): min |sign(Y R) - Y R|² over orthogonal R, in alternation.

    After ``fit``, ``rotation_`` is R (r, r) and ``errors_`` the mean squared quantization error before each
    round, which never rises.
    """

    takes_tensors = True

    def __init__(self, n_iter: int = 50, random_state: Any = None) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, Y: Any, y: Any = None) -> Self:
        """Learn R from centered coordinates Y (n, r)."""
        rows = rows_of(checked(self, Y, fitting=True, least=2)).kept()
        r, n_iter = rows.width, checks.positive_int(self.n_iter, "n_iter")
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
    """An orthogonal matrix (r, r), uniformly at random."""
    Q, triangle = np.linalg.qr(rng.standard_normal((r, r)))
    return Q * np.sign(np.diag(triangle))


def _quantize(rows: Rows, R: Floats) -> tuple[Floats, float]:
    """Yᵀ sign(Y R) (r, r) and the mean squared error of the signs, summed over blocks in float64."""

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
