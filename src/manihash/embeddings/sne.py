"""Stochastic neighbor embedding (Hinton and Roweis, 2002), the asymmetric one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import backend
from manihash.compute import torch as torch_backend
from manihash.compute.torch_pairs import GaussianLoss, RowGaussianLoss
from manihash.embeddings._descent import (
    ExactLoss,
    Loss,
    NearPairs,
    Objective,
    SampledLoss,
    SampledPoints,
    minimize,
    neighbor_loss,
    pace_of,
    row_sums,
)
from manihash.embeddings._embedding import NeighborEmbedding, memory_of_pairs
from manihash.types import Floats, Ints


class SNE(NeighborEmbedding):
    """Stochastic neighbor embedding with a Gaussian kernel.

    min (1/m) Σ_i KL(p(· | i) || q(· | i)), with q(j | i) proportional to exp(-|y_i - y_j|²). The loss is a
    mean over the points, so one learning rate suits base sets of any size.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    perplexity : float, default=10.0
        Effective number of neighbors of each point, between 1 and m - 1.
    symmetric : bool, default=False
        Whether to compare joint probabilities p_ij and q_ij, as t-SNE does, instead of conditional ones.
    n_iter : int, default=1000
        Number of iterations of gradient descent.
    learning_rate : float, default=None
        Step size. None uses 50 for 400 points or more, and proportionally less for fewer points.
    n_rotations : int, default=0
        Number of random rotations to try. The loss does not depend on rotations of Y, but the signs of Y do:
        the rotation whose signs are closest to balanced and uncorrelated is kept. With 0, as in the paper, Y
        is not rotated.
    sampled : int, default=1024
        Number of points that repulsion is summed over in each iteration if there are more than 2,000 points;
        attraction is then summed over the 3 x perplexity nearest neighbors. None always sums over all pairs.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.
    affinity : GraphAffinity, default=None
        Where the affinities P come from. None computes them from the distances between the points, by
        ``perplexity``. ``GraphAffinity()`` computes them from all training rows, inside ``IMH`` and
        ``InductiveEmbedding``; on its own, the embedding takes the points themselves as training rows.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.
    loss_ : float
        Value of the loss at the end of the descent.

    References
    ----------
    Hinton and Roweis, "Stochastic neighbor embedding", NIPS, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import SNE
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> SNE(n_components=3, n_iter=50, random_state=0).fit_transform(B).shape
    (60, 3)
    """

    takes_tensors = True

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        symmetric: bool = False,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        n_rotations: int = 0,
        sampled: int | None = 1024,
        random_state: Any = None,
        affinity: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.symmetric = symmetric
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.n_rotations = n_rotations
        self.sampled = sampled
        self.random_state = random_state
        self.affinity = affinity

    def _embed(self, B: Floats, affinities: Any = None, start: Any = None) -> Floats:
        exact, sampled = self._losses(B, checks.flag(self.symmetric, "symmetric"))
        with memory_of_pairs(B, "SNE"):
            loss = neighbor_loss(self, B, exact, sampled, symmetric=self.symmetric, affinities=affinities)
            Y, self.loss_ = minimize(self, loss, B, rate=50, name="SNE", start=start)
        return Y

    def _losses(
        self, B: Floats, symmetric: bool
    ) -> tuple[Callable[[Floats], Loss], Callable[..., Loss] | None]:
        """Return the loss over all pairs, and over sampled pairs; on a GPU all pairs are always used."""
        if backend(B) is torch_backend:
            return partial(GaussianLoss if symmetric else RowGaussianLoss, pace=pace_of(len(B))), None
        if symmetric:
            return partial(_exact_loss, GaussianDivergence), partial(SampledLoss, GaussianKernel())
        return partial(_exact_loss, RowGaussianDivergence), partial(RowSampledLoss, RowGaussianKernel())


def _exact_loss(objective: Callable[[Floats], Objective], P: Floats) -> ExactLoss:
    return ExactLoss(objective(P), len(P))


class GaussianDivergence:
    """Σ p log(p / q) with Gaussian q, normalized over all pairs; P, symmetric, sums to 1.

    S = 4 (P - Q).
    """

    factor = 4.0

    def __init__(self, P: Floats) -> None:
        self.P = P

    def kernel(self, E: Floats) -> Floats:
        np.negative(E, out=E)
        np.exp(E, out=E)
        return row_sums(E)

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        S = K[part] * (-share / max(float(sums.sum(dtype=np.float64)), 1e-300))
        S += self.P[part]
        return S

    def loss(self, E: Floats) -> float:
        return self._divergence(E, self.kernel(E).sum())

    def _divergence(self, K: Floats, total: Any) -> float:
        held = self.P > 0
        P, Q = self.P[held].astype(np.float64), (K / total)[held].astype(np.float64)
        return float((P * np.log(P / np.maximum(Q, 1e-300))).sum())


class RowGaussianDivergence(GaussianDivergence):
    """As ``GaussianDivergence``, with q normalized in each row: the asymmetric loss.

    S = 2 (P - Q + (P - Q)ᵀ). The nearest distance of a row is subtracted first: it cancels in q.
    """

    factor = 2.0

    def __init__(self, P: Floats) -> None:
        super().__init__(P)
        self.both = P + P.T

    def kernel(self, E: Floats) -> Floats:
        np.subtract(E.min(axis=1, keepdims=True), E, out=E)
        np.exp(E, out=E)
        return row_sums(E)

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        weights = -share / (len(K) * sums)
        S = K[part] * weights[part, None]
        S += (K[:, part] * weights[:, None]).T
        S += self.both[part]
        return S

    def loss(self, E: Floats) -> float:
        return self._divergence(E, len(E) * self.kernel(E)[:, None])


class GaussianKernel:
    """exp(-E), normalized over all pairs, for sampled pairs."""

    def pull(self, E: Floats) -> float:
        return 4.0

    def push(self, E: Floats) -> tuple[Floats, Floats]:
        np.negative(E, out=E)
        np.exp(E, out=E)
        return E, E.sum(axis=1)

    def share(self, total: float, s: int) -> float:
        return 4 / max(total, 1e-300)

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        return float((P * (np.log(P) + E + np.log(totals.sum()))).sum())


class RowGaussianKernel(GaussianKernel):
    """exp(-E), normalized for each point; ``RowSampledLoss`` passes the logarithms of the sums."""

    def share(self, total: float, s: int) -> float:
        return 2 / s

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        return float((P * (np.log(len(totals) * P) + E + totals[row_of])).sum())


def _shifted(E: Floats, shift: Floats) -> Floats:
    """Return exp(shift - E), limited so that it does not overflow."""
    return np.exp(np.minimum(shift - E, 30))


class RowSampledLoss(SampledLoss):
    """The asymmetric loss, whose q(j | i) is normalized for each point i.

    The normalizer is dominated by the nearest points, which are seldom sampled. It is therefore the sum over
    the near pairs and over sampled others, each of which represents m / s pairs. The nearest distance is
    subtracted from all distances, so that the exponentials do not underflow.
    """

    def _points(self, Y: Floats, drawn: Ints) -> SampledPoints:
        points = SampledPoints(Y, drawn)
        near = NearPairs(self.both, drawn)
        self.drawn = self._normalizer(near, points, points.distances(drawn))
        return points

    def _forces(self, points: SampledPoints, i: int) -> tuple[Floats, Floats, float]:
        E = points.distances(self.chunks[i])
        shift, total = self._normalizer(self.near[i], points, E)
        F = _shifted(E, shift[:, None]) / total[:, None]
        F += self._of_drawn(E)
        return self.near[i].pull(self.kernel, points), F @ points.Y1[points.drawn], 0.0

    def _of_drawn(self, E: Floats) -> Floats:
        """Return q(i | j) of the sampled points j, K / (normalizer + K), which is at most 1."""
        shift, total = self.drawn
        with np.errstate(over="ignore"):
            return 1 / (1 + total * np.exp(E - shift))

    def _normalizer(self, near: NearPairs, points: SampledPoints, E: Floats) -> tuple[Floats, Floats]:
        """Return the nearest distance of each point (b,), and its normalizer relative to it (b,)."""
        nearest, sums = [], []
        for E_near, P, _ in near.distances(points):
            E_near[P == 0] = np.inf
            nearest.append(E_near.min(axis=1))
            sums.append(_shifted(E_near, nearest[-1][:, None]).sum(axis=1))
        shift = np.concatenate(nearest)
        K = _shifted(E, shift[:, None])
        K[near.P[:, points.drawn].nonzero()] = 0  # sampled near pairs are not counted twice
        return shift, np.concatenate(sums) + K.sum(axis=1) * (self.P.shape[0] / self.s)

    def _totals(self, points: SampledPoints, i: int) -> Floats:
        """Return log Σ_j exp(-E_ij) for each point of chunk i."""
        E = points.distances(self.chunks[i])
        nearest = E.min(axis=1, keepdims=True)
        return np.log(np.exp(nearest - E).sum(axis=1, dtype=np.float64)) - nearest[:, 0]
