"""The search of base points through coarse cells or principal components, with bounds: see ``closest``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from manihash.base.cells import by_count, candidates, grouped
from manihash.base.closest import AllPoints, Closest, Points, Search, empty_closest, set_largest
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import buffer, split_error, split_product
from manihash.compute.threads import single_blas_thread
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
        self._typed: dict[Any, list[Floats]] = {}

    def listed(self, cells: Ints) -> Ints:
        """The points of some cells, in ascending order."""
        return np.concatenate([np.arange(self.bounds[c], self.bounds[c + 1]) for c in np.sort(cells)])

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

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``, of rows that ``place`` returned."""
        return self.inner.index(Z, k)
