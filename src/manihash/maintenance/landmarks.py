"""Landmarks: a few training rows that all others, and later new rows, are compared with.

A hasher fits the rows that it was fitted to better than fresh rows: they pull its means, directions and base
points towards themselves. Statistics of training rows under the hasher would therefore differ from those of
fresh rows without any drift. So drift is measured by landmarks, which are random training rows, and the
reference is made of training rows that are not landmarks. Given the landmarks, these rows and fresh rows of
the same distribution are exchangeable, for any hasher and any number of rows.

Rows are compared in float64, and squared distances are rounded to multiples of a unit: equal rows have equal
distances, whatever the type and the batch they come in.
"""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

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
