"""The base set B (m, d), step 1 of Algorithm 1: k-means centers or random rows.

Lloyd's algorithm visits blocks of rows: it assigns rows to centers, and updates the centers.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from manihash import checks
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.estimator import checked
from manihash.progress import advance, note
from manihash.rows import Rows, rows_to_fit
from manihash.types import Floats


class BaseSet(BaseEstimator):
    """Base class of base sets: subclasses implement ``_choose``."""

    takes_tensors: Any = True  # whether ``fit`` computes with torch if X is a tensor

    size: int
    random_state: Any
    _size_is_limit = False  # whether fewer points are expected if the rows are few

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
        rows = rows_to_fit(checked(self, X, fitting=True), by_distance=True)
        rows.check_all()
        with single_blas_thread():
            self.fit_rows(rows)
        if rows.origin is not None:
            self.points_ += self._placed(rows.origin.astype(rows.dtype))
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
        size = self._size(len(rows))
        if size > len(rows):
            raise ValueError(
                f"a base set of {size} points needs at least {size} rows, got n_samples = {len(rows)}: "
                f"give more rows, or a smaller base: {type(self).__name__}(size={max(2, len(rows) // 4)})"
            )
        self.points_ = self._choose(rows, size, checks.generator(self.random_state))
        if (m := len(self.points_)) < size and not (self._size_is_limit and size == len(rows)):
            warnings.warn(
                f"the rows have too few distinct values for a base set of {size} points: it has {m}",
                stacklevel=2,
            )
        return self

    def finder(self, rows: Rows, k: int, rng: np.random.Generator) -> Any:
        """Return the object that finds the nearest base points of a row.

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
        object with ``k_nearest``, or None
            The finder; None compares each row with all base points.
        """
        return None

    def _placed(self, origin: Floats) -> Floats:
        """Return the origin (d,) in the space of ``points_``."""
        return origin

    def _size(self, n: int) -> int:
        """Return the number of points to choose from n rows."""
        return checks.positive_int(self.size, "size")

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        raise TypeError(f"{type(self).__name__} does not implement _choose")


class RandomBase(BaseSet):
    """A base set of distinct rows drawn at random.

    Parameters
    ----------
    size : int, default=400
        Number of base points m.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        The base points. Duplicates are removed, so there can be fewer than ``size``.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import RandomBase
    >>> X = np.random.default_rng(0).normal(size=(1000, 8))
    >>> RandomBase(50, random_state=0).fit(X).points_.shape
    (50, 8)
    """

    def __init__(self, size: int = 400, random_state: Any = None) -> None:
        self.size = size
        self.random_state = random_state

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        return distinct(rows.take(rng.choice(len(rows), size, replace=False)))


class KMeansBase(BaseSet):
    """A base set of k-means centers, as in the authors' code.

    Lloyd's algorithm minimizes Σ_i min_j |x_i - c_j|², starting from rows drawn at random. A cluster that
    loses all its rows gets the row that is farthest from its center.

    Parameters
    ----------
    size : int, default=400
        Number of base points m.
    max_iter : int, default=10
        Maximum number of Lloyd iterations.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random numbers; None for a different seed on every call.
    sample : int, default=256
        Rows per center that are used if there are more than about a million rows (2^20), spread evenly over
        the data. None always uses all rows.
    full_rounds : int, default=0
        Number of additional iterations over all rows, starting from the centers of the sample. Above 0, a
        sample is used whenever there are more rows than it needs: a warm start.

    Attributes
    ----------
    points_ : ndarray of shape (m, d)
        The base points. Duplicates are removed, so there can be fewer than ``size``.
    inertia_ : float
        Sum of squared distances of the rows to the centers at the start of the last iteration.
    n_iter_ : int
        Number of iterations.

    References
    ----------
    Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.base import KMeansBase
    >>> X = np.random.default_rng(0).normal(size=(1000, 8))
    >>> KMeansBase(50, random_state=0).fit(X).points_.shape
    (50, 8)
    """

    def __init__(
        self,
        size: int = 400,
        max_iter: int = 10,
        random_state: Any = None,
        sample: int | None = 256,
        full_rounds: int = 0,
    ) -> None:
        self.size = size
        self.max_iter = max_iter
        self.random_state = random_state
        self.sample = sample
        self.full_rounds = full_rounds

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        max_iter = checks.positive_int(self.max_iter, "max_iter")
        full_rounds = checks.positive_int(self.full_rounds, "full_rounds", least=0)
        some = sampled(rows, size, self.sample, rng, all_rows=0 if full_rounds else None).cached()
        centers = some.take(rng.choice(len(some), size, replace=False))
        centers, labels, self.inertia_, self.n_iter_ = lloyd(some, centers, max_iter, among_all(some))
        if full_rounds and some is not rows:
            every = rows.cached()
            centers, labels, self.inertia_, done = lloyd(every, centers, full_rounds, among_all(every))
            self.n_iter_ += done
        return distinct(centers[np.unique(labels)])


_log = logging.getLogger(__name__)

# A squared distance below this many rounding errors of |x|² counts as zero.
_ROUNDING = 64
# Up to this many rows, k-means uses all of them.
_ALL_ROWS = 2**20

# Label (n,) and squared distance (n,) of each row; sum (m, d) and number (m,) of the rows of each center.
Assigned = tuple[NDArray[np.int32], Floats, Floats, Floats]
Assign = Callable[[Floats], Assigned]


def sampled(
    rows: Rows,
    size: int,
    sample: int | None,
    rng: np.random.Generator,
    *,
    all_rows: int | None = None,
    most: int | None = None,
) -> Rows:
    """Return the rows that k-means uses: all of them, or ``sample`` per center, at most ``most``.

    Up to ``all_rows`` rows (2^20 if None) all are used.
    """
    n, all_rows = len(rows), _ALL_ROWS if all_rows is None else all_rows
    used = n if sample is None else checks.positive_int(sample, "sample") * size
    used = n if n <= max(all_rows, used) else used
    if most is not None and most < used:
        used, why = most, "as many as fit into memory"
    elif used < n:
        why = f"{sample} per center (sample=None uses all rows)"
    else:
        return rows
    note(f"k-means uses {used:,} of {n:,} rows, {why}")
    return rows.sample(used, rng)


def squared_norms(rows: Rows) -> Floats:
    """Return the squared length of each row, (n,)."""
    (norms,), _ = rows.fold(lambda X: ((backend(X).squared_norms(X),), ()))
    return norms


def lloyd(
    rows: Rows, centers: Floats, max_iter: int, assign: Assign
) -> tuple[Floats, NDArray[np.int32], float, int]:
    """Run up to ``max_iter`` Lloyd iterations from centers (m, d), until no label changes.

    Returns the centers, the labels (n,), the inertia (see ``lloyd_round``) and the number of iterations.
    """
    labels, inertia, rounds = np.full(len(rows), -1, np.int32), np.inf, 0
    while rounds < max_iter:
        advance("k-means", rounds, max_iter)
        before = labels
        centers, labels, inertia = lloyd_round(rows, centers, assign)
        rounds += 1
        _log.debug("k-means round %d: inertia %.6g", rounds, inertia)
        if np.array_equal(before, labels):
            break
    advance("k-means", max_iter, max_iter)
    return centers, labels, inertia, rounds


def lloyd_round(rows: Rows, centers: Floats, assign: Assign) -> tuple[Floats, NDArray[np.int32], float]:
    """Return new centers (m, d), the labels (n,) they are means of, and the inertia before: one iteration.

    ``assign`` assigns rows to centers.
    """
    labels, squared, sums, counts = assign(centers)
    fill_empty(rows, sums, counts, labels, squared)
    filled = counts > 0
    new = centers.copy()
    new[filled] = sums[filled] / counts[filled, None]
    return new, labels, float(squared.sum(dtype=np.float64))


def among_all(rows: Rows) -> Assign:
    """Return a function that assigns each row to the nearest of all centers.

    Sums are accumulated in float64 in the order of the rows, so the number of threads does not change the
    result.
    """
    norms = squared_norms(rows)

    def assign(centers: Floats) -> Assigned:
        def block(X: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
            xp = backend(X)
            label, closeness, sums, counts = xp.nearest_sums(X, xp.like(centers, X))
            return (label, closeness), (sums, counts)

        (labels, closeness), (sums, counts) = rows.fold(block)
        return labels, np.maximum(norms - 2 * closeness, 0), sums, counts

    return assign


def fill_empty(rows: Rows, sums: Floats, counts: Floats, labels: NDArray[np.int32], squared: Floats) -> None:
    """Move the rows that are farthest from their centers into empty clusters, in place."""
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return
    farthest = np.argsort(-squared, kind="stable")[: len(empty)]
    points = rows.take(farthest)
    # Rounding error of the distance between a point and an equal center.
    rounding = _ROUNDING * np.finfo(points.dtype).eps * numpy_backend.squared_norms(points)
    for cluster, point, x, least in zip(empty, farthest, points, rounding, strict=False):
        old = labels[point]
        if counts[old] > 1 and squared[point] > least:
            sums[old] -= x
            counts[old] -= 1
            sums[cluster], counts[cluster], labels[point] = x, 1, cluster


def distinct(points: Floats) -> Floats:
    """Return the points without duplicates, in their original order."""
    first = {(point + 0).tobytes(): i for i, point in reversed(list(enumerate(points)))}  # -0 + 0 is 0
    return points[sorted(first.values())]
