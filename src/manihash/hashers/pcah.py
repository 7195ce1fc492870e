"""PCA hashing (Wang, Kumar and Chang, 2012): signs of the principal components."""

from typing import Any

import numpy as np

from manihash.hashers._linear import LinearHasher, moments, principal_directions
from manihash.rows import Rows


class PCAH(LinearHasher):
    """Bits sign(pᵀ(x - mean)) with p the directions of largest variance, one bit each."""

    def __init__(self, n_bits: int = 64, normalize: bool = False, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        found = moments(rows)
        self.projection_, self.variances_ = principal_directions(found.covariance, self.n_bits)
        self.offset_ = found.mean @ self.projection_
