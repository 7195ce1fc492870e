"""Elastic embedding (Carreira-Perpiñán, 2010)."""

from functools import partial
from typing import Any

import numpy as np

from manihash import checks
from manihash.embeddings._descent import minimize
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._sampled import SampledLoss, neighbor_loss
from manihash.embeddings.sne import GaussianKernel
from manihash.types import Floats, Ints


class ElasticEmbedding(Embedding):
    """min Σ w⁺_ij |y_i - y_j|² + lam / m² Σ_{i≠j} exp(-|y_i - y_j|²).

    w⁺ are the joint neighbor probabilities of the given perplexity, which sum to 1, and the repulsion is a
    mean over pairs: so ``lam`` means the same for bases of any size. ``loss_`` is the value reached. For
    ``turns`` and ``sampled`` see ``TSNE``.
    """

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        lam: float = 10.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        turns: int = 100,
        sampled: int | None = 1024,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.lam = lam
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.turns = turns
        self.sampled = sampled
        self.random_state = random_state

    def _embed(self, B: Floats) -> Floats:
        lam = checks.positive_number(self.lam, "lam")
        sampled = partial(SampledLoss, ElasticKernel(lam, len(B)))
        loss = neighbor_loss(self, B, lambda P: ElasticEnergy(P, lam), sampled)
        Y, self.loss_ = minimize(self, loss, B, rate=50, name="elastic embedding")
        return Y


class ElasticEnergy:
    """Attraction Σ w⁺ E, repulsion lam / m² Σ exp(-E): S = 4 (w⁺ - lam / m² exp(-E))."""

    factor = 4.0

    def __init__(self, W: Floats, lam: float) -> None:
        self.W, self.lam = W, lam / len(W) ** 2

    def kernel(self, E: Floats) -> Floats:
        """Nothing normalizes the rows: 1 for each."""
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
    """exp(-E) as it is, for pairs that are drawn: each stands for m / s."""

    def __init__(self, lam: float, m: int) -> None:
        self.lam, self.m = lam / m**2, m

    def share(self, total: float, s: int) -> float:
        return 4 * self.lam * self.m / s

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        return float((P * E).sum() + self.lam * totals.sum())
