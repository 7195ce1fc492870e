"""Exact search among packed codes by Hamming distance, fast for codes that repeat."""

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.codes import check_codes
from manihash.display import html, text
from manihash.files.lineage import model_id
from manihash.search.buckets import build
from manihash.search.ids import Filter, check_ids, filter_masks, selected_rows
from manihash.search.inspected import InspectedRows
from manihash.search.parts import look_up_by, ranked_queries
from manihash.search.rescore import Rescore, one_reranking
from manihash.search.segments import count_of, nearest_of, within_of
from manihash.search.shortlist import whole_buckets
from manihash.types import Ids, Ints

_log = logging.getLogger(__name__)

_MAX_BITS = 2**16 - 1


class HammingIndex(InspectedRows):
    """Search packed codes exactly by Hamming distance, or by the weighted distance of their two parts.

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
        Distinct integers, or distinct strings such as file names, of at most 1,024 bytes in UTF-8, one per
        row. By default the id of a row is its position. Strings are ordered by code points.
    layout : CodeLayout or None, default=None
        The parts of the codes, ``hasher.layout_``: ``search`` ranks by its distance, and ``within`` looks up
        rows by the first part. None for codes that are one part of signs, ranked by Hamming distance.
    made_by : fitted hasher, str or None, default=None
        The model that made the codes, or its id. ``save`` stores the id, and ``manihash search`` and
        ``manihash serve`` then refuse any other model.

    Attributes
    ----------
    n_bits : int
        Length of a code.
    layout : CodeLayout
        The parts of the codes; ``set_layout`` changes it.
    made_by : str or None
        Id of the model that made the codes, ``hasher.lineage_["id"]``, if it is known; ``save`` stores it.

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

    Ids may be strings:

    >>> index = HammingIndex(codes, n_bits=4, ids=["cat.jpg", "dog.jpg", "owl.jpg"])
    >>> distances, ids = index.search(codes[:1], k=2)
    >>> ids.tolist()
    [['cat.jpg', 'dog.jpg']]
    """

    def __init__(
        self,
        codes: ArrayLike,
        n_bits: int,
        ids: ArrayLike | None = None,
        *,
        layout: CodeLayout | None = None,
        made_by: Any = None,
    ) -> None:
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
        super().__init__(build(database, given), int(n_bits), layout=layout)
        self.made_by = model_id(made_by)

    def __repr__(self) -> str:
        return text(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What the text of the index says."""
        snapshot = self._snapshot
        facts: dict[str, Any] = {"rows": len(snapshot), "n_bits": self.n_bits}
        if not self.layout.is_hamming:
            facts["layout"] = self.layout.described()
        if snapshot.unchanged:
            facts["distinct_codes"] = len(snapshot.base.buckets.codes)
        if self._file is not None:
            facts["file"] = str(self._file.path)
        return facts

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        rerank: Rescore | None = None,
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
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Search only these rows: their ids, or one boolean per row in the order of ``ids``.
        asymmetric : array-like of shape (q, v), default=None
            Real values of the queries, as ``embed`` returns them. Rows are then ranked by the distance of
            ``manihash.search.asymmetric_distances``, and not by that of two codes.
        rerank : Rescore, default=None
            Rank a longer list, which consists of whole buckets, by the Euclidean distance of the original
            vectors and return its best k rows. ``Rescore`` holds the vectors of queries and rows.
        rescore : Rescore, default=None
            Another name of ``rerank``.

        Returns
        -------
        distances : ndarray of shape (q, k)
            Distances: int32 if Hamming, float64 of two parts of signs, float32 if asymmetric or if codes have
            fields, float64 if reranked.
        ids : ndarray of shape (q, k)
            Ids of the rows: int64, or strings in an array of objects.
        """
        k, asked = positive_int(k, "k"), self._checked(queries, "queries")
        again = one_reranking(rerank, rescore)
        if again is not None:
            again.check(len(asked))
        ranked = ranked_queries(asked, self._parts, asymmetric)
        segments = self._snapshot.segments()
        masks = filter_masks(segments, filter)
        if k > (n := selected_rows(segments, masks)):
            rows = "rows of the index" if filter is None else "rows that the filter selects"
            _log.warning("k=%d exceeds the %d %s: all %d are returned", k, n, rows, n)
        if again is not None:
            return again.best(whole_buckets(segments, masks, ranked, again.length(k)), min(k, n))
        levels, ids = nearest_of(segments, masks, ranked, k)
        return ranked.distances(levels), ids

    def within(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
    ) -> tuple[Ints, NDArray[Any], Ids]:
        """Find all rows within a Hamming radius of each query, nearest first, ties by id.

        If codes have two parts, the radius is that of the first part, which is made for look-up, and the rows
        are in the order of ``search``, by both parts.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries.
        radius : int
            Largest Hamming distance; 0 finds rows with the same code, or first part of a code.
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Search only these rows, as in ``search``.
        asymmetric : array-like of shape (q, v), default=None
            Real values of the queries, for the order of the rows if codes have two parts.

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The results of query i are at ``lims[i]`` to ``lims[i + 1]``.
        distances : ndarray
            Distances by which the rows are ordered: int32 if Hamming, float64 of two parts of signs, float32
            if asymmetric or if codes have fields.
        ids : ndarray
            Ids of the rows.
        """
        asked, radius = self._checked(queries, "queries"), self._radius(radius)
        look_up = look_up_by(asked, self._parts, asymmetric)
        segments = self._snapshot.segments()
        lims, distance, ids = within_of(segments, filter_masks(segments, filter), asked, radius, look_up)
        return lims, distance if look_up is not None else distance.astype(np.int32), ids

    def count(self, queries: ArrayLike, radius: int = 0, *, filter: Filter = None) -> Ints:
        """Count the rows within a Hamming radius of each query, as ``within`` finds them.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes of the queries.
        radius : int, default=0
            Largest distance.
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Count only these rows, as in ``search``.

        Returns
        -------
        ndarray of shape (q,), int64
            Number of rows per query.
        """
        asked, radius = self._checked(queries, "queries"), self._radius(radius)
        segments = self._snapshot.segments()
        look_up = look_up_by(asked, self._parts)
        return count_of(segments, filter_masks(segments, filter), asked, radius, look_up)

    def bucket(self, code: ArrayLike) -> Ids:
        """Return the ids of the rows that have exactly this code, or this first part of a code of two parts.

        Parameters
        ----------
        code : array-like of shape (ceil(n_bits / 8),), uint8
            One packed code.

        Returns
        -------
        ndarray
            Ids of the rows, ascending.
        """
        asked = np.atleast_2d(np.asarray(code))
        if len(asked) != 1:
            raise ValueError(f"bucket takes one code, got {len(asked)}: use within(codes, 0) for several")
        return np.sort(self.within(asked, 0)[2])
