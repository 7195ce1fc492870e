"""t-SNE (van der Maaten and Hinton, 2008), exact, in any number of dimensions: the paper's IMH-tSNE."""

from typing import Any

import numpy as np

from manihash import checks
from manihash.arrays import Floats
from manihash.embeddings._descent import minimize
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._perplexity import conditional_probabilities


class TSNE(Embedding):
    """min Σ p_ij log(p_ij / q_ij), with q from a Student t kernel of ``dof`` degrees of freedom.

    One degree of freedom whatever the number of dimensions, as the authors run it: scikit-learn's r - 1 costs
    two thirds of the MAP at 64 bits. ``loss_`` is the divergence reached.

    ``learning_rate=None`` is 500, as the authors have it, for 400 points or more, and less for fewer.
    The loss does not see rotations, the sign does: of ``turns`` random rotations the one whose signs are most
    nearly balanced and uncorrelated is kept; ``turns=0`` leaves the coordinates as the descent does, the
    authors' way.
    """

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        dof: float = 1.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        exaggeration: float = 4.0,
        turns: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.dof = dof
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.exaggeration = exaggeration
        self.turns = turns
        self.random_state = random_state

    def _embed(self, B: Floats) -> Floats:
        P = conditional_probabilities(B, self.perplexity, max(20, self.n_components))
        P = ((P + P.T) / (2 * len(B))).astype(B.dtype)
        objective = StudentDivergence(P, checks.positive_number(self.dof, "dof"))
        exaggeration = checks.positive_number(self.exaggeration, "exaggeration")
        Y, self.loss_ = minimize(self, objective, B, rate=500, name="t-SNE", exaggeration=exaggeration)
        return Y


class StudentDivergence:
    """KL(P || Q), q_ij = K_ij / Σ K with K = (1 + E / dof)^(-(dof + 1) / 2).

    S = 2 (dof + 1) / dof (P - Q) / (1 + E / dof): for one degree of freedom 4 (P - Q) K.
    """

    def __init__(self, P: Floats, dof: float) -> None:
        self.P, self.dof = P, dof
        self.S = np.empty_like(P)

    def forces(self, E: Floats, exaggeration: float) -> Floats:
        inverse, K = self._kernels(E)
        np.multiply(K, -1 / K.sum(dtype=np.float64), out=self.S)
        self.S += self.P if exaggeration == 1 else exaggeration * self.P
        self.S *= inverse
        self.S *= 2 * (self.dof + 1) / self.dof
        return self.S

    def loss(self, E: Floats) -> float:
        K = self._kernels(E)[1]
        held = self.P > 0
        P, K_held = self.P[held].astype(np.float64), K[held].astype(np.float64)
        return float((P * np.log(P * K.sum(dtype=np.float64) / K_held)).sum())

    def _kernels(self, E: Floats) -> tuple[Floats, Floats]:
        """1 / (1 + E / dof) and its power (dof + 1) / 2, zero on the diagonal; E is overwritten."""
        if self.dof != 1:
            E /= self.dof
        E += 1
        np.reciprocal(E, out=E)
        np.fill_diagonal(E, 0)
        return E, E if self.dof == 1 else E ** ((self.dof + 1) / 2)
