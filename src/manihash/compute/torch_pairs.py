"""Losses of t-SNE, SNE and elastic embedding over all pairs of points in a tensor.

They take few passes over the (m, m) matrices, and allocate their memory once, so that a CUDA graph can record
an iteration.
"""

from abc import ABC, abstractmethod
from typing import Any

from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor

# Rows of the matrices that are summed at once in float64.
_SUMMED_ROWS = 1024
# The smallest sum of a kernel that is divided by.
_TINY = 1e-30


class PairLoss(ABC):
    """A loss with the gradient ``factor`` Σ_j S_ij (y_i - y_j), with a symmetric S (m, m)."""

    factor: float

    def __init__(self, P: Tensor, pace: float) -> None:
        self.P, self.pace = P, pace
        self.exaggeration, self.exaggerated_P = 1.0, P
        self.pairs = torch_backend.torch().empty_like(P)
        self.left: Any = None
        self.right: Any = None

    def gradient(self, Y: Tensor, exaggeration: float, each: Any = map) -> Tensor:
        """Return the gradient (m, r), attraction times ``exaggeration``."""
        if exaggeration != self.exaggeration:
            self.exaggeration, self.exaggerated_P = exaggeration, self._attraction() * exaggeration
        SY = self._forces(Y) @ self.right[:, :-1]  # [Y, 1]: the last column holds the row sums
        return (Y * SY[:, -1:]).sub_(SY[:, :-1]).mul_(self.factor)

    @abstractmethod
    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the loss at Y."""

    @abstractmethod
    def _forces(self, Y: Tensor) -> Tensor:
        """Return S (m, m), from ``exaggerated_P`` and what ``_squares`` computes."""

    def _attraction(self) -> Tensor:
        """Return what is multiplied by the exaggeration in S."""
        return self.P

    def _squares(self, Y: Tensor, scale: float, plus: float = 0.0) -> Tensor:
        """Set ``pairs`` to scale |y_i - y_j|² + plus by one product, and return it."""
        if self.left is None:
            self.left = Y.new_ones((len(Y), Y.shape[1] + 2))
            self.right = Y.new_ones((len(Y), Y.shape[1] + 2))
        squared = torch_backend.squared_norms(Y).mul_(scale)
        torch_backend.torch().mul(Y, -2 * scale, out=self.left[:, :-2])
        self.left[:, -2] = squared + plus
        self.right[:, :-2] = Y
        self.right[:, -1] = squared
        torch_backend.torch().mm(self.left, self.right.T, out=self.pairs)
        return self.pairs

    def _mean(self, terms: Any, *matrices: Tensor) -> float:
        """Return Σ p_ij terms, in float64, where ``terms`` gets the entries with p_ij > 0 of all matrices."""
        total = 0.0
        for P, *others in zip(*(matrix.split(_SUMMED_ROWS) for matrix in (self.P, *matrices)), strict=True):
            held = P > 0
            p = P[held].double()
            total += float((p * terms(p, *(other[held].double() for other in others))).sum())
        return total


class StudentLoss(PairLoss):
    """KL(P || Q) of t-SNE, with q_ij = K_ij / Σ K and K = (1 + E / dof)^(-(dof + 1) / 2).

    S = (P - Q) / (1 + E / dof).
    """

    def __init__(self, P: Tensor, dof: float, pace: float = 1.0) -> None:
        super().__init__(P, pace)
        self.dof, self.factor = dof, 2 * (dof + 1) / dof
        self.S = torch_backend.torch().empty_like(P)

    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the divergence."""
        K = self._kernel(Y)
        total = K.sum(dtype=torch_backend.torch().float64)
        return self._mean(lambda p, k: (p * total / k).log(), K)

    def _forces(self, Y: Tensor) -> Tensor:
        K = self._kernel(Y)
        torch_backend.torch().addcmul(self.exaggerated_P, K, 1 / K.sum(), value=-1, out=self.S)
        return self.S.mul_(self.pairs)

    def _kernel(self, Y: Tensor) -> Tensor:
        """Return K (m, m), zero on the diagonal; ``pairs`` becomes 1 / (1 + E / dof)."""
        inverse = self._squares(Y, 1 / self.dof, 1.0).reciprocal_().fill_diagonal_(0)
        return inverse if self.dof == 1 else inverse ** ((self.dof + 1) / 2)


class ElasticLoss(PairLoss):
    """Σ w_ij E_ij + lam / m² Σ_i≠j exp(-E_ij): S = W - lam / m² exp(-E)."""

    factor = 4.0

    def __init__(self, W: Tensor, lam: float, pace: float = 1.0) -> None:
        super().__init__(W, pace)
        self.lam = lam / len(W) ** 2

    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the loss."""
        attraction = self._mean(lambda w, e: e, self._squares(Y, 1.0))
        repulsion = _gaussian(self._squares(Y, -1.0)).sum(dtype=torch_backend.torch().float64)
        return attraction + self.lam * float(repulsion)

    def _forces(self, Y: Tensor) -> Tensor:
        return _gaussian(self._squares(Y, -1.0)).mul_(-self.lam).add_(self.exaggerated_P)


class GaussianLoss(PairLoss):
    """KL(P || Q) of symmetric SNE, with q_ij = exp(-E_ij) / Σ exp(-E): S = P - Q."""

    factor = 4.0

    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the divergence."""
        total = _gaussian(self._squares(Y, -1.0)).sum(dtype=torch_backend.torch().float64)
        log_total = total.clamp_min(_TINY).log()
        return self._mean(lambda p, e: p.log() + e + log_total, self._squares(Y, 1.0))

    def _forces(self, Y: Tensor) -> Tensor:
        K = _gaussian(self._squares(Y, -1.0))
        return K.mul_(-1 / K.sum().clamp_min(_TINY)).add_(self.exaggerated_P)


class RowGaussianLoss(PairLoss):
    """The loss of SNE, with q normalized in each row: S = P - Q + (P - Q)ᵀ.

    The nearest distance of a row is subtracted before the exponential: it cancels in q.
    """

    factor = 2.0

    def __init__(self, P: Tensor, pace: float = 1.0) -> None:
        super().__init__(P, pace)
        self.exaggerated_P = self._attraction()

    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the divergence."""
        shift, sums = self._rows(Y)
        log_sums = (sums.double().log() + shift.double())[:, None] + torch_backend.torch().zeros_like(self.P)
        m = len(self.P)
        return self._mean(lambda p, e, s: (m * p).log() + e + s, self._squares(Y, 1.0), log_sums)

    def _forces(self, Y: Tensor) -> Tensor:
        _, sums = self._rows(Y)
        Q = self.pairs.mul_(-1 / (len(self.P) * sums)[:, None])
        return self.exaggerated_P + Q + Q.T

    def _rows(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Set ``pairs`` to exp(-E - shift) and return the shift and the sum of each row, both (m,)."""
        logs = self._squares(Y, -1.0).fill_diagonal_(-float("inf"))
        shift = logs.amax(1)
        return shift, logs.sub_(shift[:, None]).exp_().sum(1)

    def _attraction(self) -> Tensor:
        return self.P + self.P.T


def _gaussian(logs: Tensor) -> Tensor:
    """Return exp of a matrix, in place, with a diagonal of zeros."""
    return logs.exp_().fill_diagonal_(0)
