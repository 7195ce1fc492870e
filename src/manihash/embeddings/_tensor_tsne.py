"""Exact t-SNE of points in a torch tensor, where it lies: what ``tsne`` and its parts do in numpy."""

import logging
from itertools import pairwise
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import torch as torch_backend
from manihash.compute.cuda import replayed, wait
from manihash.compute.torch import Tensor
from manihash.embeddings import _descent
from manihash.embeddings._descent import Schedule
from manihash.embeddings._perplexity import check_perplexity
from manihash.progress import advance
from manihash.rotation import random_rotation

_log = logging.getLogger(__name__)

_BISECTIONS = 60
# Rows of the m x m matrix whose width is bisected at once, in numbers.
_BISECT_NUMBERS = 2**26
_RATE = 500
# Rotations tried at once, in numbers of the turned points.
_TURN_NUMBERS = 2**26


def tensor_tsne(options: Any, B: Tensor, dof: float, schedule: Schedule) -> tuple[Tensor, float]:
    """The embedding (m, r) of points B (m, d), and its loss, as ``TSNE`` with these options gives them."""
    n_iter = checks.positive_int(options.n_iter, "n_iter")
    rate = _RATE * min(1.0, len(B) / _descent.RATE_POINTS)
    if options.learning_rate is not None:
        rate = checks.positive_number(options.learning_rate, "learning_rate")
    turns = checks.positive_int(options.turns, "turns", least=0)
    rng = checks.generator(options.random_state)
    Y = torch_backend.on(B.device, rng.normal(0, _descent.START, (len(B), options.n_components))).to(B.dtype)
    try:
        P = joint_probabilities(B, options.perplexity, max(20, options.n_components))
        descent = _Descent(P, Y, dof, rate)
        descent.run(n_iter, schedule)
        loss = descent.loss()
    except torch_backend.out_of_memory() as error:
        need = 20 * len(B) ** 2 / 2**30
        raise MemoryError(
            f"exact t-SNE of {len(B)} points needs some {need:.1f} GiB of {B.device}: take a smaller base set"
        ) from error
    if not np.isfinite(loss) or not bool(Y.isfinite().all()):
        raise ValueError(f"t-SNE diverged: lower its learning_rate (it is {rate:g})")
    _log.info("t-SNE on %s: loss %.4f after %d rounds", B.device, loss, n_iter)
    return turned(Y, turns, rng), loss


class _Descent:
    """Rounds of ``_descent.descend`` on KL(P || Q), in place: on a card a round is recorded once."""

    def __init__(self, P: Tensor, Y: Tensor, dof: float, rate: float) -> None:
        (m, r), self.P, self.Y, self.dof, self.rate = Y.shape, P, Y, dof, rate
        self.velocity, self.gains = Y.new_zeros(Y.shape), Y.new_ones(Y.shape)
        self.left, self.right = Y.new_ones((m, r + 2)), Y.new_ones((m, r + 2))
        self.inverse, self.S = Y.new_empty((m, m)), Y.new_empty((m, m))

    def run(self, n_iter: int, schedule: Schedule) -> None:
        """All rounds, in stretches that are alike."""
        P, cuts = self.P, sorted({0, min(schedule.exaggerated, n_iter), min(schedule.switch, n_iter), n_iter})
        for start, stop in pairwise(cuts):
            self.P = P * (schedule.early if start < schedule.exaggerated else schedule.late)
            self._repeat(0.5 if start < schedule.switch else 0.8, range(start, stop), n_iter)
        self.P = P

    def loss(self) -> float:
        """The divergence."""
        K = self._kernels()
        total, loss = K.sum(dtype=torch_backend.torch().float64), 0.0
        for P, kernel in zip(self.P.split(1024), K.split(1024), strict=True):
            held = P > 0
            p = P[held].double()
            loss += float((p * (p * total / kernel[held]).log()).sum())
        return loss

    def _repeat(self, momentum: float, rounds: range, n_iter: int) -> None:
        step = replayed(lambda: self._round(momentum), self.Y.device)
        for t in rounds:
            step()
            if (t + 1) % _descent.REPORT_EVERY == 0:
                wait(self.Y.device)
                advance("t-SNE", t + 1, n_iter)

    def _round(self, momentum: float) -> None:
        gradient = self._gradient()
        uphill = gradient * self.velocity > 0
        self.gains.copy_((self.gains * 0.8).where(uphill, self.gains + 0.2)).clamp_min_(0.01)
        self.velocity.mul_(momentum).addcmul_(self.gains, gradient, value=-self.rate)
        self.Y += self.velocity
        self.Y -= self.Y.mean(0)

    def _gradient(self) -> Tensor:
        """Σ_j S_ij (y_i - y_j), S = 2 (dof + 1) / dof (P - Q) / (1 + E / dof); the row sums with it."""
        K = self._kernels()
        torch_backend.torch().addcmul(self.P, K, 1 / K.sum(), value=-1, out=self.S)
        SY = self.S.mul_(self.inverse) @ self.right[:, :-1]  # [Y, 1]
        return (self.Y * SY[:, -1:]).sub_(SY[:, :-1]).mul_(2 * (self.dof + 1) / self.dof)

    def _kernels(self) -> Tensor:
        """(1 + E / dof)^-((dof + 1) / 2), zero on the diagonal; ``inverse`` has the power -1."""
        Y, squared = self.Y, torch_backend.squared_norms(self.Y).div_(self.dof)
        torch_backend.torch().mul(Y, -2 / self.dof, out=self.left[:, :-2])
        self.left[:, -2] = squared + 1
        self.right[:, :-2] = Y
        self.right[:, -1] = squared
        torch_backend.torch().mm(self.left, self.right.T, out=self.inverse)
        self.inverse.reciprocal_().fill_diagonal_(0)
        return self.inverse if self.dof == 1 else self.inverse ** ((self.dof + 1) / 2)


def joint_probabilities(B: Tensor, perplexity: float, dims: int) -> Tensor:
    """(p(j | i) + p(i | j)) / 2m (m, m), in the type of B."""
    m = len(B)
    check_perplexity(perplexity, m)
    Z = _principal_components(B.double(), min(dims, *B.shape))
    P = B.new_empty((m, m))
    rows = max(1, _BISECT_NUMBERS // m)
    for start in range(0, m, rows):
        E = torch_backend.squared_distances(Z[start : start + rows], Z)
        own = torch_backend.torch().arange(len(E), device=E.device)
        E[own, start + own] = np.inf
        P[start : start + rows] = _bisect(E, float(np.log(perplexity))).to(B.dtype)
    P = P + P.T
    return P.div_(2 * m)


def _principal_components(B: Tensor, r: int) -> Tensor:
    """The first r principal components; their signs do not matter to distances."""
    centered = B - B.mean(0)
    if r == B.shape[1]:
        return centered
    return centered @ torch_backend.torch().linalg.eigh(centered.T @ centered).eigenvectors[:, -r:]


def _bisect(E: Tensor, entropy: float) -> Tensor:
    """Each row's exp(-beta E) normalized, beta bisected on its entropy; E is inf to itself."""
    E = E - E.amin(1, keepdim=True)
    finite = E.where(E.isfinite(), 0)
    scale = finite.sum(1) / (E.shape[1] - 1)
    beta = 1 / scale.where(scale > 0, 1)
    low, high = beta.new_zeros(beta.shape), beta.new_full(beta.shape, np.inf)
    for _ in range(_BISECTIONS):
        P = (-beta[:, None] * E).exp_()
        total = P.sum(1)
        too_flat = total.log() + beta * P.mul_(finite).sum(1) / total > entropy
        low, high = beta.where(too_flat, low), high.where(too_flat, beta)
        beta = (beta * 2).clamp_max(1e300).where(high.isinf(), (low + high.clamp_max(1e300)) / 2)
    P = (-beta[:, None] * E).exp_()
    return P / P.sum(1, keepdim=True)


def turned(Y: Tensor, turns: int, rng: np.random.Generator) -> Tensor:
    """As ``_descent.turned``: of some random rotations the one whose signs are nearest to uncorrelated."""
    m, r = Y.shape
    least, best = np.inf, Y
    at_once = max(1, _TURN_NUMBERS // (m * r))
    while turns > 0:
        R = np.stack([random_rotation(r, rng) for _ in range(min(turns, at_once))])
        turns -= len(R)
        Z = Y @ torch_backend.on(Y.device, R).to(Y.dtype)
        S = torch_backend.signs(Z)
        correlation = (S.transpose(1, 2) @ S).square_().sum((1, 2))
        value, place = correlation.min(0)
        if float(value) < least:
            least, best = float(value), Z[place]
    return best
