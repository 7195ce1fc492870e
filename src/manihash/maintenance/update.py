"""Updates: base points for new rows, embedded beside the old ones, which stay where they are.

New base points are k-means centers of the new rows that are far from the old base points. They are embedded
by the same loss as the old ones, and only they move. With affinities from rows, new clusters start away from
the old points. Old rows near a new base point may get another
code; base points that change the codes of many old rows are removed again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manihash import checks
from manihash.base.graph import BaseGraph, nearest, normalized_weights, set_seed
from manihash.base.kmeans import KMeansBase
from manihash.base.reduced import ReducedNeighbors
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.display import Shown
from manihash.embeddings._descent import START, Start
from manihash.embeddings._embedding import NeighborEmbedding
from manihash.embeddings.tsne import TSNE
from manihash.maintenance.statistics import Statistics
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints, Mask

_LEAST_ROWS = 3  # far rows per new base point
_REFERENCE_ROWS = 20_000
_MARGIN = 0.75  # of the share of codes that may change, for the rows that the reference rows stand for
_DROPPED = 0.05  # share of the new base points that is removed at once
# A cluster is new if its affinity to old points is less than this share of what chance gives. On MNIST it was
# 0.14 for digits that were not trained on, and 0.45 for trained digits rotated by 20 degrees.
_NEW_CLUSTER = 0.25
_WALK = 30  # steps of a lazy random walk, over which the starts of new points are averaged


@dataclass(frozen=True, repr=False)
class Update(Shown):
    """The result of ``hasher.update``.

    Parameters
    ----------
    n_rows : int
        Number of new rows.
    n_added : int
        Number of base points that were added.
    n_removed : int
        Number of candidates that were not added, because they would have changed the codes of too many old
        rows.
    changed : float or None
        Share of the old rows whose code changed; None if no old rows were given.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import IMH
    >>> from manihash.base import KMeansBase
    >>> from manihash.embeddings import TSNE
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(size=(1000, 8)), rng.normal(4, 1, size=(200, 8))
    >>> hasher = IMH(n_bits=16, base=KMeansBase(50), embedding=TSNE(n_iter=100), random_state=0).fit(X)
    >>> update = hasher.update(X_new, X)
    >>> update.n_added > 0, update.changed <= 0.02
    (True, True)
    """

    n_rows: int
    n_added: int
    n_removed: int
    changed: float | None


@dataclass(frozen=True)
class Extended:
    """The values of a model after an update: base points, their embedding and finder, and the result."""

    graph: BaseGraph
    Y: Floats
    order: Ints  # of the old and new base points, in which the graph has them
    result: Update


def check_embedding(embedding: Any, name: str) -> None:
    """Raise if the embedding of a model has no loss that new points can be embedded by."""
    if embedding is not None and not isinstance(embedding, NeighborEmbedding):
        raise ValueError(
            f"{name} with {type(embedding).__name__} cannot be updated: new base points are embedded by the "
            "loss of TSNE, SNE or ElasticEmbedding. Instead, fit a new model, and encode all rows again"
        )


def extended(
    graph: BaseGraph,
    Y: Floats,
    embedding: Any,
    rows: Rows,
    old: Rows | None,
    *,
    known: Statistics,
    most: int | None,
    max_changed: float,
    seed: int,
) -> Extended:
    """Return a graph and embedding Y (m, r) with base points for new rows added."""
    rng = np.random.default_rng(seed)
    new = _in_base_space(graph, rows)
    B = _new_points(graph, new, known, most, rng)
    if not len(B):
        return Extended(
            graph, Y, np.arange(len(graph.B)), Update(len(rows), 0, 0, None if old is None else 0.0)
        )
    reference = None if old is None else _some(old, _REFERENCE_ROWS, rng)
    Y_new = _embedded(graph, Y, B, embedding, _stacked(rows, reference), seed)
    kept = np.ones(len(B), np.bool_)
    if reference is not None:
        kept = _kept(graph, Y, B, Y_new, new, reference, _MARGIN * max_changed)
    B, Y_new = B[kept], Y_new[kept]
    union, order = _with_points(graph, B)
    Y_all = np.vstack([Y, Y_new])[order]
    changed = None if reference is None else _changed(graph, Y, union, Y_all, reference)
    result = Update(len(rows), len(B), int((~kept).sum()), changed)
    return Extended(union, Y_all, order, result)


def _in_base_space(graph: BaseGraph, rows: Rows) -> Rows:
    """Return the rows in the space of the base points."""
    return graph.finder.projected(rows) if isinstance(graph.finder, ReducedNeighbors) else rows


def _new_points(
    graph: BaseGraph, rows: Rows, known: Statistics, most: int | None, rng: np.random.Generator
) -> Floats:
    """Return centers of the rows that are farther from the base points than half of the training rows.

    There are as many per row as in training, at most ``most``.
    """
    squared = rows.stack(
        lambda X: numpy_backend.k_nearest(X, graph.B.astype(X.dtype), graph.k)[0][:, -1:], 1, float
    )
    far = np.flatnonzero(np.sqrt(squared[:, 0]) > known["reach"])
    size = round(len(graph.B) * len(rows) / known["n_rows"])
    size = min(max(1, size), len(graph.B), len(far) // _LEAST_ROWS)
    size = size if most is None else min(size, most)
    if not size:
        return np.empty((0, graph.B.shape[1]), graph.B.dtype)
    with single_blas_thread():
        points = KMeansBase(size, random_state=checks.seed(rng)).fit_rows(rows.subset(far)).points_
    return points.astype(graph.B.dtype)


def _stacked(rows: Rows, old: Rows | None) -> Rows:
    """Return new and old rows together, in memory, as they are prepared."""
    parts = [rows] if old is None else [rows, old]
    return LocalRows(np.vstack([part.take(np.arange(len(part))) for part in parts]))


def _some(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    return rows if len(rows) <= most else rows.sample(most, rng)


def _embedded(graph: BaseGraph, Y: Floats, B: Floats, embedding: Any, rows: Rows, seed: int) -> Floats:
    """Return the embedding (b, r) of new points B (b, p); the old points do not move."""
    part = TSNE() if embedding is None else clone(embedding)
    set_seed(part, seed)
    part.set_params(n_components=Y.shape[1])
    m, rng = len(graph.B), np.random.default_rng(seed)
    squared, index = numpy_backend.k_nearest(B, graph.B.astype(B.dtype), graph.k)
    first = numpy_backend.weighted_sums(normalized_weights(squared, graph.sigma), index, Y.astype(B.dtype))
    options: dict[str, Any] = {}
    if part.affinity is not None:
        union, order = _with_points(graph, B)
        place = np.argsort(order)
        P = options["affinities"] = part.affinity.matrix(union, rows, rng)[place][:, place]
        first = _apart(P, Y, first, rng)
    first = first + rng.normal(0, START * Y.std(), first.shape)
    options["start"] = Start(np.vstack([Y, first]), fixed=m, warm=part.affinity is not None)
    with single_blas_thread():
        return part.fit_transform(np.vstack([graph.B, B]), **options)[m:]


def _apart(P: "sp.csr_array", Y: Floats, among: Floats, rng: np.random.Generator) -> Floats:
    """Return where new points start (b, r), given affinities P (m + b, m + b) and places among old points.

    Random directions are averaged over the graph of the new points: those of one cluster start together,
    where no old cluster is. Started among old points, a new cluster would stay within the nearest old one.
    Points whose surroundings have much affinity to old points are no new cluster, and start among them.
    """
    m = len(Y)
    between = sp.csr_array(P[m:][:, m:])
    total, every = (np.asarray(part.sum(axis=1)).ravel() for part in (between, P))
    walk = sp.csr_array(sp.diags_array(1 / np.where(total > 0, total, 1)) @ between)
    to_old = 1 - total / every[m:]
    values = np.hstack([rng.normal(size=among.shape), to_old[:, None]])
    for _ in range(_WALK):
        values = (values + walk @ values) / 2
    directions, to_old = values[:, :-1], values[:, -1:]
    length = np.median(np.linalg.norm(Y, axis=1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    chance = every[:m].sum() / every.sum()
    return np.where(to_old < _NEW_CLUSTER * chance, length * directions, among)


def _with_points(graph: BaseGraph, B: Floats) -> tuple[BaseGraph, Ints]:
    """Return the graph with more base points, and the order in which it has the old and new ones."""
    finder, order = graph.finder, np.arange(len(graph.B) + len(B))
    if hasattr(finder, "with_points"):  # without it, a finder learned nothing about the points
        finder, order = finder.with_points(len(graph.B), B)
    return BaseGraph(np.vstack([graph.B, B])[order], graph.k, graph.sigma, finder), order


def _kept(graph: BaseGraph, Y: Floats, B: Floats, Y_new: Floats, new: Rows, old: Rows, share: float) -> Mask:
    """Return which of the new points to keep, so that at most a share of the old rows gets another code.

    Those are removed first that change the codes of most old rows per new row they are nearest to.
    """
    every = np.vstack([graph.B, B])
    near = new.stack(lambda X: numpy_backend.k_nearest(X, every.astype(X.dtype), 1)[1], 1, np.intp)[:, 0]
    served = np.maximum(np.bincount(near, minlength=len(every))[len(graph.B) :], 1)
    candidates, kept = _Candidates(graph, Y, B, Y_new, old), np.ones(len(B), np.bool_)
    while kept.any():
        changed, used = candidates.changed(kept)
        if changed.mean() <= share:
            break
        cost = np.bincount(used[changed].ravel() + 1, minlength=len(B) + 1)[1:] / served
        cost[~kept] = -1
        kept[np.argsort(-cost, kind="stable")[: max(1, int(_DROPPED * kept.sum()))]] = False
    return kept


class _Candidates:
    """Old rows with their nearest old and new base points, to see what a choice of new points changes."""

    def __init__(self, graph: BaseGraph, Y: Floats, B: Floats, Y_new: Floats, old: Rows) -> None:
        self.sigma, self.k, self.m = graph.sigma, graph.k, len(graph.B)
        self.Y = np.vstack([Y, Y_new]).astype(np.float64)
        more = min(2 * graph.k, len(B))  # enough new points per row, until many of them are removed

        def block(X: Floats) -> tuple[Any, ...]:
            near = nearest(X, graph.B, graph.k, graph.finder)
            Z = graph.finder.project(X) if isinstance(graph.finder, ReducedNeighbors) else X
            return *near, *numpy_backend.k_nearest(Z, B.astype(Z.dtype), more)

        columns = zip(*old.map(block, "old rows"), strict=True)
        self.squared, self.index, self.new_squared, self.new_index = (np.concatenate(c) for c in columns)
        self.before = self._bits(self.squared, self.index)

    def _bits(self, squared: Floats, index: Ints) -> Mask:
        w = normalized_weights(squared.astype(np.float64), self.sigma)
        return numpy_backend.weighted_sums(w, index, self.Y) > 0

    def changed(self, kept: Mask) -> tuple[Mask, Ints]:
        """Return which rows change if some new points are kept, and the new points (n, k) they use, or -1."""
        new_squared = np.where(kept[self.new_index], self.new_squared, np.inf)
        squared = np.hstack([self.squared, new_squared])
        index = np.hstack([self.index, self.new_index + self.m])
        order = np.argsort(squared, axis=1, kind="stable")[:, : self.k]
        squared, index = np.take_along_axis(squared, order, 1), np.take_along_axis(index, order, 1)
        changed = (self._bits(squared, index) != self.before).any(axis=1)
        return changed, np.where(index >= self.m, index - self.m, -1)


def _changed(graph: BaseGraph, Y: Floats, union: BaseGraph, Y_all: Floats, old: Rows) -> float:
    """Return the share of the old rows that have another code."""
    different = old.stack(
        lambda X: ((graph.induce(X, Y) > 0) != (union.induce(X, Y_all) > 0)).any(axis=1)[:, None], 1, np.bool_
    )
    return float(different.mean())
