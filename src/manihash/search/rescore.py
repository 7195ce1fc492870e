"""Rankings beyond Hamming: a query's real values against stored bits; a shortlist by original vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import finite_block, positive_int
from manihash.codes import check_codes, n_bytes, unpack
from manihash.evaluation.truth import smallest
from manihash.search.buckets import Ints
from manihash.types import Codes

# Codes whose bytes are looked up at once, and queries whose distances are held at once.
_CODES = 2**16
_QUERIES = 16
_SHORTLIST = 10
# Values of original vectors read at once.
_VALUES = 2**22


def asymmetric_distances(Y: ArrayLike, codes: ArrayLike, n_bits: int) -> NDArray[np.float32]:
    """Σ_j w_j [bit_j ≠ (y_j > 0)], w_j = min(|y_j|, ‖y‖ / √r), of embeddings Y (q, r) to codes: (q, n).

    A bit of which the query is unsure counts little; none counts more than the root mean square of the
    query's values, since the row's own value, of which only the bit is left, is not known to be as large.
    Where all |y_j| are 1 it is the Hamming distance. ``average_precision`` takes it as any other
    distance.
    """
    stored = check_codes(codes, positive_int(n_bits, "n_bits"))
    return _distances(byte_tables(Y, n_bits), stored)


def byte_tables(Y: ArrayLike, n_bits: int) -> NDArray[np.float32]:
    """What each value of each byte of a code adds to its distance from Y (q, r): (q, ceil(r / 8), 256)."""
    given = np.asarray(Y)
    if given.ndim != 2 or given.shape[1] != n_bits or given.dtype.kind not in "fiu":
        raise ValueError(
            f"the embedding of the queries must be real numbers (q, {n_bits}), as embed() gives them, "
            f"not {given.shape} of {given.dtype}"
        )
    finite_block(given, name="the embedding of the queries")
    padded = np.zeros((len(given), 8 * n_bytes(n_bits)))
    padded[:, :n_bits] = given
    largest = np.abs(padded).max(axis=1, keepdims=True, initial=0)
    strange = (largest > 1e30) | ((largest < 1e-30) & (largest > 0))
    padded /= np.where(strange, largest, 1)  # squares and sums stay within float32
    most = np.sqrt(np.square(padded).sum(axis=1, keepdims=True) / n_bits)
    y = np.clip(padded, -most, most).reshape(len(given), -1, 8, 1)
    tables = np.zeros((len(given), y.shape[1], 256))
    bits = unpack(np.arange(256, dtype=np.uint8)[:, None], 8)
    for j in range(8):
        tables += np.abs(y[:, :, j]) * (bits[:, j] != (y[:, :, j] > 0))
    return tables.astype(np.float32)


def _distances(tables: NDArray[np.float32], codes: Codes) -> NDArray[np.float32]:
    distance = np.zeros((len(tables), len(codes)), np.float32)
    for i in range(0, len(codes), _CODES):
        columns = codes[i : i + _CODES].T.astype(np.intp)
        for table, out in zip(tables, distance[:, i : i + _CODES], strict=True):
            for values, column in zip(table, columns, strict=True):
                out += values[column]
    return distance


class Asymmetric:
    """Asks for the nearest codes by the asymmetric distance; levels are the bits of float32."""

    def __init__(self, Y: ArrayLike, n_bits: int) -> None:
        self._tables = byte_tables(Y, n_bits)

    def __len__(self) -> int:
        return len(self._tables)

    def __call__(self, which: Ints, codes: Codes, m: int) -> tuple[Ints, Ints]:
        """Levels and positions (q, m) of the m nearest codes, ties by position."""
        level, position = np.empty((2, len(which), m), np.int64)
        for i in range(0, len(which), _QUERIES):
            tables = self._tables[which[i : i + _QUERIES]]
            distance = _distances(tables, codes[:, : tables.shape[1]])
            position[i : i + _QUERIES] = smallest(distance, m)
            near = np.take_along_axis(distance, position[i : i + _QUERIES], axis=1)
            level[i : i + _QUERIES] = near.view(np.int32)
        return level, position

    @staticmethod
    def distance(level: Ints) -> NDArray[np.float32]:
        """The distances that levels stand for."""
        return level.astype(np.int32).view(np.float32)


@dataclass(frozen=True, eq=False)
class Rescore:
    """A shortlist ranked anew by Euclidean distance of the original vectors.

    ``queries`` (q, d) are the queries' vectors; row i of ``vectors`` (n, d), an array or a memory map, is
    that of id i. The ``shortlist`` nearest codes are looked at, by default ten for each answer asked for.
    """

    queries: Any
    vectors: Any
    shortlist: int | None = None

    def length(self, k: int) -> int:
        """How many rows are fetched for k answers."""
        return _SHORTLIST * k if self.shortlist is None else max(k, positive_int(self.shortlist, "shortlist"))

    def check(self, q: int) -> None:
        """Raise where the vectors do not fit each other or the number of queries."""
        Q, X = self.queries, self.vectors
        if np.ndim(Q) != 2 or np.ndim(X) != 2 or len(Q) != q or Q.shape[1] != X.shape[1]:
            raise ValueError(
                f"{q} queries came with vectors {np.shape(Q)}, to be rescored with vectors {np.shape(X)}: "
                "one row a query, and as many columns in both, were wanted"
            )
        finite_block(np.asarray(Q), name="the vectors of the queries")

    def best(self, ids: Ints, k: int) -> tuple[NDArray[Any], Ints]:
        """Distances and ids (q, k) of the k best of a shortlist of ids (q, s), ties by id."""
        if ids.size and not 0 <= ids.min() <= ids.max() < len(self.vectors):
            raise ValueError(
                f"ids from {ids.min()} to {ids.max()} were found, but there are {len(self.vectors)} "
                "vectors to rescore with: row i must be the vector of id i"
            )
        ids = np.sort(ids, axis=1)
        distance = np.empty(ids.shape, np.float64)
        step = max(1, _VALUES // max(1, ids.shape[1] * self.vectors.shape[1]))
        for i in range(0, len(ids), step):
            rows = np.asarray(self.vectors[ids[i : i + step].ravel()], np.float64)
            finite_block(rows, row_numbers=ids[i : i + step].ravel(), name="the vectors to rescore with")
            apart = (
                rows.reshape(*ids[i : i + step].shape, self.vectors.shape[1])
                - np.asarray(self.queries[i : i + step], np.float64)[:, None]
            )
            distance[i : i + step] = np.sqrt(np.square(apart).sum(axis=2))
        order = np.argsort(distance, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(distance, order, axis=1), np.take_along_axis(ids, order, axis=1)
