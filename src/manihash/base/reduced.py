"""A base set, and a finder of base points, in the first principal components of the rows."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from manihash import checks
from manihash.base.cell_search import ReducedSearch
from manihash.base.closest import Search, search_of
from manihash.base.kmeans import BaseSet, KMeansBase
from manihash.base.neighbors import finder_like
from manihash.base.principal import principal_directions
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute import torch as torch_backend
from manihash.estimator import checked
from manihash.rows import Rows, rows_of
from manihash.rows.local import LocalRows
from manihash.rows.rows import CACHE_BYTES
from manihash.types import Floats, Ints

# This many rows are enough to estimate a covariance.
_PCA_ROWS = 20_000


class ReducedNeighbors(BaseEstimator):
    """Project rows to their first principal components before searching the nearest base points.

    The base points are given in these components. ``ReducedBase`` creates this finder.

    Parameters
    ----------
    n_components : int, default=64
        Number of principal components p, at most d.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    directions_ : ndarray of shape (p, d)
        Principal directions. Distances do not need the mean of the rows, so it is not stored.
    neighbors_ : object or None
        Finder among the projected points; None compares with all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import ReducedNeighbors
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> ReducedNeighbors(n_components=8, random_state=0).fit(X).project(X[:5]).shape
    (5, 8)
    """

    def __init__(self, n_components: int = 64, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the principal directions of the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The finder, with the directions in ``directions_``.
        """
        rows = LocalRows(checked(self, X, fitting=True, least=2))
        return self.fit_rows(rows)

    def fit_rows(self, rows: Rows) -> Self:
        """Learn the principal directions from rows that are already checked and prepared.

        Parameters
        ----------
        rows : Rows
            Prepared rows. A random sample of 20,000 is used if there are more.

        Returns
        -------
        self
            The finder, with the directions in ``directions_``.
        """
        p = checks.positive_int(self.n_components, "n_components")
        n, rng = len(rows), checks.generator(self.random_state)
        some = np.arange(n) if n <= _PCA_ROWS else np.sort(rng.choice(n, _PCA_ROWS, replace=False))
        self.directions_ = principal_directions(rows.subset(some).cached(), p, rng)
        self.neighbors_ = None
        return self

    def check_points(self, m: int, k: int) -> None:
        """Raise unless the finder among the projected points fits m base points.

        Parameters
        ----------
        m : int
            Number of base points.
        k : int
            Number of neighbors that will be searched.
        """
        if self.neighbors_ is not None:
            self.neighbors_.check_points(m, k)

    def check_growth(self) -> None:
        """Raise a ValueError if ``with_points`` is not possible."""
        if self.neighbors_ is not None:
            self.neighbors_.check_growth()

    def with_points(self, m: int, B: Floats) -> tuple[Self, Ints]:
        """Return a finder among m old base points and more.

        Parameters
        ----------
        m : int
            Number of old base points.
        B : ndarray of shape (b, p)
            New base points in principal components.

        Returns
        -------
        finder : ReducedNeighbors
            A finder with the same directions.
        order : ndarray of shape (m + b,)
            The order in which old and new points must be stored.
        """
        if self.neighbors_ is None:
            return self, np.arange(m + len(B))
        inner, order = self.neighbors_.with_points(m, B)
        return finder_like(self, neighbors_=inner), order

    @property
    def takes_tensors(self) -> bool:
        """Whether ``k_nearest`` takes tensors."""
        return self.neighbors_ is None or getattr(self.neighbors_, "takes_tensors", False)

    @property
    def recall_(self) -> float | None:
        """Share of the nearest base points that is found; None if all are compared."""
        return None if self.neighbors_ is None else self.neighbors_.recall_

    def project(self, X: Floats) -> Floats:
        """Project a block of rows.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.

        Returns
        -------
        ndarray of shape (b, p)
            Their principal components.
        """
        if torch_backend.is_tensor(X):
            return torch_backend.product(X, torch_backend.like(self.directions_, X))
        return numpy_backend.rowwise_product(X, self.directions_)

    def projected(self, rows: Rows) -> Rows:
        """Return the projected rows, to be visited like any other rows.

        Parameters
        ----------
        rows : Rows
            Prepared rows of width d.

        Returns
        -------
        Rows
            Rows of width p: kept in memory if they fit, otherwise computed again on each visit.
        """
        width = len(self.directions_)
        if rows.lazy or len(rows) * width * rows.dtype.itemsize <= CACHE_BYTES:
            return rows_of(rows.map_blocks(self.project, width, rows.dtype, "projection"))
        return LocalRows(_Projected(self, rows))

    def k_nearest(self, X: Floats, B: Floats, k: int) -> tuple[Floats, Ints]:
        """Find the k nearest base points of each row.

        Parameters
        ----------
        X : ndarray of shape (b, d)
            Rows.
        B : ndarray of shape (m, p)
            Base points in principal components.
        k : int
            Number of neighbors.

        Returns
        -------
        squared : ndarray of shape (b, k)
            Squared distances, nearest first.
        index : ndarray of shape (b, k)
            Indices of the base points.
        """
        if self.neighbors_ is None:
            xp = backend(X)
            return xp.k_nearest(self.project(X), xp.like(B, X), k)
        return self.neighbors_.k_nearest(self.project(X), B, k)

    def _search(self, B: Floats, k: int) -> Search:
        return ReducedSearch(self.directions_, search_of(self.neighbors_, B, k))


class _Projected:
    """The principal components of rows, computed when they are read."""

    def __init__(self, part: ReducedNeighbors, rows: Rows) -> None:
        self.part, self.rows = part, rows
        self.shape, self.dtype = (len(rows), len(part.directions_)), rows.dtype

    def __getitem__(self, places: slice) -> Floats:
        start, stop, _ = places.indices(len(self.rows))
        return self.part.project(self.rows.block(start, stop))

    def rows_at(self, ordered: Ints) -> Floats:
        """Return the components of the rows at the given ascending positions, and of no others."""
        return self.rows.subset(ordered).stack(self.part.project, self.shape[1], self.dtype)


class ReducedBase(BaseSet):
    """A base set chosen and searched in the first principal components of the rows.

    Rows are projected to p = min(n_components, d) principal components, and ``base`` chooses its points
    there.

    Parameters
    ----------
    base : object, default=None
        The base set to choose in the components; None for ``KMeansBase()``.
    n_components : int, default=64
        Number of principal components p.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    points_ : ndarray of shape (m, p)
        The base points, in principal components.
    base_ : object
        The fitted ``base``.
    reduction_ : ReducedNeighbors
        The projection.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import KMeansBase, ReducedBase
    >>> X = np.random.default_rng(0).normal(size=(1000, 32))
    >>> ReducedBase(KMeansBase(50), n_components=8, random_state=0).fit(X).points_.shape
    (50, 8)
    """

    def __init__(self, base: Any = None, n_components: int = 64, random_state: Any = None) -> None:
        self.base = base
        self.n_components = n_components
        self.random_state = random_state

    @property
    def takes_tensors(self) -> bool:
        """Whether ``fit`` computes with torch if X is a tensor: if ``base`` does."""
        return bool(getattr(self.base, "takes_tensors", True))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose base points from the rows of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows to choose from.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        self
            The fitted base set, with the points in ``points_``.
        """
        super().fit(X)
        del self._projected
        return self

    def fit_rows(self, rows: Rows) -> Self:
        """Choose base points from rows that are already checked and prepared.

        Parameters
        ----------
        rows : Rows
            Prepared rows.

        Returns
        -------
        self
            The fitted base set, with the points in ``points_``.
        """
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
        """Return the projection together with the finder of ``base_``.

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
        ReducedNeighbors
            The finder.
        """
        self.reduction_.neighbors_ = self.base_.finder(self._projected, k, rng)
        return self.reduction_

    def _placed(self, origin: Floats) -> Floats:
        return self.base_._placed(self.reduction_.project(origin[None])[0])
