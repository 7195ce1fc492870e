"""Re-ranking: a shortlist of codes ranked by the original vectors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked, finite_block, not_numbers, positive_int
from manihash.compute import backend
from manihash.search.ids import are_strings, check_ids, shown_id
from manihash.types import Codes, Ids, Ints, Mask

if TYPE_CHECKING:
    from manihash.hashers._hasher import Hasher
    from manihash.search.hamming_index import HammingIndex

# Default length of the shortlist per answer.
_SHORTLIST = 10
# Vectors that are encoded to see whether they belong to the rows that they stand for, and the share of the
# bits in which a code of a vector with rounded values may differ.
_CHECKED, _DIFFERENT = 32, 0.1
# Vectors that are encoded to see whether they are in the order of the ids, which nobody has said, and the
# smallest share of distinct codes: rows with the same code could be in any order.
_COMPARED, _DISTINCT = 1024, 0.5
# Values of original vectors read at once.
_VALUES = 2**22


@dataclass(frozen=True, eq=False)
class Rerank:
    """Rank a shortlist by the Euclidean distance of the original vectors.

    ``HammingIndex.search`` takes it as ``rerank``, since its queries are codes: the index finds the shortlist
    by the distance of codes, and the best k rows of it by Euclidean distance are returned. An ``Index`` knows
    the vectors of the queries, so that ``search(Q, k, rerank=X)`` needs no ``Rerank``.

    Rows with the same code form a bucket. The shortlist consists of whole buckets, nearest first, ties by
    lowest id: if codes repeat, it can be much longer than requested.

    Parameters
    ----------
    queries : array-like of shape (q, d)
        Original vectors of the queries.
    vectors : array-like of shape (n, d)
        Original vectors of the rows, in memory, memory-mapped, a sparse matrix, or one byte per value
        (``ByteVectors``).
    shortlist : int, default=None
        Smallest number of rows to rank per query; by default 10 times the number of answers. Buckets are
        taken until they hold that many rows. The last one is not cut, since its rows are equally near.
    ids : array-like of shape (n,) or dict, default=None
        Id of each of the vectors, which strings need, or a dictionary from ids to rows of ``vectors``, which
        many searches can share. By default row i is the vector of id i.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import HammingIndex, pack
    >>> from manihash.search import Rerank
    >>> X = np.array([[0.9, 0.9], [0.1, 0.2], [-0.5, 0.5]])
    >>> q = np.array([[0.2, 0.2]])
    >>> index = HammingIndex(pack(X > 0), n_bits=2)
    >>> distances, ids = index.search(pack(q > 0), k=1)
    >>> ids  # rows 0 and 1 have the same code
    array([[0]])
    >>> distances, ids = index.search(pack(q > 0), k=1, rerank=Rerank(q, X))
    >>> ids
    array([[1]])
    """

    queries: Any
    vectors: Any
    shortlist: int | None = None
    ids: Any = None

    def length(self, k: int) -> int:
        """Return the smallest length of the shortlist for k answers.

        Parameters
        ----------
        k : int
            Number of answers per query.

        Returns
        -------
        int
            Smallest number of rows to rank per query, at least k.
        """
        return _SHORTLIST * k if self.shortlist is None else max(k, positive_int(self.shortlist, "shortlist"))

    def check(self, q: int) -> None:
        """Raise ``ValueError`` unless the vectors match each other and the number of queries.

        Parameters
        ----------
        q : int
            Number of queries.
        """
        Q, X = self._queries, self._vectors
        if len(Q.shape) != 2 or len(X.shape) != 2 or len(Q) != q or Q.shape[1] != X.shape[1]:
            raise ValueError(
                f"got {q} queries, Rerank.queries of shape {tuple(Q.shape)} and Rerank.vectors of shape "
                f"{tuple(X.shape)}: expected one row per query, and the same number of columns in both"
            )
        for rows in (Q, X):
            if rows.dtype.kind not in "fiub":
                raise not_numbers(rows.dtype, "Rerank holds")
        finite_block(np.asarray(Q[:]), name="the vectors of the queries")

    def best(self, shortlists: Iterable[ArrayLike], k: int) -> tuple[NDArray[Any], Ids]:
        """Return the k best rows of the shortlists, nearest first, ties by id.

        Parameters
        ----------
        shortlists : iterable of array-like
            Ids of the shortlist of each query, at least k of each: one array of shape (q, s), or q arrays of
            different lengths.
        k : int
            Number of answers per query.

        Returns
        -------
        distances : ndarray of shape (q, k), float64
            Euclidean distances.
        ids : ndarray of shape (q, k)
            Ids of the rows.
        """
        q = len(self._queries)
        distances, found = np.empty((q, k), np.float64), np.empty((q, k), object)
        id_type: Any = np.int64
        for i, some in enumerate(shortlists):
            ids = np.sort(np.asarray(some))
            far = np.concatenate([np.empty(0), *self._distances(self._rows_of(ids), i)])
            nearest = np.argsort(far, kind="stable")[:k]
            distances[i], found[i] = far[nearest], ids[nearest]
            id_type = ids.dtype
        return distances, found.astype(id_type)

    def _distances(self, places: Ints, i: int) -> Iterator[NDArray[Any]]:
        """Distances of some rows to query i, block by block."""
        query = np.asarray(self._queries[i : i + 1], np.float64)
        step = max(1, _VALUES // max(1, self._vectors.shape[1]))
        for start in range(0, len(places), step):
            some = places[start : start + step]
            part = self._vectors[some]
            check_unmasked(part, "the vectors to re-rank by", row_numbers=some)
            rows = np.asarray(part, np.float64)
            finite_block(rows, row_numbers=some, name="the vectors to re-rank by")
            yield np.sqrt(np.square(rows - query).sum(axis=1))

    @cached_property
    def _queries(self) -> Any:
        """The vectors of the queries as an array."""
        return as_vectors(self.queries, "the vectors of the queries")

    @cached_property
    def _vectors(self) -> Any:
        """The vectors of the rows: an array, or what is memory-mapped."""
        return as_vectors(self.vectors, "the vectors to re-rank by")

    @cached_property
    def _row_of_id(self) -> dict[Any, int]:
        """The row of the vector of each id."""
        if hasattr(self.ids, "get"):
            return self.ids
        return {
            identity: row for row, identity in enumerate(check_ids(self.ids, len(self._vectors)).tolist())
        }

    def _rows_of(self, ids: Ids) -> Ints:
        """The rows of the vectors of ascending ids; raise if one has no vector."""
        if self.ids is not None:
            rows = [self._row_of_id.get(identity, -1) for identity in ids.tolist()]
            if -1 in rows:
                missing = shown_id(ids[rows.index(-1)])
                raise ValueError(
                    f"found id {missing}, but Rerank.ids has no such id: give a vector for each id"
                )
            return np.array(rows, np.int64)
        if are_strings(ids):
            raise ValueError(
                "the ids of the rows are strings: pass the ids of the vectors, rerank=(vectors, ids)"
            )
        if len(ids) and not 0 <= ids[0] <= ids[-1] < len(self._vectors):
            raise ValueError(
                f"found ids from {ids[0]} to {ids[-1]}, but Rerank.vectors has {len(self._vectors)} "
                "rows: row i must be the vector of id i"
            )
        return ids


def one_reranking(rerank: Rerank | None, rescore: Rerank | None) -> Rerank | None:
    """The one of two names of an option that is given; raise if both are, or if it is no ``Rerank``."""
    if rerank is not None and rescore is not None:
        raise ValueError("rerank and rescore are two names of one option: give one of them")
    given = rescore if rerank is None else rerank
    if given is not None and not isinstance(given, Rerank):
        raise ValueError(
            f"rerank must be Rerank(queries, vectors), which holds the vectors of the queries, got "
            f"{type(given).__name__}; an Index of hasher.index(X) takes the vectors of its rows"
        )
    return given


class SparseVectors:
    """Vectors (n, d) in a sparse matrix: some of them are read as an array."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows.tocsr()
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, some: Any) -> NDArray[Any]:
        return np.asarray(self._rows[some].toarray())


def as_vectors(rows: Any, name: str = "the vectors to re-rank by") -> Any:
    """Rows as given if they have a shape and a type, as files have; otherwise, such as lists, as an array.

    Tensors become arrays, and sparse matrices ``SparseVectors``.
    """
    check_unmasked(rows, name)
    rows = backend(rows).to_numpy(rows)
    if hasattr(rows, "tocsr"):
        return SparseVectors(rows)
    return rows if hasattr(rows, "shape") and hasattr(rows, "dtype") else np.asarray(rows)


def some_of(n: int, most: int = _CHECKED) -> Ints:
    """Positions of some of n rows, ascending."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, most)).astype(np.int64))


def first_misplaced(hasher: "Hasher", vectors: Any, places: Ints, codes: Codes) -> int | None:
    """The position of the first of some places whose vector does not have the code that is stored.

    None unless most of them are so: rows may have been updated. Also None if the vectors cannot be encoded,
    as those of an old embedding model by the bridge of a new one.
    """
    differing = _differing(hasher, vectors, places, codes)
    return None if differing is None or differing.mean() <= 0.5 else int(differing.argmax())


def ids_in_order(index: "HammingIndex", hasher: "Hasher", vectors: Any) -> Ids | None:
    """The ids of an index if the vectors are those of all its rows, in this order; otherwise None.

    None as well if the ids are 0 … n - 1, so that row i is the vector of id i. All of some vectors must have
    the codes of their rows. The order is not known, None, if many rows have the same code, or if the vectors
    cannot be encoded.
    """
    n = len(index)
    row_numbers = index.id_type is int and index.next_id == n
    if row_numbers or len(vectors) != n or index.distinct_codes < _DISTINCT * n:
        return None
    places = some_of(n, _COMPARED)
    differing = _differing(hasher, vectors, places, index.codes[places])
    return None if differing is None or differing.any() else index.ids


def are_by_id(index: "HammingIndex", n_vectors: int) -> bool:
    """Whether row i of some vectors can be the vector of id i, for all ids of an index."""
    return index.id_type is int and (not len(index) or int(index.ids[-1]) < n_vectors)


def _differing(hasher: "Hasher", vectors: Any, places: Ints, codes: Codes) -> Mask | None:
    """Whether the vector of each of some places has another code; None if they cannot be encoded."""
    from manihash.hashers._hasher import Hasher

    bridged = type(hasher)._as_stored is not Hasher._as_stored
    if bridged or not len(places) or tuple(vectors.shape[1:]) != (hasher.n_features_in_,):
        return None
    own = as_array(hasher.encode(np.asarray(vectors[places])))
    return np.unpackbits(codes ^ own, axis=1).sum(axis=1) > _DIFFERENT * hasher.n_bits_


def as_array(X: Any) -> Any:
    """An array of numpy, computed if it is one of dask, copied if it is a tensor or a sparse matrix."""
    X = X.compute() if hasattr(X, "compute") else X
    X = X.toarray() if hasattr(X, "tocsr") else X
    return np.asarray(backend(X).to_numpy(X)) if hasattr(X, "dtype") else np.asarray(X)
