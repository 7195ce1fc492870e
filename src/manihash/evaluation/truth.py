"""Which rows of a database answer a query rightly: those of its label, or its nearest by Euclidean distance.

A truth is a value that is asked for a block of queries at a time, so that queries x rows is never held.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import finite_block, positive_int, positive_number
from manihash.progress import advance

_ROWS = 4096  # rows of X converted and multiplied at once
_COLUMNS = 256  # BLAS cuts longer sums itself, and elsewhere for another number of threads


class Truth(Protocol):
    """Relevance of n rows to q queries."""

    @property
    def shape(self) -> tuple[int, int]:
        """(q, n)."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows are relevant to each query, (q,)."""

    def relevant(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Is row j relevant to query start + i? (stop - start, n)."""


class LabelTruth:
    """A row is relevant where it has the query's label; labels are numbers or strings."""

    def __init__(self, y_query: ArrayLike, y_database: ArrayLike) -> None:
        query, database = _labels(y_query, "y_query"), _labels(y_database, "y_database")
        classes, number = np.unique(np.concatenate([query, database]), return_inverse=True)
        number = number.astype(np.min_scalar_type(len(classes)))
        self._query, self._database = number[: len(query)], number[len(query) :]
        self.shape = len(query), len(database)
        self.counts = np.bincount(self._database, minlength=len(classes))[self._query]

    def relevant(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Is row j of the label of query start + i? (stop - start, n)."""
        return self._query[start:stop, None] == self._database


class EuclideanScan:
    """Every query against every row of X by Euclidean distance, in float64 if X is, otherwise in float32.

    The last digit of a product depends on the shapes multiplied. Queries, rows and columns are therefore
    always cut at the same places: a pair has the same key at every call, whichever queries are asked for.
    """

    def __init__(self, Q: ArrayLike, X: ArrayLike) -> None:
        self.Q, self.X = _vectors(Q, "Q"), _vectors(X, "X")
        if self.Q.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"queries have {self.Q.shape[1]} columns and the database {self.X.shape[1]}: "
                "both must hold the same features"
            )
        self.shape = len(self.Q), len(self.X)
        self.dtype = np.dtype(np.float64 if self.X.dtype == np.float64 else np.float32)
        finite_block(self.Q)
        self._squares = np.empty(len(self.X), self.dtype)  # ‖x‖²
        for i in range(0, len(self.X), _ROWS):
            rows = self.X[i : i + _ROWS]
            finite_block(rows, i)
            self._squares[i : i + _ROWS] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)

    def keys(self, start: int, stop: int) -> NDArray[Any]:
        """‖x‖² - 2 xᵀq = ‖x - q‖² - ‖q‖²: what a ranking sees of the distance. (stop - start, n)."""
        block = query_block(len(self.X))
        first = start // block * block
        keys = [self._keys(i, i + block) for i in range(first, stop, block)]
        whole = keys[0] if len(keys) == 1 else np.concatenate(keys)
        return whole[start - first : stop - first]

    def blocks(self, stage: str) -> Iterator[tuple[slice, NDArray[Any]]]:
        """The keys of all queries, block by block, with the queries they belong to."""
        q, block = len(self.Q), query_block(len(self.X))
        for start in range(0, q, block):
            stop = min(start + block, q)
            yield slice(start, stop), self._keys(start, stop)
            advance(stage, stop, q)

    def _keys(self, start: int, stop: int) -> NDArray[Any]:
        Q = -2 * self.Q[start:stop].astype(self.dtype)
        keys = np.empty((len(Q), len(self.X)), self.dtype)
        for i in range(0, len(self.X), _ROWS):
            rows = self.X[i : i + _ROWS].astype(self.dtype, copy=False)
            tile = keys[:, i : i + _ROWS]
            tile[:] = self._squares[i : i + _ROWS]
            for j in range(0, Q.shape[1], _COLUMNS):
                tile += Q[:, j : j + _COLUMNS] @ rows[:, j : j + _COLUMNS].T
        return keys


@dataclass(frozen=True, eq=False)
class EuclideanTruth:
    """A row is relevant where it is no farther from the query than the query's threshold.

    Made by ``euclidean_truth``. One number a query is kept; the distances are computed again when asked for.
    """

    scan: EuclideanScan
    threshold: NDArray[Any]  # (q,), a key of the scan
    counts: NDArray[np.int64]  # (q,)

    @property
    def shape(self) -> tuple[int, int]:
        """(q, n)."""
        return self.scan.shape

    def relevant(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Is row j within the threshold of query start + i? (stop - start, n)."""
        return self.scan.keys(start, stop) <= self.threshold[start:stop, None]


def euclidean_truth(
    Q: ArrayLike, X: ArrayLike, *, fraction: float = 0.02, k: int | None = None
) -> EuclideanTruth:
    """The nearest ``fraction`` of X to each query (rounded, at least one row), or its k nearest.

    Rows exactly as far as the last of them are relevant too.
    """
    scan = EuclideanScan(Q, X)
    q, n = scan.shape
    if k is None:
        if positive_number(fraction, "fraction") > 1:
            raise ValueError(f"fraction must be at most 1, not {fraction}: 0.02 is the nearest 2 %")
        k = max(1, round(fraction * n))
    k = _at_most(k, n)
    threshold, counts = np.empty(q, scan.dtype), np.empty(q, np.int64)
    for rows, keys in scan.blocks("Euclidean truth"):
        threshold[rows] = np.partition(keys, k - 1, axis=1)[:, k - 1]
        counts[rows] = np.count_nonzero(keys <= threshold[rows, None], axis=1)
    return EuclideanTruth(scan, threshold, counts)


def nearest_euclidean(Q: ArrayLike, X: ArrayLike, k: int) -> NDArray[np.int64]:
    """Ids of the k rows of X nearest to each query, nearest first, ties by id: (q, k)."""
    scan = EuclideanScan(Q, X)
    ids = np.empty((len(scan.Q), _at_most(k, len(scan.X))), np.int64)
    for rows, keys in scan.blocks("nearest rows"):
        ids[rows] = smallest(keys, ids.shape[1])
    return ids


def smallest(keys: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Positions of the k smallest keys of each row, smallest first, ties by position: (b, n) -> (b, k)."""
    positions = np.empty((len(keys), k), np.int64)
    for row, out in zip(keys, positions, strict=True):
        near = np.flatnonzero(row <= np.partition(row, k - 1)[k - 1])
        out[:] = near[np.argsort(row[near], kind="stable")[:k]]
    return positions


def query_block(n: int) -> int:
    """How many queries are compared with n rows at once: about 16 million pairs."""
    return min(1024, max(16, 2**24 // n))


def _at_most(k: Any, n: int) -> int:
    k = positive_int(k, "k")
    if k > n:
        raise ValueError(f"the {k} nearest of {n} rows asked for: lower k to {n} or less")
    return k


def _labels(y: ArrayLike, name: str) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"{name} must be one label a row, at least one, not an array of {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"{name} has rows without a label (NaN): leave these rows out")
    return labels


def _vectors(X: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(X)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a 2-D array of real numbers with at least one row and column, "
            f"not {array.shape} of {array.dtype}"
        )
    return array
