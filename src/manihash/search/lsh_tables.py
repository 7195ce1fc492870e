"""LSH with several tables: a row is found where any of them agrees with the query."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manihash.checks import positive_int
from manihash.codes import hamming, n_bytes, pack, unpack
from manihash.hashers.lsh import LSH
from manihash.search.index import HammingIndex
from manihash.types import Codes

# Codes cut into tables at once.
_BLOCK = 2**16


class LSHTables:
    """``n_tables`` tables of LSH codes of ``n_bits`` each; rows and queries that share a code in one meet.

    Two vectors whose angle from the mean is θ agree in a bit with probability p = 1 - θ/π, in a table with
    p^n_bits, and in any of L tables with 1 - (1 - p^n_bits)^L: longer codes find fewer strangers, more tables
    lose fewer neighbors.

    >>> tables = LSHTables(n_bits=16, n_tables=8, random_state=0).fit(X)
    >>> lims, ids = tables.query(Q)        # the rows found for query i: ids[lims[i]:lims[i + 1]]
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
        """Hash the rows of X (n, d) into the tables; a row's id is its position."""
        self._codes = self._cut(self.hasher.fit(X).encode(X))
        self._indexes = [HammingIndex(codes, self.n_bits) for codes in self._codes]
        return self

    def __len__(self) -> int:
        return len(self._codes[0]) if self._codes else 0

    def query(self, Q: Any, radius: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows within ``radius`` bits of the query in any table: lims (q + 1,); ids in order, each once."""
        n, keys = len(self), []
        tables = self._tables_of(Q)
        for index, codes in zip(self._indexes, tables, strict=True):
            lims, _, ids = index.within(codes, radius)
            keys.append(np.repeat(np.arange(len(codes)), np.diff(lims)) * n + ids)
        query, found = np.divmod(np.unique(np.concatenate(keys)), n)
        return np.searchsorted(query, np.arange(len(tables[0]) + 1)), found

    def distances(self, Q: Any) -> NDArray[np.uint16]:
        """The least Hamming distance over the tables, (q, n): metrics take it as any other.

        All pairs are held, so large sets of queries are given in blocks.
        """
        tables = zip(self._tables_of(Q), self._codes, strict=True)
        return np.minimum.reduce([hamming(queries, codes) for queries, codes in tables])

    def _tables_of(self, Q: Any) -> list[Codes]:
        return self._cut(self.hasher.encode(Q))

    def _cut(self, codes: Codes) -> list[Codes]:
        """Codes of all bits to the codes of each table."""
        n, L = len(codes), self.n_tables
        tables = [np.empty((n, n_bytes(self.n_bits)), np.uint8) for _ in range(L)]
        for start in range(0, n, _BLOCK):
            bits = unpack(codes[start : start + _BLOCK], self.n_bits * L)
            for table, part in zip(tables, np.split(bits, L, axis=1), strict=True):
                table[start : start + _BLOCK] = pack(part)
        return tables
