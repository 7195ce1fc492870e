"""t-SNE (van der Maaten and Hinton, 2008) in any number of dimensions: the paper's IMH-tSNE."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from manihash import checks
from manihash.base.affinity import MANY_GROUPS, number_of_groups
from manihash.compute import backend, numpy_backend, torch_backend
from manihash.compute.torch_pairs import StudentLoss
from manihash.embeddings._descent import (
    ExactLoss,
    Loss,
    SampledLoss,
    Schedule,
    minimize,
    neighbor_loss,
    pace_of,
    row_sums,
)
from manihash.embeddings._embedding import NeighborEmbedding, memory_of_pairs
from manihash.types import Floats, Ints


class TSNE(NeighborEmbedding):
    """T-distributed stochastic neighbor embedding, in any number of dimensions: the paper's IMH-tSNE.

    min KL(P || Q) = Σ p_ij log(p_ij / q_ij), where q_ij is proportional to (1 + |y_i - y_j|² / dof)^(-(dof +
    1) / 2). The kernel has one degree of freedom for any number of dimensions, as in the authors' code:
    scikit-learn's r - 1 loses two thirds of the mean average precision at 64 bits.

    Parameters
    ----------
    n_components : int, default=2
        Number of dimensions r of the embedding.
    perplexity : float, default=10.0
        Effective number of neighbors of each point, between 1 and m - 1.
    dof : float, default=1.0
        Degrees of freedom of the Student t kernel.
    n_iter : int, default=1000
        Number of iterations of gradient descent.
    learning_rate : float, default=None
        Step size. None uses 500 for 400 points or more, and proportionally less for fewer points.
    exaggeration : float or tuple of two, default=4.0
        Factor of the attraction in the first 100 iterations. The second number of a tuple is the factor in
        all later iterations: above 1 it makes clusters denser, and the divergence is no longer minimized.
        ``"auto"`` as the second number, with an ``affinity``, is 2.2 for points in 8 or more clear groups,
        falls to 1.1 for points without groups, and is 1 for points in many small groups (30 or more).
    n_rotations : int, default=0
        Number of random rotations to try. The loss does not depend on rotations of Y, but the signs of Y do:
        the rotation whose signs are closest to balanced and uncorrelated is kept. With 0, as in the paper, Y
        is not rotated.
    sampled : int, default=1024
        Number of points that repulsion is summed over in each iteration if there are more than 2,000 points;
        attraction is then summed over the 3 x perplexity nearest neighbors. None always sums over all pairs.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.
    affinity : GraphAffinity, default=None
        Where the affinities P come from. None computes them from the distances between the points, by
        ``perplexity``. ``GraphAffinity()`` computes them from all training rows, inside ``IMH`` and
        ``InductiveEmbedding``; on its own, the embedding takes the points themselves as training rows.
    annealed : bool, default=False
        Whether to use a momentum of 0.9 and let the learning rate fall to zero in the last part of the
        descent, instead of the authors' schedule. With sampled repulsion, clusters become denser in fewer
        iterations.

    Attributes
    ----------
    embedding_ : ndarray of shape (m, r)
        Coordinates of the points.
    loss_ : float
        Value of the loss at the end of the descent.

    Notes
    -----
    Rows that are torch tensors are embedded with torch on their device, always over all pairs. Above 2,000
    points in numpy, the learning rate grows with the number of points, and at most a quarter of the
    iterations use the exaggerated attraction.

    References
    ----------
    van der Maaten and Hinton, "Visualizing data using t-SNE", JMLR, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.embeddings import TSNE
    >>> B = np.random.default_rng(0).normal(size=(60, 8))
    >>> TSNE(n_components=3, n_iter=50, random_state=0).fit_transform(B).shape
    (60, 3)
    """

    takes_tensors = True

    def __init__(
        self,
        n_components: int = 2,
        perplexity: float = 10.0,
        dof: float = 1.0,
        n_iter: int = 1000,
        learning_rate: float | None = None,
        exaggeration: float | tuple[float, float | str] = 4.0,
        n_rotations: int = 0,
        sampled: int | None = 1024,
        random_state: Any = None,
        affinity: Any = None,
        annealed: bool = False,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.dof = dof
        self.n_iter = n_iter
        self.learning_rate = learning_rate
        self.exaggeration = exaggeration
        self.n_rotations = n_rotations
        self.sampled = sampled
        self.random_state = random_state
        self.affinity = affinity
        self.annealed = annealed

    def _embed(self, B: Floats, affinities: Any = None, start: Any = None) -> Floats:
        dof = checks.positive_number(self.dof, "dof")
        exact, sampled = _LOSSES[backend(B)]
        with memory_of_pairs(B, "t-SNE"):
            loss = neighbor_loss(
                self, B, partial(exact, dof=dof), sampled and partial(sampled, dof), affinities=affinities
            )
            schedule = self._schedule(affinities)
            Y, self.loss_ = minimize(self, loss, B, rate=500, name="t-SNE", schedule=schedule, start=start)
        return Y

    def _schedule(self, affinities: Any) -> Schedule:
        given = np.atleast_1d(np.asarray(self.exaggeration, dtype=object))
        early, late = (*given, 1.0)[:2]
        if isinstance(late, str) and late == "auto":
            if affinities is None:
                raise ValueError(
                    "exaggeration='auto' needs affinities from the rows: set affinity=GraphAffinity(), or "
                    "give a number such as exaggeration=(4.0, 1.5)"
                )
            late = late_exaggeration(affinities)
        return Schedule(
            checks.positive_number(early, "exaggeration"),
            checks.positive_number(late, "exaggeration"),
            annealed=checks.flag(self.annealed, "annealed"),
        )


def late_exaggeration(P: Any) -> float:
    """Return a factor of the attraction between 1 and 2.2, largest if points fall into a few clear groups.

    Points in separate groups may be pulled together: look-up finds more of a group. Without groups, the same
    factor would give all points a few codes, and many small groups would be pulled into one another.
    """
    groups = number_of_groups(P)
    return 1.0 if groups >= MANY_GROUPS else 1.1 + 1.1 * float(np.clip((groups - 2) / 6, 0, 1))


class StudentDivergence:
    """KL(P || Q), q_ij = K_ij / Σ K with K = (1 + E / dof)^(-(dof + 1) / 2).

    S = 2 (dof + 1) / dof (P - Q) / (1 + E / dof): for one degree of freedom 4 (P - Q) K.
    """

    def __init__(self, P: Floats, dof: float) -> None:
        self.P, self.dof, self.factor = P, dof, 2 * (dof + 1) / dof

    def kernel(self, E: Floats) -> Floats:
        """Turn rows E (b, m) into 1 / (1 + E / dof), of which K is a power; return the row sums of K (b,)."""
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
    """K = (1 + E / dof)^(-(dof + 1) / 2), for sampled pairs."""

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


def _exact_loss(P: Floats, dof: float) -> ExactLoss:
    return ExactLoss(StudentDivergence(P, dof), len(P))


def _tensor_loss(P: Any, dof: float) -> StudentLoss:
    return StudentLoss(P, dof, pace=pace_of(len(P)))


def _sampled_loss(dof: float, P: sp.csr_array, s: int, seed: int) -> SampledLoss:
    return SampledLoss(StudentKernel(dof), P, s, seed)


# The loss over all pairs and over sampled pairs; on a GPU all pairs are always used.
_LOSSES: dict[ModuleType, tuple[Callable[..., Loss], Callable[..., Loss] | None]] = {
    numpy_backend: (_exact_loss, _sampled_loss),
    torch_backend: (_tensor_loss, None),
}
