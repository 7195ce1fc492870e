"""A finder that searches one precomputed list of base points per cell."""

from typing import Any

import numpy as np

from manihash.base.cell_search import CellLists, ListedSearch, check_ends, members_near, nearest_cell, recall
from manihash.base.closest import Search
from manihash.base.neighbors import RECALL_ROWS, CoarseNeighbors
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.rows import Rows
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints

# Number of training rows that the lists are built from.
_LIST_ROWS = 100_000


class ListedNeighbors(CoarseNeighbors):
    """Find the nearest base points in the list of the one cell nearest to a row: the fastest finder.

    The list of a cell holds the points of the ``probes`` cells nearest to it, and the points that were
    nearest to training rows of the cell according to ``CoarseNeighbors``. The recall is measured on rows that
    did not contribute to a list.

    Parameters
    ----------
    probes : int, default=4
        Number of cells whose points are in a list.
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
    members_ : ndarray
        The lists, concatenated; set when a model that uses the finder is fitted, as are the next two.
    ends_ : ndarray of shape (c + 1,)
        Start of each list in ``members_``.
    recall_ : float
        Share of the k nearest base points that is found, measured on training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import InductiveEmbedding
    >>> from manihash.base import LargeBase, ListedNeighbors
    >>> from manihash.embeddings import PCA
    >>> X = np.random.default_rng(0).normal(size=(3000, 8))
    >>> base = LargeBase(400, neighbors=ListedNeighbors())
    >>> model = InductiveEmbedding(2, base=base, embedding=PCA(), random_state=0).fit(X)
    >>> model.neighbor_recall_ > 0.8
    True
    """

    # The lists for the last base points searched, by the type of the rows.
    _lists: dict[Any, tuple[Floats, "CellLists"]] | None = None

    def __init__(self, probes: int = 4, cells: int | None = None, random_state: Any = None) -> None:
        super().__init__(probes, cells, random_state)

    def learn(self, rows: Rows, B: Floats, k: int, rng: np.random.Generator) -> None:
        """Build the lists from a sample of rows and measure the recall on others.

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
        n = len(rows)
        drawn = rng.choice(n, min(n, _LIST_ROWS + RECALL_ROWS), replace=False)
        apart = min(RECALL_ROWS, n // 10)
        members = members_near(B, self.cells_, self.probes, k)
        X = rows.take(np.sort(drawn[apart:]))
        cell = nearest_cell(LocalRows(X), self.cells_)
        order = np.argsort(cell, kind="stable")
        shown, cell = LocalRows(X[order]), cell[order]
        thorough = CoarseNeighbors(max(8, self.probes))
        thorough.cells_, thorough.bounds_ = self.cells_, self.bounds_
        used = shown.stack(lambda X: thorough.k_nearest(X, B, k)[1], k, np.intp)
        members = [np.union1d(listed, used[cell == c]) for c, listed in enumerate(members)]
        self.members_ = np.concatenate(members)
        self.ends_ = np.concatenate([[0], np.cumsum([len(listed) for listed in members])])
        self._lists = None
        self.recall_ = recall(self, rows.take(np.sort(drawn[: max(apart, 1)])), B, k)

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Find the k nearest base points of each row in the list of its cell.

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
            xp = torch_backend
            return xp.k_nearest_listed(
                X, xp.like(B, X), xp.like(self.cells_, X), self.members_, self.ends_, 1, k
            )
        held = self._lists or {}
        points, lists = held.get(X.dtype, (None, None))
        if lists is None or points is not B:
            lists = CellLists(
                numpy_backend.like(B, X), self.cells_, np.split(self.members_, self.ends_[1:-1])
            )
            self._lists = held | {X.dtype: (B, lists)}
        return lists.k_nearest(X, k)

    def _search(self, B: Floats, k: int) -> Search:
        return ListedSearch(B, self.cells_, self.members_, self.ends_)

    def check_growth(self) -> None:
        """Raise a ValueError: the lists are those of the training rows."""
        raise ValueError(
            "a model with ListedNeighbors cannot be updated, because its lists were made for the training "
            "rows: use hasher.refit(X), or fit with CoarseNeighbors()"
        )

    def check_points(self, m: int, k: int) -> None:
        """Raise unless the lists hold indices of m base points, as they must in a model from a file.

        Parameters
        ----------
        m : int
            Number of base points.
        k : int
            Number of neighbors that will be searched.
        """
        super().check_points(m, k)
        check_ends(self.ends_, len(self.cells_), len(self.members_), "ends_", least=k)
        if self.members_.dtype.kind not in "iu" or self.members_.min() < 0 or self.members_.max() >= m:
            raise ValueError(f"members_ holds other values than indices of {m} base points")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_lists"}
