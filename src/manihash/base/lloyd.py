"""Lloyd's algorithm over blocks of rows: assignment of rows to centers, and the update of the centers."""

import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from manihash import checks
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.progress import advance, note
from manihash.rows import Rows
from manihash.types import Floats

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
