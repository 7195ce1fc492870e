"""Random maximum margin hashing (Joly and Buisson, 2011): wide margins between halves of a few rows."""

from typing import Any

import numpy as np
from sklearn.svm import SVC

from manihash import checks
from manihash.hashers._kernel import KernelHasher, drawn, look_through
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats

# A variance below this share of the mean square is rounding.
_ROUNDING = 1e-12


class RMMH(KernelHasher):
    """Bits Σ_i α_i y_i κ(x, z_i) + b > 0: a support vector machine that parts M random rows z_i in halves.

    The labels y_i are +1 for a random half and -1 for the other: a bit is not taught to keep neighbors
    together but to be independent of the other bits, and the margin lets it generalize. A bit whose M rows
    are all equal is always 0. After ``fit``: ``points_`` z (s, d), all rows drawn, each once; ``weights_``
    (s, r), the α_i y_i of each bit (for the linear kernel ``points_`` is None and ``weights_`` their sums
    Σ_i z_i α_i y_i, (d, r)); ``offset_`` -b; ``gamma_``.

    Parameters
    ----------
    n_train: M, rows drawn for each bit; all rows where there are fewer.
    kernel: "linear"; "rbf", exp(-γ |x - z|²); or a function of X (b, d) and Z (s, d) that gives (b, s), each
        row by itself. Model files keep no functions: after ``load`` give it back by ``set_params``.
    gamma: None for 1 / (2 σ²), σ the mean distance of a row to its 50th nearest in a sample of 2,000 rows.
    C: what errors cost, where the M rows are scaled to variance one in the kernel's space.
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
        look_through(rows)
        n, M = len(rows), min(self.n_train, len(rows))
        chosen = np.stack([rng.choice(n, M, replace=False) for _ in range(self.n_bits)])
        self._scale(rows, rng)
        index, place = np.unique(chosen, return_inverse=True)
        Z = drawn(rows, index)
        W, b = np.zeros((len(index), self.n_bits)), np.zeros(self.n_bits)
        for bit, some in enumerate(place.reshape(chosen.shape)):
            advance("RMMH, margins", bit, self.n_bits)
            W[some, bit], b[bit] = widest_margin(self._kernel(Z[some], Z[some]), self.C)
        advance("RMMH, margins", self.n_bits, self.n_bits)
        self._expand(rows, Z, W, -b)


def widest_margin(K: Floats, C: float) -> tuple[Floats, float]:
    """α_i y_i (M,) and b of the machine that parts the first half of the points from the rest; K (M, M)."""
    M = len(K)
    variance = K.diagonal().mean() - K.mean()
    weights = np.zeros(M)
    if variance <= _ROUNDING * K.diagonal().mean():
        return weights, 0.0
    svm = SVC(C=C, kernel="precomputed").fit(K / variance, np.arange(M) < M // 2)
    weights[svm.support_] = svm.dual_coef_[0]
    return weights / variance, float(svm.intercept_[0])
