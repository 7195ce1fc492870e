"""The descent that t-SNE, SNE and elastic embedding share.

All three gradients have the form ∂C/∂y_i = Σ_j S_ij (y_i - y_j) with a symmetric S that depends on the
squared distances of the embedded points: a method gives S and its loss (see ``_exact``), the rest is here.
For thousands of points the sum is not taken over all pairs: see ``_sampled``.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from manihash import checks
from manihash.compute.threads import single_blas_thread, thread_map
from manihash.progress import advance
from manihash.rotation import random_rotation
from manihash.types import Floats

_log = logging.getLogger(__name__)

EXAGGERATED = 100
MOMENTUM_SWITCH = 250
REPORT_EVERY = 50
RATE_POINTS = 400
STEP_ROWS = 1_000  # what a core's cache holds of the descent's arrays
START = 1e-4  # deviation of the coordinates that a descent starts from

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


class Options(Protocol):
    """The options that the three embeddings share."""

    n_components: int
    n_iter: int
    learning_rate: float | None
    turns: int
    random_state: Any


class Loss(Protocol):
    """What a descent goes down: its gradient at Y (m, r), and its value.

    ``pace`` is what the learning rate is multiplied by; where it is not 1, points are many and rounds few.
    """

    pace: float

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """(m, r), attraction multiplied by ``exaggeration``; ``each`` is ``map``, perhaps on threads."""

    def value(self, Y: Floats, each: Each = map) -> float:
        """The loss at Y."""


@dataclass(frozen=True)
class Schedule:
    """Attraction is multiplied by ``early`` in the first ``exaggerated`` rounds, then by ``late``.

    Momentum is 0.5, from round ``switch`` on 0.8.
    """

    early: float = 1.0
    late: float = 1.0
    exaggerated: int = EXAGGERATED
    switch: int = MOMENTUM_SWITCH

    def in_proportion(self, n_iter: int) -> "Schedule":
        """The same for a descent of few rounds: a quarter of them exaggerated, a third with less momentum."""
        return replace(
            self, exaggerated=min(self.exaggerated, n_iter // 4), switch=min(self.switch, n_iter // 3)
        )


PLAIN = Schedule()


def minimize(
    options: Options, loss: Loss, B: Floats, *, rate: float, name: str, schedule: Schedule = PLAIN
) -> tuple[Floats, float]:
    """The embedding Y (m, r) of points B that the descent ends at, well turned, and its loss.

    ``rate`` is the learning rate where the options leave it open: for 400 points or more, and in proportion
    for fewer, since the gradient of a point grows as 1 / m.
    """
    n_iter = checks.positive_int(options.n_iter, "n_iter")
    learning_rate = rate * min(1.0, len(B) / RATE_POINTS) * loss.pace
    schedule = schedule.in_proportion(n_iter) if loss.pace != 1 else schedule
    if options.learning_rate is not None:
        learning_rate = checks.positive_number(options.learning_rate, "learning_rate")
    turns = checks.positive_int(options.turns, "turns", least=0)
    rng = checks.generator(options.random_state)
    Y = rng.normal(0, START, (len(B), options.n_components)).astype(B.dtype)
    Y, value = descend(loss, Y, n_iter=n_iter, learning_rate=learning_rate, schedule=schedule, name=name)
    return turned(Y, turns, rng), value


def descend(
    loss: Loss, Y: Floats, *, n_iter: int, learning_rate: float, schedule: Schedule = PLAIN, name: str
) -> tuple[Floats, float]:
    """Gradient descent with momentum and gains from Y (m, r): the final centered coordinates and their loss.

    As in the authors' t-SNE: momentum 0.5, from round 250 on 0.8; a gain for each coordinate, x0.8 where
    the velocity points uphill, +0.2 where it does not, never below 0.01; attraction exaggerated for the first
    100 rounds.
    """
    velocity, gains = np.zeros_like(Y), np.ones_like(Y)
    parts = [slice(start, start + STEP_ROWS) for start in range(0, len(Y), STEP_ROWS)]
    with thread_map() as each:
        for t in range(n_iter):
            exaggeration = schedule.early if t < schedule.exaggerated else schedule.late
            gradient = loss.gradient(Y, exaggeration, each)
            momentum = 0.5 if t < schedule.switch else 0.8
            for part in parts:
                _step(velocity[part], gains[part], gradient[part], momentum, learning_rate)
            Y = Y + velocity
            Y -= Y.mean(axis=0)
            if (t + 1) % REPORT_EVERY == 0:
                advance(name, t + 1, n_iter)
        value = loss.value(Y, each)
    if not np.isfinite(Y).all():
        raise ValueError(f"{name} diverged: lower its learning_rate (it is {learning_rate:g})")
    _log.info("%s: loss %.4f after %d rounds", name, value, n_iter)
    return Y, value


def _step(velocity: Floats, gains: Floats, gradient: Floats, momentum: float, learning_rate: float) -> None:
    """Gains and velocity of some points, in place."""
    uphill = gradient * velocity > 0
    less, more = gains.dtype.type(0.8), gains.dtype.type(0.2)
    np.maximum(np.where(uphill, gains * less, gains + more), 0.01, out=gains)
    velocity *= momentum
    velocity -= learning_rate * gains * gradient


def turned(Y: Floats, turns: int, rng: np.random.Generator) -> Floats:
    """Y (m, r) rotated so that its signs are close to balanced and uncorrelated: SᵀS near m I, S = sign(Y).

    A loss of distances does not see rotations, but the sign does. Of ``turns`` random rotations the one with
    the least Σ (SᵀS)² is taken; none leaves Y as the descent did.
    """
    least, best = np.inf, Y
    with single_blas_thread():
        for _ in range(turns):
            Z = Y @ random_rotation(Y.shape[1], rng).astype(Y.dtype)
            S = np.where(Z > 0, Y.dtype.type(1), Y.dtype.type(-1))
            if (correlation := float(((S.T @ S) ** 2).sum())) < least:
                least, best = correlation, Z
    return best
