"""Binary reconstructive embeddings (Kulis and Darrell, 2009): Hamming distances fitted to given distances."""

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.hashers._linear import LinearHasher, mean_of
from manihash.progress import advance
from manihash.rows import Rows
from manihash.types import Floats, Ints

_log = logging.getLogger(__name__)

# Relative tolerance for rounding errors of objectives, kernel values and thresholds.
_ROUNDING = 1e-9


class BRE(LinearHasher):
    """Binary reconstructive embeddings: Hamming distances fitted to Euclidean distances.

        h_p(x) = sign(Σ_q W_pq κ(z_pq, x))
        W minimizes Σ_(i,j)∈N (d_ij - Hamming_ij / r)²,   d_ij = ½ |x_i - x_j|²

    N is a set of pairs of training rows and r is ``n_bits``. Coordinate descent sets each weight to its exact
    optimum while all others are fixed. The kernel κ is linear on centered rows, so a bit is one projection. d
    is divided by its largest value in N and therefore lies between 0 and 1, as Hamming / r does.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the codes.
    n_train : int, default=1000
        Number of training rows, sampled at random; all rows if there are fewer. A matrix of shape (n_train,
        n_train) is kept in memory.
    n_anchors : int, default=20
        Number of training rows z_pq that each bit combines.
    pair_fraction : float, default=0.05
        Share of the other training rows that each training row is paired with, at random.
    tol : float, default=2e-5
        Stop after an iteration over all weights that lowers the mean squared error over N by at most this.
    max_iter : int, default=100
        Maximum number of iterations over all weights.
    normalize : bool, default=False
        Scale every row to unit length before hashing.
    random_state : int, Generator, RandomState or None, default=None
        Seed of training rows, anchors, pairs and initial weights. The same seed gives the same codes.

    Attributes
    ----------
    projection_ : ndarray of shape (d, n_bits)
        The directions Σ_q W_pq z_pq, one per column.
    offset_ : ndarray of shape (n_bits,)
        The projection of the mean, which is subtracted.
    objectives_ : ndarray of shape (n_iterations + 1,)
        The objective before the first iteration and after each one.
    n_iter_ : int
        Number of iterations.
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
    .. [1] B. Kulis and T. Darrell, "Learning to hash with binary reconstructive embeddings", NIPS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.hashers import BRE
    >>> X = np.random.default_rng(0).standard_normal((500, 32))
    >>> hasher = BRE(n_bits=16, n_train=200, random_state=0).fit(X)
    >>> hasher.encode(X).shape
    (500, 2)
    """

    _by_distance = True

    def __init__(
        self,
        n_bits: int = 64,
        n_train: int = 1000,
        n_anchors: int = 20,
        pair_fraction: float = 0.05,
        tol: float = 2e-5,
        max_iter: int = 100,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.n_train = n_train
        self.n_anchors = n_anchors
        self.pair_fraction = pair_fraction
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.positive_int(self.n_train, "n_train", least=2)
        checks.positive_int(self.n_anchors, "n_anchors")
        checks.positive_int(self.max_iter, "max_iter")
        checks.positive_number(self.tol, "tol", zero=True)
        if checks.positive_number(self.pair_fraction, "pair_fraction") > 1:
            raise ValueError(f"pair_fraction must be at most 1 (all other rows), got {self.pair_fraction!r}")

    def _fit(self, rows: Rows, y: Any, rng: np.random.Generator) -> None:
        n, mean = min(self.n_train, len(rows)), mean_of(rows)
        Z = rows.take(rng.choice(len(rows), n, replace=False)) - mean
        s = min(self.n_anchors, n)
        anchors = np.stack([rng.choice(n, s, replace=False) for _ in range(self.n_bits)])
        W = rng.standard_normal((self.n_bits, s))
        pairs = random_pairs(n, self.pair_fraction, rng)
        with single_blas_thread():
            descent = Descent(Z @ Z.T, anchors, W, pairs, pairs.distances(Z))
            self.objectives_ = np.array(descent.run(self.tol * len(pairs), self.max_iter))
            self.n_iter_ = len(self.objectives_) - 1
            self.projection_ = np.stack([w @ Z[a] for w, a in zip(W, anchors, strict=True)], axis=1)
        self.offset_ = mean @ self.projection_


class Pairs:
    """A set N of pairs i < j of n points, sorted by i: the nonzero positions of a sparse (n, n) matrix."""

    def __init__(self, i: Ints, j: Ints, n: int) -> None:
        self.i, self.j = i, j
        self._count = np.bincount(i, minlength=n)
        start = np.concatenate([[0], np.cumsum(self._count)])
        self._signed = sp.csr_array((np.empty(len(i)), j, start), shape=(n, n))
        self._transposed = self._signed.T  # shares its data: no copy

    def __len__(self) -> int:
        return len(self.i)

    def distances(self, Z: Floats) -> Floats:
        """d_ij = ½|z_i - z_j|² of the pairs (p,), divided by the largest one."""
        squared = numpy_backend.squared_distances(Z, Z)[self.i, self.j]
        if squared.max() <= _ROUNDING * numpy_backend.squared_norms(Z).max():
            raise ValueError(
                "the two training rows of every pair are equal, so there is nothing to hash: "
                "give rows that differ, or raise n_train or pair_fraction"
            )
        return squared / squared.max()

    def differ(self, bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether the bits (n,) of the two points of a pair differ, (p,)."""
        return np.repeat(bits, self._count) != bits[self.j]

    def signed_sums(self, cost: Floats, rank: Floats, side: Floats) -> Floats:
        """side_i Σ_j cost_ij sgn(rank_j - rank_i) side_j for each point, (n,)."""
        signed = self._signed.data
        np.subtract(rank[self.j], np.repeat(rank, self._count), out=signed)
        np.clip(signed, -1, 1, out=signed)
        signed *= cost
        return side * (self._signed @ side - self._transposed @ side)


def random_pairs(n: int, fraction: float, rng: np.random.Generator) -> Pairs:
    """Pairs of each of n points with a random fraction of the others, at least one, without duplicates."""
    size = min(n - 1, max(1, round(fraction * n)))
    i = np.repeat(np.arange(n), size)
    j = np.concatenate([rng.choice(n - 1, size, replace=False) for _ in range(n)])
    j += j >= i
    return Pairs(*np.divmod(np.unique(np.minimum(i, j) * n + np.maximum(i, j)), n), n)


class Descent:
    """Coordinate descent on Σ_(i,j)∈N (d_ij - Hamming_ij / r)² over the weights W (r, s), in place.

    K (n, n) contains the kernel values of the training points, and anchors (r, s) the points that each bit
    combines.
    """

    def __init__(self, K: Floats, anchors: Ints, W: Floats, pairs: Pairs, distances: Floats) -> None:
        self.K, self.anchors, self.W, self.pairs, self.d = K, anchors, W, pairs, distances
        self.hamming = np.zeros(len(pairs))
        for p in range(len(W)):
            self.hamming += self._bits_differ(p)

    def run(self, tol: float, max_iter: int) -> list[float]:
        """Iterate until the objective falls by at most tol; its values, the initial one first."""
        objectives = [self.objective()]
        for done in range(max_iter):
            for p in range(len(self.W)):
                advance(f"BRE, iteration {done + 1}", p, len(self.W))
                self.optimize_bit(p)
            advance(f"BRE, iteration {done + 1}", len(self.W), len(self.W))
            objectives.append(self.objective())
            _log.debug("BRE iteration %d: objective %.6g", done + 1, objectives[-1])
            if objectives[-2] - objectives[-1] <= tol:
                break
        return objectives

    def objective(self) -> float:
        """Σ_(i,j)∈N (d_ij - Hamming_ij / r)²."""
        return float(((self.d - self.hamming / len(self.W)) ** 2).sum())

    def optimize_bit(self, p: int) -> None:
        """Set each weight of bit p to its optimum, one after another."""
        r, weights, K = len(self.W), self.W[p], self.K[self.anchors[p]]
        self.hamming -= self._bits_differ(p)
        # (d - hamming/r - 1/r)² - (d - hamming/r)²: the cost of a pair that differs in this bit.
        cost = (1 / r - 2 * (self.d - self.hamming / r)) / r
        values = weights @ K
        for q, kernel in enumerate(K):
            best = best_weight(weights[q], values, kernel, self.pairs, cost)
            values += (best - weights[q]) * kernel
            weights[q] = best
        weights /= np.abs(weights).max() or 1
        self.hamming += self._bits_differ(p)

    def _bits_differ(self, p: int) -> NDArray[np.bool_]:
        return self.pairs.differ(self.W[p] @ self.K[self.anchors[p]] > 0)


def best_weight(weight: float, values: Floats, kernel: Floats, pairs: Pairs, cost: Floats) -> float:
    """The weight that minimizes Σ cost_ij [bit_i ≠ bit_j], bit_i = values_i + (new - weight) kernel_i > 0.

    When the weight increases from -∞ to ∞, point i changes its bit once, at
    t_i = weight - values_i / kernel_i, in the direction σ_i = sign(kernel_i). Between the changes of its two
    points, a pair costs σ_i σ_j cost_ij more than before and after. A cumulative sum over the sorted t
    therefore gives the objective on all intervals. Points with kernel_i = 0 never change.
    """
    size = np.abs(kernel)
    moves = size > _ROUNDING * size.max()
    t = weight - values / np.where(moves, kernel, np.nan)  # NaN is sorted last
    order = np.argsort(t)
    rank = np.empty(len(t))
    rank[order] = np.arange(len(t))
    side = np.where(moves, np.sign(kernel), np.where(values > 0, -1.0, 1.0))
    order = order[: np.count_nonzero(moves)]
    t = t[order]
    if not len(t):
        return weight
    change = np.concatenate([[0.0], np.cumsum(pairs.signed_sums(cost, rank, side)[order])])
    now = change[np.count_nonzero(t < weight)]
    change[1:-1][np.diff(t) <= _ROUNDING * (1 + np.abs(t[1:]))] = np.inf
    best = int(change.argmin())
    return _inside(t, best) if change[best] < now - _ROUNDING else weight


def _inside(t: Floats, place: int) -> float:
    """A number that is greater than exactly ``place`` of the sorted t, far from all of them."""
    low = t[place - 1] if place else t[0] - 2 - 2 * abs(t[0])
    high = t[place] if place < len(t) else t[-1] + 2 + 2 * abs(t[-1])
    return float((low + high) / 2)
