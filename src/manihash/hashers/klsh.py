"""Kernelized locality-sensitive hashing (Kulis and Grauman, 2009): random hyperplanes in a kernel's space."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.hashers._kernel import KernelHasher, drawn, look_through
from manihash.linalg import inverse_square_root
from manihash.rows import Rows
from manihash.types import Floats

# Of the directions that the sampled points span, those of less than this share of the largest are rounding.
_ROUNDING = 1e-10


class KLSH(KernelHasher):
    """Bits Σ_i w_i κ(x, z_i) > 0 over p sampled rows z_i, w = K^-1/2 e_S, K and κ centered in feature space.

    e_S is 1 at t of the p rows. By the central limit theorem the hyperplane is then nearly Gaussian, of equal
    variance in all directions that the z_i span, so two points differ in a bit with probability angle / π,
    their angle seen from the mean of the φ(z_i). After ``fit``: ``points_`` z (p, d), ``weights_`` w (p, r)
    (``points_`` None and Σ_i z_i w_i (d, r) for the linear kernel), ``offset_``, ``gamma_``.

    Parameters
    ----------
    kernel: "rbf", exp(-γ |x - z|²); "linear"; or a function of X (b, d) and Z (s, d) that gives (b, s), each
        row by itself. Model files keep no functions: after ``load`` give it back by ``set_params``.
    gamma: None for 1 / (2 σ²), σ the mean distance of a row to its 50th nearest in a sample of 2,000 rows.
    n_train: p; all rows where there are fewer. (p, p) is held.
    n_summed: t; at most p / 2, since a sum over S and one over the rest differ in sign only.
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
        look_through(rows)
        p = min(self.n_train, len(rows))
        Z = drawn(rows, rng.choice(len(rows), p, replace=False))
        e_S = subsets(p, min(self.n_summed, p // 2), self.n_bits, rng)
        self._scale(rows, rng)
        K = self._kernel(Z, Z)
        W = inverse_root(centered(K)) @ e_S
        # Columns of W sum to zero, so of the centering of κ(x, z_i) only the means over the sample remain.
        self._expand(rows, Z, W, K.mean(axis=0) @ W)


def subsets(p: int, t: int, r: int, rng: np.random.Generator) -> Floats:
    """e_S (p, r): in each column t ones, at random."""
    e_S = np.zeros((p, r))
    for column in e_S.T:
        column[rng.choice(p, t, replace=False)] = 1
    return e_S


def centered(K: Floats) -> Floats:
    """Kernel values (p, p) of φ(z) less their mean."""
    means = K.mean(axis=0)
    return K - means - K.mean(axis=1)[:, None] + means.mean()


def inverse_root(K: Floats) -> Floats:
    """K^-1/2 (p, p), in the directions in which K is not zero."""
    return inverse_square_root(*eigh(K), _ROUNDING)
