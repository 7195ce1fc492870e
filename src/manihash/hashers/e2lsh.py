"""Locality-sensitive hashing by p-stable distributions (Datar, Immorlica, Indyk and Mirrokni, 2004)."""

from copy import copy
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._kernel_hasher import neighbor_distance
from manihash.rows import Rows
from manihash.types import Floats


class E2LSH(Hasher):
    """Locality-sensitive hashing for l_p distances: parities of binned random projections.

        h_j(x) = 1 if ⌊(a_jᵀ x + b_j) / w⌋ is even, otherwise 0,   b_j ~ U[0, w)

    The entries of a_j follow the normal distribution for p = 2 and the Cauchy distribution for p = 1. Then
    aᵀ(x - y) is distributed as |x - y|_p times one entry of a, so the probability that two rows share a bin,
    and the probability that the parities of their bins agree, depend only on their l_p distance divided by w.
    The real value is the distance of a_jᵀ x + b_j to the nearest border of a bin, divided by w: positive in
    even bins, negative in odd bins.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    p : {1, 2}, default=2
        2 for Euclidean distance, 1 for the sum of absolute differences.
    width : float or None, default=None
        Bin width w. None means four times the mean l_p distance of a row to its 50th nearest neighbor in a
        sample of 2,000 rows.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random projections. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions a_j, one per column.
    offset_ : ndarray of shape (n_bits,)
        The shifts b_j.
    width_ : float
        The bin width w used.
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
    .. [1] M. Datar, N. Immorlica, P. Indyk and V. S. Mirrokni, "Locality-sensitive hashing scheme based on
       p-stable distributions", SCG 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import E2LSH
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = E2LSH(n_bits=64, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 8)
    """

    _by_distance = True

    def __init__(
        self,
        n_bits: int = 64,
        p: int = 2,
        width: float | None = None,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.p = p
        self.width = width
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if self.p not in (1, 2):
            raise ValueError(f"p must be 1 (Cauchy) or 2 (normal), got {self.p!r}")
        if self.width is not None:
            checks.positive_number(self.width, "width")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows.check_all()
        draw = rng.standard_normal if self.p == 2 else rng.standard_cauchy
        self.projection_ = draw((rows.width, self.n_bits))
        shift = rng.uniform(0, 1, self.n_bits)
        # The paper uses w = 4 for neighbors at distance 1.
        self.width_ = 4 * neighbor_distance(rows, rng, self.p) if self.width is None else float(self.width)
        self.offset_ = shift * self.width_

    def bins(self, X: Any) -> Floats:
        """Compute the bins of rows, whose parities are the bits.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows with as many columns as those of ``fit``.

        Returns
        -------
        ndarray of shape (n, n_bits)
            ⌊(a_jᵀ x + b_j) / w⌋, integers stored as floating-point numbers.
        """
        rows, model = self._rows_to_map(X), copy(self)
        return rows.map_blocks(lambda block: np.floor(model._scaled(block)), self.n_bits_, rows.dtype, "bins")

    def _scaled(self, X: Floats) -> Floats:
        """(a_jᵀ x + b_j) / w of a block of rows, (b, r)."""
        Y = numpy_backend.rowwise_product(X, self.projection_.T.astype(X.dtype, copy=False))
        Y += self.offset_.astype(X.dtype, copy=False)
        Y /= X.dtype.type(self.width_)
        return Y

    def _embed(self, X: Floats) -> Floats:
        return distance_to_border(self._scaled(X))


def distance_to_border(scaled: Floats) -> Floats:
    """The distance to the nearest integer: positive if the floor is even, negative if it is odd."""
    half = scaled.dtype.type(0.5)
    return half - np.abs((scaled + half) % 2 - 1)
