"""The base set B (m, d): step 1 of Algorithm 1, by k-means, at random, or points of the user's own."""

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
from manihash.estimator import checked
from manihash.progress import advance, note
from manihash.rows.local import Rows, far_origin
from manihash.rows.torch import rows_of
from manihash.types import Floats

_log = logging.getLogger(__name__)

_ROUNDING = 64
# Up to this many rows k-means looks at all of them.
_ALL_ROWS = 2**20

# Which center each row goes to (n,), its squared distance; sum (m, d) and number (m,) of the rows of each.
Assigned = tuple[NDArray[np.int32], Floats, Floats, Floats]
Assign = Callable[[Floats], Assigned]


class BaseSet(BaseEstimator):
    """A way to choose base points: subclasses write ``_choose``."""

    takes_tensors = True

    size: int
    random_state: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the base points of X; they are ``points_`` (m, d)."""
        rows = rows_of(checked(self, X, fitting=True))
        for _ in rows.map(len):  # so that NaN is an error in whichever row it is
            pass
        rows.origin = far_origin(rows)
        self.fit_rows(rows)
        if rows.origin is not None:
            self.points_ += self._placed(rows.origin.astype(rows.dtype))
        return self

    def fit_rows(self, rows: Rows) -> Self:
        """As ``fit``, from rows that were checked and prepared."""
        size = self._size(len(rows))
        if size > len(rows):
            raise ValueError(
                f"a base set of {size} points asked of n_samples = {len(rows)} rows: "
                f"give more rows, or a smaller base: base={type(self).__name__}({max(2, len(rows) // 4)}), "
                f"on the command line --set base__size={max(2, len(rows) // 4)}"
            )
        self.points_ = self._choose(rows, size, checks.generator(self.random_state))
        if len(self.points_) < size:
            warnings.warn(
                f"the rows hold too few distinct points for a base set of {size}: it has {len(self.points_)}",
                stacklevel=2,
            )
        return self

    def finder(self, rows: Rows, k: int, rng: np.random.Generator) -> Any:
        """A part with ``k_nearest`` by which k of ``points_`` are found, or None: all are looked at."""
        return None

    def _placed(self, origin: Floats) -> Floats:
        """A point in the space that ``points_`` are in: that of the rows."""
        return origin

    def _size(self, n: int) -> int:
        """How many points to choose from n rows."""
        return checks.positive_int(self.size, "size")

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        raise TypeError(f"{type(self).__name__} chooses no points")


class RandomBase(BaseSet):
    """A base set of rows drawn at random, without repeats."""

    def __init__(self, size: int = 400, random_state: Any = None) -> None:
        self.size = size
        self.random_state = random_state

    def _choose(self, rows: Rows, size: int, rng: np.random.Generator) -> Floats:
        return distinct(rows.take(rng.choice(len(rows), size, replace=False)))


class KMeansBase(BaseSet):
    """A base set of k-means centers: Lloyd's rounds from rows drawn at random, as the authors run it.

    After ``fit``, ``inertia_`` is the sum of squared distances to the centers that the last round started
    from, and ``n_iter_`` the number of rounds. A cluster that loses all its points is given the point that
    lies farthest from its center.

    sample: of more than a million rows so many a center are looked at, drawn evenly; None for all of them.
    full_rounds: so many more rounds over all rows, from the centers of the sample. With any, a sample is
    taken wherever there are more rows than it wants: a warm start.
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
        some = sampled(rows, size, self.sample, rng, all_rows=0 if full_rounds else None).kept()
        centers = some.take(rng.choice(len(some), size, replace=False))
        centers, labels, self.inertia_, self.n_iter_ = lloyd(some, centers, max_iter, among_all(some))
        if full_rounds and some is not rows:
            every = rows.kept()
            centers, labels, self.inertia_, done = lloyd(every, centers, full_rounds, among_all(every))
            self.n_iter_ += done
        return distinct(centers[np.unique(labels)])


def sampled(
    rows: Rows,
    size: int,
    sample: int | None,
    rng: np.random.Generator,
    *,
    all_rows: int | None = None,
    most: int | None = None,
) -> Rows:
    """The rows that k-means looks at: all, or ``sample`` for each of its centers, but ``most`` at most.

    Up to ``all_rows`` rows, unless given a million, all are looked at.
    """
    n, all_rows = len(rows), _ALL_ROWS if all_rows is None else all_rows
    wanted = n if sample is None else checks.positive_int(sample, "sample") * size
    wanted = n if n <= max(all_rows, wanted) else wanted
    if most is not None and most < wanted:
        wanted, why = most, "as many as it holds in memory"
    elif wanted < n:
        why = f"{sample} a center (sample=null in the base set: at all)"
    else:
        return rows
    note(f"k-means looks at {wanted:,} of {n:,} rows, {why}")
    return rows.drawn(wanted, rng)


def squared_norms(rows: Rows) -> Floats:
    """The squared length of each row, (n,)."""
    (norms,), _ = rows.fold(lambda X: ((backend(X).squared_norms(X),), ()))
    return norms


def lloyd(
    rows: Rows, centers: Floats, max_iter: int, assign: Assign
) -> tuple[Floats, NDArray[np.int32], float, int]:
    """Lloyd's rounds, so many or until nothing changes any more: k-means from the given centers (m, d).

    What the last round gave, as ``lloyd_round``, and the number of rounds.
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
    """One round of Lloyd's: new centers (m, d), the labels (n,) they are means of, the sum of squares before.

    ``assign`` says which center a row goes to.
    """
    labels, squared, sums, counts = assign(centers)
    fill_empty(rows, sums, counts, labels, squared)
    filled = counts > 0
    new = centers.copy()
    new[filled] = sums[filled] / counts[filled, None]
    return new, labels, float(squared.sum(dtype=np.float64))


def among_all(rows: Rows) -> Assign:
    """The rows go to the nearest of all centers.

    The sums of a block are added up in float64 in the order of the rows, so threads do not change a bit.
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
    """Move the points that lie farthest from their centers into the clusters that are empty."""
    empty = np.flatnonzero(counts == 0)
    if not len(empty):
        return
    farthest = np.argsort(-squared, kind="stable")[: len(empty)]
    points = rows.take(farthest)
    # What is left of the distance of a point that coincides with its center: rounding.
    rounding = _ROUNDING * np.finfo(points.dtype).eps * numpy_backend.squared_norms(points)
    for cluster, point, x, least in zip(empty, farthest, points, rounding, strict=False):
        old = labels[point]
        if counts[old] > 1 and squared[point] > least:
            sums[old] -= x
            counts[old] -= 1
            sums[cluster], counts[cluster], labels[point] = x, 1, cluster


def distinct(points: Floats) -> Floats:
    """The points without repeats, in their order."""
    first = {(point + 0).tobytes(): i for i, point in reversed(list(enumerate(points)))}  # -0 + 0 is 0
    return points[sorted(first.values())]
