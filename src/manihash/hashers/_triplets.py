"""Triplets of rows: a row, one that should be near it and one that should be far from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from manihash.compute import numpy as numpy_backend
from manihash.rows.local import LocalRows
from manihash.types import Floats, Ints


@dataclass(frozen=True)
class Triplets:
    """Triplets of n rows: indices of x, x⁺ and x⁻, three arrays (t,)."""

    row: Ints
    near: Ints
    far: Ints
    n: int

    def __len__(self) -> int:
        return len(self.row)

    def column(self, bits: NDArray[np.bool_]) -> Floats:
        """a (t,): [h(x) ≠ h(x⁻)] - [h(x) ≠ h(x⁺)] of the bits h (n,), which is -1, 0 or 1."""
        own = bits[self.row]
        return (own != bits[self.far]).astype(np.float64) - (own != bits[self.near])

    def similarity(self, u: Floats) -> sp.csr_array:
        """M (n, n), symmetric: Σ_i u_i a_i = ½ hᵀ M h for bits h of ±1 and weights u (t,)."""
        values = np.concatenate([u, -u])
        index = np.concatenate([self.row, self.row]), np.concatenate([self.near, self.far])
        half = sp.csr_array((values / 2, index), shape=(self.n, self.n))
        return (half + half.T).tocsr()

    def best_threshold(self, values: Floats, u: Floats) -> tuple[float, float]:
        """The largest Σ_i u_i a_i of the bits [values > t], and t; -inf if all values (n,) are equal.

        A pair is separated if t is between its two values, so the sums for all t are cumulative sums over the
        sorted values.
        """
        order = np.argsort(values, kind="stable")
        rank = np.empty(self.n, np.intp)
        rank[order] = np.arange(self.n)
        change = np.zeros(self.n)
        for other, weight in ((self.far, u), (self.near, -u)):
            first, second = rank[self.row], rank[other]
            change += np.bincount(np.minimum(first, second), weight, self.n)
            change -= np.bincount(np.maximum(first, second), weight, self.n)
        ascending = values[order]
        middle = ascending[:-1] + (ascending[1:] - ascending[:-1]) / 2
        split = (ascending[:-1] <= middle) & (middle < ascending[1:])
        gains = np.where(split, np.cumsum(change)[:-1], -np.inf)
        best = int(gains.argmax())
        return float(gains[best]), float(middle[best])


def class_triplets(classes: Ints, t: int, rng: np.random.Generator) -> Triplets:
    """t random triplets of rows with these classes (n,), 0 … c - 1: x⁺ of the same class, x⁻ of another."""
    n, counts = len(classes), np.bincount(classes)
    rows = np.flatnonzero(counts[classes] > 1)
    if len(rows) == 0:
        raise ValueError(
            f"no two of the {n} labeled rows used have the same label: "
            "give labels that repeat, or raise n_train"
        )
    row = rows[rng.integers(len(rows), size=t)]
    grouped = np.argsort(classes, kind="stable")
    place = np.empty(n, np.intp)
    place[grouped] = np.arange(n)
    start, count = (np.cumsum(counts) - counts)[classes[row]], counts[classes[row]]
    near = start + (place[row] - start + 1 + rng.integers(count - 1)) % count
    far = (start + count + rng.integers(n - count)) % n
    return Triplets(row, grouped[near], grouped[far], n)


def neighbor_triplets(X: Floats, k: int, t: int, rng: np.random.Generator) -> Triplets:
    """t random triplets of the rows X (n, d): x⁺ among the k nearest neighbors of x, x⁻ among the others."""
    n = len(X)
    if k > n - 2:
        raise ValueError(
            f"n_neighbors={k} exceeds {n - 2}: of {n} training rows at least one other row must not be a "
            "neighbor; lower n_neighbors, or give more rows (n_samples, n_train)"
        )
    found = LocalRows(X).map(lambda block: numpy_backend.k_nearest(block, X, k + 1)[1], "CGH, neighbors")
    index = np.concatenate(list(found))
    own = index == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True  # among many equal rows, a row may not be among its own nearest
    neighbors = index[~own].reshape(n, k)
    row = rng.integers(n, size=t)
    near = neighbors[row, rng.integers(k, size=t)]
    # The j-th of the other rows is j plus the number of excluded rows before it.
    excluded = np.sort(np.column_stack([neighbors, np.arange(n)]), axis=1) - np.arange(k + 1)
    far = rng.integers(n - k - 1, size=t)
    return Triplets(row, near, far + (excluded[row] <= far[:, None]).sum(axis=1), n)
