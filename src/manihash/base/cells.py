"""Coarse cells of base points: grouping points into cells, and searching the points of some cells."""

from typing import Any

import numpy as np

from manihash import sparse as sp
from manihash.compute import numpy as numpy_backend
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

# Lloyd iterations for the coarse cells.
_CELL_ITERATIONS = 10


def coarse_cells(X: Floats, c: int, rng: np.random.Generator) -> Floats:
    """Return c coarse centers (c, d): a few k-means iterations on the points of X."""
    cells = X[np.sort(rng.choice(len(X), c, replace=False))]
    for _ in range(_CELL_ITERATIONS):
        own = nearest_cell(LocalRows(X), cells)
        sums = np.asarray(sp.csr_array((np.ones(len(X)), (own, np.arange(len(X)))), shape=(c, len(X))) @ X)
        counts = np.bincount(own, minlength=c)[:, None]
        cells = np.where(counts > 0, sums / np.maximum(counts, 1), cells).astype(X.dtype)
    return cells


def nearest_cell(rows: Rows, cells: Floats) -> Ints:
    """Return the cell (n,) whose center is nearest to each row."""
    cells = cells.astype(rows.dtype, copy=False)
    return rows.stack(lambda X: numpy_backend.closeness(X, cells).argmax(axis=1)[:, None], 1, np.intp)[:, 0]


def members_near(B: Floats, cells: Floats, probes: int, k: int = 1) -> list[Ints]:
    """Return for each cell the points in its ``probes`` nearest cells, itself included, in ascending order.

    A cell whose list would have fewer than k points gets all points.
    """
    own = nearest_cell(LocalRows(B), cells)
    near = numpy_backend.k_nearest(cells, cells, min(probes, len(cells)))[1]
    listed = [np.flatnonzero(np.isin(own, of_cell)) for of_cell in near]
    return [members if len(members) >= k else np.arange(len(B)) for members in listed]


class CellLists:
    """For each cell, the base points that its rows are compared with, stored contiguously."""

    def __init__(self, B: Floats, cells: Floats, members: list[Ints]) -> None:
        self.cells, self.members = cells.astype(B.dtype, copy=False), members
        self.points = [B[listed] for listed in members]
        self.halves = [numpy_backend.squared_norms(points) / 2 for points in self.points]

    def k_nearest(self, X: Floats, k: int) -> tuple[Floats, Ints]:
        """Return squared distances and indices (b, k) of the nearest points listed for each row's cell."""
        order, ends = grouped(numpy_backend.closeness(X, self.cells).argmax(axis=1), len(self.cells))
        best, index = np.empty((len(X), k), X.dtype), np.empty((len(X), k), np.intp)
        for c in np.flatnonzero(np.diff(ends)):
            rows = order[ends[c] : ends[c + 1]]
            scores = numpy_backend.product(X[rows], self.points[c])
            scores -= self.halves[c]
            best[rows], place = numpy_backend.k_largest(scores, k)
            index[rows] = self.members[c][place]
        return np.maximum(numpy_backend.squared_norms(X)[:, None] - 2 * best, 0), index


def grouped(cell: Ints, c: int) -> tuple[Ints, Ints]:
    """Return a stable order that groups items by cell, and the start of each cell in it, (c + 1,)."""
    order = np.argsort(cell.astype(np.min_scalar_type(c)), kind="stable")
    return order, np.concatenate([[0], np.bincount(cell, minlength=c).cumsum()])


def nearest_in_cells(
    X: Floats, B: Floats, k: int, cells: Floats, bounds: Ints, probes: int
) -> tuple[Floats, Ints]:
    """Return squared distances and indices (b, k) of the nearest points in the ``probes`` nearest cells."""
    B = numpy_backend.like(B, X)
    scores = numpy_backend.closeness(X, numpy_backend.like(cells, X))
    probed = numpy_backend.k_largest(scores, probes)[1]  # (b, p)
    pairs, ends = grouped(probed.ravel(), len(cells))
    row_of, best = pairs // probed.shape[1], np.empty(len(pairs), X.dtype)
    half, found = numpy_backend.squared_norms(B) / 2, []
    for c in np.flatnonzero(np.diff(ends)):
        part, points = slice(ends[c], ends[c + 1]), slice(bounds[c], bounds[c + 1])
        scores = numpy_backend.product(X[row_of[part]], B[points])
        scores -= half[points]
        best[pairs[part]] = scores.max(axis=1)
        found.append((row_of[part], bounds[c], scores))
    least = kth_largest(best.reshape(probed.shape), k)
    return merged(X, k, [above(*in_cell, least) for in_cell in found])


def check_ends(ends: Ints, c: int, total: int, name: str, least: int = 0) -> None:
    """Raise unless ``ends`` (c + 1,) divide 0 ... total into c parts of at least ``least`` entries."""
    if ends.shape != (c + 1,) or ends.dtype.kind not in "iu" or ends[0] != 0 or ends[-1] != total:
        raise ValueError(f"{name} of shape {ends.shape} does not divide {total} entries into {c} cells")
    if (ends[1:] < ends[:-1] + least).any():
        raise ValueError(f"{name} has a cell of fewer than {least} entries")


def kth_largest(best: Floats, k: int) -> Floats:
    """Return the k-th largest value of each row, (b,): a lower bound for the k best scores.

    ``best`` holds the best score of each probed cell. With fewer than k cells there is no bound: -inf.
    """
    if best.shape[1] < k:
        return np.full(len(best), -np.inf, best.dtype)
    return np.partition(best, -k, axis=1)[:, -k]


def above(row_of: Ints, first: int, scores: Floats, least: Floats) -> tuple[Ints, Ints, Floats]:
    """Return rows, points and scores of a cell whose score reaches the row's lower bound ``least``."""
    i, j = np.nonzero(scores >= least[row_of, None])
    return row_of[i], j + first, scores[i, j]


def merged(X: Floats, k: int, parts: list[tuple[Ints, Ints, Floats]]) -> tuple[Floats, Ints]:
    """Return squared distances and indices (b, k) of the best of the candidates found in several cells."""
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


def recall(finder: Any, X: Floats, B: Floats, k: int) -> float:
    """Return the share of the k nearest points of B to the rows of X that the finder finds."""
    rows = LocalRows(X)
    found = rows.stack(lambda block: finder.k_nearest(block, B, k)[1], k, np.intp)
    nearest = rows.stack(lambda block: numpy_backend.k_nearest(block, B, k)[1], k, np.intp)
    return float((nearest[:, :, None] == found[:, None, :]).any(axis=2).mean())
