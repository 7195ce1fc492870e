"""Base sets of thousands of points, chosen and searched through coarse cells; a PCA before a base set."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manihash import checks
from manihash.base.cell_search import CellLists, coarse_cells, members_near, nearest_cell
from manihash.base.kmeans import Assign, Assigned, BaseSet, among_all, distinct, lloyd, sampled
from manihash.base.neighbors import CoarseNeighbors
from manihash.compute import torch as torch_backend
from manihash.rows import Rows
from manihash.rows.local import LocalRows, Subset
from manihash.rows.rows import CACHE_BYTES
from manihash.rows.torch import is_on_gpu
from manihash.types import Floats

# Least number of rows per center that k-means uses; number of rows per cell that the cells are learned from.
_ROWS_PER_CENTER, _ROWS_PER_CELL = 6, 256


class LargeBase(BaseSet):
    """A base set of thousands of points: all rows or, if there are more than ``size``, k-means centers.

    Up to ``size`` rows, every row is a base point (equal rows are one point). For more rows the base points
    are k-means centers, at the cost of hundreds of centers: the rows are grouped into √m coarse cells, and in
    each Lloyd iteration the rows of a cell are compared only with the centers in the ``probes`` nearest
    cells; on a GPU, with all centers, which is faster there.

    Parameters
    ----------
    size : int, default=10000
        Largest number of base points m.
    neighbors : object, default=None
        How the nearest base points of a row are found: ``CoarseNeighbors()`` (None), ``ListedNeighbors()``
        (faster), or ``ExactNeighbors()`` (all points).
    probes : int, default=8
        Number of nearest cells whose centers a row is compared with during k-means.
    max_iter : int, default=10
        Maximum number of Lloyd iterations.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.
    sample : int, default=256
        Rows per center that are used if there are more than about a million rows (2^20), but never more than
        fit into 512 MiB, or 6 per center if that is more. None removes the limit per center.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        The base points, in the order that ``neighbors_`` needs.
    neighbors_ : object
        The fitted ``neighbors``.
    inertia_ : float
        Sum of squared distances of the rows to the centers at the start of the last iteration; 0 if every row
        is a base point.
    n_iter_ : int
        Number of iterations; 0 if every row is a base point.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import LargeBase
    >>> X = np.random.default_rng(0).normal(size=(3000, 8))
    >>> LargeBase(400, random_state=0).fit(X).points_.shape
    (400, 8)
    >>> LargeBase(random_state=0).fit(X).points_.shape
    (3000, 8)
    """

    _size_is_limit = True

    def __init__(
        self,
        size: int = 10_000,
        neighbors: Any = None,
        probes: int = 8,
        max_iter: int = 10,
        random_state: Any = None,
        sample: int | None = 256,
    ) -> None:
        self.size = size
        self.sample = sample
        self.neighbors = neighbors
        self.probes = probes
        self.max_iter = max_iter
        self.random_state = random_state

    def most_points(self, n: int) -> int:
        """Return the largest number of base points that n rows allow.

        Parameters
        ----------
        n : int
            Number of training rows.

        Returns
        -------
        int
            ``size``, or the number of rows if that is less.
        """
        return min(self.size, n)

    def _size(self, n: int) -> int:
        return min(super()._size(n), n)

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        checks.positive_int(self.max_iter, "max_iter")
        checks.positive_int(self.probes, "probes")
        such_as = "CoarseNeighbors(), ListedNeighbors() or ExactNeighbors()"
        neighbors = CoarseNeighbors() if self.neighbors is None else self.neighbors
        self.neighbors_ = clone(checks.part(neighbors, "neighbors", "k_nearest", such_as))
        points = self._centers(rows, size, rng) if size < len(rows) else self._all_rows(rows)
        return points[self.neighbors_.arrange(points, rng)]

    def _all_rows(self, rows: Rows) -> Floats:
        """Return the distinct rows (m, d)."""
        self.inertia_, self.n_iter_ = 0.0, 0
        return distinct(rows.take(np.arange(len(rows))))

    def _centers(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        """Return ``size`` k-means centers (m, d), or fewer if the rows have fewer distinct values."""
        most = max(CACHE_BYTES // (rows.width * rows.dtype.itemsize), _ROWS_PER_CENTER * size)
        some = sampled(rows, size, self.sample, rng, most=most)
        some, assign = _on_gpu(some) if is_on_gpu(some) else _in_cells(_held(some), size, self.probes, rng)
        centers = some.take(rng.choice(len(some), size, replace=False))
        centers, labels, self.inertia_, self.n_iter_ = lloyd(some, centers, self.max_iter, assign)
        return distinct(centers[np.unique(labels)])

    def finder(self, rows: Rows, k: int, rng: np.random.Generator) -> Any:
        """Return the fitted ``neighbors_``, which has seen the training rows.

        Parameters
        ----------
        rows : Rows
            Prepared training rows.
        k : int
            Number of neighbors that will be searched.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        object with ``k_nearest``
            The finder.
        """
        self.neighbors_.learn(rows, self.points_, k, rng)
        return self.neighbors_


def _on_gpu(rows: Rows) -> tuple[Rows, Assign]:
    """Return the rows, cached, and the function that compares them with all centers."""
    rows = rows.cached()
    return rows, among_all(rows)


def _in_cells(rows: Rows, size: int, probes: int, rng: np.random.Generator) -> tuple[Rows, Assign]:
    """Return the rows in the order of their coarse cells, and the function that compares them by cells."""
    n, c = len(rows), round(size**0.5)
    cells = coarse_cells(rows.take(rng.choice(n, min(n, c * _ROWS_PER_CELL), replace=False)), c, rng)
    # Sorted by cell, rows of one block are compared with the same centers.
    rows = rows.subset(np.argsort(nearest_cell(rows, cells), kind="stable"))
    return rows, among_listed(rows, cells, probes)


def _held(rows: Rows) -> Rows:
    """Return the rows in memory, to be visited in any order; they are copied only if necessary."""
    lie = rows.X.X if isinstance(rows.X, Subset) else rows.X
    ready = type(lie) is np.ndarray and lie.dtype == rows.dtype and not rows.normalize and rows.origin is None
    if ready:
        return rows
    return LocalRows(torch_backend.to_numpy(rows.stack(lambda X: X, rows.width, rows.dtype)))


def among_listed(rows: Rows, cells: Floats, probes: int) -> Assign:
    """Return a function that assigns each row to the nearest center in the ``probes`` nearest cells.

    A block of rows meets only a few of the centers: only their sums are returned by the threads.
    """

    def assign(centers: Floats) -> Assigned:
        lists = CellLists(centers, cells, members_near(centers, cells, probes))
        m, n = len(centers), len(rows)
        sums, counts = np.zeros((m, rows.width)), np.zeros(m)
        labels, squared = np.empty(n, np.int32), np.empty(n, rows.dtype)

        def block(X: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            distance, label = lists.k_nearest(X, 1)
            met, place = np.unique(label, return_inverse=True)
            order, shape = np.arange(len(X)), (len(met), len(X))
            one_hot = sp.csr_array((np.ones(len(X), X.dtype), (place.ravel(), order)), shape=shape)
            return label[:, 0], distance[:, 0], met, one_hot @ X

        start = 0
        for label, distance, met, partial in rows.map(block):
            labels[start : start + len(label)], squared[start : start + len(label)] = label, distance
            start += len(label)
            sums[met] += partial
            counts += np.bincount(label, minlength=m)
        return labels, squared, sums, counts

    return assign
