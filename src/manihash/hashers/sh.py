"""Spectral hashing (Weiss, Torralba and Fergus, 2008)."""

from typing import Any

import numpy as np

from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear import principal_axes
from manihash.rows import Rows
from manihash.types import Floats, Ints


class SH(Hasher):
    """Spectral hashing: the signs of smooth waves along the principal components.

        h_j(x) = sign(sin(π/2 + ω_j (z_i - low_i))),   ω_j = π mode / length_i

    z_i is the i-th principal component of x; it ranges from low_i to low_i + length_i on the training rows.
    Of the functions for all components i and mode = 1, 2, …, the ``n_bits`` with the smallest ω are used:
    these are the smoothest eigenfunctions of a uniform distribution on a box.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Not used: the method has no randomness.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The principal direction that each bit uses.
    offset_ : ndarray of shape (n_bits,)
        The smallest training value low_i along that direction.
    frequencies_ : ndarray of shape (n_bits,)
        The frequencies ω_j, ascending.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    .. [1] Y. Weiss, A. Torralba and R. Fergus, "Spectral hashing", NIPS 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import SH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = SH(n_bits=64).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    _by_distance = True

    def __init__(self, n_bits: int = 64, normalize: bool = False, random_state: Any = None) -> None:
        self.n_bits = n_bits
        self.normalize = normalize
        self.random_state = random_state

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows = rows.cached()
        P = principal_axes(rows, self.n_bits, rng)[1]
        directions = P.T.astype(rows.dtype)
        ranges = list(rows.map(lambda X: _range(numpy_backend.product(X, directions))))
        low = np.min([block[0] for block in ranges], axis=0).astype(np.float64)
        high = np.max([block[1] for block in ranges], axis=0).astype(np.float64)
        component, mode = smoothest_modes(high - low, self.n_bits)
        self.frequencies_ = np.pi * mode / (high - low)[component]
        self.projection_ = P[:, component]
        self.offset_ = low[component]

    def _embed(self, X: Floats) -> Floats:
        Z = numpy_backend.rowwise_product(X, self.projection_.T.astype(X.dtype, copy=False))
        Z -= self.offset_.astype(X.dtype)
        Z *= self.frequencies_.astype(X.dtype)
        Z += X.dtype.type(np.pi / 2)
        return np.sin(Z, out=Z)


def _range(Z: Floats) -> tuple[Floats, Floats]:
    """The minimum and the maximum of each column of Z (b, r): two arrays (r,)."""
    return Z.min(axis=0), Z.max(axis=0)


def smoothest_modes(lengths: Floats, r: int) -> tuple[Ints, Ints]:
    """Component and mode (r,) of the r eigenfunctions with the smallest ω = π mode / length."""
    kept = np.flatnonzero(lengths > 0)
    if not len(kept):
        raise ValueError("the rows are all equal, so there is nothing to hash: give rows that differ")
    modes = np.arange(1, r + 1)
    omega = modes[:, None] / lengths[kept]
    smoothest = np.argsort(omega, axis=None, kind="stable")[:r]
    mode, component = np.unravel_index(smoothest, omega.shape)
    return kept[component], modes[mode]
