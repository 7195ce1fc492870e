"""The prototype algorithm of the paper's section on induction, its theorem's bound, and what they rest on.

A reference for the theory, not a way to compute: it says why a few clusters stand for all points.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manihash.compute import numpy as numpy_backend
from manihash.types import Floats, Ints


@dataclass(frozen=True)
class Draw:
    """An estimate ŷ_q (r,) of the induced embedding, and how many embeddings it was expressed with (n')."""

    estimate: Floats
    n_used: int


def prototype(alpha: Floats, Y: Floats, clusters: NDArray[np.integer], rng: np.random.Generator) -> Draw:
    """ŷ_q = Σ_j C_j / ℓ_j Σ_μ y_u(j,μ): ℓ_j = floor(m C_j + 1) draws from cluster j in proportion to alpha.

    ``alpha`` (n,) are the weights of the query to the n points, which sum to one; ``Y`` (n, r) the points'
    embeddings; ``clusters`` (n,) the cluster 0..m-1 of each. A cluster without weight has nothing to give.
    """
    m = int(clusters.max()) + 1
    estimate, n_used = np.zeros(Y.shape[1]), 0
    for j in range(m):
        members = np.flatnonzero(clusters == j)
        C = alpha[members].sum()
        if C == 0:
            continue
        draws = int(np.floor(m * C + 1))
        drawn = rng.choice(members, draws, p=alpha[members] / C)
        estimate += C / draws * Y[drawn].sum(axis=0)
        n_used += draws
    return Draw(estimate, n_used)


def k_center(Y: Floats, m: int, first: int = 0) -> tuple[Ints, Floats]:
    """Greedy k-center (Gonzalez, 1985): m indices, each the farthest from those before, and the radii left.

    ``radii[i]`` is the largest distance of a point to the first i + 1 centers: an upper bound of the entropy
    number ε_(i+1)(Y), and at most twice it.
    """
    Y = np.asarray(Y, np.float64)
    centers, radii = np.empty(m, np.intp), np.empty(m)
    nearest = np.full(len(Y), np.inf)
    center = first
    for i in range(m):
        centers[i] = center
        nearest = np.minimum(nearest, numpy_backend.squared_norms(Y - Y[center]))
        center = int(nearest.argmax())
        radii[i] = np.sqrt(nearest[center])
    return centers, radii


def theorem_bound(entropy_number: float, n_used: int, t: float) -> float:
    """Pr[|ŷ_q - y_q| >= t] < 2 ε² / (n' t²), with ε the (n'/2)-th entropy number of Y."""
    return 2 * entropy_number**2 / (n_used * t**2)


def corollary_size(epsilon: float, delta: float, t: float) -> int:
    """The even n' >= 2 ε² / (δ t²) with which |ŷ_q - y_q| < t holds with probability at least 1 - δ."""
    n_used = int(np.ceil(2 * epsilon**2 / (delta * t**2)))
    return n_used + n_used % 2


def overall_weights(candidates: Floats, members: Floats, sigma: float) -> Floats:
    """Σ_i w(c, x_i) over the members (n_j, d) of a cluster, for each candidate c: (b,)."""
    squared = numpy_backend.squared_distances(candidates, members)
    return np.exp(-squared / sigma**2).sum(axis=1)
