"""The search of base points through coarse cells or principal components, with bounds: see ``closest``."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from manihash.base.cells import grouped
from manihash.base.closest import AllPoints, Closest, Points, Search, empty_closest, set_largest
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import buffer, subtract_outer, sum_error
from manihash.compute.threads import single_blas_thread
from manihash.rows.raw import ScaledBlock, as_block
from manihash.types import Floats, Ints

# Columns that are added before they are added to the others: the error of a sum grows with their number.
_COLUMNS = 128


class _ThroughCells(ABC):
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


class CoarseSearch(_ThroughCells):
    """A search among the points of the ``probes`` nearest cells; cell i holds points bounds[i] to [i + 1]."""

    def __init__(self, B: Floats, cells: Floats, probes: int, bounds: Ints) -> None:
        super().__init__(B, cells, probes)
        self.bounds = bounds

    def listed(self, cells: Ints) -> Ints:
        """The points of some cells, in ascending order."""
        return np.concatenate([np.arange(self.bounds[c], self.bounds[c + 1]) for c in np.sort(cells)])

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``: pairs of a row and a cell are grouped by cell.

        The scores of a row are side by side in memory, those of one cell after those of another.
        """
        probed = self.cells.closest(block, self.probes)
        found = empty_closest(len(block), k, self.points.error(block))
        size = np.diff(self.bounds)[probed.index]  # (b, p)
        end = size.cumsum(axis=1)
        first = end - size
        width = max(int(end[:, -1].max()), k + 1)
        scores = buffer("listed", (len(block) * width,), block.rows.dtype)
        scores.reshape(-1, width)[:, end[:, -1].min() :] = -np.inf  # columns of no point in some rows
        self._set_scores(block, probed.index, first + np.arange(0, len(scores), width)[:, None], scores)
        scores = scores.reshape(-1, width)
        set_largest(found, slice(None), scores)
        for column in (*found.index.T, found.next):
            cell = (np.arange(len(block)), (first <= column[:, None]).sum(axis=1) - 1)
            column += self.bounds[probed.index[cell]] - first[cell]
            np.minimum(column, self.points.m - 1, out=column)  # of no point, with a score of -inf
        found.certain[:] &= probed.certain
        found.exchange[:] &= probed.certain
        return found

    def _set_scores(self, block: ScaledBlock, cells: Ints, first: Ints, scores: Floats) -> None:
        """Set the scores of the points of cells (b, p), contiguous from the positions ``first`` (b, p) on."""
        (ct, h), p, place = self.points.typed(block.rows.dtype), self.probes, first.ravel()
        pairs, ends = grouped(cells.ravel(), len(self.bounds) - 1)
        for c in np.flatnonzero(np.diff(ends)):
            some, points = pairs[ends[c] : ends[c + 1]], slice(self.bounds[c], self.bounds[c + 1])
            rows = some // p
            of_cell = block.rows[rows] @ ct[:, points]
            subtract_outer(of_cell, block.scale[rows], h[points])
            if of_cell.shape[1]:
                sliding_window_view(scores, of_cell.shape[1], writeable=True)[place[some]] = of_cell


class ListedSearch(_ThroughCells):
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
        dtype = block.rows.dtype
        D, d = self._typed[dtype], block.rows.shape[1]
        parts = [slice(start, start + _COLUMNS) for start in range(0, d, _COLUMNS)]
        rows = sum(block.rows[:, part] @ D[:, part].T for part in parts)
        error = block.length * (sum_error(min(d, _COLUMNS) + len(parts), dtype) * self._length)
        error = error + block.error * self._length
        length = np.sqrt(numpy_backend.squared_norms(rows))
        return self.inner.closest(ScaledBlock(rows, block.scale, length, error), k)

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``, of rows that ``place`` returned."""
        return self.inner.index(Z, k)
