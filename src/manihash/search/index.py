"""Exact search among the codes of rows with the hasher that made them: queries are vectors."""

import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes
from manihash.errors import DamagedIndexError
from manihash.files.lineage import accepts_codes_of, model_id
from manihash.files.model import load as load_model
from manihash.search.files import IndexFile
from manihash.search.hamming_index import HammingIndex
from manihash.search.ids import shown_id
from manihash.search.rerank import (
    Rerank,
    are_by_id,
    as_array,
    as_vectors,
    first_misplaced,
    ids_in_order,
    one_reranking,
    some_of,
)
from manihash.search.segments import Filter
from manihash.types import Codes, Ids, Ints

if TYPE_CHECKING:
    from manihash.hashers._hasher import Hasher


class Index(HammingIndex):
    """Rows encoded by a hasher, to be searched with vectors.

    ``hasher.index(X)`` makes it. The index knows the hasher, the parts of its codes and their distance.
    Queries are vectors, which are not rounded to codes: the distance is that of their real values to the
    stored codes. Packed codes, as ``encode`` returns them, are possible as well. Answers are exact for this
    distance, with ties by id.

    Parameters
    ----------
    hasher : Hasher
        A fitted hasher.
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Codes that it has made.
    ids : array-like of shape (n,), default=None
        Distinct integers or strings, one per row. By default the id of a row is its position.

    Attributes
    ----------
    hasher : Hasher
        The hasher.
    layout : CodeLayout
        The parts of the codes, and the distance that ranks them.

    Examples
    --------
    >>> import numpy as np
    >>> import manihash as mh
    >>> X = np.random.default_rng(0).normal(size=(1000, 16))
    >>> index = mh.recipe("itq", n_bits=16, random_state=0).fit(X).index(X)
    >>> distances, ids = index.search(X[:5], k=3)
    >>> ids[:, 0]
    array([0, 1, 2, 3, 4])
    >>> distances, ids = index.search(X[:5], k=3, rerank=X)
    >>> distances[:, 0]
    array([0., 0., 0., 0., 0.])
    """

    def __init__(self, hasher: "Hasher", codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        super().__init__(codes, hasher.n_bits_, ids, layout=hasher.layout_, made_by=hasher)
        self.hasher = hasher
        self._given_ids = None if ids is None else np.asarray(ids)
        # Vectors that were found to be in the order of the rows, and their ids.
        self._ordered: tuple[Callable[[], Any], Ids | None] = _nothing, None

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"hasher": type(self.hasher).__name__}

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        rerank: Any = None,
        candidates: int | None = None,
        symmetric: bool = False,
        weight: float | None = None,
        rescore: Rerank | None = None,
    ) -> tuple[NDArray[Any], Ids]:
        """Find the k nearest rows of each query, nearest first, ties by id.

        Parameters
        ----------
        queries : array-like of shape (q, d), or codes of shape (q, ceil(n_bits / 8)) and dtype uint8
            Vectors, or packed codes.
        k : int, default=10
            Number of rows to return per query.
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Search only these rows: their ids, or one boolean per row in the order of ``ids``.
        asymmetric : array-like of shape (q, v), default=None
            Real values of queries that are codes, as in ``HammingIndex.search``.
        rerank : array-like of shape (n, d), ByteVectors, tuple (vectors, ids), Rerank or None, default=None
            Vectors of the rows, in memory, memory-mapped or with one byte per value, in the order in which
            the rows were given. An index that was loaded, or that rows were added to, does not know that
            order: the vectors are then those of all rows in the order of ``ids``, or row i is the vector of
            id i, unless the ids are given. Some vectors are encoded to see whether they are in order; others
            are refused. A longer list of candidates is then ranked by the Euclidean
            distance of the vectors.
        candidates : int, default=None
            Smallest number of candidates to rank again; 10 times k by default. Rows with the same code are
            taken together.
        symmetric : bool, default=False
            Round the queries to codes first: Hamming distance, if codes are signs.
        weight : float, default=None
            Weight of the second part of the codes for these queries, at least 0; None for that of ``layout``.
        rescore : Rerank, default=None
            Another name of ``rerank``.

        Returns
        -------
        distances : ndarray of shape (q, k)
            Distances, as those of ``HammingIndex.search``; Euclidean if reranked.
        ids : ndarray of shape (q, k)
            Ids of the rows: int64, or strings in an array of objects.
        """
        _check_rows(queries)
        k, are_codes = positive_int(k, "k"), self._are_codes(queries)
        again = (
            None if rerank is None else self._reranking(rerank, None if are_codes else queries, candidates)
        )
        if candidates is not None and again is None:
            raise ValueError("candidates is the number of rows that rerank ranks again: give rerank, too")
        if not are_codes and not symmetric and asymmetric is None:  # codes of the queries are not needed
            values = as_array(self.hasher.embed(queries))
            ranked = self._ranking_by(weight).queries(None, values)
            return self._nearest(ranked, k, filter, one_reranking(again, rescore))
        codes = self._as_codes(queries)
        return super().search(
            codes, k, filter=filter, asymmetric=asymmetric, rerank=again, weight=weight, rescore=rescore
        )

    def within(
        self,
        queries: Any,
        radius: int = 2,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        symmetric: bool = False,
        weight: float | None = None,
    ) -> tuple[Ints, NDArray[Any], Ids]:
        """Find all rows within a Hamming radius of each query, nearest first, ties by id.

        If codes have two parts, the radius is that of the first part, which is made for look-up, and the rows
        are in the order of ``search``.

        Parameters
        ----------
        queries : array-like of shape (q, d), or codes of shape (q, ceil(n_bits / 8)) and dtype uint8
            Vectors, or packed codes.
        radius : int, default=2
            Largest Hamming distance.
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Search only these rows, as in ``search``.
        asymmetric : array-like of shape (q, v), default=None
            Real values of queries that are codes, as in ``HammingIndex.within``.
        symmetric : bool, default=False
            Order the rows of codes of two parts by the distance of codes, and not of real values.
        weight : float, default=None
            Weight of the second part of the codes for these queries, at least 0; None for that of ``layout``.

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The results of query i are at ``lims[i]`` to ``lims[i + 1]``.
        distances : ndarray
            Distances by which the rows are ordered.
        ids : ndarray
            Ids of the rows.
        """
        _check_rows(queries)
        if (
            asymmetric is None
            and not symmetric
            and self.layout.has_two_parts
            and not self._are_codes(queries)
        ):
            asymmetric = as_array(self.hasher.embed(queries))
        return super().within(
            self._as_codes(queries), radius, filter=filter, asymmetric=asymmetric, weight=weight
        )

    def count(self, queries: Any, radius: int = 0, *, filter: Filter = None) -> Ints:
        """Count the rows within a Hamming radius of each query, as ``within`` finds them.

        Parameters
        ----------
        queries : array-like of shape (q, d), or codes of shape (q, ceil(n_bits / 8)) and dtype uint8
            Vectors, or packed codes.
        radius : int, default=0
            Largest distance.
        filter : set or array-like of ids, or array-like of bool of shape (n,), default=None
            Count only these rows.

        Returns
        -------
        ndarray of shape (q,), int64
            Number of rows per query.
        """
        _check_rows(queries)
        return super().count(self._as_codes(queries), radius, filter=filter)

    def bucket(self, code: Any) -> Ids:
        """Return the ids of the rows that have the code of one vector, or the first part of its code.

        Parameters
        ----------
        code : array-like of shape (d,), or a code of shape (ceil(n_bits / 8),) and dtype uint8
            A vector, or a packed code.

        Returns
        -------
        ndarray
            Ids of the rows, ascending.
        """
        return super().bucket(self._as_codes(np.atleast_2d(np.asanyarray(code))))

    def add(self, codes: Any, ids: ArrayLike | None = None) -> Ids:
        """Add rows.

        Parameters
        ----------
        codes : array-like of shape (n, d), or codes of shape (n, ceil(n_bits / 8)) and dtype uint8
            Vectors, or packed codes.
        ids : array-like of shape (n,), default=None
            Distinct ids that are not in the index, of the type of its other ids. By default the next unused
            integers; strings must be given.

        Returns
        -------
        ndarray of shape (n,)
            Ids of the added rows.
        """
        added = super().add(self._as_codes(codes), ids)
        self._given_ids, self._ordered = None, (_nothing, None)  # the order of later vectors is not known
        return added

    def update(self, codes: Any, ids: ArrayLike) -> None:
        """Replace rows; if an id is not in the index, nothing is changed.

        Parameters
        ----------
        codes : array-like of shape (n, d), or codes of shape (n, ceil(n_bits / 8)) and dtype uint8
            Vectors, or packed codes.
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        super().update(self._as_codes(codes), ids)

    def set_layout(self, layout: CodeLayout | None) -> None:
        """Set the weight of the second part; all else is given by the hasher.

        Parameters
        ----------
        layout : CodeLayout
            The layout of the hasher with any weight: ``index.layout.with_weight(1.0)``.
        """
        own = self.hasher.layout_
        if layout is None or layout.with_weight(own.weight) != own:
            raise ValueError("the layout is not that of the hasher of this index: change only its weight")
        super().set_layout(layout)

    def _as_codes(self, rows: Any) -> Codes:
        """The codes of rows, which may be vectors."""
        return rows if self._are_codes(rows) else as_array(self.hasher.encode(rows))

    def _are_codes(self, rows: Any) -> bool:
        """Whether rows are packed codes: bytes, as many as a code has, and not as many as a vector."""
        shape: tuple[int, ...] = getattr(rows, "shape", ())
        are_bytes = getattr(rows, "dtype", None) == np.uint8 and len(shape) == 2
        return are_bytes and shape[1] == n_bytes(self.n_bits) != self.hasher.n_features_in_

    def _reranking(self, rerank: Any, vectors: Any, candidates: int | None) -> Rerank:
        """The vectors of queries and rows, and the length of the list to rank again."""
        if candidates is not None:
            candidates = positive_int(candidates, "candidates")
        if isinstance(rerank, Rerank):
            return rerank if candidates is None else replace(rerank, shortlist=candidates)
        if vectors is None:
            raise ValueError("rerank needs the vectors of the queries, got packed codes: give vectors")
        if isinstance(rerank, str) or not hasattr(rerank, "__len__"):
            raise ValueError(
                f"rerank must be the vectors of the rows, not {rerank!r}: give an array, such as "
                "numpy.load(path, mmap_mode='r'), or ByteVectors.load(path)"
            )
        if isinstance(rerank, tuple):
            rows, ids = rerank
        else:
            rows, ids = rerank, self._ids_of(rerank)
        return Rerank(as_array(self.hasher._as_stored(vectors)), rows, candidates, ids)

    def _ids_of(self, rows: Any) -> Ids | None:
        """The ids of the vectors to rerank with; None if row i is the vector of id i.

        Raise if most of some vectors do not have the codes of the ids that they stand for.
        """
        reference, ids = self._ordered
        if reference() is rows:
            return ids
        given, rows = rows, as_vectors(rows)
        if (ids := self._given_ids) is None:
            ids = ids_in_order(self, self.hasher, rows)
        if ids is not None or self.id_type is int:
            self._check_order(rows, ids)
        if ids is None and not are_by_id(self, len(rows)):
            raise ValueError(
                f"the {len(rows):,} vectors to rerank with are not known to be those of all {len(self):,} "
                "rows in the order of index.ids: give the vectors with their ids, rerank=(vectors, ids)"
            )
        self._ordered = _reference(given), ids
        return ids

    def _check_order(self, rows: Any, ids: Ids | None) -> None:
        """Raise if most of some vectors do not have the codes of the ids that they stand for."""
        places = some_of(min(len(rows), len(self)) if ids is None else len(ids))
        names = places if ids is None else ids[places]
        held = self.contains(names) & (places < len(rows))
        places, names = places[held], names[held]
        wrong = first_misplaced(self.hasher, rows, places, self.codes[np.searchsorted(self.ids, names)])
        if wrong is not None:
            raise ValueError(
                f"row {places[wrong]} of the vectors to rerank with is not the vector of id "
                f"{shown_id(names[wrong])}: its code differs. Give the vectors with their ids: "
                "rerank=(vectors, ids)"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index with its hasher to one file, atomically.

        Parameters
        ----------
        path : str or path-like
            File to write; an existing file is replaced when the new one is complete. ``manihash.load`` opens
            it.
        """
        super().save(path)

    def _model_bytes(self) -> bytes | None:
        with tempfile.TemporaryDirectory() as folder:
            self.hasher.save(path := Path(folder) / "model.mhash")
            return path.read_bytes()

    def _load(self, file: IndexFile) -> None:
        if file.model is None:
            raise ValueError(
                f"{file.path} holds codes without their model: open it with HammingIndex.load, or make it "
                "with its model, by hasher.index(X).save() or manihash build"
            )
        super()._load(file)
        self.hasher, self._given_ids, self._ordered = model_of(file), None, (_nothing, None)
        if self.hasher.n_bits_ != self.n_bits:
            raise DamagedIndexError(
                f"{file.path} has codes of {self.n_bits} bits and a model of {self.hasher.n_bits_}: build "
                "the index again"
            )
        lineage, made_by = self.hasher.lineage_, self.made_by
        own = made_by is None or made_by == model_id(self.hasher)
        if not own and not accepts_codes_of(lineage, str(made_by)):
            raise DamagedIndexError(
                f"{file.path} holds codes of another model (id {made_by}) than the model inside it (id "
                f"{lineage['id']}): build the index again"
            )


def _check_rows(queries: Any) -> None:
    """Raise if queries are one vector or code, and not rows of them."""
    shape = getattr(queries, "shape", None)
    if shape is not None and len(shape) == 1:
        raise ValueError(
            f"queries must be 2-D, one row per query, got shape {tuple(shape)}: use Q[:1] or Q[0][None]"
        )


def _nothing() -> None:
    """Stand for vectors that were not checked."""


def _reference(rows: Any) -> Callable[[], Any]:
    """A weak reference to an array; nothing if the object cannot have one."""
    try:
        return weakref.ref(rows)
    except TypeError:
        return _nothing


def model_of(file: IndexFile) -> "Hasher":
    """The hasher inside an index file that has one."""
    assert file.model is not None
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "model.mhash").write_bytes(file.model)
        try:
            return load_model(path)
        except ValueError as error:
            raise DamagedIndexError(f"the model inside {file.path} is damaged: {error}") from error
