"""The gradient descent that t-SNE, SNE and elastic embedding share, in numpy and in torch.

All three gradients have the form ∂C/∂y_i = Σ_j S_ij (y_i - y_j) with a symmetric S that depends on the
squared distances of the embedded points. A method provides the gradient and its loss: over all pairs
(``ExactLoss``) or, for more than ``MANY`` points, over sampled pairs (``SampledLoss``).

Over all pairs, the (m, m) matrix is processed in chunks of rows that fit into a core's cache. Their size
depends on m only, so the number of threads does not change the result. The sampled loss has a cost linear in
the number of points: attraction is summed over near pairs only, repulsion over points that are sampled in
each iteration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.affinity import share_of_rows
from manihash.base.graph import MANY
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread, thread_map
from manihash.embeddings._perplexity import conditional_probabilities, near_probabilities
from manihash.progress import advance
from manihash.rotation import random_rotation
from manihash.types import Floats, Ints

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

    def in_proportion(self, n_iter: int) -> Schedule:
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


_CHUNK_NUMBERS = 2**18
# For fewer points, an iteration ends before other threads have started.
_THREADED = 500


class Objective(Protocol):
    """A method's loss, as a function of the squared distances E (m, m) of the embedded points.

    S is ``factor`` times the result of ``forces``. E is inf for a point and itself.
    """

    factor: float

    def kernel(self, E: Floats) -> Floats:
        """Turn rows E (b, m) into rows of the kernel K; return the sums (b,) that normalize them."""

    def forces(self, K: Floats, part: slice, sums: Floats, share: float) -> Floats:
        """Return rows (b, m) of attraction minus ``share`` times repulsion; ``sums`` is (m,)."""

    def loss(self, E: Floats) -> float:
        """Return the loss; may overwrite E."""


class ExactLoss:
    """An objective over all pairs of points."""

    pace = 1.0

    def __init__(self, objective: Objective, m: int) -> None:
        self.objective, self.threaded = objective, m >= _THREADED
        chunks = 2 * -(-m * m // (2 * _CHUNK_NUMBERS))
        rows = -(-m // chunks)
        self.parts = [slice(a, min(a + rows, m)) for a in range(0, m, rows)]
        self.pairs: _Pairs | None = None

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """Return Σ_j S_ij (y_i - y_j), (m, r)."""
        each = each if self.threaded else map
        pairs = self._pairs(Y)
        sums = np.concatenate(list(each(partial(self._kernel, pairs), self.parts)))
        of_part = partial(self._gradient, pairs, sums, 1 / exaggeration)
        gradient = np.concatenate(list(each(of_part, self.parts)))
        gradient *= self.objective.factor * exaggeration
        return gradient

    def value(self, Y: Floats, each: Each = map) -> float:
        """Return the loss at Y."""
        pairs = self._pairs(Y)
        for part in self.parts:
            pairs.distances(part)
        return self.objective.loss(pairs.E)

    def _pairs(self, Y: Floats) -> _Pairs:
        self.pairs = self.pairs or _Pairs(Y)
        self.pairs.place(Y)
        return self.pairs

    def _kernel(self, pairs: _Pairs, part: slice) -> Floats:
        return self.objective.kernel(pairs.distances(part))

    def _gradient(self, pairs: _Pairs, sums: Floats, share: float, part: slice) -> Floats:
        S = self.objective.forces(pairs.E, part, sums, share)
        gradient = pairs.Y[part] * row_sums(S)[:, None]
        gradient -= S @ pairs.Y
        return gradient


class _Pairs:
    """|y_i - y_j|² for all pairs by one product of [-2Y, |y|², 1] and [Y, 1, |y|²], in one matrix E."""

    def __init__(self, Y: Floats) -> None:
        m, r = Y.shape
        self.left, self.right = np.ones((2, m, r + 2), Y.dtype)
        self.E = np.empty((m, m), Y.dtype)

    def place(self, Y: Floats) -> None:
        """Set the points Y (m, r)."""
        squared = numpy_backend.squared_norms(Y)
        np.multiply(Y, -2, out=self.left[:, :-2])
        self.left[:, -2] = squared
        self.right[:, :-2] = Y
        self.right[:, -1] = squared
        self.Y = Y

    def distances(self, part: slice) -> Floats:
        """Return rows of E, inf for a point and itself."""
        E = np.matmul(self.left[part], self.right.T, out=self.E[part])
        E.reshape(-1)[part.start :: len(self.E) + 1] = np.inf
        return E


def row_sums(S: Floats) -> Floats:
    """Return the sum of each row (b,), by BLAS, which is five times faster than numpy here."""
    return S @ np.ones(S.shape[1], S.dtype)


# With affinities from rows, repulsion is sampled if there are more points than this per sampled point.
_SAMPLED_SHARE = 4
PACE_POINTS = 2_000  # the learning rate grows as the number of points divided by this
_PIECE = 64  # points whose near pairs are computed together
_CHUNK = 1_000  # rows per task; results do not depend on the number of threads


def pace_of(m: int) -> float:
    """Return the pace of a loss over all pairs of m points on a device: larger for many points."""
    return max(1.0, m / PACE_POINTS)


class Kernel(Protocol):
    """A method as a function of squared distances E of embedded points; E is inf for a point and itself."""

    def pull(self, E: Floats) -> Floats | float:
        """Return the factor of the attraction P of near pairs in the gradient; may overwrite E."""

    def push(self, E: Floats) -> tuple[Floats, Floats]:
        """Return the repulsion of pairs (b, s) and the row sums (b,) of the kernel; may overwrite E."""

    def share(self, total: float, s: int) -> float:
        """Return the factor of the repulsion, given the sum of the kernel over the sampled pairs."""

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        """Return the loss of near pairs, given the sum of the kernel over all pairs, for each point."""


class SampledOptions(Protocol):
    """The parameters of an embedding that are used here."""

    n_components: int
    perplexity: float
    sampled: int | None
    random_state: Any
    affinity: Any


def neighbor_loss(
    options: SampledOptions,
    B: Floats,
    exact: Callable[[Floats], Loss],
    sampled: Callable[[sp.csr_array, int, int], Loss] | None,
    *,
    symmetric: bool = True,
    affinities: sp.csr_array | None = None,
) -> Loss:
    """Return the loss of an embedding of points B that preserves neighbor probabilities P, which sum to 1.

    It is ``exact(P)`` over all pairs or, for many points, ``sampled(P, s, seed)`` over sampled pairs, unless
    ``sampled`` is None.
    """
    m = len(B)
    most = MANY if affinities is None else _SAMPLED_SHARE * (options.sampled or 0)
    few = m <= most or options.sampled is None or sampled is None
    P = _affinities(options, B, few, symmetric, affinities)
    if few or sampled is None:
        return exact(P)
    s = min(checks.positive_int(options.sampled, "sampled"), m)
    return sampled(sp.csr_array(P), s, checks.seed(checks.generator(options.random_state)))


def _affinities(
    options: SampledOptions, B: Floats, few: bool, symmetric: bool, from_rows: sp.csr_array | None
) -> Any:
    """Return P (m, m) from the points, from rows, or the mean of both by the share of the rows."""
    xp = backend(B)
    if from_rows is None:
        return xp.copy_like(_probabilities(options, B, few, symmetric, max(20, options.n_components)), B)
    P = _scaled(from_rows, symmetric)
    P = xp.copy_like(P.toarray() if few else P, B)
    share = share_of_rows(options.affinity)
    if share == 1:
        return P
    own = xp.copy_like(_probabilities(options, B, few, symmetric, B.shape[1], at_most=len(B) / 2), B)
    return share * P + (1 - share) * own


def _probabilities(
    options: SampledOptions, B: Floats, few: bool, symmetric: bool, dims: int, at_most: float | None = None
) -> Any:
    """Return P (m, m) of the given perplexity or ``at_most``, dense for few points and otherwise sparse."""
    m, perplexity = len(B), options.perplexity
    if at_most is not None:
        perplexity = min(checks.positive_number(perplexity, "perplexity"), at_most)
    P: Any = (conditional_probabilities if few else near_probabilities)(B, perplexity, dims)
    return (P + P.T) / (2 * m) if symmetric else P / m


def _scaled(P: sp.csr_array, symmetric: bool) -> sp.csr_array:
    """Return affinities with the sum 1; if not symmetric, each row sums to 1 / m."""
    if symmetric:
        return sp.csr_array(P / P.sum())
    return sp.csr_array(sp.diags_array(1 / (P.shape[0] * np.asarray(P.sum(axis=1)).ravel())) @ P)


class SampledLoss:
    """Attraction by a sparse P (m, m), and repulsion from ``s`` points sampled in each iteration."""

    def __init__(self, kernel: Kernel, P: sp.csr_array, s: int, seed: int) -> None:
        m = P.shape[0]
        P.eliminate_zeros()  # pairs whose probability underflowed are not near, and 0 log 0 is 0
        self.kernel, self.P, self.s, self.pace = kernel, P, s, m / PACE_POINTS
        self.rng = np.random.default_rng(seed)
        self.both = sp.csr_array((P + P.T) / 2).astype(P.dtype)
        self.chunks = [np.arange(a, min(a + _CHUNK, m)) for a in range(0, m, _CHUNK)]
        self.near = [NearPairs(self.both, chunk) for chunk in self.chunks]
        self.scratch = [np.empty((len(chunk), s), P.dtype) for chunk in self.chunks]

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """Return an estimate of Σ_j S_ij (y_i - y_j), (m, r)."""
        drawn = np.sort(self.rng.choice(len(Y), self.s, replace=False))
        forces = partial(self._forces, self._points(Y, drawn))
        pulls, pushes, totals = zip(*each(forces, range(len(self.chunks))), strict=True)
        share = self.kernel.share(sum(totals), self.s)
        gradient = np.empty_like(Y)
        for chunk, pull, push in zip(self.chunks, pulls, pushes, strict=True):
            push *= -share
            pull *= exaggeration
            push += pull
            gradient[chunk] = Y[chunk] * push[:, -1:] - push[:, :-1]
        return gradient

    def value(self, Y: Floats, each: Each = map) -> float:
        """Return the loss of the near pairs, normalized over all pairs."""
        totals_of = partial(self._totals, SampledPoints(Y, np.arange(len(Y))))
        totals = np.concatenate(list(each(totals_of, range(len(self.chunks)))))
        row_of = np.repeat(np.arange(len(Y)), np.diff(self.P.indptr))
        E = _pair_distances(Y, row_of, self.P.indices)
        return self.kernel.loss(self.P.data.astype(np.float64), E.astype(np.float64), row_of, totals)

    def _points(self, Y: Floats, drawn: Ints) -> SampledPoints:
        """Return the points that all chunks of an iteration use."""
        return SampledPoints(Y, drawn)

    def _forces(self, points: SampledPoints, i: int) -> tuple[Floats, Floats, float]:
        """Return Σ S_ij [y_j, 1] of attraction and of repulsion for chunk i, and the sum of its kernel."""
        pull = self.near[i].pull(self.kernel, points)
        F, sums = self.kernel.push(points.distances(self.chunks[i], out=self.scratch[i]))
        return pull, F @ points.Y1[points.drawn], float(sums.sum(dtype=np.float64))

    def _totals(self, points: SampledPoints, i: int) -> Floats:
        return self.kernel.push(points.distances(self.chunks[i]))[1].astype(np.float64)


class SampledPoints:
    """The embedded points Y of an iteration and the sampled ones, prepared for distances by one product."""

    def __init__(self, Y: Floats, drawn: Ints) -> None:
        ones, squared = np.ones((len(Y), 1), Y.dtype), numpy_backend.squared_norms(Y)[:, None]
        self.Y1, self.drawn = np.hstack([Y, ones]), drawn
        self.left, self.right = np.hstack([-2 * Y, squared, ones]), np.hstack([self.Y1, squared])

    def distances(self, rows: Ints, out: Floats | None = None) -> Floats:
        """Return |y_i - y_j|² of ascending rows i and the sampled points j; inf for a point and itself."""
        E = np.matmul(self.left[rows], self.right[self.drawn].T, out=out)
        np.maximum(E, 0, out=E)
        _, at, own = np.intersect1d(rows, self.drawn, assume_unique=True, return_indices=True)
        E[at, own] = np.inf
        return E


class NearPairs:
    """The near pairs of some points: rows of a sparse symmetric matrix P.

    A few points at a time are compared with all points near to any of them, by one product. In the order of
    ``LargeBase`` they have many neighbors in common.
    """

    def __init__(self, P: sp.csr_array, rows: Ints) -> None:
        self.P = P[rows]
        self.pieces = []
        for a in range(0, len(rows), _PIECE):
            part = self.P[a : a + _PIECE]
            columns = np.unique(part.indices).astype(np.intp)
            self.pieces.append((rows[a : a + _PIECE], columns, part[:, columns].toarray()))
        self.scratch = np.empty(max(dense.size for _, _, dense in self.pieces), P.dtype)

    def distances(self, points: SampledPoints) -> Iterator[tuple[Floats, Floats, Ints]]:
        """Yield |y_i - y_j|², P_ij and the points j, for a few points i at a time; the memory is reused."""
        for rows, columns, P in self.pieces:
            E = self.scratch[: P.size].reshape(P.shape)
            np.matmul(points.left[rows], points.right[columns].T, out=E)
            yield np.maximum(E, 0, out=E), P, columns

    def pull(self, kernel: Kernel, points: SampledPoints) -> Floats:
        """Return Σ_j P_ij pull_ij [y_j, 1] for each point."""
        pulls = []
        for E, P, columns in self.distances(points):
            np.multiply(P, kernel.pull(E), out=E)
            pulls.append(E @ points.Y1[columns])
        return np.concatenate(pulls)


def _pair_distances(Y: Floats, i: Ints, j: Any) -> Floats:
    parts = [
        numpy_backend.squared_norms(Y[i[a : a + 2**16]] - Y[j[a : a + 2**16]])
        for a in range(0, len(i), 2**16)
    ]
    return np.concatenate(parts)
