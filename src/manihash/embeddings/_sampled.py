"""The loss of a descent at a cost linear in the number of points, for thousands of points.

Attraction is summed over near pairs only, repulsion over points that are sampled in each iteration. Up to
``MANY`` points, the loss over all pairs is used instead (``_exact``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.affinity import share_of_rows
from manihash.base.graph import MANY
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.embeddings._descent import Each, Loss
from manihash.embeddings._perplexity import conditional_probabilities, near_probabilities
from manihash.types import Floats, Ints

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
