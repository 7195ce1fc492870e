"""A base set that is chosen in the first principal components of the rows."""

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from manihash import checks
from manihash.base.kmeans import BaseSet, KMeansBase
from manihash.base.reduced_neighbors import ReducedNeighbors
from manihash.rows import Rows
from manihash.types import Floats


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
