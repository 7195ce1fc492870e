"""Base sets of thousands of points, chosen and searched through a coarse level; a PCA before a base set."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from manihash import checks
from manihash.base.kmeans import Assign, Assigned, BaseSet, KMeansBase, distinct, lloyd, sampled
from manihash.base.neighbors import CellLists, CoarseNeighbors, coarse_cells, members_near, nearest_cell
from manihash.base.reduced import ReducedNeighbors
from manihash.progress import note
from manihash.rows.local import KEEP_BYTES, Rows
from manihash.rows.places import Chosen
from manihash.types import Floats

# Rows for each base point, at least; rows that the coarse cells are learned from, for each cell.
_ROWS_A_POINT, _ROWS_A_CELL = 6, 256


class LargeBase(BaseSet):
    """Thousands of k-means centers at the price of hundreds: min(size, n // 6) of them.

    The rows fall into coarse cells, as many as the root of the number of centers; in each of Lloyd's rounds
    the rows of a cell look only at the centers in its ``probes`` nearest cells. ``inertia_`` and ``n_iter_``
    are as in ``KMeansBase``.

    sample: as in ``KMeansBase``, but never more rows than 512 MiB hold, or six a point where that is more.
    neighbors: how the nearest points are found afterwards: None for ``CoarseNeighbors()``,
    ``ListedNeighbors()`` for more speed, ``ExactNeighbors()`` for all points.
    """

    takes_tensors = False  # cells are visited in numpy; a card looks at all points of a KMeansBase(10_000)

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

    def _size(self, n: int) -> int:
        asked, most = super()._size(n), max(n // _ROWS_A_POINT, 2)
        if asked > most:
            note(
                f"a base set of {most:,} points, one for {_ROWS_A_POINT} rows, where {asked:,} were asked for"
            )
        return min(asked, most)

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        max_iter = checks.positive_int(self.max_iter, "max_iter")
        probes = checks.positive_int(self.probes, "probes")
        such_as = "CoarseNeighbors(), ListedNeighbors() or ExactNeighbors()"
        neighbors = CoarseNeighbors() if self.neighbors is None else self.neighbors
        self.neighbors_ = clone(checks.part(neighbors, "neighbors", "k_nearest", such_as))
        most = max(KEEP_BYTES // (rows.width * rows.dtype.itemsize), _ROWS_A_POINT * size)
        rows = _held(sampled(rows, size, self.sample, rng, most=most))
        n, c = len(rows), round(size**0.5)
        cells = coarse_cells(rows.take(rng.choice(n, min(n, c * _ROWS_A_CELL), replace=False)), c, rng)
        # In the order of their cells rows that look at the same centers come in one block.
        rows = rows.only(np.argsort(nearest_cell(rows, cells), kind="stable"))
        centers = rows.take(rng.choice(n, size, replace=False))
        assign = among_listed(rows, cells, probes)
        centers, labels, self.inertia_, self.n_iter_ = lloyd(rows, centers, max_iter, assign)
        points = distinct(centers[np.unique(labels)])
        return points[self.neighbors_.arrange(points, rng)]

    def finder(self, rows: Rows, k: int, rng: np.random.Generator) -> Any:
        """The part that finds the nearest points, which has seen the rows."""
        self.neighbors_.learn(rows, self.points_, k, rng)
        return self.neighbors_


def _held(rows: Rows) -> Rows:
    """The rows in memory, to be visited in any order: where they lie, if it is there, or copied once."""
    lie = rows.X.X if isinstance(rows.X, Chosen) else rows.X
    ready = type(lie) is np.ndarray and lie.dtype == rows.dtype and not rows.normalize and rows.origin is None
    return rows if ready else Rows(rows.stack(np.asarray, rows.width, rows.dtype))


def among_listed(rows: Rows, cells: Floats, probes: int) -> Assign:
    """The rows go to the nearest of the centers in the ``probes`` cells nearest to their own.

    A block touches few of many centers: only their sums are handed over.
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


class ReducedBase(BaseSet):
    """A base set chosen, and looked for, among the first ``n_components`` principal components of the rows.

    ``base`` is any base set, ``KMeansBase()`` where None. After ``fit`` ``points_`` (m, p) are in these
    components, onto which ``reduction_`` projects. Rows of p numbers or fewer are only turned.
    """

    takes_tensors = False

    def __init__(self, base: Any = None, n_components: int = 64, random_state: Any = None) -> None:
        self.base = base
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the base points of X; they are ``points_`` (m, p)."""
        super().fit(X)
        del self._projected
        return self

    def fit_rows(self, rows: Rows) -> Self:
        """As ``fit``, from rows that were checked and prepared."""
        rng = checks.generator(self.random_state)
        base = KMeansBase() if self.base is None else self.base
        self.base_ = clone(checks.part(base, "base", "fit_rows", "KMeansBase(), LargeBase() or RandomBase()"))
        self.reduction_ = ReducedNeighbors(self.n_components, checks.seed(rng)).fit_rows(rows)
        if self.base_.random_state is None:
            self.base_.set_params(random_state=checks.seed(rng))
        self._projected = self.reduction_.projected(rows)
        self.points_ = self.base_.fit_rows(self._projected).points_
        return self

    def finder(self, rows: Rows, k: int, rng: np.random.Generator) -> ReducedNeighbors:
        """The projection, and the part that finds the nearest points among what it gives."""
        self.reduction_.neighbors_ = self.base_.finder(self._projected, k, rng)
        return self.reduction_

    def _placed(self, origin: Floats) -> Floats:
        return self.base_._placed(self.reduction_.project(origin[None])[0])
