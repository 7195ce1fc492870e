"""Rescoring: a shortlist of codes ranked by the original vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import finite_block, positive_int
from manihash.types import Ids

# Default length of the shortlist per answer.
_SHORTLIST = 10
# Values of original vectors read at once.
_VALUES = 2**22


@dataclass(frozen=True, eq=False)
class Rescore:
    """Rank a shortlist by the Euclidean distance of the original vectors.

    Pass it to ``HammingIndex.search``: the index finds the shortlist by Hamming distance, and the best k rows
    of it by Euclidean distance are returned.

    Parameters
    ----------
    queries : array-like of shape (q, d)
        Original vectors of the queries.
    vectors : ndarray of shape (n, d)
        Original vectors of the rows, in memory or memory-mapped; row i is the vector of id i.
    shortlist : int, default=None
        Number of nearest codes to rank per query; by default 10 times the number of answers.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import HammingIndex, Rescore, pack
    >>> X = np.array([[0.9, 0.9], [0.1, 0.2], [-0.5, 0.5]])
    >>> q = np.array([[0.2, 0.2]])
    >>> index = HammingIndex(pack(X > 0), n_bits=2)
    >>> distances, ids = index.search(pack(q > 0), k=1)
    >>> ids  # rows 0 and 1 have the same code
    array([[0]])
    >>> distances, ids = index.search(pack(q > 0), k=1, rescore=Rescore(q, X))
    >>> ids
    array([[1]])
    """

    queries: Any
    vectors: Any
    shortlist: int | None = None

    def length(self, k: int) -> int:
        """Return the length of the shortlist for k answers.

        Parameters
        ----------
        k : int
            Number of answers per query.

        Returns
        -------
        int
            Number of rows to rank per query, at least k.
        """
        return _SHORTLIST * k if self.shortlist is None else max(k, positive_int(self.shortlist, "shortlist"))

    def check(self, q: int) -> None:
        """Raise ``ValueError`` unless the vectors match each other and the number of queries.

        Parameters
        ----------
        q : int
            Number of queries.
        """
        Q, X = self.queries, self.vectors
        if np.ndim(Q) != 2 or np.ndim(X) != 2 or len(Q) != q or Q.shape[1] != X.shape[1]:
            raise ValueError(
                f"got {q} queries, Rescore.queries of shape {np.shape(Q)} and Rescore.vectors of shape "
                f"{np.shape(X)}: expected one row per query, and the same number of columns in both"
            )
        finite_block(np.asarray(Q), name="the vectors of the queries")

    def best(self, ids: ArrayLike, k: int) -> tuple[NDArray[Any], Ids]:
        """Return the k best rows of a shortlist, nearest first, ties by id.

        Parameters
        ----------
        ids : array-like of shape (q, s), int64
            Ids of the shortlist of each query.
        k : int
            Number of answers per query.

        Returns
        -------
        distances : ndarray of shape (q, min(k, s)), float64
            Euclidean distances.
        ids : ndarray of shape (q, min(k, s)), int64
            Ids of the rows.
        """
        ids = np.sort(np.asarray(ids), axis=1)
        if ids.size and not 0 <= ids.min() <= ids.max() < len(self.vectors):
            raise ValueError(
                f"found ids from {ids.min()} to {ids.max()}, but Rescore.vectors has {len(self.vectors)} "
                "rows: row i must be the vector of id i"
            )
        distance = np.empty(ids.shape, np.float64)
        step = max(1, _VALUES // max(1, ids.shape[1] * self.vectors.shape[1]))
        for i in range(0, len(ids), step):
            some = ids[i : i + step]
            rows = np.asarray(self.vectors[some.ravel()], np.float64)
            finite_block(rows, row_numbers=some.ravel(), name="the vectors to rescore with")
            queries = np.asarray(self.queries[i : i + step], np.float64)
            difference = rows.reshape(*some.shape, self.vectors.shape[1]) - queries[:, None]
            distance[i : i + step] = np.sqrt(np.square(difference).sum(axis=2))
        order = np.argsort(distance, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(ids, order, axis=1)
