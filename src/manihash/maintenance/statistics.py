"""Statistics of the training rows that a fitted hasher keeps, to compare later rows with.

``drift`` tests by landmarks (``maintenance/landmarks.py``). What the hasher itself makes of the training rows
is kept as well, to say where new rows differ: how many rows are nearest to each base point, and the mean of
each bit. These two are not tested, since training rows and fresh rows differ in them.
"""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from manihash.base.graph import BaseGraph, nearest
from manihash.compute import backend
from manihash.maintenance.landmarks import (
    N_QUANTILES,
    Reference,
    Seen,
    chosen,
    compared,
    in_float64,
    reference,
    unit_of,
    with_reference,
)
from manihash.rows import Rows
from manihash.types import Floats, Ints

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


def training_statistics(hasher: Any, rows: Rows) -> Statistics:
    """Return the statistics of the rows that a hasher was fitted to; at most 10,000 rows are visited."""
    rng = np.random.default_rng(0)
    some = rows if len(rows) <= ROWS else rows.sample(ROWS, rng)
    landmarks, others = chosen(some, rng)
    seen = Observed.of(hasher, some.subset(others), landmarks)
    return {
        "n_rows": len(rows),
        "landmarks": landmarks,
        "references": [reference(seen.seen, len(rows), len(landmarks))],
        "usage": seen.usage.astype(np.float32),
        "bit_means": seen.bit_means.astype(np.float32),
        "reach": seen.reach,
    }


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
