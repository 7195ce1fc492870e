"""Statistics of the training rows that a fitted hasher keeps, to compare later rows with.

They are a few kilobytes: quantiles of one distance per row, how many rows are nearest to each base point, and
the mean of each bit. The distance of a row is that to its k-th nearest base point or, for hashers without
base points, the length of its values y(x).

The nearest base point would not do: training rows are closer to their own k-means center than fresh rows are
(by 1 % on MNIST with 400 centers, by 20 % with 6 rows per center), and fresh rows would look different.
The centers that follow do not depend on the row itself. From the fifth on, the distances of training rows and
of fresh rows have the same distribution, even with 5 rows per center.
"""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from manihash.base.graph import BaseGraph, nearest
from manihash.base.kmeans import RandomBase
from manihash.base.reduced import ReducedBase
from manihash.compute import backend
from manihash.rows import Rows
from manihash.types import Floats, Ints

N_QUANTILES = 257
_ROWS = 10_000
_LEAST_RANK = 5
_MOST_IN_SAMPLE = 2**16 - 1


class Statistics(TypedDict):
    """What a hasher keeps about its training rows; plain values, stored in the model file."""

    n_rows: int  # training rows
    n_sampled: int  # rows that the statistics are computed from
    quantiles: NDArray[np.float32]  # (257,), of the distance of a row
    usage: NDArray[np.uint16]  # (m,) sampled rows nearest to each base point; empty without base points
    bit_means: NDArray[np.float32]  # (r,)


def training_statistics(hasher: Any, rows: Rows) -> Statistics:
    """Return the statistics of the rows that a hasher was fitted to; at most 10,000 rows are visited."""
    n = len(rows)
    some = rows if n <= _ROWS else rows.sample(_ROWS, np.random.default_rng(0))
    seen = Observed.of(hasher, some)
    return summary(seen.without_own() if chosen_from_rows(getattr(hasher, "base", None)) else seen, n)


def summary(seen: "Observed", n_rows: int) -> Statistics:
    """Return the statistics of observed rows, which stand for ``n_rows`` rows."""
    quantiles = np.quantile(seen.distance, np.linspace(0, 1, N_QUANTILES))
    return {
        "n_rows": n_rows,
        "n_sampled": len(seen.distance),
        "quantiles": np.minimum(quantiles, np.finfo(np.float32).max).astype(np.float32),
        "usage": np.minimum(seen.usage(), _MOST_IN_SAMPLE).astype(np.uint16),
        "bit_means": seen.bit_means.astype(np.float32),
    }


def checked_statistics(known: Any, m: int, r: int) -> Statistics:
    """Return the statistics of a model with m base points and r bits; raise if they are not such."""
    if known is None:
        raise ValueError(
            "the model has no training statistics, because an earlier version of manihash fitted it: add "
            "them with hasher.record_statistics(X), where X are its training rows, and save it again"
        )
    lengths = {"quantiles": N_QUANTILES, "usage": m, "bit_means": r}
    if (
        not isinstance(known, dict)
        or known.keys() != Statistics.__annotations__.keys()
        or any(np.shape(known[name]) != (length,) for name, length in lengths.items())
        or not 0 < known["n_sampled"] <= known["n_rows"]
    ):
        raise ValueError(
            "the training statistics do not belong to this model: compute them again with "
            "hasher.record_statistics(X), where X are its training rows"
        )
    return known  # type: ignore[return-value]


def chosen_from_rows(base: Any) -> bool:
    """Return whether base points are training rows, not means of them or given points."""
    return chosen_from_rows(base.base) if isinstance(base, ReducedBase) else isinstance(base, RandomBase)


class Observed:
    """Distances (n,), nearest base points (n, 1 or 2) with squared distances, and bit means (r,) of rows."""

    def __init__(self, distance: Floats, index: Ints, nearest: Floats, bit_means: Floats, m: int) -> None:
        self.distance, self.index, self.nearest = distance, index, nearest
        self.bit_means, self.m = bit_means, m

    @classmethod
    def of(cls, hasher: Any, rows: Rows) -> "Observed":
        """Visit rows that are prepared for a fitted hasher."""
        graph: BaseGraph | None = getattr(hasher, "_graph", None)

        def block(X: Floats) -> tuple[Any, ...]:
            xp, Y = backend(X), hasher._embed(X)
            ones = xp.to_float64(hasher._bits_of(Y)).sum(axis=0)
            if graph is None:
                length = xp.squared_norms(xp.to_float64(Y))
                return length, np.empty((len(X), 0), np.intp), np.empty((len(X), 0)), ones
            squared, index = nearest(X, graph.B, _rank(graph), graph.finder)
            return squared[:, -1], index[:, :2], squared[:, :2], ones

        squared, index, near, ones = zip(*rows.map(block, "statistics"), strict=True)
        distance = np.sqrt(np.concatenate(squared).astype(np.float64))
        means = np.sum(ones, axis=0) / len(rows)
        m = 0 if graph is None else len(graph.B)
        return cls(distance, np.concatenate(index), np.concatenate(near), means, m)

    def usage(self) -> Ints:
        """Number of rows nearest to each base point, (m,)."""
        return np.bincount(self.index[:, 0], minlength=self.m) if self.m else np.empty(0, np.int64)

    def without_own(self) -> "Observed":
        """Return the rows as if none of them was a base point: its next base point counts as the nearest.

        A row is a base point if it coincides with it, and no other row does.
        """
        own, squared = self.index[:, 0], self.nearest[:, 0]
        same = squared <= 1e-12 * squared.max(initial=0)
        same &= np.bincount(own[same], minlength=self.m)[own] == 1
        index = np.where(same, self.index[:, -1], own)[:, None]
        return Observed(self.distance, index, self.nearest, self.bit_means, self.m)


def _rank(graph: BaseGraph) -> int:
    """Return which of the nearest base points the distance of a row is measured to, from 1."""
    return graph.k if graph.finder is not None else min(max(graph.k, _LEAST_RANK), len(graph.B))


def merged(a: Statistics, b: Statistics) -> Statistics:
    """Return the statistics of the rows of a and b together."""
    n = a["n_rows"] + b["n_rows"]
    shares = (a["n_rows"] / n, b["n_rows"] / n)
    n_sampled = int(min(a["n_sampled"] / shares[0], b["n_sampled"] / shares[1], n))
    at, values = np.linspace(0, 1, N_QUANTILES), np.sort(np.concatenate([a["quantiles"], b["quantiles"]]))
    up_to = sum(
        share * np.interp(values, s["quantiles"], at) for share, s in zip(shares, (a, b), strict=True)
    )
    usage = sum(share * s["usage"] / s["n_sampled"] for share, s in zip(shares, (a, b), strict=True))
    means = sum(share * s["bit_means"] for share, s in zip(shares, (a, b), strict=True))
    return {
        "n_rows": n,
        "n_sampled": n_sampled,
        "quantiles": np.interp(at, np.asarray(up_to), values).astype(np.float32),
        "usage": np.minimum(np.round(n_sampled * np.asarray(usage)), _MOST_IN_SAMPLE).astype(np.uint16),
        "bit_means": np.asarray(means, np.float32),
    }
