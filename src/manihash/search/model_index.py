"""An index that knows the hasher of its codes: it takes vectors, and one file holds all of it."""

import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes
from manihash.errors import DamagedIndexError
from manihash.files.model import load as load_model
from manihash.hashers._hasher import Hasher
from manihash.search import files
from manihash.search.ids import Filter
from manihash.search.index import HammingIndex
from manihash.search.journal import Change
from manihash.search.rescore import Rescore
from manihash.search.string_ids import shown_id
from manihash.search.vector_order import as_array, first_misplaced, some_of
from manihash.types import Codes, Floats, Ids, Ints


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

    def __init__(self, hasher: Hasher, codes: ArrayLike, ids: ArrayLike | None = None) -> None:
        super().__init__(codes, hasher.n_bits_, ids, layout=hasher.layout_, made_by=hasher)
        self.hasher = hasher
        self._given_ids = None if ids is None else np.asarray(ids)
        self._ordered: Callable[[], Any] = _nothing  # vectors that were found to be in the order of the rows

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
        rescore: Rescore | None = None,
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
        rerank : array-like of shape (n, d), ByteVectors, tuple (vectors, ids), Rescore or None, default=None
            Vectors of the rows, in memory, memory-mapped or with one byte per value, in the order in which
            the rows were given. An index that was loaded, or that rows were added to, does not know that
            order: row i is then the vector of id i, unless the ids are given. Some vectors are encoded to
            see whether they are in order. A longer list of candidates is then ranked by the Euclidean
            distance of the vectors.
        candidates : int, default=None
            Smallest number of candidates to rank again; 10 times k by default. Rows with the same code are
            taken together.
        symmetric : bool, default=False
            Round the queries to codes first: Hamming distance, if codes are signs.
        rescore : Rescore, default=None
            Another name of ``rerank``.

        Returns
        -------
        distances : ndarray of shape (q, k)
            Distances, as those of ``HammingIndex.search``; Euclidean if reranked.
        ids : ndarray of shape (q, k)
            Ids of the rows: int64, or strings in an array of objects.
        """
        codes, values, vectors = self._encoded(queries, symmetric=symmetric)
        asymmetric = values if asymmetric is None else asymmetric
        again = None if rerank is None else self._reranking(rerank, vectors, candidates)
        if candidates is not None and again is None:
            raise ValueError("candidates is the number of rows that rerank ranks again: give rerank, too")
        return super().search(codes, k, filter=filter, asymmetric=asymmetric, rerank=again, rescore=rescore)

    def within(
        self,
        queries: Any,
        radius: int = 2,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        symmetric: bool = False,
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

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The results of query i are at ``lims[i]`` to ``lims[i + 1]``.
        distances : ndarray
            Distances by which the rows are ordered.
        ids : ndarray
            Ids of the rows.
        """
        codes, values, _ = self._encoded(queries, symmetric=symmetric or not self.layout.has_two_parts)
        return super().within(
            codes, radius, filter=filter, asymmetric=values if asymmetric is None else asymmetric
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
        return super().count(self._encoded(queries, symmetric=True)[0], radius, filter=filter)

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
        return super().bucket(self._encoded(np.atleast_2d(np.asarray(code)), symmetric=True)[0])

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
        added = super().add(self._encoded(codes, symmetric=True)[0], ids)
        self._given_ids, self._ordered = None, _nothing  # the order of later vectors is not known
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
        super().update(self._encoded(codes, symmetric=True)[0], ids)

    def set_layout(self, layout: CodeLayout | None) -> None:
        """Set the weight of the second part; all else is given by the hasher.

        Parameters
        ----------
        layout : CodeLayout
            The layout of the hasher with any weight: ``index.layout.with_weight(1.0)``.
        """
        own = getattr(self, "hasher", None)
        if own is not None and (layout is None or layout.with_weight(own.layout_.weight) != own.layout_):
            raise ValueError("the layout is not that of the hasher of this index: change only its weight")
        super().set_layout(layout)

    def _encoded(self, rows: Any, *, symmetric: bool) -> tuple[Codes, Floats | None, Any]:
        """The codes of rows, their real values unless ``symmetric``, and the rows if they are vectors."""
        if self._are_codes(rows):
            return np.asarray(rows), None, None
        codes = as_array(self.hasher.encode(rows))
        return codes, None if symmetric else as_array(self.hasher.embed(rows)), rows

    def _are_codes(self, rows: Any) -> bool:
        """Whether rows are packed codes: bytes, as many as a code has, and not as many as a vector."""
        shape: tuple[int, ...] = getattr(rows, "shape", ())
        are_bytes = getattr(rows, "dtype", None) == np.uint8 and len(shape) == 2
        return are_bytes and shape[1] == n_bytes(self.n_bits) != self.hasher.n_features_in_

    def _reranking(self, rerank: Any, vectors: Any, candidates: int | None) -> Rescore:
        """The vectors of queries and rows, and the length of the list to rank again."""
        if isinstance(rerank, Rescore):
            return rerank if candidates is None else replace(rerank, shortlist=candidates)
        if vectors is None:
            raise ValueError("rerank needs the vectors of the queries, got packed codes: give vectors")
        if isinstance(rerank, tuple):
            rows, ids = rerank
        else:
            rows, ids = rerank, self._given_ids
            self._check_order(rows)
        return Rescore(as_array(self.hasher._as_stored(vectors)), rows, candidates, ids)

    def _check_order(self, rows: Any) -> None:
        """Raise if most of some vectors do not have the codes of the ids that they stand for."""
        ids = self._given_ids
        if self._ordered() is rows or (ids is None and self.id_type is str):
            return
        given, rows = rows, rows if hasattr(rows, "shape") else np.asarray(rows)
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
        self._ordered = _reference(given)

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

    @classmethod
    def _of_file(cls, file: files.IndexFile, changes: list[Change]) -> Self:
        if file.model is None:
            raise ValueError(
                f"{file.path} holds codes without their model: open it with HammingIndex.load, or make it "
                "with its model, by hasher.index(X).save() or manihash build"
            )
        index = super()._of_file(file, changes)
        index.hasher, index._given_ids, index._ordered = model_of(file), None, _nothing
        if index.hasher.n_bits_ != index.n_bits:
            raise DamagedIndexError(
                f"{file.path} has codes of {index.n_bits} bits and a model of {index.hasher.n_bits_}: build "
                "the index again"
            )
        return index


def _nothing() -> None:
    """Stand for vectors that were not checked."""


def _reference(rows: Any) -> Callable[[], Any]:
    """A weak reference to an array; nothing if the object cannot have one."""
    try:
        return weakref.ref(rows)
    except TypeError:
        return _nothing


def model_of(file: files.IndexFile) -> Hasher:
    """The hasher inside an index file that has one."""
    assert file.model is not None
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "model.mhash").write_bytes(file.model)
        try:
            return load_model(path)
        except ValueError as error:
            raise DamagedIndexError(f"the model inside {file.path} is damaged: {error}") from error
