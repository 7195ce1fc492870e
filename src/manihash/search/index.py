"""Exact search among packed codes by Hamming distance, fast for codes that repeat."""

import logging
import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.search import files
from manihash.search.asymmetric import AsymmetricQueries
from manihash.search.buckets import build
from manihash.search.ids import Filter, check_ids, filter_masks, selected_rows
from manihash.search.rescore import Rescore
from manihash.search.routes import QueryPlan, plan_nearest
from manihash.search.row_set import RowSet
from manihash.search.scanners import HammingQueries
from manihash.search.segments import count_of, nearest_of, within_of
from manihash.search.shortlist import whole_buckets
from manihash.search.stats import IndexStats, stats
from manihash.types import Ids, Ints

_log = logging.getLogger(__name__)

_MAX_BITS = 2**16 - 1


class HammingIndex(RowSet):
    """Search packed codes exactly by Hamming distance.

    The index stores each distinct code once, with the list of its rows, so that codes that repeat make it
    smaller and faster. Results are exact and sorted by distance, with ties by id. FAISS is used for scans if
    it is installed; results do not depend on it.

    An index is thread-safe. Each query sees the rows as they were when it started: all rows of a change, or
    none of them. Changes of several threads are made one after another. A boolean filter and ``ids`` are two
    queries: while another thread adds or removes rows, filter by ids.

    Parameters
    ----------
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes, as ``encode`` and ``pack`` return them; at least one.
    n_bits : int
        Length of a code, at most 65,535.
    ids : array-like of shape (n,), default=None
        Distinct integers, one per row. By default the id of a row is its position.

    Attributes
    ----------
    n_bits : int
        Length of a code.
    made_by : str or None
        Name or checksum of the model that made the codes, as set by the caller; ``save`` stores it.

    Examples
    --------
    >>> from manihash import HammingIndex, pack
    >>> codes = pack([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    >>> index = HammingIndex(codes, n_bits=4)
    >>> distances, ids = index.search(codes[:1], k=2)
    >>> ids
    array([[0, 1]])
    >>> lims, distances, ids = index.within(codes[:2], radius=2)
    >>> ids[lims[1] : lims[2]]
    array([1, 2, 0])
    """

    def __init__(self, codes: ArrayLike, n_bits: int, ids: ArrayLike | None = None) -> None:
        if positive_int(n_bits, "n_bits") > _MAX_BITS:
            raise ValueError(f"n_bits={n_bits} exceeds the limit of an index, {_MAX_BITS}: use shorter codes")
        database = check_codes(codes, n_bits)
        if not len(database):
            raise ValueError("codes are empty: an index needs at least one code, as encode() returns them")
        given = None
        if ids is not None:
            given = check_ids(ids, len(database))
            order = np.argsort(given)
            given, database = given[order], database[order]
        super().__init__(build(database, given), int(n_bits))
        self.made_by: str | None = None
        self._file: files.IndexFile | None = None

    def __repr__(self) -> str:
        snapshot = self._snapshot
        distinct = f", distinct_codes={len(snapshot.base.buckets.codes)}" if snapshot.unchanged else ""
        file = "" if self._file is None else f", file={str(self._file.path)!r}"
        return f"HammingIndex(rows={len(snapshot)}, n_bits={self.n_bits}{distinct}{file})"

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        rescore: Rescore | None = None,
    ) -> tuple[NDArray[Any], Ids]:
        """Find the k nearest rows of each query, nearest first, ties by id.

        If the index or the filter has fewer than k rows, all of them are returned with a warning.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries.
        k : int
            Number of rows to return per query.
        filter : set of int, array-like of int, or array-like of bool of shape (n,), default=None
            Search only these rows: their ids, or one boolean per row in the order of ``ids``.
        asymmetric : array-like of shape (q, n_bits), default=None
            Real embedding of the queries, as ``embed`` returns it. Rows are then ranked by the distance of
            ``manihash.search.asymmetric_distances`` instead of the Hamming distance.
        rescore : Rescore, default=None
            Rank a longer list, which consists of whole buckets, by the Euclidean distance of the original
            vectors and return its best k rows.

        Returns
        -------
        distances : ndarray of shape (q, k)
            Distances: int32 if Hamming, float32 if asymmetric, float64 if rescored.
        ids : ndarray of shape (q, k), int64
            Ids of the rows.
        """
        k, asked = positive_int(k, "k"), self._checked(queries, "queries")
        if rescore is not None:
            rescore.check(len(asked))
        ranked: HammingQueries | AsymmetricQueries = HammingQueries(asked, self._snapshot.scanner)
        if asymmetric is not None:
            ranked = AsymmetricQueries(asymmetric, self.n_bits)
        if len(ranked) != len(asked):
            raise ValueError(
                f"got {len(asked)} queries, but asymmetric has {len(ranked)} rows: pass one row per query"
            )
        segments = self._snapshot.segments()
        masks = filter_masks(segments, filter)
        if k > (n := selected_rows(segments, masks)):
            rows = "rows of the index" if filter is None else "rows that the filter selects"
            _log.warning("k=%d exceeds the %d %s: all %d are returned", k, n, rows, n)
        if rescore is not None:
            return rescore.best(whole_buckets(segments, masks, ranked, rescore.length(k)), min(k, n))
        levels, ids = nearest_of(segments, masks, ranked, k)
        return ranked.distances(levels), ids

    def within(
        self, queries: ArrayLike, radius: int, *, filter: Filter = None
    ) -> tuple[Ints, NDArray[np.int32], Ids]:
        """Find all rows within a Hamming radius of each query, nearest first, ties by id.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries.
        radius : int
            Largest distance; 0 finds rows with the same code.
        filter : set of int, array-like of int, or array-like of bool of shape (n,), default=None
            Search only these rows, as in ``search``.

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The results of query i are at ``lims[i]`` to ``lims[i + 1]``.
        distances : ndarray of int32
            Hamming distances.
        ids : ndarray of int64
            Ids of the rows.
        """
        asked, radius = self._checked(queries, "queries"), self._radius(radius)
        segments = self._snapshot.segments()
        lims, distance, ids = within_of(segments, filter_masks(segments, filter), asked, radius)
        return lims, distance.astype(np.int32), ids

    def count(self, queries: ArrayLike, radius: int = 0, *, filter: Filter = None) -> Ints:
        """Count the rows within a Hamming radius of each query.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries.
        radius : int, default=0
            Largest distance.
        filter : set of int, array-like of int, or array-like of bool of shape (n,), default=None
            Count only these rows, as in ``search``.

        Returns
        -------
        ndarray of shape (q,), int64
            Number of rows per query.
        """
        asked, radius = self._checked(queries, "queries"), self._radius(radius)
        segments = self._snapshot.segments()
        return count_of(segments, filter_masks(segments, filter), asked, radius)

    def bucket(self, code: ArrayLike) -> Ids:
        """Return the ids of the rows that have exactly this code.

        Parameters
        ----------
        code : array-like of shape (ceil(n_bits / 8),), uint8
            One packed code.

        Returns
        -------
        ndarray of int64
            Ids of the rows, ascending.
        """
        asked = np.atleast_2d(np.asarray(code))
        if len(asked) != 1:
            raise ValueError(f"bucket takes one code, got {len(asked)}: use within(codes, 0) for several")
        return self.within(asked, 0)[2]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, atomically.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced when the new one is complete.
        """
        snapshot = self._snapshot
        files.write(path, snapshot.merged(), self.n_bits, snapshot.next_id, self.made_by)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True) -> Self:
        """Open an index file.

        Header, sizes and offsets are checked; ``verify`` checks every byte. Do not modify a file in place
        while it is mapped; ``save`` to the same path is safe, because it replaces the file.

        Parameters
        ----------
        path : str or path-like
            File that ``save`` wrote.
        mmap : bool, default=True
            Map the file into memory, which is immediate for any size, instead of reading it.

        Returns
        -------
        HammingIndex
            The index.
        """
        file = files.read(path, mmap=mmap)
        index = cls.__new__(cls)
        RowSet.__init__(index, file.buckets, file.n_bits, file.next_id)
        index.made_by, index._file = file.made_by, file
        return index

    def verify(self) -> None:
        """Check every byte of the file that was loaded; raise ``DamagedIndexError`` if it is damaged."""
        if self._file is None:
            raise ValueError("verify() checks the file of an index: this index was not loaded from a file")
        self._file.verify()

    def explain(self, *, k: int | None = None, radius: int | None = None, n_queries: int = 1) -> QueryPlan:
        """Show how the next queries would be answered, with the estimated cost of each route.

        Rows added recently, which are few, are not considered.

        Parameters
        ----------
        k : int, default=None
            Explain ``search`` for k rows.
        radius : int, default=None
            Explain ``within`` or ``count`` for this radius; pass either ``k`` or ``radius``.
        n_queries : int, default=1
            Number of queries in one call.

        Returns
        -------
        QueryPlan
            The chosen route and the estimates of all routes.
        """
        if (k is None) == (radius is None):
            raise ValueError("explain() needs either k or radius, not both")
        n_queries, base = positive_int(n_queries, "n_queries"), self._snapshot.base
        if radius is not None:
            return base.finder.plan(self._radius(radius), n_queries)
        return plan_nearest(
            base.live_buckets().codes, self._snapshot.scanner, positive_int(k, "k"), n_queries
        )

    def stats(self) -> IndexStats:
        """Compute statistics of the codes, with warnings if they have collapsed.

        Returns
        -------
        IndexStats
            Number of rows and distinct codes, bucket sizes, uninformative bits, memory and warnings.
        """
        snapshot = self._snapshot
        if not len(snapshot):
            raise ValueError("the index is empty: add codes before calling stats()")
        segments = snapshot.segments()
        held = sum(segment.buckets.nbytes for segment in segments)
        tables = sum(segment.finder.nbytes for segment in segments)
        return stats(snapshot.merged(), self.n_bits, held, tables)

    def _radius(self, radius: Any) -> int:
        return min(positive_int(radius, "radius", least=0), self.n_bits)
