"""The base class of the kernel hashers, and the kernel widths that they derive from the data."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.errors import MissingFunctionError
from manihash.hashers._hasher import Hasher
from manihash.rows import Rows
from manihash.types import Floats, Ints

# Distances are measured from the first _MEASURED rows of a sample of _SAMPLE rows to the whole sample.
_SAMPLE, _MEASURED, _NEIGHBORS = 2000, 500, 50


class KernelHasher(Hasher):
    """Bits Σ_i w_i κ(x, z_i) - b > 0; the ``_fit`` of a subclass calls ``_expand``.

    For the linear kernel the sum is one projection: ``points_`` is None and ``weights_`` is Σ_i z_i w_i.
    """

    kernel: Any
    gamma: float | None
    points_: Floats | None
    weights_: Floats
    offset_: Floats
    gamma_: Any  # None for kernels without it

    @property
    def _by_distance(self) -> bool:
        # The linear kernel is centered in KLSH, and the margin of RMMH does not depend on the origin.
        return self.kernel in ("rbf", "linear")

    def _check(self) -> None:
        super()._check()
        if self.kernel not in ("rbf", "linear") and not callable(self.kernel):
            raise ValueError(
                "kernel must be 'rbf', 'linear' or a function that maps X (b, d) and Z (s, d) to an array "
                f"(b, s), got {self.kernel!r}"
            )
        if self.gamma is not None:
            checks.positive_number(self.gamma, "gamma")

    def _set_gamma(self, rows: Rows, rng: np.random.Generator) -> None:
        """Set ``gamma_`` to ``gamma``, or to ``default_gamma`` if it is None."""
        if self.kernel != "rbf":
            self.gamma_ = None
        else:
            self.gamma_ = default_gamma(rows, rng) if self.gamma is None else float(self.gamma)

    def _expand(self, dtype: Any, Z: Floats, W: Floats, b: Floats) -> None:
        """Keep the points Z (s, d) in a type, that of the rows, weights W (s, r) and offsets b (r,)."""
        self.offset_ = b
        if self.kernel == "linear":
            self.points_, self.weights_ = None, Z.T @ W
        else:
            self.points_, self.weights_ = Z.astype(dtype), W

    def _kernel(self, X: Floats, Z: Floats) -> Floats:
        """κ(x, z) for every pair of X (b, d) and Z (s, d), as (b, s)."""
        if self.kernel == "linear":
            return numpy_backend.rowwise_product(X, Z)
        if self.kernel == "rbf":
            return gaussian(numpy_backend.rowwise_squared_distances(X, Z), self.gamma_)
        if not callable(self.kernel):
            raise MissingFunctionError(
                f"the kernel of this model is the function {self.kernel!r}, and model files do not contain "
                "functions: set it again with set_params(kernel=...)"
            )
        K = np.asarray(self.kernel(X, Z), X.dtype)
        if K.shape != (len(X), len(Z)) or not np.isfinite(K).all():
            raise ValueError(
                f"the kernel returned an array of shape {K.shape} for {len(X)} rows and {len(Z)} points: "
                f"expected finite numbers of shape ({len(X)}, {len(Z)})"
            )
        return K

    def _embed(self, X: Floats) -> Floats:
        K = X if self.points_ is None else self._kernel(X, self.points_.astype(X.dtype, copy=False))
        Y = numpy_backend.rowwise_product(K, self.weights_.T.astype(X.dtype, copy=False))
        Y -= self.offset_.astype(X.dtype, copy=False)
        return Y


def training_points(rows: Rows, index: Ints) -> Floats:
    """The rows (s, d) at the given indices, in float64; raises if they are all equal."""
    Z = rows.take(index).astype(np.float64)
    if not np.ptp(Z, axis=0).any():
        raise ValueError("the sampled rows are all equal, so there is nothing to hash: give rows that differ")
    return Z


def gaussian(squared: Floats, gamma: float) -> Floats:
    """κ = exp(-γ |x - z|²) of squared distances (b, s), which are overwritten."""
    squared *= squared.dtype.type(-gamma)
    return np.exp(squared, out=squared)


def default_gamma(rows: Rows, rng: np.random.Generator) -> float:
    """γ = 1 / (2 σ²), where σ is the mean distance to the 50th nearest neighbor (``neighbor_distance``)."""
    return 1 / (2 * neighbor_distance(rows, rng) ** 2)


def neighbor_distance(rows: Rows, rng: np.random.Generator, p: int = 2) -> float:
    """Mean l_p distance of 500 rows to their 50th nearest neighbor in a sample of 2,000 rows.

    One sampled row in forty is closer than that, for any number of rows. If there are fewer than 2,000 rows,
    all are used; if there are fewer than 50 neighbors, the farthest one counts.
    """
    n = min(_SAMPLE, len(rows))
    S = rows.take(rng.choice(len(rows), n, replace=False)).astype(np.float64)
    distance = cdist(S[:_MEASURED], S, "euclidean" if p == 2 else "cityblock")
    k = min(_NEIGHBORS, n - 1)
    mean = float(np.partition(distance, k, axis=1)[:, k].mean())
    if mean <= 0:
        raise ValueError(
            f"the mean distance of rows to their {k} nearest neighbors is 0: the rows are all equal or "
            "have too few distinct values; give rows that differ"
        )
    return mean
