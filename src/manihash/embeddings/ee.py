"""Elastic embedding (Carreira-Perpiñán, 2010)."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.arrays import Floats
from manihash.embeddings._descent import minimize
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._perplexity import conditional_probabilities


class ElasticEmbedding(Embedding):
    """min Σ w⁺_ij |y_i - y_j|² + lam / m² Σ_{i≠j} exp(-|y_i - y_j|²).

    w⁺ are the joint neighbour probabilities of the given perplexity, which sum to 1, and the repulsion is a
    mean over pairs: so ``lam`` means the same for bases of any size. ``loss_`` is the value reached. For
    ``turns`` see ``TSNE``.
    """

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        lam: float = 10.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        turns: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.lam = lam
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.turns = turns
        self.random_state = random_state

    def _embed(self, B: Floats) -> Floats:
        P = conditional_probabilities(B, self.perplexity, max(20, self.n_components))
        P = ((P + P.T) / (2 * len(B))).astype(B.dtype)
        objective = ElasticEnergy(P, checks.positive_number(self.lam, "lam"))
        Y, self.loss_ = minimize(self, objective, B, rate=50, name="elastic embedding")
        return Y


class ElasticEnergy:
    """Attraction Σ w⁺ E, repulsion lam / m² Σ exp(-E): S = 4 (w⁺ - lam / m² exp(-E))."""

    def __init__(self, W: Floats, lam: float) -> None:
        self.W, self.lam = W, lam / len(W) ** 2

    def forces(self, E: Floats, exaggeration: float) -> Floats:
        K = self._kernel(E)
        K *= -4 * self.lam
        K += (4 * exaggeration) * self.W
        return K

    def loss(self, E: Floats) -> float:
        attraction = float((self.W * E).sum(dtype=np.float64))
        return attraction + self.lam * float(self._kernel(E).sum(dtype=np.float64))

    def _kernel(self, E: Floats) -> Floats:
        np.negative(E, out=E)
        np.exp(E, out=E)
        np.fill_diagonal(E, 0)
        return E
