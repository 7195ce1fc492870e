"""How the nearest base points of a row are found: among all of them, or through coarse cells.

A finder belongs to a base set. ``arrange`` returns the order in which the base points B must be stored, and
``k_nearest(X, B, k)`` finds the k nearest of them.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from manihash import checks
from manihash.base.cell_search import (
    CoarseSearch,
    check_ends,
    coarse_cells,
    nearest_cell,
    nearest_in_cells,
    recall,
)
from manihash.base.closest import AllPoints, Search
from manihash.compute import backend
from manihash.compute import torch as torch_backend
from manihash.estimator import checked
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

# Number of training rows that the recall is measured on.
RECALL_ROWS = 2_000


class ExactNeighbors(BaseEstimator):
    """Find the nearest base points by comparing each row with all of them.

    Attributes
    ----------
    recall_ : float
        Always 1.0; set when a model that uses the finder is fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import ExactNeighbors, LargeBase
    >>> X = np.random.default_rng(0).normal(size=(3000, 8))
    >>> base = LargeBase(400, neighbors=ExactNeighbors(), random_state=0).fit(X)
    >>> squared, index = base.neighbors_.k_nearest(X[:2], base.points_, 3)
    >>> index.shape
    (2, 3)
    """

    takes_tensors = True  # in ``k_nearest``

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the base points; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Base points.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The finder.
        """
        self.arrange(_points(self, X), np.random.default_rng(0))
        return self

    def arrange(self, B: Floats, rng: np.random.Generator) -> Ints:
        """Return the order of the base points: unchanged.

        Parameters
        ----------
        B : ndarray of shape (m, d)
            Base points.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of shape (m,)
            The order in which the points must be stored.
        """
        return np.arange(len(B))

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Set ``recall_`` to 1.

        Parameters
        ----------
        rows : Rows
            Prepared training rows.
        B : ndarray of shape (m, d)
            Base points, in the order returned by ``arrange``.
        k : int
            Number of neighbors that will be searched.
        rng : numpy.random.Generator
            Source of random numbers.
        """
        self.recall_ = 1.0

    def _search(self, B: Floats, k: int) -> Search:
        return AllPoints(B)

    def check_growth(self) -> None:
        """Accept more base points: nothing was learned."""

    def with_points(self, m: int, B: Floats) -> tuple[Self, Ints]:
        """Return a finder among m old base points and more.

        Parameters
        ----------
        m : int
            Number of old base points.
        B : ndarray of shape (b, d)
            New base points.

        Returns
        -------
        finder : ExactNeighbors
            The finder itself.
        order : ndarray of shape (m + b,)
            The order in which old and new points must be stored: unchanged.
        """
        return self, np.arange(m + len(B))

    def check_points(self, m: int, k: int) -> None:
        """Accept any base points: nothing was learned.

        Parameters
        ----------
        m : int
            Number of base points.
        k : int
            Number of neighbors that will be searched.
        """

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Find the k nearest base points of each row.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.
        B : ndarray of shape (m, d)
            Base points, in the order returned by ``arrange``.
        k : int
            Number of neighbors.

        Returns
        -------
        squared : ndarray of shape (b, k)
            Squared distances, nearest first.
        index : ndarray of shape (b, k)
            Indices of the base points.
        """
        xp = backend(X)
        return xp.k_nearest(X, xp.like(B, X), k)


class CoarseNeighbors(BaseEstimator):
    """Find the nearest base points among those in the coarse cells nearest to a row.

    The base points are grouped into cells by k-means (an inverted file). A row is compared with the points of
    the ``probes`` cells whose centers are nearest to it, or of more cells if these hold fewer than k points.

    Parameters
    ----------
    probes : int, default=8
        Number of cells to search.
    cells : int, default=None
        Number of cells c; None for the square root of the number of base points.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    cells_ : ndarray of shape (c, d)
        Centers of the cells; empty cells are removed.
    bounds_ : ndarray of shape (c + 1,)
        Start of each cell among the ordered base points.
    order_ : ndarray of shape (m,)
        Order in which the base points must be stored; set by ``fit``.
    recall_ : float
        Share of the k nearest base points that is found, measured on training rows; set when a model that
        uses the finder is fitted.

    References
    ----------
    Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", IEEE TPAMI, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import CoarseNeighbors
    >>> B = np.random.default_rng(0).normal(size=(400, 8))
    >>> finder = CoarseNeighbors(probes=4, random_state=0).fit(B)
    >>> squared, index = finder.k_nearest(B[:2], B[finder.order_], 3)
    >>> index.shape
    (2, 3)
    """

    takes_tensors = True  # in ``k_nearest``

    def __init__(self, probes: int = 8, cells: int | None = None, random_state: Any = None) -> None:
        self.probes = probes
        self.cells = cells
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Group the base points into cells.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Base points.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The finder, with the order of the points in ``order_``.
        """
        self.order_ = self.arrange(_points(self, X), checks.generator(self.random_state))
        return self

    def arrange(self, B: Floats, rng: np.random.Generator) -> Ints:
        """Group the base points into cells and return the order that makes cells contiguous.

        Parameters
        ----------
        B : ndarray of shape (m, d)
            Base points.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of shape (m,)
            The order in which the points must be stored.
        """
        checks.positive_int(self.probes, "probes")
        n_cells = round(len(B) ** 0.5) if self.cells is None else checks.positive_int(self.cells, "cells")
        cells = coarse_cells(B, min(n_cells, len(B)), rng)
        own = nearest_cell(LocalRows(B), cells)
        held, own = np.unique(own, return_inverse=True)
        self.cells_ = cells[held]
        self.bounds_ = np.concatenate([[0], np.bincount(own).cumsum()])
        return np.argsort(own, kind="stable")

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Measure the recall on a sample of rows.

        Parameters
        ----------
        rows : Rows
            Prepared training rows.
        B : ndarray of shape (m, d)
            Base points, in the order returned by ``arrange``.
        k : int
            Number of neighbors that will be searched.
        rng : numpy.random.Generator
            Source of random numbers.
        """
        self.recall_ = recall(self, rows.take(_some(len(rows), RECALL_ROWS, rng)), B, k)

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Find the k nearest base points of each row in the probed cells.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.
        B : ndarray of shape (m, d)
            Base points, in the order returned by ``arrange``.
        k : int
            Number of neighbors.

        Returns
        -------
        squared : ndarray of shape (b, k)
            Squared distances, nearest first.
        index : ndarray of shape (b, k)
            Indices of the base points.
        """
        if torch_backend.is_tensor(X):
            xp, every = torch_backend, np.arange(len(B))
            return xp.k_nearest_listed(
                X, xp.like(B, X), xp.like(self.cells_, X), every, self.bounds_, self._probes(k), k
            )
        return nearest_in_cells(X, B, k, self.cells_, self.bounds_, self._probes(k))

    def _search(self, B: Floats, k: int) -> Search:
        return CoarseSearch(B, self.cells_, self._probes(k), self.bounds_)

    def check_growth(self) -> None:
        """Raise a ValueError if ``with_points`` is not possible: it is."""

    def with_points(self, m: int, B: Floats) -> tuple[Self, Ints]:
        """Return a finder among m old base points and more.

        A new point is added to the cell nearest to it: a row is compared with all old points that it was
        compared with before.

        Parameters
        ----------
        m : int
            Number of old base points.
        B : ndarray of shape (b, d)
            New base points.

        Returns
        -------
        finder : CoarseNeighbors
            A finder with the same cells.
        order : ndarray of shape (m + b,)
            The order in which old and new points must be stored.
        """
        old = np.repeat(np.arange(len(self.cells_)), np.diff(self.bounds_))
        cell = np.concatenate([old, nearest_cell(LocalRows(B), self.cells_)])
        bounds = np.concatenate([[0], np.bincount(cell, minlength=len(self.cells_)).cumsum()])
        return finder_like(self, bounds_=bounds), np.argsort(cell, kind="stable")

    def check_points(self, m: int, k: int) -> None:
        """Raise unless the cells divide m base points, as they must in a model from a file.

        Parameters
        ----------
        m : int
            Number of base points.
        k : int
            Number of neighbors that will be searched.
        """
        check_ends(self.bounds_, len(self.cells_), m, "bounds_")

    def _probes(self, k: int) -> int:
        """Return the number of cells to search: ``probes``, or enough for any of them to hold k points."""
        enough = int(np.searchsorted(np.sort(np.diff(self.bounds_)).cumsum(), k)) + 1
        return min(max(self.probes, enough), len(self.cells_))


def finder_like(finder: Any, **changes: Any) -> Any:
    """Return a finder with the same parameters and fitted values, except those that change."""
    new = clone(finder)
    values = {name: value for name, value in vars(finder).items() if name.endswith("_") and name[0] != "_"}
    for name, value in (values | changes).items():
        setattr(new, name, value)
    return new


def _points(part: BaseEstimator, X: Any) -> Floats:
    rows = LocalRows(checked(part, X, fitting=True))
    return rows.take(np.arange(len(rows)))


def _some(n: int, most: int, rng: np.random.Generator) -> Ints:
    """Return sorted positions of rows drawn at random, at most ``most`` of n."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
