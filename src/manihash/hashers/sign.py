"""Sign quantization without training, the "binary quantization" of vector databases."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.hashers._linear import check_n_bits, mean_of
from manihash.rotation import random_rotation
from manihash.rows import Rows
from manihash.types import Floats

# Up to this width a rotation (d, d) is drawn, 512 MiB; of wider ones only the columns that are used.
_WIDE = 8_192
_MEDIAN_NUMBERS = 2**25  # numbers of the rows whose medians are taken


class SignQuantizer(Hasher):
    """Sign quantization: the sign of each coordinate, or of a random rotation.

        h(x) = sign(x - mean)         if n_bits = d
        h(x) = sign(Rᵀ (x - mean))    otherwise

    For fewer bits than columns, R consists of ``n_bits`` of the d orthonormal directions of a random
    rotation, or of the first columns (``prefix=True``). For more bits, further random rotations are appended.
    Only the mean or the median is learned; vector databases call this binary quantization, most of them with
    ``center=False``. Which threshold is best depends on the embedding model: ``choose`` compares them.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    center : bool or "median", default=True
        Subtract the mean of the training rows before the sign, or the median of each column, so that each
        column has as many ones as zeros. If False, the threshold is 0.
    prefix : bool, default=False
        For fewer bits than columns, take the first ``n_bits`` columns instead of a random rotation: for
        embeddings whose first columns matter most (Matryoshka embeddings).
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random rotation. The same seed gives the same codes.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        Mean or median of the training rows; zeros if ``center=False``.
    rotation_ : ndarray of shape (d, n_bits) or None
        The directions R; None if n_bits = d, or if the first columns are taken.
    n_bits_ : int
        Length of the codes.
    n_features_in_ : int
        Number of columns of the training rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import SignQuantizer
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = SignQuantizer(n_bits=32, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 4)
    """

    def __init__(
        self,
        n_bits: int = 64,
        center: bool | str = True,
        prefix: bool = False,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.center = center
        self.prefix = prefix
        self.normalize = normalize
        self.random_state = random_state

    @property
    def _by_distance(self) -> bool:
        return bool(self.center)

    def _check(self) -> None:
        super()._check()
        if not (isinstance(self.center, str) and self.center == "median"):
            checks.flag(self.center, "center")
        checks.flag(self.prefix, "prefix")

    def _most_bits(self, n: int, d: int) -> int | None:
        return d if self.prefix else None

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        d, r = rows.width, self.n_bits
        if self.prefix:
            check_n_bits(r, d, "use prefix=False, which appends random rotations")
        self.mean_ = self._threshold(rows)
        self.rotation_ = None if r == d or self.prefix else random_directions(d, r, rng)

    def _threshold(self, rows: Rows) -> Floats:
        """The vector (d,) that is subtracted; medians are those of rows spread evenly over all rows."""
        if self.center == "median":
            n = len(rows)
            size = min(n, max(1000, _MEDIAN_NUMBERS // rows.width))
            rows.check_all()
            return np.median(rows.take(np.arange(size) * n // size), axis=0).astype(np.float64)
        return mean_of(rows) if self.center else np.zeros(rows.width)

    def _embed(self, X: Floats) -> Floats:
        Z = X - self.mean_.astype(X.dtype)
        if self.rotation_ is None:
            return Z[:, : getattr(self, "n_bits_", self.n_bits)]  # statistics are taken before n_bits_ is set
        return numpy_backend.rowwise_product(Z, self.rotation_.T.astype(X.dtype, copy=False))


def random_directions(d: int, r: int, rng: np.random.Generator) -> Floats:
    """r random directions (d, r); each group of d columns is orthonormal."""
    if d > _WIDE:
        if r > d:
            raise ValueError(
                f"n_bits={r} exceeds the {d:,} columns of X, and rotations of so many columns do not "
                f"fit into memory: use at most {d:,} bits"
            )
        return np.linalg.qr(rng.standard_normal((d, r)))[0]
    rotations = [random_rotation(d, rng) for _ in range(-(-r // d))]
    return np.hstack(rotations)[:, :r]
