"""Ground truth: the rows of a database that are relevant to a query, by label or by Euclidean distance.

A truth is asked for one block of queries at a time, so that no array of all queries by all rows is held.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked, finite_block, positive_int, positive_number
from manihash.compute.largest import query_block, smallest
from manihash.progress import advance
from manihash.rows import rows_of, rows_to_fit
from manihash.types import Floats, Ids, Mask

NEAREST = 0.02  # share of the rows that is relevant to a query by default, as in the paper
_ROWS = 4096  # rows of X converted and multiplied at a time
_COLUMNS = 256  # BLAS splits longer sums at places that depend on the number of threads


class Truth(Protocol):
    """Relevance of n rows to q queries."""

    @property
    def shape(self) -> tuple[int, int]:
        """(q, n)."""

    @property
    def counts(self) -> Ids:
        """Number of rows relevant to each query, (q,)."""

    def relevant(self, start: int, stop: int) -> Mask:
        """Whether row j is relevant to query start + i: (stop - start, n)."""


class LabelTruth:
    """Ground truth by labels: a row is relevant to a query if it has the query's label.

    The number -1 or None marks a row or a query without a label. Nothing is relevant to such a query, and
    such a row is relevant to nothing.

    Parameters
    ----------
    y_query : array-like of shape (n_queries,)
        Labels of the queries, numbers or strings.
    y_database : array-like of shape (n_rows,)
        Labels of the database.

    Attributes
    ----------
    shape : tuple of int
        Number of queries and number of rows.
    counts : ndarray of shape (n_queries,)
        Number of relevant rows of each query.

    Examples
    --------
    >>> from manihash import LabelTruth
    >>> truth = LabelTruth(["cat", "dog"], ["dog", "cat", "dog"])
    >>> truth.counts
    array([1, 2])
    >>> truth.relevant(0, 2)
    array([[False,  True, False],
           [ True, False,  True]])
    """

    def __init__(self, y_query: ArrayLike, y_database: ArrayLike) -> None:
        query, database = _labels(y_query, "y_query"), _labels(y_database, "y_database")
        number, n_classes = _class_numbers(query, database)
        self._query, self._database = number[: len(query)], number[len(query) :]
        self._database[self._database == n_classes] += 1  # rows without a label: equal to no query
        self.shape = len(query), len(database)
        self.counts = np.bincount(self._database, minlength=n_classes + 2)[self._query]

    def relevant(self, start: int, stop: int) -> Mask:
        """Return the relevance of all rows to a block of queries.

        Parameters
        ----------
        start : int
            First query of the block.
        stop : int
            End of the block: the first query after it.

        Returns
        -------
        ndarray of shape (stop - start, n_rows)
            True where a row is relevant to a query.
        """
        return self._query[start:stop, None] == self._database


class EuclideanTruth:
    """Ground truth by distance: the rows nearest to a query by Euclidean distance are relevant.

    Rows at exactly the distance of the last of them are relevant, too. One number per query is stored;
    distances are computed again for each block of queries.

    Parameters
    ----------
    Q : array-like of shape (n_queries, n_features)
        The queries.
    X : array-like of shape (n_rows, n_features)
        The database.
    fraction : float, default=0.02
        Share of the rows that is relevant to a query, rounded to at least one row. Ignored if ``k`` is given.
    k : int, default=None
        Number of nearest rows that are relevant to a query.

    Attributes
    ----------
    shape : tuple of int
        Number of queries and number of rows.
    counts : ndarray of shape (n_queries,)
        Number of relevant rows of each query.

    Examples
    --------
    >>> from manihash import EuclideanTruth
    >>> truth = EuclideanTruth([[0.0]], [[3.0], [1.0], [2.0]], k=2)
    >>> truth.relevant(0, 1)
    array([[False,  True,  True]])
    """

    def __init__(
        self, Q: ArrayLike, X: ArrayLike, *, fraction: float = NEAREST, k: int | None = None
    ) -> None:
        self._scan = EuclideanScan(Q, X)
        self.shape = self._scan.shape
        q, n = self.shape
        if k is None:
            if positive_number(fraction, "fraction") > 1:
                raise ValueError(f"fraction must be at most 1, got {fraction}: 0.02 is the nearest 2 %")
            k = max(1, round(fraction * n))
        k = _at_most(k, n)
        self._threshold, self.counts = np.empty(q, self._scan.dtype), np.empty(q, np.int64)
        for rows, keys in self._scan.blocks("Euclidean truth"):
            self._threshold[rows] = np.partition(keys, k - 1, axis=1)[:, k - 1]
            self.counts[rows] = np.count_nonzero(keys <= self._threshold[rows, None], axis=1)

    def relevant(self, start: int, stop: int) -> Mask:
        """Return the relevance of all rows to a block of queries.

        Parameters
        ----------
        start : int
            First query of the block.
        stop : int
            End of the block: the first query after it.

        Returns
        -------
        ndarray of shape (stop - start, n_rows)
            True where a row is relevant to a query.
        """
        return self._scan.keys(start, stop) <= self._threshold[start:stop, None]


class EuclideanScan:
    """Euclidean distances of every query to every row of X, in float32 if it is precise enough for X.

    The last digit of a product depends on the shapes multiplied. Queries, rows and columns are therefore
    always split at the same places: a pair has the same key in every call, whichever queries are requested.
    """

    def __init__(self, Q: ArrayLike, X: ArrayLike) -> None:
        self.Q, self.X = _vectors(Q, "Q"), _vectors(X, "X")
        if self.Q.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"queries have {self.Q.shape[1]} columns and the database {self.X.shape[1]}: "
                "both must hold the same features"
            )
        self.shape = len(self.Q), len(self.X)
        finite_block(self.Q)
        # Distances do not depend on the origin, and are not precise if the rows are far from it.
        self._rows = rows_to_fit(self.X, by_distance=True)
        self.dtype = self._rows.dtype
        self._queries = rows_of(self.Q, origin=self._rows.origin, dtype=self.dtype)
        self._squares = np.empty(len(self.X), self.dtype)  # ‖x‖²
        for i in range(0, len(self.X), _ROWS):
            rows = self._rows.block(i, min(i + _ROWS, len(self.X)))
            self._squares[i : i + _ROWS] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)

    def keys(self, start: int, stop: int) -> Floats:
        """‖x‖² - 2 xᵀq = ‖x - q‖² - ‖q‖², which ranks rows as the distance does: (stop - start, n)."""
        block = query_block(len(self.X))
        first = start // block * block
        keys = [self._keys(i, i + block) for i in range(first, stop, block)]
        whole = keys[0] if len(keys) == 1 else np.concatenate(keys)
        return whole[start - first : stop - first]

    def blocks(self, stage: str) -> Iterator[tuple[slice, Floats]]:
        """Blocks of queries with their keys (b, n), for all queries."""
        q, block = len(self.Q), query_block(len(self.X))
        for start in range(0, q, block):
            stop = min(start + block, q)
            yield slice(start, stop), self._keys(start, stop)
            advance(stage, stop, q)

    def _keys(self, start: int, stop: int) -> Floats:
        Q = -2 * self._queries.block(start, min(stop, len(self.Q)))
        keys = np.empty((len(Q), len(self.X)), self.dtype)
        for i in range(0, len(self.X), _ROWS):
            rows = self._rows.block(i, min(i + _ROWS, len(self.X)))
            tile = keys[:, i : i + _ROWS]
            tile[:] = self._squares[i : i + _ROWS]
            for j in range(0, Q.shape[1], _COLUMNS):
                tile += Q[:, j : j + _COLUMNS] @ rows[:, j : j + _COLUMNS].T
        return keys


def truth_of(
    Q: ArrayLike, X: ArrayLike, y_query: ArrayLike | None = None, y_database: ArrayLike | None = None
) -> LabelTruth | EuclideanTruth:
    """The truth by labels if queries and database have labels, otherwise by distance."""
    if y_query is not None and y_database is not None:
        return LabelTruth(y_query, y_database)
    return EuclideanTruth(Q, X)


def nearest_euclidean(Q: ArrayLike, X: ArrayLike, k: int) -> Ids:
    """Ids of the k rows of X nearest to each query, nearest first, ties by id: (q, k)."""
    scan = EuclideanScan(Q, X)
    ids = np.empty((len(scan.Q), _at_most(k, len(scan.X))), np.int64)
    for rows, keys in scan.blocks("nearest rows"):
        ids[rows] = smallest(keys, ids.shape[1])
    return ids


def _at_most(k: Any, n: int) -> int:
    k = positive_int(k, "k")
    if k > n:
        raise ValueError(f"k={k} exceeds the {n} rows of X: lower k to {n} or less")
    return k


def _labels(y: ArrayLike, name: str) -> NDArray[Any]:
    check_unmasked(y, name)
    # A list becomes an array of objects: in an array of strings, None and -1 would become text.
    labels = np.asarray(y, None if hasattr(y, "dtype") else object)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"{name} must be 1-D with at least one label, got an array of shape {labels.shape}")
    if any(label != label for label in (labels if labels.dtype.kind in "fO" else ())):
        raise ValueError(f"{name} has rows without a label (NaN): leave these rows out, or use -1")
    return labels


def _class_numbers(*labels: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Class numbers 0 … c - 1 of all labels, c for those without a label, and c."""
    known = np.concatenate([~_unlabeled(y) for y in labels])
    if all(y.dtype.kind in "biuf" for y in labels):
        values = np.concatenate(labels)[known]
    else:  # numbers beside strings: 1 and 1.0 are "1"
        named = [label for y in labels for label in y.tolist()]
        values = np.array([_name(label) for label, is_known in zip(named, known, strict=True) if is_known])
    classes, number = np.unique(values, return_inverse=True)
    numbers = np.full(len(known), len(classes), np.min_scalar_type(len(classes) + 1))
    numbers[known] = number
    return numbers, len(classes)


def _unlabeled(y: NDArray[Any]) -> Mask:
    """Which rows have no label: -1 or None."""
    if y.dtype.kind in "if":
        return np.asarray(y == -1)
    missing = [label is None or (not isinstance(label, str) and label == -1) for label in y.tolist()]
    return np.array(missing, bool)


def _name(label: Any) -> str:
    """A label as text: whole numbers without a decimal point."""
    if isinstance(label, bytes):
        return label.decode()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _vectors(X: ArrayLike, name: str) -> Floats:
    check_unmasked(X, name)
    array = np.asarray(X)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a 2-D array of real numbers with at least one row and column, "
            f"got {array.shape} of {array.dtype}"
        )
    return array
