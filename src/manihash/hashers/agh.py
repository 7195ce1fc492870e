"""Anchor graph hashing, with one or two layers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from manihash import checks
from manihash.base.weights import Find, bandwidth, k_nearest, sparse_weights
from manihash.embeddings._spectral import TRIVIAL
from manihash.hashers._hasher import Hasher
from manihash.induction import Induction, base_points, finding
from manihash.linalg import fix_signs
from manihash.rows import Rows
from manihash.types import Floats


class AGH(Hasher):
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
        Vector that is subtracted from all rows, if they are too far from zero for float32 distances.

    References
    ----------
    Liu, Wang, Kumar and Chang, "Hashing with graphs", ICML, 2011.

    Examples
    --------
    >>> from manihash import AGH, KMeansBase
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> hasher = AGH(n_bits=16, base=KMeansBase(100), random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (1797, 2)
    """

    _by_distance = True

    finder_: Any = None

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

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        rows = rows.cached()
        B, k, self.finder_ = base_points(self.base, rows, self.n_neighbors, checks.seed(rng))
        given, find = self.bandwidth, finding(self.finder_)
        sigma = bandwidth(rows, B, k, find) if given is None else checks.positive_number(given, "bandwidth")
        graph = AnchorGraph(B, k, sigma, find)
        ZtZ = graph.gram(rows)
        second = self.n_bits // 2 if self.layers == 2 else 0
        self.eigenvalues_, self.projection_ = eigenvectors(ZtZ, self.n_bits - second, len(rows))
        self.base_points_, self.n_neighbors_, self.bandwidth_ = B, k, sigma
        self.thresholds_ = np.zeros((2, 0))
        if second:
            self.thresholds_ = graph.thresholds(rows, ZtZ, self.projection_[:, :second])

    def _embed(self, X: Floats) -> Floats:
        Y = Induction(self.base_points_, self.projection_, self.n_neighbors_, self.bandwidth_, self.finder_)(
            X
        )
        above, below = self.thresholds_.astype(X.dtype, copy=False)
        halved = Y[:, : len(above)]
        return np.hstack([Y, np.where(halved > 0, halved - above, below - halved)])


@dataclass(frozen=True)
class AnchorGraph:
    """What Z needs to know: anchors B (m, d), k and sigma. Z (n, m) is made block by block, never held."""

    B: Floats
    k: int
    sigma: float
    find: Find = k_nearest

    def Z(self, X: Floats) -> sp.csr_array:
        """The normalized weights of a block of rows to their k nearest anchors, (b, m), float64."""
        return sparse_weights(X, self.B, self.k, self.sigma, self.find)

    def gram(self, rows: Rows) -> Floats:
        """ZᵀZ (m, m), summed over blocks of rows.

        Rows of Z sum to one, so those of ZᵀZ sum to Zᵀ1, the diagonal of Λ.
        """

        def block(X: Floats) -> tuple[tuple[()], tuple[sp.csr_array]]:
            Z = self.Z(X)
            return (), (Z.T @ Z,)

        _, (total,) = rows.fold(block, "anchor graph")
        return (total + total.T) / 2

    def thresholds(self, rows: Rows, ZtZ: Floats, W: Floats) -> Floats:
        """b⁺ and b⁻ (2, s) of the second layer for the eigenvectors Y = Z W.

        Only two sums over the rows are needed, of z and of z y where y > 0: what is left of Zᵀ1 and ZᵀY is
        that of the other half.
        """

        def block(X: Floats) -> tuple[Floats, Floats]:
            Z = self.Z(X)
            Y = Z @ W
            return Z.T @ (Y > 0).astype(np.float64), Z.T @ np.maximum(Y, 0)

        ones, values = np.zeros_like(W), np.zeros_like(W)
        for part_of_ones, part_of_values in rows.map(block, "second layer"):
            ones += part_of_ones
            values += part_of_values
        degrees = ZtZ.sum(axis=1)
        return least_cut(ones, values, degrees[:, None] - ones, ZtZ @ W - values, degrees)


def eigenvectors(ZtZ: Floats, r: int, n: int) -> tuple[Floats, Floats]:
    """Eigenvalues (r,) and W (m, r) = sqrt(n) Λ^-½ V Σ^-½, so that Y = Z W has Ÿ Y = Σ Y and YᵀY = n I.

    V and Σ are of the small matrix Λ^-½ ZᵀZ Λ^-½, which has the non-zero eigenvalues of Â. The eigenvalue 1
    belongs to vectors that are constant on each piece of the graph; what comes within 1e-3 of it is left out.
    """
    degrees = ZtZ.sum(axis=1)
    # An anchor that no row is joined to has no weight in Z, and gets none in W.
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    values, vectors = eigh(scale[:, None] * ZtZ * scale)
    rounding = len(values) * np.finfo(values.dtype).eps
    held = np.flatnonzero((values > rounding) & (values < 1 - TRIVIAL))[::-1]
    if len(held) < r:
        raise ValueError(
            f"{r} eigenvectors asked of an anchor graph of {len(values)} anchors, which has {len(held)}: "
            "lower n_bits, enlarge the base, or take layers=2, which needs half as many"
        )
    values, vectors = values[held[:r]], fix_signs(vectors[:, held[:r]])
    return values, np.sqrt(n) * scale[:, None] * vectors / np.sqrt(values)


def least_cut(
    ones_above: Floats, values_above: Floats, ones_below: Floats, values_below: Floats, degrees: Floats
) -> Floats:
    """b⁺ and b⁻ (2, s) that cut the graph least: min fᵀ(I - Â)f over f = (y⁺ - b⁺, b⁻ - y⁻) with 1ᵀf = 0.

    y⁺ and y⁻ are the entries of y above zero and the others. The balanced f are f₀ + t v, where f₀ has the
    means of the two halves for thresholds, and v = (-n⁻/n, n⁺/n). As f₀ sums to zero over each half,
    vᵀf₀ = 0, and t = vᵀÂf₀ / (vᵀv - vᵀÂv), where aᵀÂb = (Zᵀa)ᵀ Λ⁻¹ (Zᵀb). All that is asked of Z and y are
    the sums of z and of z y over either half, (m, s) each; as rows of Z sum to one, they also hold n⁺, n⁻ and
    the means.
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
