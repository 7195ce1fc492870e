"""Iterative quantization (Gong and Lazebnik, 2011): principal components, rotated before the sign."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._linear import LinearHasher, moments, principal_directions
from manihash.progress import note
from manihash.rotation import ITQRotation
from manihash.rows import Rows

# Of more rows than this a sample of so many learns the rotation.
_ROTATION_ROWS = 2**20


class ITQ(LinearHasher):
    """Bits sign(Rᵀ Pᵀ (x - mean)): PCA to r dimensions, then the rotation R of ``n_iter`` rounds.

    ``quantization_error_`` is the mean squared error of the last round. Of more than a million rows, a
    million drawn evenly learn the rotation.
    """

    def __init__(
        self, n_bits: int = 64, n_iter: int = 50, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows = rows.cached()
        found = moments(rows)
        P, self.variances_ = principal_directions(found.covariance, self.n_bits)
        directions, center = P.T.astype(rows.dtype), (found.mean @ P).astype(rows.dtype)
        if len(rows) > _ROTATION_ROWS:
            note(f"ITQ learns its rotation from {_ROTATION_ROWS:,} of {len(rows):,} rows")
            rows = rows.sample(_ROTATION_ROWS, rng)
        V = rows.stack(lambda X: numpy_backend.product(X, directions) - center, self.n_bits, rows.dtype)
        rotation = ITQRotation(self.n_iter, random_state=checks.seed(rng)).fit(V)
        self.quantization_error_ = float(rotation.errors_[-1])
        self.projection_ = P @ rotation.rotation_
        self.offset_ = found.mean @ self.projection_
