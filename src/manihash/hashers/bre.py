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

# What rounding may amount to: in an objective, in a kernel value or between two thresholds.
_ROUNDING = 1e-9


class BRE(LinearHasher):
    """Bits sign(Σ_q W_pq κ(z_pq, x)) whose Hamming distance, over r, is near d = ½|x_i - x_j|².

    W minimizes Σ_(i,j)∈N (d_ij - Hamming_ij / r)² over a set N of training pairs by coordinate descent, each
    weight set to its exact optimum with all others fixed. κ is linear on centered rows, so a bit is one
    projection. d is divided by its largest value in N, which keeps it between 0 and 1 as Hamming / r is,
    whatever the scale of the rows. After ``fit``: ``objectives_``, before the first round and after each of
    ``n_iter_``.

    Parameters
    ----------
    n_train: training rows, drawn at random; all rows where there are fewer. (n_train, n_train) is held.
    n_anchors: training rows z_pq that each bit is made of.
    pair_fraction: share of the other training rows that each of them is paired with, at random.
    tol: stop after a round over all weights that lowers the mean squared error over N by no more.
    max_iter: rounds at most.
    """

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
            raise ValueError(f"pair_fraction must be at most 1 (all other rows), not {self.pair_fraction!r}")

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
    """A set N of pairs i < j of n points, in the order of i: the places of a sparse n x n matrix."""

    def __init__(self, i: Ints, j: Ints, n: int) -> None:
        self.i, self.j = i, j
        self._count = np.bincount(i, minlength=n)
        start = np.concatenate([[0], np.cumsum(self._count)])
        self._signed = sp.csr_array((np.empty(len(i)), j, start), shape=(n, n))
        self._transposed = self._signed.T  # of the same numbers: no copy

    def __len__(self) -> int:
        return len(self.i)

    def distances(self, Z: Floats) -> Floats:
        """d_ij = ½|z_i - z_j|² of the pairs, over the largest of them."""
        squared = numpy_backend.squared_distances(Z, Z)[self.i, self.j]
        if squared.max() <= _ROUNDING * numpy_backend.squared_norms(Z).max():
            raise ValueError(
                "the training rows of all pairs are equal, so there is nothing to hash: "
                "give rows that differ, or raise n_train or pair_fraction"
            )
        return squared / squared.max()

    def apart(self, bits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The pairs whose bits differ."""
        return np.repeat(bits, self._count) != bits[self.j]

    def steps(self, cost: Floats, rank: Floats, side: Floats) -> Floats:
        """side_i Σ_j cost_ij sgn(rank_j - rank_i) side_j for each point, (n,)."""
        signed = self._signed.data
        np.subtract(rank[self.j], np.repeat(rank, self._count), out=signed)
        np.clip(signed, -1, 1, out=signed)
        signed *= cost
        return side * (self._signed @ side - self._transposed @ side)


def random_pairs(n: int, fraction: float, rng: np.random.Generator) -> Pairs:
    """Each of n points with a random share of the others, at least one; a pair drawn twice counts once."""
    size = min(n - 1, max(1, round(fraction * n)))
    i = np.repeat(np.arange(n), size)
    j = np.concatenate([rng.choice(n - 1, size, replace=False) for _ in range(n)])
    j += j >= i
    return Pairs(*np.divmod(np.unique(np.minimum(i, j) * n + np.maximum(i, j)), n), n)


class Descent:
    """Coordinate descent on Σ_(i,j)∈N (d_ij - Hamming_ij / r)² over the weights W (r, s), in place.

    K (n, n) are the kernel values of the training points, anchors (r, s) the points that each bit is made of.
    """

    def __init__(self, K: Floats, anchors: Ints, W: Floats, pairs: Pairs, distances: Floats) -> None:
        self.K, self.anchors, self.W, self.pairs, self.d = K, anchors, W, pairs, distances
        self.hamming = np.zeros(len(pairs))
        for p in range(len(W)):
            self.hamming += self._apart(p)

    def run(self, tol: float, max_iter: int) -> list[float]:
        """Rounds until one lowers the objective by tol or less: its value before the first and after each."""
        objectives = [self.objective()]
        for done in range(max_iter):
            for p in range(len(self.W)):
                advance(f"BRE, round {done + 1}", p, len(self.W))
                self.visit(p)
            advance(f"BRE, round {done + 1}", len(self.W), len(self.W))
            objectives.append(self.objective())
            _log.debug("BRE round %d: objective %.6g", done + 1, objectives[-1])
            if objectives[-2] - objectives[-1] <= tol:
                break
        return objectives

    def objective(self) -> float:
        return float(((self.d - self.hamming / len(self.W)) ** 2).sum())

    def visit(self, p: int) -> None:
        """Set each weight of bit p to its optimum, one after the other."""
        r, weights, K = len(self.W), self.W[p], self.K[self.anchors[p]]
        self.hamming -= self._apart(p)
        # (d - hamming/r - 1/r)² - (d - hamming/r)²: what it costs that this bit sets a pair apart.
        cost = (1 / r - 2 * (self.d - self.hamming / r)) / r
        values = weights @ K
        for q, kernel in enumerate(K):
            best = best_weight(weights[q], values, kernel, self.pairs, cost)
            values += (best - weights[q]) * kernel
            weights[q] = best
        weights /= np.abs(weights).max() or 1
        self.hamming += self._apart(p)

    def _apart(self, p: int) -> NDArray[np.bool_]:
        return self.pairs.apart(self.W[p] @ self.K[self.anchors[p]] > 0)


def best_weight(weight: float, values: Floats, kernel: Floats, pairs: Pairs, cost: Floats) -> float:
    """The weight that minimizes Σ cost_ij [bit_i ≠ bit_j], bit_i = values_i + (new - weight) kernel_i > 0.

    As the weight rises over all numbers, point i changes its bit once, at t_i = weight - values_i / kernel_i,
    to the side σ_i = sign(kernel_i). Between the changes of its two points a pair costs σ_i σ_j cost_ij more
    than before and after. So sorted t and a running sum give the objective over all intervals. Points of
    kernel 0 never change.
    """
    size = np.abs(kernel)
    moves = size > _ROUNDING * size.max()
    t = weight - values / np.where(moves, kernel, np.nan)  # nan is sorted last
    order = np.argsort(t)
    rank = np.empty(len(t))
    rank[order] = np.arange(len(t))
    side = np.where(moves, np.sign(kernel), np.where(values > 0, -1.0, 1.0))
    order = order[: np.count_nonzero(moves)]
    t = t[order]
    if not len(t):
        return weight
    change = np.concatenate([[0.0], np.cumsum(pairs.steps(cost, rank, side)[order])])
    now = change[np.count_nonzero(t < weight)]
    change[1:-1][np.diff(t) <= _ROUNDING * (1 + np.abs(t[1:]))] = np.inf
    best = int(change.argmin())
    return _inside(t, best) if change[best] < now - _ROUNDING else weight


def _inside(t: Floats, place: int) -> float:
    """A number with exactly ``place`` of the sorted t below it, well away from them."""
    low = t[place - 1] if place else t[0] - 2 - 2 * abs(t[0])
    high = t[place] if place < len(t) else t[-1] + 2 + 2 * abs(t[-1])
    return float((low + high) / 2)
