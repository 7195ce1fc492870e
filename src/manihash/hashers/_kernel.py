"""What the kernel hashers share: kernels, the scale of the rows that sets them, bits from an expansion."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.hashers._hasher import Hasher
from manihash.rows import Rows
from manihash.types import Floats, Ints

# The scale of the rows is measured from some of a sample of them to all of the sample.
_SAMPLE, _MEASURED, _NEIGHBORS = 2000, 500, 50


class KernelHasher(Hasher):
    """Bits Σ_i w_i κ(x, z_i) - b > 0: a subclass's ``_fit`` calls ``_expand``.

    For the linear kernel the sum is one projection: ``points_`` is None and ``weights_`` is Σ_i z_i w_i.
    """

    kernel: Any
    gamma: float | None
    points_: Floats | None
    weights_: Floats
    offset_: Floats
    gamma_: Any  # None for kernels without it

    def _check(self) -> None:
        super()._check()
        if self.kernel not in ("rbf", "linear") and not callable(self.kernel):
            raise ValueError(
                f"kernel must be 'rbf', 'linear' or a function of X (b, d) and Z (s, d) that gives (b, s), "
                f"not {self.kernel!r}"
            )
        if self.gamma is not None:
            checks.positive_number(self.gamma, "gamma")

    def _scale(self, rows: Rows, rng: np.random.Generator) -> None:
        """Set ``gamma_``, as given or by the rule of ``gamma_of``."""
        if self.kernel != "rbf":
            self.gamma_ = None
        else:
            self.gamma_ = gamma_of(rows, rng) if self.gamma is None else float(self.gamma)

    def _expand(self, rows: Rows, Z: Floats, W: Floats, b: Floats) -> None:
        """Keep the points Z (s, d) in the precision of the rows, weights W (s, r) and offsets b (r,)."""
        self.offset_ = b
        if self.kernel == "linear":
            self.points_, self.weights_ = None, Z.T @ W
        else:
            self.points_, self.weights_ = Z.astype(rows.dtype), W

    def _kernel(self, X: Floats, Z: Floats) -> Floats:
        """κ(x, z) of every pair, (b, s)."""
        if self.kernel == "linear":
            return numpy_backend.product(X, Z)
        if self.kernel == "rbf":
            return gaussian(numpy_backend.squared_distances(X, Z), self.gamma_)
        if not callable(self.kernel):
            raise ValueError(
                f"this model was made with the kernel {self.kernel!r}, a function, which model files do not "
                "carry: give it back with set_params(kernel=...)"
            )
        K = np.asarray(self.kernel(X, Z), X.dtype)
        if K.shape != (len(X), len(Z)) or not np.isfinite(K).all():
            raise ValueError(
                f"the kernel gave {K.shape} for {len(X)} rows and {len(Z)} points: "
                f"it must give finite numbers ({len(X)}, {len(Z)})"
            )
        return K

    def _embed(self, X: Floats) -> Floats:
        K = X if self.points_ is None else self._kernel(X, self.points_.astype(X.dtype, copy=False))
        Y = numpy_backend.product(K, self.weights_.T.astype(X.dtype, copy=False))
        Y -= self.offset_.astype(X.dtype, copy=False)
        return Y


def look_through(rows: Rows) -> None:
    """Visit all rows, so that NaN is an error in whichever row it is, not only in those drawn."""
    for _ in rows.map(len):
        pass


def drawn(rows: Rows, index: Ints) -> Floats:
    """The rows at the given places in float64, if they are not all equal."""
    Z = rows.take(index).astype(np.float64)
    if not np.ptp(Z, axis=0).any():
        raise ValueError("the rows drawn are all equal, so there is nothing to hash: give rows that differ")
    return Z


def gaussian(squared: Floats, gamma: float) -> Floats:
    """κ = exp(-γ |x - z|²), in place of the squared distances."""
    squared *= squared.dtype.type(-gamma)
    return np.exp(squared, out=squared)


def gamma_of(rows: Rows, rng: np.random.Generator) -> float:
    """γ = 1 / (2 σ²), σ the mean distance of a row to its 50th nearest in a sample of 2,000."""
    return 1 / (2 * neighbor_distance(rows, rng) ** 2)


def neighbor_distance(rows: Rows, rng: np.random.Generator, p: int = 2) -> float:
    """Mean l_p distance of 500 rows to their 50th nearest other row, all in a sample of 2,000.

    So one row in forty lies nearer than that, however many rows there are. Fewer rows are all taken; where
    there are no 50 others, the farthest counts.
    """
    n = min(_SAMPLE, len(rows))
    S = rows.take(rng.choice(len(rows), n, replace=False)).astype(np.float64)
    distance = cdist(S[:_MEASURED], S, "euclidean" if p == 2 else "cityblock")
    k = min(_NEIGHBORS, n - 1)
    mean = float(np.partition(distance, k, axis=1)[:, k].mean())
    if mean <= 0:
        raise ValueError(
            f"rows coincide with their {k} nearest, so the rows have no scale: "
            "they are all equal, or hold too few distinct values; give rows that differ"
        )
    return mean
