"""Spectral hashing (Weiss, Torralba and Fergus, 2008)."""

from typing import Any

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear import moments, principal_directions
from manihash.rows import Rows
from manihash.types import Floats, Ints


class SH(Hasher):
    """Bits sin(π/2 + ω z_i): the smoothest eigenfunctions of boxes along the principal components z.

    The box of a component reaches from its least to its largest training value. Of the functions
    ω = π mode / length, mode = 1, 2, …, over all components, the ``n_bits`` of least ω are taken.
    """

    def __init__(self, n_bits: int = 64, normalize: bool = False, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows = rows.cached()
        found = moments(rows)
        P, _ = principal_directions(found.covariance, min(self.n_bits, rows.width))
        directions = P.T.astype(rows.dtype)
        parts = list(rows.map(lambda X: _range(numpy_backend.product(X, directions))))
        low = np.min([part[0] for part in parts], axis=0).astype(np.float64)
        high = np.max([part[1] for part in parts], axis=0).astype(np.float64)
        component, mode = smoothest_modes(high - low, self.n_bits)
        self.frequencies_ = np.pi * mode / (high - low)[component]
        self.projection_ = P[:, component]
        self.offset_ = low[component]

    def _embed(self, X: Floats) -> Floats:
        Z = numpy_backend.product(X, self.projection_.T.astype(X.dtype, copy=False))
        Z -= self.offset_.astype(X.dtype)
        Z *= self.frequencies_.astype(X.dtype)
        Z += X.dtype.type(np.pi / 2)
        return np.sin(Z, out=Z)


def _range(Z: Floats) -> tuple[Floats, Floats]:
    return Z.min(axis=0), Z.max(axis=0)


def smoothest_modes(lengths: Floats, r: int) -> tuple[Ints, Ints]:
    """Component and mode (r,) of the r eigenfunctions with the least ω = π mode / length."""
    held = np.flatnonzero(lengths > 0)
    if not len(held):
        raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
    modes = np.arange(1, r + 1)
    omega = modes[:, None] / lengths[held]
    least = np.argsort(omega, axis=None, kind="stable")[:r]
    mode, component = np.unravel_index(least, omega.shape)
    return held[component], modes[mode]
