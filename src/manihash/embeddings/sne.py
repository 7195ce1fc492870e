"""Stochastic neighbour embedding (Hinton and Roweis, 2002), the asymmetric one."""

from typing import Any

import numpy as np

from manihash.arrays import Floats
from manihash.embeddings._descent import minimize
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._perplexity import conditional_probabilities


class SNE(Embedding):
    """min (1/m) Σ_i KL(p(· | i) || q(· | i)), with q(j | i) proportional to exp(-|y_i - y_j|²).

    ``symmetric=True`` takes joint probabilities instead, as t-SNE does. The loss is a mean over the points,
    so that one learning rate serves bases of any size; ``loss_`` is the value reached. For
    ``turns`` see ``TSNE``.
    """

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        symmetric: bool = False,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        turns: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.symmetric = symmetric
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.turns = turns
        self.random_state = random_state

    def _embed(self, B: Floats) -> Floats:
        P = conditional_probabilities(B, self.perplexity, max(20, self.n_components)) / len(B)
        if self.symmetric:
            P = (P + P.T) / 2
        objective = GaussianDivergence(P.astype(B.dtype), self.symmetric)
        Y, self.loss_ = minimize(self, objective, B, rate=50, name="SNE")
        return Y


class GaussianDivergence:
    """Σ p log(p / q) with Gaussian q: normalised in each row (asymmetric) or over all pairs (symmetric).

    P sums to 1 over all pairs; S = 2 (P - Q + (P - Q)ᵀ).
    """

    def __init__(self, P: Floats, symmetric: bool) -> None:
        self.P, self.symmetric = P, symmetric

    def forces(self, E: Floats, exaggeration: float) -> Floats:
        D = exaggeration * self.P - self._q(E)
        return 2 * (D + D.T)

    def loss(self, E: Floats) -> float:
        held = self.P > 0
        P, Q = self.P[held].astype(np.float64), self._q(E)[held].astype(np.float64)
        return float((P * np.log(P / np.maximum(Q, 1e-300))).sum())

    def _q(self, E: Floats) -> Floats:
        np.fill_diagonal(E, np.inf)
        if self.symmetric:
            K = np.exp(-E)
            return K / K.sum()
        K = np.exp(E.min(axis=1, keepdims=True) - E)
        K /= K.sum(axis=1, keepdims=True) * len(E)
        return K
