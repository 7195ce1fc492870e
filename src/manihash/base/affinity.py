"""Affinities between base points from all rows: base points are close if neighboring rows connect them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.base.graph import BaseGraph, nearest, normalized_weights
from manihash.base.neighbors import CoarseNeighbors
from manihash.base.reduced import ReducedNeighbors
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.progress import advance
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints, Mask

_WIDTH = 64  # principal components in which the neighbors of rows are searched
_PCA_ROWS = 20_000
_PROBES = 4
_ROWS = 256  # of the affinities, in which the largest are found at once
_WALK_ROWS = 4_096  # of the graph of the rows, that are multiplied at once
_WALK_KEPT = 40  # rows that a random walk is kept at
_STEPS, _VECTORS = 8, 32  # see ``number_of_groups``
# With so many rows per base point, affinities from rows know more than the distances between base points.
_MANY_ROWS = 2
# Half way, on a logarithmic scale, between 21 groups of satellite images, whose codes are better for look-up
# if they are rotated, and 43 groups of 150 intents of questions, whose codes are not.
MANY_GROUPS = 30


class GraphAffinity(BaseEstimator):
    """Affinities of base points from the neighbor graph of the training rows.

    P is proportional to A + Aᵀ, where A is W̄ᵀ S W̄ with a zero diagonal and rows that sum to 1. W̄ (n, m) holds
    the weights of each row to its nearest base points, as in induction. S (n, n) holds 1 / n_neighbors for
    each of a row's nearest rows, which are searched approximately through coarse cells. So p_ij says how
    strongly neighboring rows connect base points i and j. t-SNE, SNE and elastic embedding take such an
    object as ``affinity`` instead of computing P from the distances between the base points, or mix both.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of neighbors of each row in S.
    n_kept : int, default=60
        Number of affinities kept per base point, the largest ones.
    sample : int, default=200_000
        Number of rows that the graph is computed from; if there are more rows, a random sample is taken.
    n_steps : {1, 2, "auto"}, default=1
        Number of steps in the graph of the rows that connect two base points. 1 for A = W̄ᵀ S W̄. 2 for
        A = (S W̄)ᵀ (S W̄), which takes longer and gives slightly better codes for many base points. ``"auto"``
        is 2 if there are at least twice as many rows as base points, else 1.
    walk : {0, 2, 4, 8, 16, "auto"}, default=0
        Number of steps of a random walk that cleans the graph of the rows; 0 leaves it as it is. S then holds
        the probabilities that a walk on the symmetric graph from one row ends at another one, for the 40 most
        probable rows. Rows that only a chance neighbor connects lose their connection. ``"auto"`` is 8 if
        there are at least twice as many rows as base points, else 0.
    share : float or "auto", default=1.0
        Share of the affinities that comes from the rows. The rest comes from the distances between the base
        points, by the ``perplexity`` of the embedding, which mixes both. Between 0 and 1, 0 excluded.
        ``"auto"`` is 1 if there are at least twice as many rows as base points, else 0.5.

    Attributes
    ----------
    share_ : float
        The share that was used, a number also for ``share="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import IMH
    >>> from manihash.base import GraphAffinity, KMeansBase
    >>> from manihash.embeddings import TSNE
    >>> X = np.random.default_rng(0).normal(size=(1000, 8))
    >>> embedding = TSNE(affinity=GraphAffinity(), n_iter=50)
    >>> IMH(n_bits=16, base=KMeansBase(100), embedding=embedding, random_state=0).fit(X).encode(X).shape
    (1000, 2)
    """

    def __init__(
        self,
        n_neighbors: int = 10,
        n_kept: int = 60,
        sample: int = 200_000,
        n_steps: int | str = 1,
        walk: int | str = 0,
        share: float | str = 1.0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_kept = n_kept
        self.sample = sample
        self.n_steps = n_steps
        self.walk = walk
        self.share = share

    def matrix(self, graph: BaseGraph, rows: Rows, rng: np.random.Generator) -> sp.csr_array:
        """Compute the affinities of the base points of a graph.

        Parameters
        ----------
        graph : BaseGraph
            Base points and the weights of rows to them.
        rows : Rows
            Prepared training rows.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        csr_array of shape (m, m)
            P: symmetric, with a zero diagonal, its entries sum to 1. All of it comes from the rows: the
            embedding mixes it by ``share``.
        """
        n = len(rows)
        sample = checks.positive_int(self.sample, "sample", least=2)
        k = min(checks.positive_int(self.n_neighbors, "n_neighbors"), min(n, sample) - 1)
        kept = checks.positive_int(self.n_kept, "n_kept")
        n_steps, walk = self._steps_and_share(min(n, sample) >= _MANY_ROWS * len(graph.B))
        some = rows if n <= sample else rows.sample(sample, rng)
        W, Z = _weights_and_coordinates(graph, some, rng)
        order, S = neighbor_graph(Z, k, rng)
        S, W = walked(S, walk), W[order]
        SW = sp.csr_array(S @ W)
        A = sp.csr_array((W if n_steps == 1 else SW).T @ SW)
        return _symmetric(_largest(_connected(A, graph), kept))

    def _steps_and_share(self, many_rows: bool) -> tuple[int, int]:
        """Return ``n_steps`` and ``walk`` as numbers and set ``share_``; ``many_rows`` settles "auto"."""
        n_steps = (2 if many_rows else 1) if self.n_steps == "auto" else self.n_steps
        walk = (8 if many_rows else 0) if self.walk == "auto" else self.walk
        share = (1.0 if many_rows else 0.5) if self.share == "auto" else self.share
        if n_steps not in (1, 2):
            raise ValueError(f"n_steps must be 1, 2 or 'auto', got {n_steps!r}")
        if isinstance(walk, bool) or walk not in (0, 2, 4, 8, 16):
            raise ValueError(f"walk must be 0, 2, 4, 8, 16 or 'auto', got {walk!r}")
        self.share_ = checks.positive_number(share, "share")
        if self.share_ > 1:
            raise ValueError(f"share must be at most 1, got {share:g}")
        return int(n_steps), int(walk)


def share_of_rows(affinity: Any) -> float:
    """Return the share of affinities that comes from rows, as ``matrix`` has set it; else all of it."""
    return float(getattr(affinity, "share_", 1.0))


def _weights_and_coordinates(
    graph: BaseGraph, rows: Rows, rng: np.random.Generator
) -> tuple[sp.csr_array, Floats]:
    """Return W̄ (n, m), and coordinates (n, p) of the rows in which their neighbors are searched."""
    reduced = graph.finder if isinstance(graph.finder, ReducedNeighbors) else None
    if reduced is None and rows.width > _WIDTH:
        some = rows.take(np.sort(rng.choice(len(rows), min(len(rows), _PCA_ROWS), replace=False)))
        reduced = ReducedNeighbors(_WIDTH, random_state=checks.seed(rng)).fit_rows(LocalRows(some))

    def block(X: Floats) -> tuple[Any, Any, Any]:
        xp = backend(X)
        squared, index = nearest(X, graph.B, graph.k, graph.finder)
        Z = X if reduced is None else xp.product(X, xp.like(reduced.directions_, X))
        return normalized_weights(xp.to_float64(squared), graph.sigma), index, Z

    parts = list(rows.map(block, "weights of rows"))
    w, index, Z = (np.concatenate(column) for column in zip(*parts, strict=True))
    return numpy_backend.weight_matrix(w, index, len(graph.B)), Z


def neighbor_graph(Z: Floats, k: int, rng: np.random.Generator) -> tuple[Ints, sp.csr_array]:
    """Return an order (n,) of the points Z (n, p), and S (n, n) in it: 1 / k for k near points of each."""
    n, finder = len(Z), CoarseNeighbors(_PROBES)
    order = finder.arrange(Z, rng)
    points = Z[order]

    def block(X: Floats) -> Ints:
        return finder.k_nearest(X, points, k + 1)[1]

    index = LocalRows(points).stack(block, k + 1, np.intp, "neighbors of rows")
    other = index != np.arange(n)[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may miss itself
    return order, numpy_backend.weight_matrix(np.full((n, k), 1 / k), index[other].reshape(n, k), n)


def _connected(A: sp.csr_array, graph: BaseGraph) -> sp.csr_array:
    """Return A with a zero diagonal and rows that sum to 1.

    A base point that no row connects to another one is connected to the base points nearest to it.
    """
    A = sp.csr_array(A - sp.diags_array(A.diagonal()))
    A.eliminate_zeros()
    total = np.asarray(A.sum(axis=1)).ravel()
    if len(alone := np.flatnonzero(total <= 0)):
        B, k = graph.B.astype(np.float64), min(graph.k, len(graph.B) - 1)
        index = numpy_backend.k_nearest(B[alone], B, k + 1)[1]
        other = index != alone[:, None]
        other[other.all(axis=1), -1] = False
        place = np.repeat(alone, k), index[other]
        A = sp.csr_array(A + sp.csr_array((np.full(len(alone) * k, 1 / k), place), shape=A.shape))
        total[alone] = 1
    return sp.csr_array(sp.diags_array(1 / total) @ A)


def _largest(A: sp.csr_array, k: int) -> sp.csr_array:
    """Return A with the k largest entries of each row; of equal ones the first columns."""
    A.sort_indices()
    kept = np.ones(A.nnz, bool)
    for start in range(0, A.shape[0], _ROWS):
        ends = A.indptr[start : start + _ROWS + 1]
        count, part = np.diff(ends), slice(ends[0], ends[-1])
        if count.max() > k:
            kept[part] = _are_largest(A.data[part], np.arange(count.max()) < count[:, None], k)
    row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return sp.csr_array((A.data[kept], (row[kept], A.indices[kept])), shape=A.shape)


def _are_largest(values: Floats, inside: Mask, k: int) -> Mask:
    """Return which of positive values, row by row where ``inside`` (b, w) is true, are the k largest."""
    dense = np.zeros(inside.shape)
    dense[inside] = values
    least = np.partition(dense, -k, axis=1)[:, -k, None]
    larger, tied = dense > least, (dense == least) & inside
    room = k - larger.sum(axis=1, keepdims=True)
    found: Mask = (larger | (tied & (tied.cumsum(axis=1) <= room)))[inside]
    return found


def _symmetric(A: sp.csr_array) -> sp.csr_array:
    """Return P = (A + Aᵀ) / Σ (A + Aᵀ)."""
    P = sp.csr_array(A + A.T)
    return sp.csr_array(P / P.sum())


def walked(S: sp.csr_array, steps: int) -> sp.csr_array:
    """Return where a random walk of 2, 4, 8 … steps on the symmetric graph S + Sᵀ ends; S itself for 0 steps.

    The graph is squared repeatedly, and only the most probable ends of each row are kept.
    """
    if not steps:
        return S
    T = _normalized(sp.csr_array(S + S.T))
    for _ in range(steps.bit_length() - 1):
        T = _squared(T)
    return T


def _squared(T: sp.csr_array) -> sp.csr_array:
    """Return T² with the largest entries of each row, in rows that sum to 1; a part of the rows at a time."""
    n, parts = T.shape[0], []
    for start in range(0, n, _WALK_ROWS):
        advance("random walk", start, n)
        part = sp.csr_array(T[start : start + _WALK_ROWS] @ T)
        parts.append(_normalized(_largest(part, _WALK_KEPT)))
    advance("random walk", n, n)
    return sp.csr_array(sp.vstack(parts))


def _normalized(A: sp.csr_array) -> sp.csr_array:
    """Return A with rows that sum to 1."""
    return sp.csr_array(sp.diags_array(1 / np.asarray(A.sum(axis=1)).ravel()) @ A)


def number_of_groups(P: sp.csr_array) -> float:
    """Return about how many groups a graph P (m, m) falls into: Σ λ^16 of its random walk.

    It is the number of components if points mix well in each of them. A group that a walk of 16 steps leaves
    easily counts less. The sum is the mean of |N^8 z|² over vectors z of random signs, where N is P with
    normalized rows and columns. 10 digits give about 10, a single cloud of points 1 to 2.
    """
    m = P.shape[0]
    degree = np.asarray(P.sum(axis=1)).ravel()
    scale = sp.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    N = sp.csr_array(scale @ P @ scale)
    if m <= _VECTORS:
        Z, number = np.eye(m), 1
    else:
        Z, number = np.random.default_rng(0).choice([-1.0, 1.0], (m, _VECTORS)), _VECTORS
    for _ in range(_STEPS):
        Z = N @ Z
    return float((Z**2).sum() / number)
