"""Iterative quantization (Gong and Lazebnik, 2011): principal components, rotated before the sign."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.hashers._linear import LinearHasher, check_n_bits, principal_axes
from manihash.maintenance.refit import as_array, some_rows
from manihash.progress import note
from manihash.rotation import ITQRotation
from manihash.rows import Rows

# The rotation is learned from at most this many rows.
_ROTATION_ROWS = 2**20
# Iterations from the old signs. On MNIST with two new digits, 10 give 0.98 and 30 give 0.99 of the MAP of a
# new fit, and 6 % or 12 % of the bits change.
_REFIT_ROUNDS = 30


class ITQ(LinearHasher):
    """Iterative quantization: principal components, rotated so that the sign loses less.

        h(x) = sign(Rᵀ Pᵀ (x - mean))

    The columns of P are the ``n_bits`` directions of largest variance. The rotation R minimizes the
    quantization error |sign(V R) - V R|² of the projected rows V by alternating minimization
    (``ITQRotation``). P is approximate if d exceeds 8,192. If there are more than 2^20 rows, R is learned
    from a stratified sample of 2^20 rows.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes, at most the number of columns d.
    n_iter : int, default=50
        Number of iterations of the rotation.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the initial rotation. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions P R, one per column.
    offset_ : ndarray of shape (n_bits,)
        Rᵀ Pᵀ mean, which is subtracted from Rᵀ Pᵀ x.
    variances_ : ndarray of shape (n_bits,)
        Variance of the rows along each principal direction, descending.
    quantization_error_ : float
        Mean squared quantization error in the last iteration.
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
    .. [1] Y. Gong and S. Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes",
       CVPR 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import ITQ
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = ITQ(n_bits=16, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 2)
    """

    _by_distance = True

    def __init__(
        self, n_bits: int = 64, n_iter: int = 50, normalize: bool = False, random_state: Any = None
    ) -> None:
        self.n_bits = n_bits
        self.n_iter = n_iter
        self.normalize = normalize
        self.random_state = random_state

    def _most_bits(self, n: int, d: int) -> int | None:
        return d

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        check_n_bits(self.n_bits, rows.width, "use a method without this limit, such as SignQuantizer or LSH")
        rows = rows.cached()
        mean, P, self.variances_ = principal_axes(rows, self.n_bits, rng)
        directions, center = P.T.astype(rows.dtype), (mean @ P).astype(rows.dtype)
        if len(rows) > _ROTATION_ROWS:
            note(f"ITQ learns its rotation from {_ROTATION_ROWS:,} of {len(rows):,} rows")
            rows = rows.sample(_ROTATION_ROWS, rng)
        V = rows.stack(lambda X: numpy_backend.product(X, directions) - center, self.n_bits, rows.dtype)
        rotation = ITQRotation(self.n_iter, random_state=checks.seed(rng)).fit(V)
        self.quantization_error_ = float(rotation.errors_[-1])
        self.projection_ = P @ rotation.rotation_
        self.offset_ = mean @ self.projection_

    def _check_refit(self) -> None:
        pass  # any rotation of the principal components is a start

    def _fit_near(self, old: "ITQ", rows: Rows, rng: np.random.Generator) -> None:
        """Fit, rotate so that the signs agree best with the old ones, and iterate from there."""
        self._fit(rows, None, rng)
        some = some_rows(rows)
        V, R = some.stack(self._embed, self.n_bits, np.float64), np.eye(self.n_bits)
        with single_blas_thread():
            for done in range(_REFIT_ROUNDS):
                U, _, Vt = np.linalg.svd(V.T @ np.sign(V @ R if done else as_array(old.embed(some.X))))
                R = U @ Vt
        self.projection_, self.offset_ = self.projection_ @ R, self.offset_ @ R
