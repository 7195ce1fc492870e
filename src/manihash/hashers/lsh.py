"""Locality-sensitive hashing for angles (Charikar, 2002): signs of random projections."""

from typing import Any

import numpy as np

from manihash.hashers._linear import LinearHasher, mean_of
from manihash.rows import Rows


class LSH(LinearHasher):
    """Bits sign(pᵀ(x - mean)) with Gaussian p: two points differ in a bit with probability angle / π.

    ``center=False`` leaves the mean in. For several tables see ``LSHTables``.
    """

    def __init__(
        self, n_bits: int = 64, center: bool = True, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.center = center
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        self.projection_ = rng.standard_normal((rows.width, self.n_bits))
        mean = mean_of(rows) if self.center else np.zeros(rows.width)
        self.offset_ = mean @ self.projection_
