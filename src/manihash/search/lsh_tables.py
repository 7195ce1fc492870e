"""LSH with several tables: a row is found if its code agrees with the query in any table."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manihash.checks import positive_int
from manihash.codes import hamming, n_bytes, pack, unpack
from manihash.hashers.lsh import LSH
from manihash.search.hamming_index import HammingIndex
from manihash.types import Codes, Ids, Ints

# Codes split into tables at once.
_BLOCK = 2**16


class LSHTables:
    """Locality-sensitive hashing with several tables.

    A query finds the rows that have its code in any table. If two vectors, seen from the mean, form the angle
    θ, they agree in a bit with probability p = 1 - θ/π, in a table with p^n_bits, and in at least one of L
    tables with 1 - (1 - p^n_bits)^L. Longer codes find fewer distant rows; more tables miss fewer neighbors.

    Parameters
    ----------
    n_bits : int, default=16
        Length of the code of each table.
    n_tables : int, default=8
        Number of tables.
    center : bool, default=True
        Subtract the mean of the training rows.
    normalize : bool, default=False
        Scale vectors to unit length before anything else.
    random_state : int, Generator or None, default=None
        Seed of the random directions.

    Attributes
    ----------
    hasher : LSH
        The hasher of all n_bits · n_tables bits; table i uses bits i · n_bits to (i + 1) · n_bits.

    References
    ----------
    M. S. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash.search import LSHTables
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> tables = LSHTables(n_bits=12, n_tables=4, random_state=0).fit(X)
    >>> lims, ids = tables.query(X[:2])
    >>> 1 in ids[lims[1] : lims[2]]
    True
    """

    def __init__(
        self,
        n_bits: int = 16,
        n_tables: int = 8,
        center: bool = True,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_bits = positive_int(n_bits, "n_bits")
        self.n_tables = positive_int(n_tables, "n_tables")
        self.hasher = LSH(n_bits * n_tables, center, normalize, random_state)
        self._codes: list[Codes] = []

    def fit(self, X: Any) -> Self:
        """Hash rows into the tables.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; the id of a row is its position.

        Returns
        -------
        LSHTables
            The fitted tables.
        """
        self._codes = self._split(self.hasher.fit(X).encode(X))
        self._indexes = [HammingIndex(codes, self.n_bits) for codes in self._codes]
        return self

    def __len__(self) -> int:
        return len(self._codes[0]) if self._codes else 0

    def query(self, Q: Any, radius: int = 0) -> tuple[Ints, Ids]:
        """Find the rows within a Hamming radius of each query in any table.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Query vectors.
        radius : int, default=0
            Largest Hamming distance in a table.

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The rows of query i are ``ids[lims[i]:lims[i + 1]]``.
        ids : ndarray of int64
            Ids of the rows, ascending for each query, without repeats.
        """
        n, keys = len(self), []
        tables = self._tables_of(Q)
        for index, codes in zip(self._indexes, tables, strict=True):
            lims, _, ids = index.within(codes, radius)
            keys.append(np.repeat(np.arange(len(codes)), np.diff(lims)) * n + ids)
        query, found = np.divmod(np.unique(np.concatenate(keys)), n)
        return np.searchsorted(query, np.arange(len(tables[0]) + 1)), found

    def distances(self, Q: Any) -> NDArray[np.uint16]:
        """Compute the smallest Hamming distance over the tables, for all pairs of query and row.

        The result needs 2 · q · n bytes: pass large sets of queries in blocks.

        Parameters
        ----------
        Q : array-like of shape (q, d)
            Query vectors.

        Returns
        -------
        ndarray of shape (q, n), uint16
            Distances, which the metrics of ``manihash.evaluation`` accept.
        """
        tables = zip(self._tables_of(Q), self._codes, strict=True)
        return np.minimum.reduce([hamming(queries, codes) for queries, codes in tables])

    def _tables_of(self, Q: Any) -> list[Codes]:
        """Codes (q, b) of the queries for each table."""
        return self._split(self.hasher.encode(Q))

    def _split(self, codes: Codes) -> list[Codes]:
        """Codes of all bits, split into the codes of each table."""
        n, L = len(codes), self.n_tables
        tables = [np.empty((n, n_bytes(self.n_bits)), np.uint8) for _ in range(L)]
        for start in range(0, n, _BLOCK):
            bits = unpack(codes[start : start + _BLOCK], self.n_bits * L)
            for table, columns in zip(tables, np.split(bits, L, axis=1), strict=True):
                table[start : start + _BLOCK] = pack(columns)
        return tables
