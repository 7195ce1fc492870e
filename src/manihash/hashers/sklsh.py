"""Codes of shift-invariant kernels (Raginsky and Lazebnik, 2009): signs of random Fourier features."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._kernel import gamma_of, look_through
from manihash.rows import Rows
from manihash.types import Floats


class SKLSH(Hasher):
    """Bits cos(wᵀx + b) + t > 0, with w normal of variance 2γ, b uniform in [0, 2π) and t in [-1, 1).

    For the kernel κ(x, y) = exp(-γ |x - y|²) two points differ in a bit with the probability
    8/π² Σ_{m ≥ 1} (1 - κ(mx, my)) / (4m² - 1), which rises with their distance from 0 to 4/π² and depends on
    nothing else. After ``fit``: ``projection_`` w (d, r), ``phases_`` b, ``thresholds_`` t, ``gamma_``.

    Parameters
    ----------
    gamma: None for 1 / (2 σ²), σ the mean distance of a row to its 50th nearest in a sample of 2,000 rows.
    """

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
        look_through(rows)
        w = rng.standard_normal((rows.width, self.n_bits))
        self.phases_ = rng.uniform(0, 2 * np.pi, self.n_bits)
        self.thresholds_ = rng.uniform(-1, 1, self.n_bits)
        self.gamma_ = gamma_of(rows, rng) if self.gamma is None else float(self.gamma)
        self.projection_ = np.sqrt(2 * self.gamma_) * w

    def _embed(self, X: Floats) -> Floats:
        Y = numpy_backend.product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y += self.phases_.astype(X.dtype, copy=False)
        np.cos(Y, out=Y)
        Y += self.thresholds_.astype(X.dtype, copy=False)
        return Y
