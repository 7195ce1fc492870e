"""The gradient descent that t-SNE, SNE and elastic embedding share, in numpy and in torch.

All three gradients have the form ∂C/∂y_i = Σ_j S_ij (y_i - y_j) with a symmetric S that depends on the
squared distances of the embedded points. A method provides the gradient and its loss: over all pairs
(``_exact``) or, for thousands of points, over sampled pairs (``_sampled``).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from manihash import checks
from manihash.compute import backend
from manihash.compute.threads import single_blas_thread, thread_map
from manihash.progress import advance
from manihash.rotation import random_rotation
from manihash.types import Floats

_log = logging.getLogger(__name__)

EXAGGERATED = 100
MOMENTUM_SWITCH = 250
REPORT_EVERY = 50
RATE_POINTS = 400
_DECAY, _DECAY_STEPS = 0.3, 12  # the last part of an annealed descent, and its steps
START = 1e-4  # standard deviation of the initial coordinates

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


class Options(Protocol):
    """The parameters that the three embeddings share."""

    n_components: int
    n_iter: int
    learning_rate: float | None
    n_rotations: int
    random_state: Any


class Loss(Protocol):
    """A loss to minimize: its gradient at Y (m, r), and its value.

    ``pace`` multiplies the learning rate. It is 1 for a loss over all pairs; for a sampled loss, and for many
    points on a GPU, it grows with the number of points, so that few iterations are enough.
    """

    pace: float

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """Return the gradient (m, r), attraction times ``exaggeration``; ``each`` is a parallel map."""

    def value(self, Y: Floats, each: Each = map) -> float:
        """Return the loss at Y."""


@dataclass(frozen=True)
class Schedule:
    """Attraction is multiplied by ``early`` in the first ``exaggerated`` iterations, then by ``late``.

    Momentum is 0.5, from iteration ``switch`` on 0.8. An ``annealed`` descent has momentum 0.9 and a quarter
    of its iterations exaggerated, and its learning rate falls to zero in its last part. This averages out the
    noise of sampled repulsion: clusters become dense in few iterations.
    """

    early: float = 1.0
    late: float = 1.0
    exaggerated: int = EXAGGERATED
    switch: int = MOMENTUM_SWITCH
    annealed: bool = False

    def in_proportion(self, n_iter: int) -> "Schedule":
        """Return the schedule for few iterations: a quarter exaggerated, a third with the lower momentum."""
        if self.annealed:
            return replace(self, exaggerated=n_iter // 4, switch=0)
        return replace(
            self, exaggerated=min(self.exaggerated, n_iter // 4), switch=min(self.switch, n_iter // 3)
        )

    def phases(self, n_iter: int) -> Iterator[tuple[range, float, float, float]]:
        """Yield ranges of iterations with the same exaggeration, momentum and factor of the learning rate."""
        first = n_iter - int(_DECAY * n_iter) if self.annealed else n_iter
        steps = np.linspace(first, n_iter, _DECAY_STEPS + 1).astype(int).tolist()
        cuts = sorted({0, min(self.exaggerated, n_iter), min(self.switch, n_iter), *steps})
        for start, stop in pairwise(cuts):
            exaggeration = self.early if start < self.exaggerated else self.late
            momentum = 0.9 if self.annealed else 0.5 if start < self.switch else 0.8
            rate = 1.0 if start < first else (n_iter - start) / (n_iter - first)
            yield range(start, stop), exaggeration, momentum, rate

    def rate(self, pace: float) -> float:
        """Return the factor of the learning rate for a loss with this ``pace``."""
        return max(1.0, pace / 2) if self.annealed else pace


PLAIN = Schedule()


@dataclass(frozen=True)
class Start:
    """Where a descent starts: coordinates Y (m, r), of which the first ``fixed`` points do not move.

    ``warm`` skips the exaggerated phase, which would tear a finished embedding apart.
    """

    Y: Floats
    fixed: int = 0
    warm: bool = False


def minimize(
    options: Options,
    loss: Loss,
    B: Floats,
    *,
    rate: float,
    name: str,
    schedule: Schedule = PLAIN,
    start: Start | None = None,
) -> tuple[Floats, float]:
    """Return the embedding Y (m, r) of points B at the end of the descent, rotated, and its loss.

    ``rate`` is the default learning rate for 400 points or more; for fewer points it is proportionally
    smaller, since the gradient of a point grows as 1 / m. With a ``start``, the result is not rotated.
    """
    n_iter = checks.positive_int(options.n_iter, "n_iter")
    learning_rate = rate * min(1.0, len(B) / RATE_POINTS) * schedule.rate(loss.pace)
    schedule = schedule.in_proportion(n_iter) if schedule.annealed or loss.pace != 1 else schedule
    if options.learning_rate is not None:
        learning_rate = checks.positive_number(options.learning_rate, "learning_rate")
    n_rotations = checks.positive_int(options.n_rotations, "n_rotations", least=0)
    rng = checks.generator(options.random_state)
    first = rng.normal(0, START, (len(B), options.n_components)) if start is None else start.Y
    Y, fixed = backend(B).copy_like(first, B), 0 if start is None else start.fixed
    if start is not None and start.warm:
        schedule = replace(schedule, early=schedule.late)
    value = descend(
        loss, Y, n_iter=n_iter, learning_rate=learning_rate, schedule=schedule, name=name, fixed=fixed
    )
    return (rotated(Y, n_rotations, rng) if start is None else Y), value


def descend(
    loss: Loss,
    Y: Floats,
    *,
    n_iter: int,
    learning_rate: float,
    schedule: Schedule = PLAIN,
    name: str,
    fixed: int = 0,
) -> float:
    """Move Y (m, r) by gradient descent with momentum and gains, in place; return the final loss.

    The first ``fixed`` points do not move; if there are any, coordinates are not centered.

    As in the authors' t-SNE, momentum is 0.5, from iteration 250 on 0.8; each coordinate has a gain, x0.8 if
    the velocity points uphill, +0.2 if not, at least 0.01; attraction is exaggerated for the first 100
    iterations; coordinates stay centered.
    """
    xp = backend(Y)
    velocity, gains = xp.zeros_like(Y), xp.ones_like(Y)
    with thread_map() as each:
        for iterations, exaggeration, momentum, rate in schedule.phases(n_iter):
            gradient = partial(loss.gradient, Y, exaggeration, each)
            step = partial(_step, gradient, Y, velocity, gains, momentum, rate * learning_rate, fixed)
            repeat = xp.replayed(step, Y)
            for t in iterations:
                repeat()
                if (t + 1) % REPORT_EVERY == 0:
                    xp.wait(Y)
                    advance(name, t + 1, n_iter)
        value = loss.value(Y, each)
    if not bool(xp.isfinite(Y).all()):
        raise ValueError(f"{name} diverged: lower its learning_rate (it is {learning_rate:g})")
    _log.info("%s: loss %.4f after %d iterations", name, value, n_iter)
    return value


def _step(
    gradient_at: Callable[[], Floats],
    Y: Floats,
    velocity: Floats,
    gains: Floats,
    momentum: float,
    learning_rate: float,
    fixed: int,
) -> None:
    """Update coordinates, velocity and gains in place, except those of the first points: one iteration."""
    xp, gradient = backend(Y), gradient_at()
    for start in range(fixed, len(Y), xp.CACHE_ROWS):
        part = slice(start, start + xp.CACHE_ROWS)
        v, gain, g = velocity[part], gains[part], gradient[part]
        uphill = g * v > 0
        xp.clip(xp.where(uphill, gain * 0.8, gain + 0.2), 0.01, None, out=gain)
        v *= momentum
        xp.add_product(v, gain, g, -learning_rate)
    Y += velocity
    if not fixed:
        Y -= Y.mean(axis=0)


def rotated(Y: Floats, n_rotations: int, rng: np.random.Generator) -> Floats:
    """Return Y (m, r) rotated so that its signs S are nearly balanced and uncorrelated: SᵀS near m I.

    A loss of distances does not depend on rotations, but the signs do. Of ``n_rotations`` random rotations,
    the one with the least Σ (SᵀS)² is used; with none, Y is returned as it is.
    """
    xp = backend(Y)
    least, best = np.inf, Y
    with single_blas_thread():
        for _ in range(n_rotations):
            Z = Y @ xp.copy_like(random_rotation(Y.shape[1], rng), Y)
            S = xp.signs(Z)
            if (correlation := float(((S.T @ S) ** 2).sum())) < least:
                least, best = correlation, Z
    return best
