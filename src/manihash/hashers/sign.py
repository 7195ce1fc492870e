"""Untrained sign quantization, the "binary quantization" of vector databases."""

from typing import Any

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear import mean_of
from manihash.rotation import random_rotation
from manihash.rows import Rows
from manihash.types import Floats


class SignQuantizer(Hasher):
    """The sign of each centered coordinate where n_bits is the width; otherwise of a random rotation.

    A rotation to fewer bits keeps n_bits of its d orthonormal directions; for more bits than dimensions,
    further rotations follow. ``center=False`` leaves the mean in, as most databases do.
    """

    def __init__(
        self, n_bits: int = 64, center: bool = True, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.center = center
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        d, r = rows.width, self.n_bits
        self.mean_ = mean_of(rows) if self.center else np.zeros(d)
        self.rotation_ = None if r == d else random_directions(d, r, rng)

    def _embed(self, X: Floats) -> Floats:
        Z = X - self.mean_.astype(X.dtype)
        if self.rotation_ is None:
            return Z
        return numpy_backend.product(Z, self.rotation_.T.astype(X.dtype, copy=False))


def random_directions(d: int, r: int, rng: np.random.Generator) -> Floats:
    """r directions (d, r), orthonormal within each d of them."""
    rotations = [random_rotation(d, rng) for _ in range(-(-r // d))]
    return np.hstack(rotations)[:, :r]
