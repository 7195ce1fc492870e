"""Anchor graph hashing, with one or two layers."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from manihash import checks
from manihash.base.graph import BaseGraph
from manihash.compute import backend
from manihash.embeddings._spectral import TRIVIAL
from manihash.hashers._hasher import Hasher
from manihash.induction import OnBaseGraph, base_size
from manihash.linalg import fix_signs
from manihash.rows import Rows
from manihash.rows.mapping import Result, RowMap
from manihash.rows.raw import Preparation
from manihash.rows.torch import TorchRows
from manihash.types import Floats


class AGH(OnBaseGraph, Hasher):
    """Anchor graph hashing.

    z(x) holds the normalized weights of x to its k nearest anchors (base points), zero elsewhere. The anchor
    graph Â = Z Λ⁻¹ Zᵀ with Λ = diag(Zᵀ1) connects points through anchors, and its smoothest eigenvectors are
    Y = Z W. They extend to any point: h(x) = sign(Wᵀ z(x)).

    With two layers, half as many eigenvectors give two bits each. The second bit is y > b⁺ where y > 0, and
    y < b⁻ elsewhere; b⁺ and b⁻ minimize the cut of the graph.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits r of a code.
    base : object or array-like of shape (m, d), default=None
        The base set: ``KMeansBase``, ``RandomBase``, ``LargeBase``, ``ReducedBase``, or an array of points
        that are used as they are. None for ``KMeansBase(400)``.
    n_neighbors : int, default=5
        Number k of anchors that a point is connected to. The authors' MNIST example uses 300 anchors and k =
        2.
    bandwidth : float, default=None
        The bandwidth sigma of the weights. None for the mean distance of the rows to their k-th nearest base
        point.
    layers : int, default=1
        Number of layers, 1 or 2.
    normalize : bool, default=False
        Whether to scale rows to unit length first.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    base_points_ : ndarray of shape (m, d)
        The base points c_j.
    n_neighbors_ : int
        The number of neighbors k.
    bandwidth_ : float
        The bandwidth sigma.
    eigenvalues_ : ndarray of shape (r₁,)
        Eigenvalues of the anchor graph, for the r₁ eigenvectors used.
    projection_ : ndarray of shape (m, r₁)
        The matrix W.
    thresholds_ : ndarray of shape (2, r₂)
        Thresholds b⁺ and b⁻ of the second layer. A code holds the r₁ bits of the first layer, then the r₂
        bits of the second; for an odd number of bits the first layer has one more.
    finder_ : object or None
        How the nearest base points are found; None compares each row with all of them.
    n_bits_ : int
        Number of bits of a code.
    normalize_ : bool
        Whether rows are scaled to unit length.
    n_features_in_ : int
        Width d of the rows.
    origin_ : ndarray of shape (d,) or None
        Vector that is subtracted from all rows first if they lie far from zero; other fitted values are then
        relative to it.
    in_float64_ : bool
        Whether rows are computed in float64, whatever their type, because float32 is not precise enough.

    References
    ----------
    Liu, Wang, Kumar and Chang, "Hashing with graphs", ICML, 2011.

    Examples
    --------
    >>> from manihash.base import KMeansBase
    >>> from manihash.hashers import AGH
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> hasher = AGH(n_bits=16, base=KMeansBase(100), random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (1797, 2)
    """

    _base_values = "projection_"

    def __init__(
        self,
        n_bits: int = 64,
        base: Any = None,
        n_neighbors: int = 5,
        bandwidth: float | None = None,
        layers: int = 1,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.base = base
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.layers = layers
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        if checks.positive_int(self.layers, "layers") > 2:
            raise ValueError(f"layers must be 1 or 2, not {self.layers}: the paper's hierarchy has two")
        m, r = base_size(self.base), self.n_bits - (self.n_bits // 2 if self.layers == 2 else 0)
        if m is not None and r > m - 1:
            raise ValueError(
                f"{r} eigenvectors are needed, but a graph of {m} base points has at most {m - 1}: "
                "lower n_bits, use a larger base set, or layers=2, which needs half as many"
            )

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows = rows.cached()
        graph = self._fit_graph(rows, rng)
        ZtZ = graph.gram(rows)
        second = self.n_bits // 2 if self.layers == 2 else 0
        self._graph = graph
        self.eigenvalues_, self.projection_ = eigenvectors(ZtZ, self.n_bits - second, len(rows))
        self.thresholds_ = np.zeros((2, 0))
        if second:
            self.thresholds_ = thresholds(graph, rows, ZtZ, self.projection_[:, :second])

    def _embed(self, X: Floats) -> Floats:
        Y = self._induction(X)
        if not self.thresholds_.size:
            return Y
        xp = backend(X)
        above, below = xp.like(self.thresholds_, X)
        halved = Y[:, : len(above)]
        return xp.hstack([Y, xp.where(halved > 0, halved - above, below - halved)])

    def _make_map(self, preparation: Preparation) -> RowMap:
        if not self.thresholds_.size:
            return super()._make_map(preparation)
        r, (above, below) = self.projection_.shape[1], self.thresholds_
        s = len(above)
        halved = self.projection_[:, :s]
        W = np.hstack([self.projection_, halved - above, below - halved])

        def combine(Y: Any) -> Any:
            return np.hstack([Y[:, :r], np.where(Y[:, :s] > 0, Y[:, r : r + s], Y[:, r + s :])])

        return self._graph.map(W, preparation, combine=combine)

    def _by_kernel(self, rows: TorchRows, exact: TorchRows, result: Result) -> Rows:
        """Return rows for the fused kernel, which computes the first layer only."""
        return exact if self.thresholds_.size else super()._by_kernel(rows, exact, result)


def thresholds(graph: BaseGraph, rows: Rows, ZtZ: Floats, W: Floats) -> Floats:
    """Return b⁺ and b⁻ (2, s) of the second layer for the eigenvectors Y = Z W.

    Two sums over the rows are enough, of z and of z y where y > 0: subtracted from Zᵀ1 and ZᵀY they give the
    sums of the other half.
    """

    def block(X: Floats) -> tuple[Floats, Floats]:
        xp = backend(X)
        Z = graph.weight_matrix(X)
        Y = Z @ xp.like(W, Z)
        above = xp.to_float64(Y > 0)
        return Z.T @ above, Z.T @ (Y * above)

    ones, values = np.zeros_like(W), np.zeros_like(W)
    for ones_in_block, values_in_block in rows.map(block, "second layer"):
        ones += ones_in_block
        values += values_in_block
    degrees = ZtZ.sum(axis=1)
    return least_cut(ones, values, degrees[:, None] - ones, ZtZ @ W - values, degrees)


def eigenvectors(ZtZ: Floats, r: int, n: int) -> tuple[Floats, Floats]:
    """Return eigenvalues (r,) and W (m, r) = sqrt(n) Λ^-½ V Σ^-½: then Y = Z W has Â Y = Y Σ and YᵀY = n I.

    V and Σ come from the small matrix Λ^-½ ZᵀZ Λ^-½, which has the non-zero eigenvalues of Â. The eigenvalue
    1 belongs to vectors that are constant on each component of the graph; eigenvalues within 1e-3 of 1 are
    dropped.
    """
    degrees = ZtZ.sum(axis=1)
    # An anchor that no row is connected to has no weight in Z, and gets none in W.
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    values, vectors = eigh(scale[:, None] * ZtZ * scale)
    rounding = len(values) * np.finfo(values.dtype).eps
    held = np.flatnonzero((values > rounding) & (values < 1 - TRIVIAL))[::-1]
    if len(held) < r:
        raise ValueError(
            f"{r} eigenvectors are needed, but the graph of {len(values)} anchors has {len(held)}: "
            "lower n_bits, use a larger base, or layers=2, which needs half as many"
        )
    values, vectors = values[held[:r]], fix_signs(vectors[:, held[:r]])
    return values, np.sqrt(n) * scale[:, None] * vectors / np.sqrt(values)


def least_cut(
    ones_above: Floats, values_above: Floats, ones_below: Floats, values_below: Floats, degrees: Floats
) -> Floats:
    """Return b⁺ and b⁻ (2, s) of the minimum cut: min fᵀ(I - Â)f, f = (y⁺ - b⁺, b⁻ - y⁻), with 1ᵀf = 0.

    y⁺ and y⁻ are the entries of y above zero and the others. The balanced f are f₀ + t v, where f₀ uses the
    means of the two halves as thresholds, and v = (-n⁻/n, n⁺/n). Since f₀ sums to zero over each half,
    vᵀf₀ = 0, and t = vᵀÂf₀ / (vᵀv - vᵀÂv), where aᵀÂb = (Zᵀa)ᵀ Λ⁻¹ (Zᵀb). Only the sums of z and of z y over
    each half are needed, (m, s) each: rows of Z sum to one, so these sums also give n⁺, n⁻ and the means.
    """
    above, below = ones_above.sum(axis=0), ones_below.sum(axis=0)
    share = above / (above + below)
    mean_above, mean_below = values_above.sum(axis=0) / above, values_below.sum(axis=0) / below
    Zt_v = share * ones_below - (1 - share) * ones_above
    Zt_f = (values_above - mean_above * ones_above) - (values_below - mean_below * ones_below)
    inverse = np.divide(1, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    length = (1 - share) ** 2 * above + share**2 * below
    t = (inverse @ (Zt_v * Zt_f)) / (length - inverse @ (Zt_v * Zt_v))
    return np.stack([mean_above + t * (1 - share), mean_below + t * share])
