"""Elastic embedding (Carreira-Perpiñán, 2010)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import backend
from manihash.compute import torch as torch_backend
from manihash.compute.torch_pairs import ElasticLoss
from manihash.embeddings._descent import ExactLoss, Loss, SampledLoss, minimize, neighbor_loss, pace_of
from manihash.embeddings._embedding import NeighborEmbedding, memory_of_pairs
from manihash.embeddings.sne import GaussianKernel
from manihash.types import Floats, Ints


class ElasticEmbedding(NeighborEmbedding):
    """Elastic embedding.

    min Σ w⁺_ij |y_i - y_j|² + lam / m² Σ_i≠j exp(-|y_i - y_j|²), where w⁺ are the joint neighbor
    probabilities of the given perplexity, which sum to 1. Repulsion is a mean over pairs, so one value of
    ``lam`` suits base sets of any size.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    perplexity : float, default=10.0
        Effective number of neighbors of each point, between 1 and m - 1.
    lam : float, default=10.0
        Weight of the repulsion.
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
    Carreira-Perpiñán, "The elastic embedding algorithm for dimensionality reduction", ICML, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import ElasticEmbedding
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> ElasticEmbedding(n_components=3, n_iter=50, random_state=0).fit_transform(B).shape
    (60, 3)
    """

    takes_tensors = True

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        lam: float = 10.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        n_rotations: int = 0,
        sampled: int | None = 1024,
        random_state: Any = None,
        affinity: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.lam = lam
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.n_rotations = n_rotations
        self.sampled = sampled
        self.random_state = random_state
        self.affinity = affinity

    def _embed(self, B: Floats, affinities: Any = None, start: Any = None) -> Floats:
        lam, name = checks.positive_number(self.lam, "lam"), "elastic embedding"
        exact: Callable[[Floats], Loss] = partial(_exact_loss, lam=lam)
        sampled: Callable[..., Loss] | None = partial(SampledLoss, ElasticKernel(lam, len(B)))
        if backend(B) is torch_backend:  # on a GPU all pairs are always used
            exact, sampled = partial(ElasticLoss, lam=lam, pace=pace_of(len(B))), None
        with memory_of_pairs(B, name):
            loss = neighbor_loss(self, B, exact, sampled, affinities=affinities)
            Y, self.loss_ = minimize(self, loss, B, rate=50, name=name, start=start)
        return Y


def _exact_loss(P: Floats, lam: float) -> ExactLoss:
    return ExactLoss(ElasticEnergy(P, lam), len(P))


class ElasticEnergy:
    """Attraction Σ w⁺ E, repulsion lam / m² Σ exp(-E): S = 4 (w⁺ - lam / m² exp(-E))."""

    factor = 4.0

    def __init__(self, W: Floats, lam: float) -> None:
        self.W, self.lam = W, lam / len(W) ** 2

    def kernel(self, E: Floats) -> Floats:
        """Turn rows E (b, m) into exp(-E); return ones (b,), since rows are not normalized."""
        np.negative(E, out=E)
        np.exp(E, out=E)
        return np.ones(len(E), E.dtype)

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        S = K[part] * (-share * self.lam)
        S += self.W[part]
        return S

    def loss(self, E: Floats) -> float:
        held = self.W > 0
        attraction = float((self.W[held] * E[held]).sum(dtype=np.float64))
        self.kernel(E)
        return attraction + self.lam * float(E.sum(dtype=np.float64))


class ElasticKernel(GaussianKernel):
    """exp(-E), not normalized, for sampled pairs: each represents m / s pairs."""

    def __init__(self, lam: float, m: int) -> None:
        self.lam, self.m = lam / m**2, m

    def share(self, total: float, s: int) -> float:
        return 4 * self.lam * self.m / s

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        return float((P * E).sum() + self.lam * totals.sum())
