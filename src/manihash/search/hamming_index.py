"""Exact search among packed codes, fast for codes that repeat.

The rows of an index are one snapshot, which does not change: a change makes the next snapshot and replaces
the old one in a single assignment. A query takes the snapshot once and is therefore not disturbed by changes.
"""

import logging
import os
from math import isqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.codes import check_codes, n_bytes
from manihash.compute.threads import ForkSafeLock
from manihash.display import html, text
from manihash.files.lineage import model_id
from manihash.search.buckets import Buckets, aligned, build
from manihash.search.files import IndexContent, IndexFile
from manihash.search.ids import check_ids, next_id_after, next_ids, shown_id
from manihash.search.journal import REMOVE, UPDATE, Change, Journal, locked_journal, merged
from manihash.search.ranking import RankedQueries, Ranking
from manihash.search.rerank import Rerank, one_reranking
from manihash.search.routes import QueryPlan
from manihash.search.scanners import default_scanner
from manihash.search.segments import ChangeLog, Filter, LogEntry, Segment, Selection, Snapshot, rows_after
from manihash.search.stats import IndexStats, stats
from manihash.search.storage import StoredIndex
from manihash.types import Codes, Ids, Ints, Mask

_log = logging.getLogger(__name__)

_MAX_BITS = 2**16 - 1
# The log may hold this many times the square root of the number of rows: the first query after a change takes
# time in proportion to the log, and a merge in proportion to the number of rows.
_RECENT = 16


class HammingIndex:
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
        self._start(build(database, given), int(n_bits), layout, model_id(made_by))

    def _start(
        self,
        buckets: Buckets,
        n_bits: int,
        layout: CodeLayout | None,
        made_by: str | None,
        next_id: int = 0,
    ) -> None:
        """Set the rows and what is known about them."""
        self.n_bits, self.made_by = n_bits, made_by
        self._snapshot = Snapshot(buckets, n_bits, next_id)
        self._writing = ForkSafeLock()
        self._stored = StoredIndex()
        HammingIndex.set_layout(self, layout)

    def __repr__(self) -> str:
        return text(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, Any]:
        """What the text of the index says."""
        snapshot, file = self._snapshot, self._stored.file
        facts: dict[str, Any] = {"rows": len(snapshot), "n_bits": self.n_bits}
        if not self.layout.is_hamming:
            facts["layout"] = self.layout.described()
        if snapshot.unchanged:
            facts["distinct_codes"] = len(snapshot.base.buckets.codes)
        if file is not None:
            facts["file"] = str(file.path)
        return facts

    def __len__(self) -> int:
        return len(self._snapshot)

    @property
    def ids(self) -> Ids:
        """Ids of all rows, ascending: ndarray of shape (n,), int64 or, if they are strings, object."""
        return self._snapshot.ids()

    @property
    def id_type(self) -> type:
        """The type of all ids: int or str."""
        return str if self._snapshot.base.buckets.has_string_ids else int

    @property
    def codes(self) -> Codes:
        """Codes of all rows in the order of ``ids``: ndarray of shape (n, ceil(n_bits / 8)), uint8."""
        return self._snapshot.merged().by_row()[0][:, : n_bytes(self.n_bits)]

    @property
    def distinct_codes(self) -> int:
        """Number of distinct codes."""
        snapshot = self._snapshot
        buckets = snapshot.merged() if snapshot.n_recent else snapshot.base.live_buckets()
        return len(buckets.codes)

    @property
    def next_id(self) -> int:
        """The id that the next row gets if none is given; 0 if ids are strings, which must be given."""
        return self._snapshot.next_id

    @property
    def layout(self) -> CodeLayout:
        """The parts of the codes, and the distance that ranks them."""
        return self._ranking.layout

    def set_layout(self, layout: CodeLayout | None) -> None:
        """Set the parts of the codes, which decide how queries rank; the codes do not change.

        Parameters
        ----------
        layout : CodeLayout or None
            The layout, such as ``hasher.layout_`` or ``index.layout.with_weight(0.5)``; None for codes that
            are one part of signs.
        """
        layout = CodeLayout(self.n_bits) if layout is None else layout
        if layout.n_bits != self.n_bits:
            raise ValueError(f"the layout is that of codes of {layout.n_bits} bits, expected {self.n_bits}")
        self._ranking = Ranking(layout, default_scanner())

    def _ranking_by(self, weight: float | None) -> Ranking:
        """The ranking by the layout, or with another weight of the second part."""
        return self._ranking if weight is None else self._ranking.with_weight(weight)

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        rerank: Rerank | None = None,
        weight: float | None = None,
        rescore: Rerank | None = None,
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
        rerank : Rerank, default=None
            Rank a longer list, which consists of whole buckets, by the Euclidean distance of the original
            vectors and return its best k rows. ``Rerank`` holds the vectors of queries and rows.
        weight : float, default=None
            Weight of the second part of the codes for these queries, at least 0; None for that of ``layout``.
        rescore : Rerank, default=None
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
        ranked = self._ranking_by(weight).queries(asked, asymmetric)
        return self._nearest(ranked, k, filter, one_reranking(rerank, rescore))

    def _nearest(
        self, ranked: RankedQueries, k: int, filter: Filter, again: Rerank | None
    ) -> tuple[NDArray[Any], Ids]:
        """Distances and ids (q, k) of the nearest rows, ranked again if that is given."""
        if again is not None:
            again.check(len(ranked))
        selection = Selection(self._snapshot.segments(), filter)
        if k > (n := len(selection)):
            rows = "rows of the index" if filter is None else "rows that the filter selects"
            _log.warning("k=%d exceeds the %d %s: all %d are returned", k, n, rows, n)
        if again is not None:
            return again.best(selection.whole_buckets(ranked, again.length(k), self._ranking), min(k, n))
        levels, ids = selection.nearest(ranked, k)
        return ranked.distances(levels), ids

    def within(
        self,
        queries: ArrayLike,
        radius: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        weight: float | None = None,
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
        weight : float, default=None
            Weight of the second part of the codes for these queries, at least 0; None for that of ``layout``.

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
        look_up = self._ranking_by(weight).look_up(asked, asymmetric)
        return Selection(self._snapshot.segments(), filter).within(look_up, radius)

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
        look_up = self._ranking.look_up(asked)
        return Selection(self._snapshot.segments(), filter).count(look_up, radius)

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
        asked = np.atleast_2d(np.asanyarray(code))  # with its mask, if it has one
        if len(asked) != 1:
            raise ValueError(f"bucket takes one code, got {len(asked)}: use within(codes, 0) for several")
        return np.sort(self.within(asked, 0)[2])

    def explain(
        self,
        *,
        k: int | None = None,
        radius: int | None = None,
        n_queries: int = 1,
    ) -> QueryPlan:
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
            self._ranking.look_up(np.empty((0, n_bytes(self.n_bits)), np.uint8))
            return self._ranking.of(base.buckets).plan_within(self._radius(radius), n_queries)
        return self._ranking.of(base.searched_buckets()[0]).plan_nearest(positive_int(k, "k"), n_queries)

    def stats(self) -> IndexStats:
        """Compute statistics of the codes, with warnings if they have collapsed.

        If codes have two parts, the statistics are those of the first part, which rows are looked up by.

        Returns
        -------
        IndexStats
            Number of rows and distinct codes, bucket sizes, uninformative bits, memory and warnings. The
            memory is that of the whole index.
        """
        snapshot, layout = self._snapshot, self.layout
        if not len(snapshot):
            raise ValueError("the index is empty: add codes before calling stats()")
        segments = [segment.buckets for segment in snapshot.segments()]
        held = sum(buckets.nbytes for buckets in segments)
        tables = sum(self._ranking.of(buckets).nbytes for buckets in segments)
        rows = snapshot.merged()
        if not layout.has_two_parts:
            return stats(rows, self.n_bits, held, tables)
        firsts = build(layout.first(rows.by_row()[0]), None)
        return stats(firsts, layout.look_up_bits, held, tables, ranked=False)

    def contains(self, ids: ArrayLike) -> Mask:
        """Return whether each id has a row.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids.

        Returns
        -------
        ndarray of shape (n,), bool
            True where the index has a row with this id.
        """
        given = check_ids(ids, id_type=self.id_type)
        found = [segment.locate(given)[1] for segment in self._snapshot.segments()]
        return np.logical_or.reduce(found)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add rows.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array-like of shape (n,), default=None
            Distinct ids that are not in the index, of the type of its other ids. By default the next unused
            integers; strings must be given.

        Returns
        -------
        ndarray of shape (n,)
            Ids of the added rows.
        """
        new = self._checked(codes, "codes")
        given = None if ids is None else check_ids(ids, len(new), id_type=self.id_type)
        if given is None and self.id_type is str:
            raise ValueError("the ids of this index are strings: pass one id per code")
        with self._writing:
            old = self._snapshot
            if given is None:
                given = next_ids(old.next_id, len(new))
            else:
                self._check_presence(given, expected=False)
            self._insert(new, given, old.base, next_id_after(given, old.next_id))
        return given

    def remove(self, ids: ArrayLike) -> None:
        """Remove rows; if an id is not in the index, nothing is removed.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        given = check_ids(ids, id_type=self.id_type)
        with self._writing:
            self._check_presence(given, expected=True)
            recent = self._log().rows
            self._append(self._base_without(given), [(i, None) for i in recent.keys() & given.tolist()])
            self._stored.removed.update(given.tolist())

    def update(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Replace the codes of rows; if an id is not in the index, nothing is changed.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            New packed codes.
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        new = self._checked(codes, "codes")
        given = check_ids(ids, len(new), id_type=self.id_type)
        with self._writing:
            self._check_presence(given, expected=True)
            self._insert(new, given, self._base_without(given), self._snapshot.next_id)

    def _insert(self, codes: Codes, ids: Ids, base: Segment, next_id: int) -> None:
        """Add rows of aligned codes, or replace those in the log; the large segment has none of the ids."""
        recent = self._log().rows
        numbers = ids.tolist()
        if len(recent) + len(numbers) <= _log_limit(base):
            self._append(base, list(zip(numbers, map(bytes, codes), strict=True)), next_id)
        else:
            self._append(base, [(i, None) for i in recent.keys() & numbers], next_id, (codes, ids))

    def _append(
        self, base: Segment, changes: list[LogEntry], next_id: int = 0, *more: tuple[Codes, Ids]
    ) -> None:
        """Replace the snapshot by one with this large segment and these changes.

        If there are more rows, or if few rows of the segment are left, all are merged into a new segment.
        """
        old, log = self._snapshot, self._log()
        if len(log.changes) + len(changes) > 2 * _log_limit(base):  # some rows have changed often
            log = ChangeLog(list(log.rows.items()), log.rows.copy())
        log.append(changes)
        changed = old.after(base, log, max(old.next_id, next_id))
        if more or (base is not old.base and 2 * len(base) < base.buckets.size):
            changed = Snapshot(changed.merged(*more), self.n_bits, changed.next_id)
        self._snapshot = changed

    def _base_without(self, ids: Ids) -> Segment:
        """The large segment without the rows of these ids; the segment itself if it has none of them."""
        base = self._snapshot.base
        rank, present = base.locate(ids)
        return base.without(rank[present]) if present.any() else base

    def _log(self) -> ChangeLog:
        """The log of the snapshot, without the entries of a change that was interrupted."""
        snapshot, log = self._snapshot, self._snapshot.log
        if len(log.changes) == snapshot.n_changes:
            return log
        changes = log.changes[: snapshot.n_changes]
        return ChangeLog(changes, rows_after(changes))

    def _check_presence(self, ids: Ids, *, expected: bool) -> None:
        """Raise unless all ids are in the index, or unless none is."""
        base, recent = self._snapshot.base, self._log().rows
        in_log = np.fromiter((i in recent for i in ids.tolist()), np.bool_, len(ids))
        wrong = (base.locate(ids)[1] | in_log) != expected
        if wrong.any():
            fault = "is not in the index" if expected else "is already in the index: use update()"
            more = int(wrong.sum()) - 1
            others = f" (and {more} others)" if more else ""
            raise ValueError(f"id {shown_id(ids[wrong][0])}{others} {fault}. Nothing was changed")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, atomically.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced when the new one is complete. The changes in the
            journal of a server that was killed must be in this index, as they are if ``load`` has opened the
            file since then: the journal is emptied.

        Raises
        ------
        BlockingIOError
            If another process, such as ``manihash serve --writable``, writes to the same index.
        ValueError
            If the file to replace has a journal with changes that are not in this index.
        """
        with locked_journal(path) as journal:
            if journal is not None and not journal.empty:
                self._stored.check_journaled(path, journal, self.n_bits)
            self._write(path, journal)

    def _write(self, path: str | os.PathLike[str], journal: Journal | None) -> None:
        """Write the index to a file whose journal this process has locked, and empty the journal."""
        snapshot, model = self._snapshot, self._model_bytes()
        content = IndexContent(
            snapshot.merged(), self.n_bits, snapshot.next_id, self.made_by, self.layout, model, False
        )
        self._stored.write(path, content, journal, self.id_type)

    def _model_bytes(self) -> bytes | None:
        """The model file to store in the index file; None if the index has no model."""
        return None if self._stored.file is None else self._stored.file.model

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True) -> Self:
        """Open an index file, with the changes in the journal of its server if there are any.

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
        stored, changes = StoredIndex.open(path, mmap=mmap)
        assert stored.file is not None
        index = cls.__new__(cls)
        index._load(stored.file)
        index._stored = stored
        for change in merged(changes):
            index._apply(change)
        stored.removed.clear()
        return index

    def _load(self, file: IndexFile) -> None:
        """Set the rows of a file."""
        self._start(file.buckets, file.n_bits, file.layout, file.made_by, file.next_id)

    def _apply(self, change: Change) -> None:
        """Make a change that has ids, and codes and not vectors."""
        ids, codes = change.ids, change.codes
        if change.kind == REMOVE:
            HammingIndex.remove(self, ids)  # type: ignore[arg-type]
        elif change.kind == UPDATE:
            HammingIndex.update(self, codes, ids)  # type: ignore[arg-type]
        else:
            HammingIndex.add(self, codes, ids)  # type: ignore[arg-type]

    def verify(self) -> None:
        """Check every byte of the file that was loaded; raise ``DamagedIndexError`` if it is damaged."""
        if self._stored.file is None:
            raise ValueError("verify() checks the file of an index: this index was not loaded from a file")
        self._stored.file.verify()

    def _checked(self, codes: ArrayLike, name: str) -> Codes:
        """The codes, checked and aligned."""
        return aligned(check_codes(codes, self.n_bits, name))

    def _radius(self, radius: Any) -> int:
        return min(positive_int(radius, "radius", least=0), self.n_bits)


def _log_limit(base: Segment) -> int:
    """Number of rows that the log may hold beside a large segment."""
    return _RECENT * isqrt(1 + base.buckets.size)
