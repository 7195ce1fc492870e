"""The base graph: every row is connected to its k nearest base points, with Gaussian weights.

IMH, AGH, supervised IMH and ``InductiveEmbedding`` are built on it: bandwidth, coupling and Gram matrix are
sums over the rows, and induction is a weighted mean over the neighbors of a row.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manihash import checks
from manihash.base.closest import search_of
from manihash.base.induced import InducedMap
from manihash.base.kmeans import KMeansBase
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.rows.raw import Preparation
from manihash.types import Floats, Ints


@dataclass(frozen=True)
class BaseGraph:
    """Base points B (m, d), the number of neighbors k and the bandwidth sigma of the weights.

    ``finder`` finds the nearest base points; None compares a row with all of them.
    """

    B: Floats
    k: int
    sigma: float
    finder: Any = None

    @classmethod
    def fit(cls, base: Any, rows: Rows, n_neighbors: int, bandwidth: float | None, seed: int) -> Self:
        """Choose base points from the rows; if ``bandwidth`` is None, sigma is computed from the rows."""
        B, part = choose_base(base, rows, seed)
        k = checks.neighbor_count(n_neighbors, len(B))
        finder = None if part is None else part.finder(rows, k, checks.generator(seed))
        if bandwidth is None:
            return cls(B, k, mean_distance(rows, B, k, finder), finder)
        rows.check_all()
        return cls(B, k, checks.positive_number(bandwidth, "bandwidth"), finder)

    def map(self, Y_B: Floats, preparation: Preparation, **options: Any) -> InducedMap:
        """Return the map of rows by induction from values Y_B (m, r) at the base points."""
        search = search_of(self.finder, self.B, self.k)
        return InducedMap(search, self.k, self.sigma, Y_B, preparation, **options)

    def induce(self, X: Floats, Y_B: Floats) -> Floats:
        """Return Y = W̄_XB Y_B (b, r) of a block of rows (b, d), for values Y_B (m, r) at the base points."""
        xp = backend(X)
        if self.finder is None:  # |x|² is left out of the distances: it cancels in the weights
            closeness, index = xp.k_closest(X, xp.like(self.B, X), self.k)
            squared = -2 * closeness
        else:
            squared, index = self.finder.k_nearest(X, self.B, self.k)
        return xp.weighted_sums(normalized_weights(squared, self.sigma), index, xp.like(Y_B, X))

    def weight_matrix(self, X: Floats) -> Any:
        """Return W̄_XB (b, m) in float64, k weights per row that sum to 1: sparse in numpy, dense in torch."""
        xp = backend(X)
        squared, index = nearest(X, self.B, self.k, self.finder)
        return xp.weight_matrix(normalized_weights(xp.to_float64(squared), self.sigma), index, len(self.B))

    def coupling(self, rows: Rows) -> Any:
        """Return T = D_BX - W̄_XBᵀ W_XB (m, m), summed over the rows; sparse if there are many base points.

        T is symmetric and positive semi-definite, and its rows sum to zero. It costs O(n k²) besides the
        distances. The nearest distance is not subtracted in W_XB: here it does not cancel.
        """
        m = len(self.B)

        def block(X: Floats) -> tuple[tuple[()], tuple[Any]]:
            xp = backend(X)
            squared, index = nearest(X, self.B, self.k, self.finder)
            squared = xp.to_float64(squared)
            w, w_bar = weights(squared, self.sigma), normalized_weights(squared, self.sigma)
            return (), (xp.coupling(w, w_bar, index, m),)

        if m > MANY:
            T: Any = sum((part for _, (part,) in rows.map(block, "coupling")), sp.csr_array((m, m)))
        else:
            _, (T,) = rows.fold(block, "coupling")
        return (T + T.T) / 2

    def gram(self, rows: Rows) -> Floats:
        """Return W̄_XBᵀ W̄_XB (m, m), summed over the rows. Its rows sum to W̄_XBᵀ 1."""

        def block(X: Floats) -> tuple[tuple[()], tuple[Any]]:
            W = self.weight_matrix(X)
            return (), (W.T @ W,)

        _, (total,) = rows.fold(block, "anchor graph")
        return (total + total.T) / 2


def nearest(X: Floats, B: Floats, k: int, finder: Any = None) -> tuple[Floats, Ints]:
    """Return squared distances and indices (b, k) of the base points nearest to each row, nearest first."""
    if finder is not None:
        return finder.k_nearest(X, B, k)
    xp = backend(X)
    return xp.k_nearest(X, xp.like(B, X), k)


def mean_distance(rows: Rows, B: Floats, k: int, finder: Any = None) -> float:
    """Return the bandwidth sigma: the mean distance (not squared) of the rows to their k-th nearest point."""

    def block(X: Floats) -> tuple[tuple[()], tuple[Any]]:
        return (), (backend(X).sum_of_roots(nearest(X, B, k, finder)[0][:, -1]),)

    _, (total,) = rows.fold(block, "bandwidth")
    sigma = float(total) / len(rows)
    if sigma <= 0:
        raise ValueError(
            f"every row coincides with its {k} nearest base points, so the bandwidth would be 0: "
            "the rows are all equal, or have too few distinct values; give more varied rows or a bandwidth"
        )
    return sigma


def choose_base(base: Any, rows: Rows, seed: int) -> tuple[Floats, Any]:
    """Return the base points (m, d) and the fitted base set, or None if ``base`` is an array of points."""
    part = None
    if isinstance(base, type):
        raise ValueError(f"base must be an object, not a class: give {base.__name__}()")
    if base is None or hasattr(base, "fit_rows"):
        part = KMeansBase() if base is None else clone(base)
        set_seed(part, seed)
        points: Floats = part.fit_rows(rows).points_
    else:
        points = _given_points(base, rows)
    if len(points) < 2:
        raise ValueError(
            f"the base set has {len(points)} distinct point (n_features = {rows.width}), but an embedding "
            "needs two: the rows are all equal, or the size of the base set is too small"
        )
    return points, part


def _given_points(base: Any, rows: Rows) -> Floats:
    """Return the user's base points (m, d), in the type of the rows and relative to their origin."""
    points = np.asarray(base)
    if points.ndim != 2 or points.shape[1] != rows.width or points.dtype.kind not in "fiu":
        raise ValueError(
            f"base must be KMeansBase(), RandomBase() or an array of points of width {rows.width}, as the "
            f"rows have, not {type(base).__name__} of shape {points.shape}"
        )
    checks.finite_block(points, name="base")
    dtype = np.promote_types(numpy_backend.float_type(points), rows.dtype)
    points = points.astype(dtype, copy=False)
    return points if rows.origin is None else (points - rows.origin).astype(dtype)


def parameters(part: Any) -> dict[str, Any]:
    """Return the parameters of a part; none if it is not a scikit-learn estimator."""
    return part.get_params(deep=False) if hasattr(part, "get_params") else {}


def set_seed(part: Any, seed: int) -> None:
    """Set ``random_state`` of a part, if it has one that the user left at None."""
    own = parameters(part)
    if "random_state" in own and own["random_state"] is None:
        part.set_params(random_state=seed)


MANY = 2_000  # for more base points, matrices over pairs of them are sparse


def weights(squared: Floats, sigma: float) -> Floats:
    """Return w(x, c) = exp(-|x - c|² / sigma²) for squared distances (n, k)."""
    xp = backend(squared)
    limits = np.finfo(xp.float_type(squared))
    with np.errstate(over="ignore"):
        return xp.exp(squared / -float(np.clip(sigma * sigma, limits.tiny, limits.max)))


def normalized_weights(squared: Floats, sigma: float) -> Floats:
    """Return w̄(x, c) = w(x, c) / Σ_c w(x, c), (n, k), for squared distances sorted nearest first.

    The nearest distance is subtracted first: it cancels in the quotient, and a point far from all base points
    does not give 0 / 0.
    """
    w = weights(squared - squared[:, :1], sigma)
    w /= w.sum(axis=1, keepdims=True)
    return w


def affinity(B: Floats, k: int, sigma: float | None = None) -> Any:
    """Return W_B (m, m): weights of each point to its k nearest, itself included, symmetrized by the maximum.

    If sigma is None, it is the mean distance to the k-th nearest. Sparse if there are many points.
    """
    points = B.astype(np.float64)
    near = list(LocalRows(points).map(lambda X: numpy_backend.k_nearest(X, points, k), "neighbors"))
    squared, index = (np.concatenate(column) for column in zip(*near, strict=True))
    if sigma is None:
        sigma = float(np.sqrt(squared[:, -1]).mean()) or 1.0
    if len(B) > MANY:
        sparse_W = numpy_backend.weight_matrix(weights(squared, sigma), index, len(B))
        return sparse_W.maximum(sparse_W.T)
    W = np.zeros((len(B), len(B)))
    np.put_along_axis(W, index, weights(squared, sigma), axis=1)
    return np.maximum(W, W.T)
