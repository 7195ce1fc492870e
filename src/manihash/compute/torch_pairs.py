"""The loss of t-SNE over all pairs of points in a tensor, with few passes over the (m, m) matrices."""

from typing import Any

from manihash.compute import torch as torch_backend
from manihash.compute.torch import Tensor


class StudentLoss:
    """KL(P || Q), with q_ij = K_ij / Σ K and K = (1 + E / dof)^(-(dof + 1) / 2).

    The memory is allocated once, so that a CUDA graph can record an iteration.
    """

    def __init__(self, P: Tensor, dof: float, pace: float = 1.0) -> None:
        self.P, self.dof, self.pace = P, dof, pace
        self.exaggeration, self.exaggerated_P = 1.0, P
        self.inverse, self.S = torch_backend.torch().empty_like(P), torch_backend.torch().empty_like(P)
        self.left: Any = None
        self.right: Any = None

    def gradient(self, Y: Tensor, exaggeration: float, each: Any = map) -> Tensor:
        """Return Σ_j S_ij (y_i - y_j), (m, r), with S = 2 (dof + 1) / dof (P - Q) / (1 + E / dof)."""
        if exaggeration != self.exaggeration:
            self.exaggeration, self.exaggerated_P = exaggeration, self.P * exaggeration
        K = self._kernel(Y)
        torch_backend.torch().addcmul(self.exaggerated_P, K, 1 / K.sum(), value=-1, out=self.S)
        SY = self.S.mul_(self.inverse) @ self.right[:, :-1]  # [Y, 1]: the last column holds the row sums
        return (Y * SY[:, -1:]).sub_(SY[:, :-1]).mul_(2 * (self.dof + 1) / self.dof)

    def value(self, Y: Tensor, each: Any = map) -> float:
        """Return the divergence."""
        K = self._kernel(Y)
        total, loss = K.sum(dtype=torch_backend.torch().float64), 0.0
        for P, kernel in zip(self.P.split(1024), K.split(1024), strict=True):
            held = P > 0
            p = P[held].double()
            loss += float((p * (p * total / kernel[held]).log()).sum())
        return loss

    def _kernel(self, Y: Tensor) -> Tensor:
        """Return K (m, m), zero on the diagonal; ``inverse`` becomes 1 / (1 + E / dof)."""
        if self.left is None:
            self.left = Y.new_ones((len(Y), Y.shape[1] + 2))
            self.right = Y.new_ones((len(Y), Y.shape[1] + 2))
        squared = torch_backend.squared_norms(Y).div_(self.dof)
        torch_backend.torch().mul(Y, -2 / self.dof, out=self.left[:, :-2])
        self.left[:, -2] = squared + 1
        self.right[:, :-2] = Y
        self.right[:, -1] = squared
        torch_backend.torch().mm(self.left, self.right.T, out=self.inverse)
        self.inverse.reciprocal_().fill_diagonal_(0)
        return self.inverse if self.dof == 1 else self.inverse ** ((self.dof + 1) / 2)
