"""An orthogonal rotation of an embedding before the sign, so that the sign loses less."""

from typing import Any

import numpy as np
from scipy.linalg import svd
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.arrays import Floats


class ITQRotation(BaseEstimator):
    """ITQ's rotation (Gong and Lazebnik, 2011): min |sign(Y R) - Y R|² over orthogonal R, in alternation.

    After ``fit``, ``rotation_`` is R (r, r) and ``errors_`` the quantisation error of each round, which never
    rises.
    """

    def __init__(self, n_iter: int = 50, random_state: Any = None) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, Y: Floats, y: Any = None) -> "ITQRotation":
        """Learn R from centred coordinates Y (n, r)."""
        Y = np.asarray(Y)
        r = Y.shape[1]
        rng = checks.generator(self.random_state)
        R = np.linalg.qr(rng.standard_normal((r, r)))[0].astype(Y.dtype)
        self.errors_ = np.empty(checks.positive_int(self.n_iter, "n_iter"))
        for done in range(self.n_iter):
            V = Y @ R
            signs = np.where(V > 0, Y.dtype.type(1), Y.dtype.type(-1))
            self.errors_[done] = np.mean((signs - V) ** 2)
            U, _, Wt = svd(Y.T @ signs, full_matrices=False)
            R = U @ Wt
        self.rotation_ = R
        return self
