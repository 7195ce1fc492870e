"""Statistics of the training rows that a fitted hasher keeps, to compare later rows with.

Landmarks are a few training rows that all others, and later new rows, are compared with. A hasher fits the
rows that it was fitted to better than fresh rows: they pull its means, directions and base points towards
themselves. Statistics of training rows under the hasher would therefore differ from those of fresh rows
without any drift. So drift is measured by landmarks, which are random training rows, and the reference is
made of training rows that are not landmarks. Given the landmarks, these rows and fresh rows of the same
distribution are exchangeable, for any hasher and any number of rows. Rows are compared in float64, and
squared distances are rounded to multiples of a unit: equal rows have equal distances, whatever the type and
the batch they come in.

What the hasher itself makes of the training rows is kept as well, to say where new rows differ: how many rows
are nearest to each base point, and the mean of each bit. These two are not tested, since training rows and
fresh rows differ in them.
"""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from manihash.base.graph import BaseGraph, nearest
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.rows import Rows
from manihash.types import Floats, Ints, Mask

N_QUANTILES = 1025
_MOST_LANDMARKS = 64
_UNIT = 1e-6  # of the mean squared distance between landmarks
_MOVED = 1e-4  # of the largest standard deviation of a column, by which rounding may move a landmark
_BEYOND = 0.05  # share of the rows of a cell beyond its edge
_MOST_REFERENCES = 8


class Reference(TypedDict):
    """A sample of rows, described by the landmarks; plain values, stored in the model file."""

    n_rows: int  # rows that the sample stands for
    n_sampled: int
    quantiles: NDArray[np.float64]  # (1025,) of the squared distance to the nearest landmark, in units
    center: NDArray[np.float64]  # (1025,) of the squared distance to the mean of the landmarks, in units
    cells: NDArray[np.int32]  # (L,) rows nearest to each landmark
    edges: NDArray[
        np.float64
    ]  # (L,) squared distance that at most 5 % of the rows of a cell exceed, in units
    sides: NDArray[np.int32]  # (L,) rows that are nearer to a landmark than to the next one


@dataclass(frozen=True)
class Seen:
    """Rows, described by the landmarks: squared distances are whole numbers of units."""

    cell: Ints  # (n,) the nearest landmark
    squared: Floats  # (n,) squared distance to it
    center: Floats  # (n,) squared distance to the mean of the landmarks
    sides: Ints  # (L,) rows that are nearer to a landmark than to the next one

    def cells(self, n_landmarks: int) -> Ints:
        """Number of rows nearest to each landmark, (L,)."""
        return np.bincount(self.cell, minlength=n_landmarks)


def number_of_landmarks(n: int) -> int:
    """Return how many of n rows become landmarks: so few that they do not stand out among all rows."""
    return max(1, min(_MOST_LANDMARKS, int(n**0.5)))


def chosen(rows: Rows, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Return landmarks (L, d), distinct random rows, and the ascending positions of the other rows."""
    n = len(rows)
    index = np.sort(rng.choice(n, number_of_landmarks(n), replace=False))
    others = np.delete(np.arange(n), index)
    points = _short(np.unique(in_float64(rows).take(index), axis=0))
    return points[rng.permutation(len(points))], others


def _short(points: Floats) -> Floats:
    """Return points (L, d) in float32 if they hardly move, in float64 otherwise."""
    with np.errstate(over="ignore"):
        rounded = points.astype(np.float32)
    moved = np.abs(rounded - points).max()
    return rounded if moved <= _MOVED * points.std(axis=0).max() else points


def in_float64(rows: Rows) -> Rows:
    """Return the same rows, prepared in float64."""
    prepared = rows.prepared_as | {"dtype": np.dtype(np.float64)}
    return type(rows)(rows.X, **prepared, row_numbers=rows.row_numbers)


def unit_of(landmarks: Floats) -> float:
    """Return the unit of squared distances to landmarks (L, d); 0 if they do not differ."""
    points = landmarks.astype(np.float64)
    spread = numpy_backend.squared_norms(points - points.mean(axis=0)).mean()
    return float(2 * _UNIT * spread)


def compared(X: Any, landmarks: Floats, unit: float) -> tuple[Ints, Floats, Floats, Mask]:
    """Return nearest landmarks (b,), squared distances to them and to their mean (b,), and sides (b, L)."""
    X = np.asarray(backend(X).to_numpy(X), np.float64)
    points = landmarks.astype(np.float64, copy=False)
    squared = numpy_backend.squared_distances(X, np.vstack([points, points.mean(axis=0)]))
    if unit > 0:
        np.rint(squared / unit, out=squared)
    squared, center = squared[:, :-1], squared[:, -1]
    cell = squared.argmin(axis=1)
    return cell, squared[np.arange(len(X)), cell], center, squared < np.roll(squared, -1, axis=1)


def reference(seen: Seen, n_rows: int, n_landmarks: int) -> Reference:
    """Return rows as a reference, which stands for ``n_rows`` rows."""
    n, cells = len(seen.cell), seen.cells(n_landmarks)
    edges = np.zeros(n_landmarks)
    for c in np.flatnonzero(cells):
        edges[c] = np.sort(seen.squared[seen.cell == c])[-1 - beyond(cells[c])]
    rank = np.maximum(np.ceil(np.linspace(0, 1, N_QUANTILES) * n).astype(int) - 1, 0)
    return {
        "n_rows": n_rows,
        "n_sampled": n,
        "quantiles": np.sort(seen.squared)[rank],
        "center": np.sort(seen.center)[rank],
        "cells": cells.astype(np.int32),
        "edges": edges,
        "sides": seen.sides.astype(np.int32),
    }


def beyond(count: Any) -> Any:
    """Return how many rows of a cell lie beyond its edge."""
    return np.floor(_BEYOND * np.asarray(count)).astype(int)


def mixed(references: list[Reference], weights: Floats) -> Reference:
    """Return the mixture of references with given weights, as one sample of the size that it is worth."""
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    sizes = np.array([each["n_sampled"] for each in references])
    size = max(1, int(1 / np.sum(shares**2 / sizes)))

    def counts(name: str) -> NDArray[np.int32]:
        total = sum(s * each[name] / n for s, each, n in zip(shares, references, sizes, strict=True))  # type: ignore[literal-required]
        return np.rint(size * np.asarray(total)).astype(np.int32)

    def quantiles(name: str) -> Floats:
        values = np.concatenate([each[name] for each in references])  # type: ignore[literal-required]
        order = np.argsort(values, kind="stable")
        up_to = np.repeat(shares / N_QUANTILES, N_QUANTILES)[order].cumsum()
        place = np.searchsorted(up_to, np.linspace(0, 1, N_QUANTILES) - 1e-9)
        return values[order][np.minimum(place, len(values) - 1)]

    return {
        "n_rows": sum(each["n_rows"] for each in references),
        "n_sampled": size,
        "quantiles": quantiles("quantiles"),
        "center": quantiles("center"),
        "cells": counts("cells"),
        "edges": np.max([each["edges"] for each in references], axis=0),
        "sides": counts("sides"),
    }


def pooled(references: list[Reference]) -> Reference:
    """Return the rows of all references together."""
    return mixed(references, np.array([each["n_rows"] for each in references], float))


def with_reference(references: list[Reference], new: Reference) -> list[Reference]:
    """Return the references with one more; of many, the two smallest of earlier updates are pooled."""
    first, *others = references
    while len(others) >= _MOST_REFERENCES:
        *larger, a, b = sorted(others, key=lambda each: -each["n_rows"])
        others = [*larger, pooled([a, b])]
    return [first, *others, new]


ROWS = 10_000  # rows that statistics are computed from


class Statistics(TypedDict):
    """What a hasher keeps about its training rows; plain values, stored in the model file."""

    n_rows: int  # rows that the model knows
    landmarks: Floats  # (L, d), prepared as the hasher prepares rows
    references: list[Reference]  # of the training rows, then of the rows of updates
    usage: NDArray[np.float32]  # (m,) share of the rows nearest to each base point; empty without base points
    bit_means: NDArray[np.float32]  # (r,)
    reach: float  # median distance of a row to its k-th nearest base point; 0 without base points


class Observed:
    """New rows as the landmarks and the hasher see them.

    ``usage`` (m,) is the share of the rows nearest to each base point, ``bit_means`` (r,) how often each bit
    is 1, and ``reach`` the median distance to the k-th nearest base point.
    """

    def __init__(self, seen: Seen, usage: Floats, bit_means: Floats, reach: float) -> None:
        self.seen, self.usage, self.bit_means, self.reach = seen, usage, bit_means, reach

    @classmethod
    def of(cls, hasher: Any, rows: Rows, landmarks: Floats) -> "Observed":
        """Visit rows that are prepared for a fitted hasher."""
        graph: BaseGraph | None = getattr(hasher, "_graph", None)
        unit, dtype = unit_of(landmarks), rows.dtype

        def block(X: Any) -> tuple[Any, ...]:
            *described, sides = compared(X, landmarks, unit)
            Z = np.asarray(backend(X).to_numpy(X), dtype)
            own, far = _nearest(Z, graph)
            ones = np.asarray(hasher._bits_of(hasher._embed(Z))).sum(axis=0)
            return *described, own, far, sides.sum(axis=0), ones

        *columns, sides, ones = zip(*in_float64(rows).map(block, "statistics"), strict=True)
        cell, squared, center, own, far = (np.concatenate(column) for column in columns)
        m = 0 if graph is None else len(graph.B)
        return cls(
            Seen(cell, squared, center, np.sum(sides, axis=0)),
            np.bincount(own, minlength=m) / len(rows),
            np.sum(ones, axis=0) / len(rows),
            float(np.sqrt(np.median(far))) if m else 0.0,
        )


def _nearest(X: Floats, graph: BaseGraph | None) -> tuple[Ints, Floats]:
    """Return the nearest base point of each row (b,) and the squared distance of the k-th (b,).

    A row that is a base point itself belongs to the next one: fresh rows are no base points.
    """
    if graph is None:
        return np.empty(0, np.intp), np.empty(0)
    squared, index = nearest(X, graph.B, graph.k, graph.finder)
    itself = squared[:, 0] <= 1e-12 * squared[:, -1]
    return np.where(itself, index[:, min(1, graph.k - 1)], index[:, 0]), squared[:, -1]


def training_statistics(hasher: Any, rows: Rows, sizes: list[int] | None = None) -> Statistics:
    """Return the statistics of the rows that a hasher was fitted to; at most 10,000 rows are visited.

    ``sizes`` divide the rows into consecutive samples, of which again 10,000 rows are visited.
    """
    rng = np.random.default_rng(0)
    some = rows if len(rows) <= ROWS else rows.sample(ROWS, rng)
    landmarks, others = chosen(some, rng)
    seen = Observed.of(hasher, some.subset(others), landmarks)
    references = [reference(seen.seen, len(rows), len(landmarks))]
    if sizes is not None:
        # Of more than 10,000 rows the few landmarks may be visited: less than 1 % of a sample.
        visited = others if some is rows else np.arange(len(rows))
        references = _references(hasher, rows, landmarks, visited, sizes)
    return {
        "n_rows": len(rows),
        "landmarks": landmarks,
        "references": references,
        "usage": seen.usage.astype(np.float32),
        "bit_means": seen.bit_means.astype(np.float32),
        "reach": seen.reach,
    }


def _references(
    hasher: Any, rows: Rows, landmarks: Floats, visited: Ints, sizes: list[int]
) -> list[Reference]:
    """Return a reference for each of several numbers of consecutive rows, from the ``visited`` rows."""
    ends, found = np.cumsum(sizes), []
    for size, own in zip(sizes, np.split(visited, np.searchsorted(visited, ends[:-1])), strict=True):
        some = own[np.linspace(0, len(own) - 1, min(len(own), ROWS // len(sizes))).astype(int)]
        if len(some):
            seen = Observed.of(hasher, rows.subset(some), landmarks).seen
            found.append(reference(seen, size, len(landmarks)))
    return found


def sizes_after(known: Statistics, n: int) -> list[int]:
    """Return the sizes of the samples that a model knows, cut to n rows, and of the rows after them."""
    ends = np.minimum(np.cumsum([each["n_rows"] for each in known["references"]]), n)
    sizes = [int(size) for size in np.diff([0, *ends, n]) if size]
    while len(sizes) > _MOST_REFERENCES + 1:  # neighbors among earlier updates and refits become one
        i = min(range(1, len(sizes) - 2), key=lambda i: sizes[i] + sizes[i + 1])
        sizes[i : i + 2] = [sizes[i] + sizes[i + 1]]
    return sizes


def with_rows(hasher: Any, known: Statistics, rows: Rows) -> Statistics:
    """Return the statistics with more rows, which were added by an update."""
    some = rows if len(rows) <= ROWS else rows.sample(ROWS, np.random.default_rng(0))
    seen = Observed.of(hasher, some, known["landmarks"])
    new = reference(seen.seen, len(rows), len(known["landmarks"]))
    n = known["n_rows"] + len(rows)
    share = len(rows) / n
    return {
        "n_rows": n,
        "landmarks": known["landmarks"],
        "references": with_reference(known["references"], new),
        "usage": ((1 - share) * known["usage"] + share * seen.usage).astype(np.float32),
        "bit_means": ((1 - share) * known["bit_means"] + share * seen.bit_means).astype(np.float32),
        "reach": known["reach"],
    }


def checked_statistics(known: Any, width: int, m: int, r: int) -> Statistics:
    """Return the statistics of a model of some width, with m base points and r bits; raise if not such."""
    if known is None or (isinstance(known, dict) and "landmarks" not in known):
        raise ValueError(
            "the model has no training statistics, because an earlier version of manihash fitted it: add "
            "them with hasher.record_statistics(X), where X are its training rows, and save it again"
        )
    if not _belong(known, width, m, r):
        raise ValueError(
            "the training statistics do not belong to this model: compute them again with "
            "hasher.record_statistics(X), where X are its training rows"
        )
    return known


def _belong(known: Any, width: int, m: int, r: int) -> bool:
    """Return whether values read from a file are the statistics of such a model."""
    if not isinstance(known, dict) or known.keys() != Statistics.__annotations__.keys():
        return False
    points, references = np.asarray(known["landmarks"]), known["references"]
    if points.ndim != 2 or points.shape[1] != width or not len(points) or not isinstance(references, list):
        return False
    shapes = dict.fromkeys(("quantiles", "center"), N_QUANTILES)
    shapes |= dict.fromkeys(("cells", "edges", "sides"), len(points))
    return (
        np.shape(known["usage"]) == (m,)
        and np.shape(known["bit_means"]) == (r,)
        and len(references) > 0
        and all(
            isinstance(each, dict)
            and each.keys() == Reference.__annotations__.keys()
            and all(np.shape(each[name]) == (length,) for name, length in shapes.items())
            and each["n_sampled"] > 0
            for each in references
        )
    )
