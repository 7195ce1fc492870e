"""Coarse cells of base points: grouping points into cells, and searching the points of some cells.

The searches among cells, or principal components, have bounds: see ``closest``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from manihash.base.closest import (
    AllPoints,
    Closest,
    Nearest,
    Points,
    Search,
    certain_nearest,
    empty_closest,
    set_largest,
)
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import buffer, split_error, split_product
from manihash.compute.threads import single_blas_thread
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.rows.raw import ScaledBlock, as_block
from manihash.types import Floats, Ints, Mask


class _CellSearch(ABC):
    """A search among the points listed for the cells nearest to a row."""

    in_cells = True

    def __init__(self, B: Floats, cells: Floats, probes: int) -> None:
        self.points, self.cells, self.probes = Points(B), AllPoints(cells), probes

    def place(self, Z: Floats) -> Floats:
        """The rows as they are."""
        return Z

    @abstractmethod
    def listed(self, cells: Ints) -> Ints:
        """The points of some cells, in ascending order."""

    @abstractmethod
    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``."""

    @abstractmethod
    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``."""

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``."""
        found = self.closest(as_block(Z, np.float64), k)
        exchange = np.flatnonzero(found.exchange)
        found.settle(exchange, Z[exchange], self.points)
        for row in np.flatnonzero(~found.certain):
            z = Z[row : row + 1]
            nearest = self.cells.index(z, self.probes)[0]
            able = self.listed(nearest)
            order = np.argsort(-self.points.exact_scores(z, able[None])[0], kind="stable")
            found.index[row] = able[order[:k]]
        return found.index


class CoarseSearch(_CellSearch):
    """A search among the points of the ``probes`` nearest cells; cell i holds points bounds[i] to [i + 1]."""

    def __init__(self, B: Floats, cells: Floats, probes: int, bounds: Ints) -> None:
        super().__init__(B, cells, probes)
        self.bounds = bounds
        self._numbers = [np.arange(first, last) for first, last in pairwise(bounds.tolist())]
        self._typed: dict[Any, list[Floats]] = {}

    def listed(self, cells: Ints) -> Ints:
        """The points of some cells, in ascending order."""
        return np.concatenate([self._numbers[c] for c in np.sort(cells)])

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``: pairs of a row and a cell are grouped by cell.

        The points of the nearest cell give a lower bound for the k + 2 best scores. Of the other cells, only
        the few scores that reach it are kept.
        """
        probed = self.cells.closest(block, self.probes)
        found = empty_closest(len(block), k, self.points.error(block))
        # With t as one more column of the rows, the product subtracts t h.
        rows = buffer("extended", (len(block), block.rows.shape[1] + 1), block.rows.dtype)
        rows[:, :-1], rows[:, -1] = block.rows, block.scale
        least = np.full(len(block), -np.inf, rows.dtype)
        score = self._scoring(rows)
        nearest = candidates(score, probed.index[:, :1], self.bounds, least, k + 2)
        others = candidates(score, probed.index[:, 1:], self.bounds, least)
        _set_best(found, *(np.concatenate(both) for both in zip(nearest, others, strict=True)))
        sure = self._sure(rows, probed, least, found)
        found.certain[:] &= sure
        found.exchange[:] &= sure
        return found

    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``."""
        probed = self.cells.nearest(row, self.probes)
        if probed is None:
            return None
        cells, extended = (
            self._typed_cells(row.rows.dtype),
            np.append(row.rows, row.rows.dtype.type(row.scale)),
        )
        chosen = probed[0].tolist()
        scores = np.concatenate([extended @ cells[c] for c in chosen])
        found = certain_nearest(scores, k, float(self.points.error(row)))
        if found is None:
            return None
        points = np.concatenate([self._numbers[c] for c in chosen])
        return points[found[0]], *found[1:]

    def _sure(self, rows: Floats, probed: Closest, least: Floats, found: Closest) -> Mask:
        """The rows (b,) whose cells are certain, or whose two cells in doubt have no point near enough."""
        sure = probed.certain.copy()
        some = np.flatnonzero(probed.exchange & (least < found.scores[:, -1] - 2 * found.error))
        if self.probes > 1 and len(some):
            doubtful = np.column_stack([probed.index[some, -1], probed.next[some]])
            reached = candidates(self._scoring(rows[some]), doubtful, self.bounds, least[some])[0]
            sure[some] = np.bincount(reached, minlength=len(some)) == 0
        return sure

    def _scoring(self, rows: Floats) -> Callable[[Ints, int], Floats]:
        """The function that computes the scores of some rows (b, d + 1) and of the points of a cell."""
        cells = self._typed_cells(rows.dtype)

        def score(some: Ints, c: int) -> Floats:
            taken = buffer("taken", (len(some), rows.shape[1]), rows.dtype)
            rows.take(some, axis=0, out=taken, mode="clip")
            return np.matmul(
                taken, cells[c], out=buffer("scores", (len(some), cells[c].shape[1]), rows.dtype)
            )

        return score

    def _typed_cells(self, dtype: Any) -> list[Floats]:
        """The points of each cell (d + 1, points), contiguous, with -h as the last coordinate."""
        if dtype not in self._typed:
            extended = np.vstack([self.points.c.T, -self.points.h])
            with np.errstate(over="ignore"):
                parts = np.split(extended.astype(dtype), self.bounds[1:-1], axis=1)
            self._typed[dtype] = [np.ascontiguousarray(part) for part in parts]
        return self._typed[dtype]


def _set_best(found: Closest, row: Ints, point: Ints, score: Floats) -> None:
    """Set the best of the candidates, which are given in any order.

    A row without enough candidates gets any points, with a score of -inf.
    """
    b, k = found.index.shape
    order = np.argsort(row.astype(np.min_scalar_type(b)), kind="stable")
    point = np.append(point[order], 0)
    for some, first, scores in by_count(row, score[order], b, k + 1):
        set_largest(found, some, scores)
        for column in (*found.index.T, found.next):
            column[some] = np.take(point, first + column[some], mode="clip")


class ListedSearch(_CellSearch):
    """A search among the points that are listed for the nearest cell: members[ends[i]:ends[i + 1]]."""

    def __init__(self, B: Floats, cells: Floats, members: Ints, ends: Ints) -> None:
        super().__init__(B, cells, 1)
        self.members = np.split(members, ends[1:-1])
        self._typed: dict[Any, list[tuple[Floats, Floats]]] = {}

    def listed(self, cells: Ints) -> Ints:
        """The points of the only cell, in ascending order."""
        return np.sort(self.members[cells[0]])

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``: rows are grouped by their nearest cell."""
        nearest = self.cells.closest(block, 1)
        found = empty_closest(len(block), k, self.points.error(block))
        order, ends = grouped(nearest.index[:, 0], len(self.members))
        lists = self._lists(block.rows.dtype)
        for c in np.flatnonzero(np.diff(ends)):
            rows, (ct, h) = order[ends[c] : ends[c + 1]], lists[c]
            set_largest(found, rows, block.rows[rows] @ ct, (block.scale[rows], h))
            found.index[rows] = self.members[c][found.index[rows]]
            found.next[rows] = self.members[c][found.next[rows]]
        found.certain[:] &= nearest.certain
        found.exchange[:] &= nearest.certain
        return found

    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``."""
        cell = self.cells.nearest(row, 1)
        if cell is None:
            return None
        c = int(cell[0][0])
        ct, h = self._lists(row.rows.dtype)[c]
        found = certain_nearest(row.rows @ ct - h * row.scale, k, float(self.points.error(row)))
        return None if found is None else (self.members[c][found[0]], *found[1:])

    def _lists(self, dtype: Any) -> list[tuple[Floats, Floats]]:
        """The points of each list and half their squared lengths, contiguous."""
        if dtype not in self._typed:
            ct, h = self.points.typed(dtype)
            self._typed[dtype] = [(np.take(ct, listed, axis=1), h[listed]) for listed in self.members]
        return self._typed[dtype]


class ReducedSearch:
    """A search among points given in the components along ``directions`` (p, d), by an inner search."""

    def __init__(self, directions: Floats, inner: Search) -> None:
        self.inner, self.points, self.in_cells = inner, inner.points, inner.in_cells
        self._exact = directions.astype(np.float64)
        self._length = float(np.linalg.norm(self._exact))
        self._typed = {np.dtype(kind): directions.astype(kind) for kind in (np.float32, np.float64)}

    def place(self, Z: Floats) -> Floats:
        """The components (b, p) of rows in float64; those of a row do not depend on the batch."""
        with single_blas_thread():
            return self.inner.place(numpy_backend.rowwise_product(Z, self._exact))

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``."""
        rows = split_product(block.rows, self._typed[block.rows.dtype])
        error = block.length * (split_error(block.rows.shape[1], rows.dtype) * self._length)
        error = error + block.error * self._length
        length = np.sqrt(numpy_backend.squared_norms(rows))
        return self.inner.closest(ScaledBlock(rows, block.scale, length, error), k)

    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``."""
        z = split_product(row.rows[None], self._typed[row.rows.dtype])[0]
        error = row.length * (split_error(len(row.rows), z.dtype) * self._length) + row.error * self._length
        length = np.sqrt(z @ z)
        return self.inner.nearest(ScaledBlock(z, row.scale, length, error), k)

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``, of rows that ``place`` returned."""
        return self.inner.index(Z, k)


# Lloyd iterations for the coarse cells.
_CELL_ITERATIONS = 10

# Rows, points and scores, one each per pair.
Candidates = tuple[Ints, Ints, Floats]


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
    half, least = numpy_backend.squared_norms(B) / 2, np.full(len(X), -np.inf, X.dtype)

    def score(some: Ints, c: int) -> Floats:
        of_cell = slice(bounds[c], bounds[c + 1])
        found = numpy_backend.product(X[some], B[of_cell])
        found -= half[of_cell]
        return found

    nearest = candidates(score, probed[:, :1], bounds, least, k)
    others = candidates(score, probed[:, 1:], bounds, least)
    row, point, reached = (np.concatenate(both) for both in zip(nearest, others, strict=True))
    order = np.argsort(row * len(B) + point)  # of equal scores, the first points are kept
    best, index = np.empty((len(X), k), X.dtype), np.empty((len(X), k), np.intp)
    for some, place, ragged in by_count(row, reached[order], len(X), k):
        best[some], column = numpy_backend.k_largest(ragged, k)
        index[some] = point[order][place[:, None] + column]
    return np.maximum(numpy_backend.squared_norms(X)[:, None] - 2 * best, 0), index


def candidates(
    score: Callable[[Ints, int], Floats], cells: Ints, bounds: Ints, least: Floats, raise_to: int = 0
) -> Candidates:
    """Return rows, points and scores (p,) of the points of cells (b, q) whose score reaches ``least`` (b,).

    ``score(rows, c)`` returns the scores of the points of cell c, which are those from bounds[c] to bounds[c
    + 1]. With ``raise_to``, ``least`` becomes the score of that rank in the cell before it is used: a lower
    bound for that many of the best scores.
    """
    parts: list[Candidates] = [(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, least.dtype))]
    pairs, ends = grouped(cells.ravel(), len(bounds) - 1)
    row_of = pairs // max(cells.shape[1], 1)
    for c in np.flatnonzero(np.diff(ends)):
        some, m = row_of[ends[c] : ends[c + 1]], bounds[c + 1] - bounds[c]
        scores = score(some, int(c))
        if m >= raise_to > 0:
            least[some] = np.sort(scores, axis=1)[:, m - raise_to]
        place = (scores >= least[some, None]).reshape(-1).nonzero()[0]
        row = place // max(m, 1)
        parts.append((some[row], place - row * m + bounds[c], scores.reshape(-1)[place]))
    rows, points, reached = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, points, reached


def by_count(row: Ints, score: Floats, b: int, k: int) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield rows with about as many candidates, where theirs start, and their scores (rows, width >= k).

    ``score`` is in the order of the rows; ``row`` may be in any order. Columns beyond the candidates of a row
    have a score of -inf.
    """
    score = np.append(score, score.dtype.type(-np.inf))
    count = np.bincount(row, minlength=b)
    first, width, done = count.cumsum() - count, max(16, k), -1
    while done < count.max():
        some = np.flatnonzero((count > done) & (count <= width))
        ragged = np.take(score, first[some, None] + np.arange(width), mode="clip")
        ragged[np.arange(width) >= count[some, None]] = -np.inf
        yield some, first[some], ragged
        done, width = width, 2 * width


def check_ends(ends: Ints, c: int, total: int, name: str, least: int = 0) -> None:
    """Raise unless ``ends`` (c + 1,) divide 0 ... total into c parts of at least ``least`` entries."""
    if ends.shape != (c + 1,) or ends.dtype.kind not in "iu" or ends[0] != 0 or ends[-1] != total:
        raise ValueError(f"{name} of shape {ends.shape} does not divide {total} entries into {c} cells")
    if (ends[1:] < ends[:-1] + least).any():
        raise ValueError(f"{name} has a cell of fewer than {least} entries")


def recall(finder: Any, X: Floats, B: Floats, k: int) -> float:
    """Return the share of the k nearest points of B to the rows of X that the finder finds."""
    rows = LocalRows(X)
    found = rows.stack(lambda block: finder.k_nearest(block, B, k)[1], k, np.intp)
    nearest = rows.stack(lambda block: numpy_backend.k_nearest(block, B, k)[1], k, np.intp)
    return float((nearest[:, :, None] == found[:, None, :]).any(axis=2).mean())
