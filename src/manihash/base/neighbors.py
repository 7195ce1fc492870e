"""How the nearest base points of a row are found: among all of them, or through a coarse level of cells.

A way of finding them is a part that a base set brings along: ``k_nearest(X, B, k)`` is that of ``arrays``
for points B in the order that ``arrange`` put them into, which it takes in the type of X. A row gets the same
answer in every batch.
"""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.estimator import checked
from manihash.rows.local import Rows
from manihash.types import Floats, Ints

# Rows that show what is looked for near a cell, and rows that recall is measured on.
_SHOWN_ROWS, _RECALL_ROWS = 100_000, 2_000
_CELL_ROUNDS = 10


class ExactNeighbors(BaseEstimator):
    """All base points are looked at."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Arrange the points of X; they stay as they are."""
        self.arrange(_points(self, X), np.random.default_rng(0))
        return self

    def arrange(self, B: Floats, rng: np.random.Generator) -> Ints:
        """The order (m,) that the points are to be put into: here their own."""
        return np.arange(len(B))

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Look at the rows that k neighbors will be asked of; ``recall_`` is the part found of them."""
        self.recall_ = 1.0

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Squared distances and indices (b, k) of the k points nearest to each row of X, nearest first."""
        return numpy_backend.k_nearest(X, numpy_backend.like(B, X), k)


class CoarseNeighbors(BaseEstimator):
    """A row looks at the points of the ``probes`` cells whose centers are nearest to it.

    The points fall into ``cells`` cells by k-means, the root of their number by default. After ``fit``:
    ``cells_`` (c, d) their centers, ``bounds_`` (c + 1,) where each begins among the points in order; in a
    fitted model ``recall_``, the part of the k nearest that was found, on rows of the data.
    """

    def __init__(self, probes: int = 8, cells: int | None = None, random_state: Any = None) -> None:
        self.probes = probes
        self.cells = cells
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Group the points of X into cells; ``order_`` is the order they are then in."""
        self.order_ = self.arrange(_points(self, X), checks.generator(self.random_state))
        return self

    def arrange(self, B: Floats, rng: np.random.Generator) -> Ints:
        """The order that brings the points of a cell together."""
        checks.positive_int(self.probes, "probes")
        wanted = round(len(B) ** 0.5) if self.cells is None else checks.positive_int(self.cells, "cells")
        cells = coarse_cells(B, min(wanted, len(B)), rng)
        own = nearest_cell(Rows(B), cells)
        held, own = np.unique(own, return_inverse=True)
        self.cells_ = cells[held]
        self.bounds_ = np.concatenate([[0], np.bincount(own).cumsum()])
        return np.argsort(own, kind="stable")

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Measure the recall on some rows."""
        self.recall_ = recall(self, rows.take(_some(len(rows), _RECALL_ROWS, rng)), B, k)

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """As ``ExactNeighbors.k_nearest``, among the points of the cells probed."""
        B = numpy_backend.like(B, X)
        scores = numpy_backend.closeness(X, numpy_backend.like(self.cells_, X))
        probed = numpy_backend.k_largest(scores, self._probes(k))[1]  # (b, p)
        pairs, ends = _grouped(probed.ravel(), len(self.cells_))
        row_of, best = pairs // probed.shape[1], np.empty(len(pairs), X.dtype)
        half, found = numpy_backend.squared_norms(B) / 2, []
        for c in np.flatnonzero(np.diff(ends)):
            part, points = slice(ends[c], ends[c + 1]), slice(self.bounds_[c], self.bounds_[c + 1])
            scores = numpy_backend.product(X[row_of[part]], B[points])
            scores -= half[points]
            best[pairs[part]] = scores.max(axis=1)
            found.append((row_of[part], self.bounds_[c], scores))
        least = _kth_largest(best.reshape(probed.shape), k)
        return _merged(X, k, [_above(*in_cell, least) for in_cell in found])

    def _probes(self, k: int) -> int:
        """Cells to probe: as many as asked for, or as hold k points between them, however small they are."""
        enough = int(np.searchsorted(np.sort(np.diff(self.bounds_)).cumsum(), k)) + 1
        return min(max(self.probes, enough), len(self.cells_))


class ListedNeighbors(CoarseNeighbors):
    """A row looks through the list of the one cell that is nearest to it: the fast way.

    A list holds the points of the ``probes`` cells nearest to the cell, its own first, and those that rows of
    the data, sent through ``CoarseNeighbors``, were nearest to. ``recall_`` is measured on rows that made no
    list. ``members_`` are the lists one behind the other, ``ends_`` (c + 1,) where each begins.
    """

    # By type of the rows, for the points asked about last.
    _lists: dict[Any, tuple[Floats, "CellLists"]] | None = None

    def __init__(self, probes: int = 4, cells: int | None = None, random_state: Any = None) -> None:
        super().__init__(probes, cells, random_state)

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Make the lists from some rows, and measure the recall on others."""
        n = len(rows)
        drawn = rng.choice(n, min(n, _SHOWN_ROWS + _RECALL_ROWS), replace=False)  # n numbers are never held
        apart = min(_RECALL_ROWS, n // 10)
        members = members_near(B, self.cells_, self.probes, k)
        X = rows.take(np.sort(drawn[apart:]))
        cell = nearest_cell(Rows(X), self.cells_)
        order = np.argsort(cell, kind="stable")
        shown, cell = Rows(X[order]), cell[order]
        thorough = CoarseNeighbors(max(8, self.probes))
        thorough.cells_, thorough.bounds_ = self.cells_, self.bounds_
        used = shown.stack(lambda X: thorough.k_nearest(X, B, k)[1], k, np.intp)
        members = [np.union1d(listed, used[cell == c]) for c, listed in enumerate(members)]
        self.members_ = np.concatenate(members)
        self.ends_ = np.concatenate([[0], np.cumsum([len(listed) for listed in members])])
        self._lists = None
        self.recall_ = recall(self, rows.take(np.sort(drawn[: max(apart, 1)])), B, k)

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """As ``ExactNeighbors.k_nearest``, among the points in the list of the row's cell."""
        held = self._lists or {}
        points, lists = held.get(X.dtype, (None, None))
        if lists is None or points is not B:
            lists = CellLists(
                numpy_backend.like(B, X), self.cells_, np.split(self.members_, self.ends_[1:-1])
            )
            self._lists = held | {X.dtype: (B, lists)}
        return lists.k_nearest(X, k)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_lists"}


def coarse_cells(X: Floats, c: int, rng: np.random.Generator) -> Floats:
    """Centers (c, d) of some rounds of k-means on the points of X: the coarse level."""
    cells = X[np.sort(rng.choice(len(X), c, replace=False))]
    for _ in range(_CELL_ROUNDS):
        own = nearest_cell(Rows(X), cells)
        sums = np.asarray(sp.csr_array((np.ones(len(X)), (own, np.arange(len(X)))), shape=(c, len(X))) @ X)
        counts = np.bincount(own, minlength=c)[:, None]
        cells = np.where(counts > 0, sums / np.maximum(counts, 1), cells).astype(X.dtype)
    return cells


def nearest_cell(rows: Rows, cells: Floats) -> Ints:
    """The cell (n,) whose center is nearest to each row."""
    cells = cells.astype(rows.dtype, copy=False)
    return rows.stack(lambda X: numpy_backend.closeness(X, cells).argmax(axis=1)[:, None], 1, np.intp)[:, 0]


def members_near(B: Floats, cells: Floats, probes: int, k: int = 1) -> list[Ints]:
    """For each cell the points, in ascending order, of the ``probes`` cells nearest to it, its own first.

    Where these hold fewer than k points, all points.
    """
    own = nearest_cell(Rows(B), cells)
    near = numpy_backend.k_nearest(cells, cells, min(probes, len(cells)))[1]
    listed = [np.flatnonzero(np.isin(own, of_cell)) for of_cell in near]
    return [members if len(members) >= k else np.arange(len(B)) for members in listed]


class CellLists:
    """For each cell the base points that its rows look at, gathered."""

    def __init__(self, B: Floats, cells: Floats, members: list[Ints]) -> None:
        self.cells, self.members = cells.astype(B.dtype, copy=False), members
        self.points = [B[listed] for listed in members]
        self.halves = [numpy_backend.squared_norms(points) / 2 for points in self.points]

    def k_nearest(self, X: Floats, k: int) -> tuple[Floats, Ints]:
        """Squared distances and indices (b, k) of the k nearest among the points listed for a row's cell."""
        order, ends = _grouped(numpy_backend.closeness(X, self.cells).argmax(axis=1), len(self.cells))
        best, index = np.empty((len(X), k), X.dtype), np.empty((len(X), k), np.intp)
        for c in np.flatnonzero(np.diff(ends)):
            rows = order[ends[c] : ends[c + 1]]
            scores = numpy_backend.product(X[rows], self.points[c])
            scores -= self.halves[c]
            best[rows], place = numpy_backend.k_largest(scores, k)
            index[rows] = self.members[c][place]
        return np.maximum(numpy_backend.squared_norms(X)[:, None] - 2 * best, 0), index


def recall(finder: Any, X: Floats, B: Floats, k: int) -> float:
    """The part of the k nearest of B to the rows of X that the finder finds."""
    rows = Rows(X)
    found = rows.stack(lambda block: finder.k_nearest(block, B, k)[1], k, np.intp)
    nearest = rows.stack(lambda block: numpy_backend.k_nearest(block, B, k)[1], k, np.intp)
    return float((nearest[:, :, None] == found[:, None, :]).any(axis=2).mean())


def _points(part: BaseEstimator, X: Any) -> Floats:
    rows = Rows(checked(part, X, fitting=True))
    return rows.take(np.arange(len(rows)))


def _some(n: int, most: int, rng: np.random.Generator) -> Ints:
    """Rows drawn at random, in order: all, or so many."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _kth_largest(best: Floats, k: int) -> Floats:
    """The k-th largest of each row, (b,): where k cells have a point as good, none worse is among the k."""
    if best.shape[1] < k:
        return np.full(len(best), -np.inf, best.dtype)
    return np.partition(best, -k, axis=1)[:, -k]


def _grouped(cell: Ints, c: int) -> tuple[Ints, Ints]:
    """An order that brings what is of one cell together, and where each of c cells begins in it."""
    order = np.argsort(cell.astype(np.min_scalar_type(c)), kind="stable")
    return order, np.concatenate([[0], np.bincount(cell, minlength=c).cumsum()])


def _above(row_of: Ints, first: int, scores: Floats, least: Floats) -> tuple[Ints, Ints, Floats]:
    """Rows, points and scores of a cell where a score is not below the least that can be among the k."""
    i, j = np.nonzero(scores >= least[row_of, None])
    return row_of[i], j + first, scores[i, j]


def _merged(X: Floats, k: int, parts: list[tuple[Ints, Ints, Floats]]) -> tuple[Floats, Ints]:
    """The k best of what was found for each row in several cells, in the form of ``k_nearest``."""
    row, point, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(
        row.astype(np.min_scalar_type(len(X))), kind="stable"
    )  # points of a row stay in ascending order
    row, point, score = row[order], point[order], score[order]
    counts = np.bincount(row, minlength=len(X))
    place = np.arange(len(row)) - np.repeat(counts.cumsum() - counts, counts)
    scores = np.full((len(X), counts.max()), -np.inf, X.dtype)
    points = np.zeros(scores.shape, np.intp)
    scores[row, place], points[row, place] = score, point
    best, index = numpy_backend.k_largest(scores, k)
    squared = np.maximum(numpy_backend.squared_norms(X)[:, None] - 2 * best, 0)
    return squared, np.take_along_axis(points, index, axis=1)
