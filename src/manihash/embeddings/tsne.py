"""t-SNE (van der Maaten and Hinton, 2008) in any number of dimensions: the paper's IMH-tSNE."""

from functools import partial
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import torch as torch_backend
from manihash.embeddings._descent import Schedule, minimize
from manihash.embeddings._embedding import Embedding
from manihash.embeddings._exact import row_sums
from manihash.embeddings._sampled import SampledLoss, neighbor_loss
from manihash.embeddings._tensor_tsne import tensor_tsne
from manihash.types import Floats, Ints


class TSNE(Embedding):
    """min Σ p_ij log(p_ij / q_ij), with q from a Student t kernel of ``dof`` degrees of freedom.

    One degree of freedom whatever the number of dimensions, as the authors run it: scikit-learn's r - 1 costs
    two thirds of the MAP at 64 bits. ``loss_`` is the divergence reached.

    ``learning_rate=None`` is 500, as the authors have it, for 400 points or more, and less for fewer.
    ``exaggeration`` multiplies the attraction in the first 100 rounds; of a pair the second does so in all
    that follow, which makes clusters denser and no longer minimizes the divergence.
    The loss does not see rotations, the sign does: of ``turns`` random rotations the one whose signs are most
    nearly balanced and uncorrelated is kept; ``turns=0`` leaves the coordinates as the descent does, the
    authors' way.

    Above 2,000 points attraction is summed over the 3 x perplexity nearest and repulsion over ``sampled``
    points drawn in each round; the learning rate grows with their number, and of few rounds a quarter is
    exaggerated. ``sampled=None`` takes all pairs whatever their number, and so does a card.
    """

    takes_tensors = True

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        dof: float = 1.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        exaggeration: float | tuple[float, float] = 4.0,
        turns: int = 100,
        sampled: int | None = 1024,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.dof = dof
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.exaggeration = exaggeration
        self.turns = turns
        self.sampled = sampled
        self.random_state = random_state

    def _embed(self, B: Floats) -> Floats:
        dof = checks.positive_number(self.dof, "dof")
        if torch_backend.is_tensor(B):
            Y, self.loss_ = tensor_tsne(self, B, dof, self._schedule())
            return Y
        loss = neighbor_loss(
            self, B, lambda P: StudentDivergence(P, dof), partial(SampledLoss, StudentKernel(dof))
        )
        Y, self.loss_ = minimize(self, loss, B, rate=500, name="t-SNE", schedule=self._schedule())
        return Y

    def _schedule(self) -> Schedule:
        given = np.atleast_1d(np.asarray(self.exaggeration, dtype=object))
        early, late = (*given, 1.0)[:2]
        return Schedule(
            checks.positive_number(early, "exaggeration"), checks.positive_number(late, "exaggeration")
        )


class StudentDivergence:
    """KL(P || Q), q_ij = K_ij / Σ K with K = (1 + E / dof)^(-(dof + 1) / 2).

    S = 2 (dof + 1) / dof (P - Q) / (1 + E / dof): for one degree of freedom 4 (P - Q) K.
    """

    def __init__(self, P: Floats, dof: float) -> None:
        self.P, self.dof, self.factor = P, dof, 2 * (dof + 1) / dof

    def kernel(self, E: Floats) -> Floats:
        """E becomes 1 / (1 + E / dof), of which K is a power."""
        if self.dof != 1:
            E /= self.dof
        E += 1
        np.divide(1, E, out=E)
        return row_sums(self._power(E))

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        inverse = K[part]
        S = self._power(inverse) * (-share / float(sums.sum(dtype=np.float64)))
        S += self.P[part]
        S *= inverse
        return S

    def loss(self, E: Floats) -> float:
        total, K = self.kernel(E).sum(dtype=np.float64), self._power(E)
        held = self.P > 0
        P, K = self.P[held].astype(np.float64), K[held].astype(np.float64)
        return float((P * np.log(P * total / K)).sum())

    def _power(self, inverse: Floats) -> Floats:
        return inverse if self.dof == 1 else inverse ** ((self.dof + 1) / 2)


class StudentKernel:
    """K = (1 + E / dof)^(-(dof + 1) / 2), for pairs that are drawn."""

    def __init__(self, dof: float) -> None:
        self.dof, self.factor = dof, 2 * (dof + 1) / dof

    def pull(self, E: Floats) -> Floats:
        E *= 1 / (self.dof * self.factor)
        E += 1 / self.factor
        return np.reciprocal(E, out=E)

    def push(self, E: Floats) -> tuple[Floats, Floats]:
        if self.dof != 1:
            E /= self.dof
        E += 1
        np.reciprocal(E, out=E)
        K = E if self.dof == 1 else E ** ((self.dof + 1) / 2)
        sums = K.sum(axis=1)
        return np.multiply(K, E, out=E), sums

    def share(self, total: float, s: int) -> float:
        return self.factor / total

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        log_K = -(self.dof + 1) / 2 * np.log1p(E / self.dof)
        return float((P * (np.log(P) - log_K + np.log(totals.sum()))).sum())
