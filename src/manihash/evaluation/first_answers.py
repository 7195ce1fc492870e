"""The first answers of a ranking: precision@10 and recall@10, with ties in random order.

A short code puts many rows at one distance, often more than ten. Which of them come first is then arbitrary,
so both metrics are exact expectations over random order inside ties, as ``map_ties`` is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.evaluation.truth import EuclideanScan, Truth
from manihash.types import Floats, Ints, Mask

FIRST = 10


def expected_hits(retrieved: Ints, hits: Ints, k: int) -> Floats:
    """Expected number of hits among the first k rows (b,), from the numbers at each distance (b, distances).

    A tie of t rows, s of them hits, that fills the last j of the k places is expected to add s j / t.
    """
    places = np.clip(k - (np.cumsum(retrieved, axis=1) - retrieved), 0, retrieved)
    return np.asarray((hits * places / np.maximum(retrieved, 1)).sum(axis=1))


def expected_hits_ranked(distance: Floats, relevant: Mask, k: int) -> Floats:
    """The same for real distances and relevance, (b, n) each: only the tie at the k-th place can be cut."""
    last = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    nearer, tied = distance < last, distance == last
    retrieved = np.stack([nearer.sum(axis=1), tied.sum(axis=1)], axis=1)
    hits = np.stack([(nearer & relevant).sum(axis=1), (tied & relevant).sum(axis=1)], axis=1)
    return expected_hits(retrieved, hits, k)


class NeighborTruth:
    """Ground truth of the first answers: the k rows nearest to each query by Euclidean distance.

    Unlike ``EuclideanTruth``, it keeps the ids, so that many sets of codes can be compared without
    computing the distances again. Rows exactly as far as the k-th nearest are relevant, too.

    Parameters
    ----------
    Q : array-like of shape (n_queries, n_features)
        The queries.
    X : array-like of shape (n_rows, n_features)
        The database.
    k : int, default=10
        Number of nearest rows; all rows if there are fewer.

    Attributes
    ----------
    shape : tuple of int
        Number of queries and of rows.
    counts : ndarray of shape (n_queries,)
        Number of relevant rows of each query: k, or more if rows coincide.

    Examples
    --------
    >>> from manihash.evaluation import NeighborTruth
    >>> truth = NeighborTruth([[0.0]], [[1.0], [9.0], [2.0], [2.0]], k=2)
    >>> truth.relevant(0, 1)
    array([[ True, False,  True,  True]])
    """

    def __init__(self, Q: ArrayLike, X: ArrayLike, k: int = FIRST) -> None:
        self.shape, (self._nearest,) = _nearest_rows(Q, X, [positive_int(k, "k")])
        self.counts = np.array([len(ids) for ids in self._nearest])

    @classmethod
    def of_each(cls, Q: ArrayLike, X: ArrayLike, ks: Sequence[int]) -> list["NeighborTruth"]:
        """Return the truths of several k, from one scan of the rows.

        Parameters
        ----------
        Q : array-like of shape (n_queries, n_features)
            The queries.
        X : array-like of shape (n_rows, n_features)
            The database.
        ks : sequence of int
            Numbers of nearest rows.

        Returns
        -------
        list of NeighborTruth
            One truth for each k.
        """
        shape, found = _nearest_rows(Q, X, [positive_int(k, "k") for k in ks])
        truths = []
        for nearest in found:
            truth = cls.__new__(cls)
            truth.shape, truth._nearest = shape, nearest
            truth.counts = np.array([len(ids) for ids in nearest])
            truths.append(truth)
        return truths

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
            True where a row is among the nearest of a query.
        """
        mask = np.zeros((stop - start, self.shape[1]), np.bool_)
        for row, ids in zip(mask, self._nearest[start:stop], strict=True):
            row[ids] = True
        return mask


def _nearest_rows(Q: ArrayLike, X: ArrayLike, ks: Sequence[int]) -> tuple[tuple[int, int], list[list[Ints]]]:
    """The numbers of queries and rows, and for each k the positions of the nearest rows of each query."""
    scan = EuclideanScan(Q, X)
    places = [min(k, scan.shape[1]) - 1 for k in ks]
    found: list[list[Ints]] = [[] for _ in ks]
    for _, keys in scan.blocks("nearest rows"):
        for row in keys:
            ordered = np.partition(row, sorted(set(places)))
            for nearest, place in zip(found, places, strict=True):
                nearest.append(np.flatnonzero(row <= ordered[place]))
    return scan.shape, found


class FirstAnswers:
    """Precision@10 and, with the true neighbors, recall@10 of q queries and n rows, block by block."""

    def __init__(self, shape: tuple[int, int], neighbors: Truth | None) -> None:
        q, n = shape
        if neighbors is not None and neighbors.shape != shape:
            raise ValueError(
                f"got {q} queries and {n} rows with neighbors of {neighbors.shape[0]} queries and "
                f"{neighbors.shape[1]} rows: both must have the same queries and rows"
            )
        self._neighbors = neighbors
        self._precision, self._recall = np.zeros(q), np.zeros(q)

    def add(self, start: int, distance: NDArray[np.uint16], retrieved: Ints, hits: Ints) -> None:
        """Add queries from ``start`` on, given whole distances (b, n) and the histograms of the truth."""
        k = min(FIRST, distance.shape[1])
        rows = slice(start, start + len(distance))
        self._precision[rows] = expected_hits(retrieved, hits, k) / k
        if self._neighbors is not None:
            query, row = np.nonzero(self._neighbors.relevant(rows.start, rows.stop))
            near = np.zeros_like(hits)
            np.add.at(near, (query, distance[query, row]), 1)
            self._recall[rows] = expected_hits(retrieved, near, k) / k

    def add_ranked(self, start: int, distance: Floats, relevant: Mask) -> None:
        """Add queries from ``start`` on, given any distances and their relevance (b, n)."""
        k = min(FIRST, distance.shape[1])
        rows = slice(start, start + len(distance))
        self._precision[rows] = expected_hits_ranked(distance, relevant, k) / k
        if self._neighbors is not None:
            near = self._neighbors.relevant(rows.start, rows.stop)
            self._recall[rows] = expected_hits_ranked(distance, near, k) / k

    def means(self) -> tuple[float, float | None]:
        """Precision@10 and recall@10, means over the queries; no recall without neighbors."""
        return float(self._precision.mean()), (
            None if self._neighbors is None else float(self._recall.mean())
        )
