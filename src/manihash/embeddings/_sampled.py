"""The loss of a descent at a cost linear in the number of points, for thousands of them.

Attraction is summed over near pairs alone, repulsion over some points that are drawn anew in each round. Both
are exact below ``MANY`` points, where all pairs are few enough (``_exact``).
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.weights import MANY
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.embeddings._descent import Each, Loss
from manihash.embeddings._perplexity import conditional_probabilities, near_probabilities
from manihash.types import Floats, Ints

_PACE_POINTS = 2_000  # for so many points the learning rate is that of all pairs; it grows with them
_PIECE = 64  # points whose near pairs are looked at together
_CHUNK = 1_000  # rows that one thread works on; what a row gets does not depend on the number of threads


class Kernel(Protocol):
    """What a method says about squared distances E of embedded points; E is inf for a point and itself."""

    def pull(self, E: Floats) -> Floats | float:
        """By what the attraction P of near pairs is multiplied in the gradient; may overwrite E."""

    def push(self, E: Floats) -> tuple[Floats, Floats]:
        """Repulsion of pairs (b, s), and the sums (b,) of the kernel that divides it; may overwrite E."""

    def share(self, total: float, s: int) -> float:
        """What the repulsion is multiplied by, given the sum of the kernel over the pairs drawn."""

    def loss(self, P: Floats, E: Floats, row_of: Ints, totals: Floats) -> float:
        """The loss of near pairs, given the sum of the kernel over all pairs, for each point."""


class SampledOptions(Protocol):
    """The options of an embedding that this rests on."""

    n_components: int
    perplexity: float
    sampled: int | None
    random_state: Any


def neighbor_loss(
    options: SampledOptions,
    B: Floats,
    exact: Callable[[Floats], Loss],
    sampled: Callable[[sp.csr_array, int, int], Loss] | None,
    *,
    symmetric: bool = True,
) -> Loss:
    """Return the loss of an embedding of points B that preserves neighbor probabilities P, which sum to 1.

    It is ``exact(P)`` over all pairs or, for many points, ``sampled(P, s, seed)`` over sampled pairs, unless
    ``sampled`` is None.
    """
    m, dims = len(B), max(20, options.n_components)
    few = m <= MANY or options.sampled is None or sampled is None
    P: Any = (conditional_probabilities if few else near_probabilities)(B, options.perplexity, dims)
    P = backend(B).copy_like((P + P.T) / (2 * m) if symmetric else P / m, B)
    if few or sampled is None:
        return exact(P)
    s = min(checks.positive_int(options.sampled, "sampled"), m)
    return sampled(sp.csr_array(P), s, checks.seed(checks.generator(options.random_state)))


class SampledLoss:
    """Attraction by P (m, m), sparse, and repulsion from ``s`` points drawn in each round."""

    def __init__(self, kernel: Kernel, P: sp.csr_array, s: int, seed: int) -> None:
        m = P.shape[0]
        P.eliminate_zeros()  # what underflowed: such pairs are not near, and 0 log 0 is 0
        self.kernel, self.P, self.s, self.pace = kernel, P, s, m / _PACE_POINTS
        self.rng = np.random.default_rng(seed)
        self.both = sp.csr_array((P + P.T) / 2).astype(P.dtype)
        self.chunks = [np.arange(a, min(a + _CHUNK, m)) for a in range(0, m, _CHUNK)]
        self.near = [Near(self.both, chunk) for chunk in self.chunks]
        self.scratch = [np.empty((len(chunk), s), P.dtype) for chunk in self.chunks]

    def gradient(self, Y: Floats, exaggeration: float, each: Each = map) -> Floats:
        """Σ_j S_ij (y_i - y_j) for each point, estimated."""
        drawn = np.sort(self.rng.choice(len(Y), self.s, replace=False))
        forces = partial(self._forces, self._around(Y, drawn))
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
        """The loss of the near pairs, its normalizer over all pairs."""
        totals_of = partial(self._totals, Around(Y, np.arange(len(Y))))
        totals = np.concatenate(list(each(totals_of, range(len(self.chunks)))))
        row_of = np.repeat(np.arange(len(Y)), np.diff(self.P.indptr))
        E = _pair_distances(Y, row_of, self.P.indices)
        return self.kernel.loss(self.P.data.astype(np.float64), E.astype(np.float64), row_of, totals)

    def _around(self, Y: Floats, drawn: Ints) -> "Around":
        """What the chunks of a round share."""
        return Around(Y, drawn)

    def _forces(self, around: "Around", i: int) -> tuple[Floats, Floats, float]:
        """Σ S_ij [y_j, 1] of attraction and repulsion for a chunk of points, and the sum of its kernel."""
        pull = self.near[i].pull(self.kernel, around)
        F, sums = self.kernel.push(around.distances(self.chunks[i], out=self.scratch[i]))
        return pull, F @ around.Y1[around.drawn], float(sums.sum(dtype=np.float64))

    def _totals(self, around: "Around", i: int) -> Floats:
        return self.kernel.push(around.distances(self.chunks[i]))[1].astype(np.float64)


class Around:
    """The embedded points Y of a round and those drawn, made ready for distances by one product."""

    def __init__(self, Y: Floats, drawn: Ints) -> None:
        ones, squared = np.ones((len(Y), 1), Y.dtype), numpy_backend.squared_norms(Y)[:, None]
        self.Y1, self.drawn = np.hstack([Y, ones]), drawn
        self.left, self.right = np.hstack([-2 * Y, squared, ones]), np.hstack([self.Y1, squared])

    def distances(self, rows: Ints, out: Floats | None = None) -> Floats:
        """|y_i - y_j|² of some points, in ascending order, and those drawn; inf for a point and itself."""
        E = np.matmul(self.left[rows], self.right[self.drawn].T, out=out)
        np.maximum(E, 0, out=E)
        _, at, own = np.intersect1d(rows, self.drawn, assume_unique=True, return_indices=True)
        E[at, own] = np.inf
        return E


class Near:
    """The near pairs of some points: rows of a sparse symmetric matrix P.

    A few points at a time are set against all that are near to any of them, by one product: in the order of
    cells, as ``LargeBase`` has them, these have many neighbors in common.
    """

    def __init__(self, P: sp.csr_array, rows: Ints) -> None:
        self.P = P[rows]
        self.pieces = []
        for a in range(0, len(rows), _PIECE):
            part = self.P[a : a + _PIECE]
            columns = np.unique(part.indices).astype(np.intp)
            self.pieces.append((rows[a : a + _PIECE], columns, part[:, columns].toarray()))
        self.scratch = np.empty(max(dense.size for _, _, dense in self.pieces), P.dtype)

    def distances(self, around: Around) -> Iterator[tuple[Floats, Floats, Ints]]:
        """For some points after the other: |y_i - y_j|², P_ij, and the points j; the next overwrites them."""
        for rows, columns, P in self.pieces:
            E = self.scratch[: P.size].reshape(P.shape)
            np.matmul(around.left[rows], around.right[columns].T, out=E)
            yield np.maximum(E, 0, out=E), P, columns

    def pull(self, kernel: Kernel, around: Around) -> Floats:
        """Σ_j P_ij pull_ij [y_j, 1] for each of the points."""
        pulls = []
        for E, P, columns in self.distances(around):
            np.multiply(P, kernel.pull(E), out=E)
            pulls.append(E @ around.Y1[columns])
        return np.concatenate(pulls)


def _pair_distances(Y: Floats, i: Ints, j: Any) -> Floats:
    parts = [
        numpy_backend.squared_norms(Y[i[a : a + 2**16]] - Y[j[a : a + 2**16]])
        for a in range(0, len(i), 2**16)
    ]
    return np.concatenate(parts)
