"""A store: codes with their ids in a database, with the same methods and checks for every database."""

import logging
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.codes import check_codes
from manihash.errors import StoreError
from manihash.search.ids import check_ids, is_in
from manihash.stores.driver import Driver, FirstPartDriver, LayoutDriver, Matches, listed_ids
from manihash.types import Codes, Ids, Mask

_log = logging.getLogger(__name__)

_IDS_PER_FETCH = 10_000  # below the limits of a SQL statement and of a Milvus result (16,384)


class Store:
    """Codes with their ids in a database.

    `open_store` and `create_store` return a store; do not create one yourself. All databases have the same
    methods and return the same results: exact, nearest first, ties by id. `add` and `remove` change all of
    their rows or none, and their changes are saved when they return. A store is a context manager that
    closes itself at the end of the block.

    Several processes may change one store at the same time: their changes are made one after another, except
    in Milvus, ClickHouse and Qdrant, which need one writer at a time. A DuckDB file is open in one process at
    a time. Readers see the changes of others. Open one store per thread.

    Parameters
    ----------
    driver : Driver
        The database driver.
    url : str
        The address of the store, without a password.

    Attributes
    ----------
    url : str
        The address of the store, without a password.
    n_bits : int
        Number of bits of a code.
    id_type : type
        The type of all ids: int, or str for ids such as file names.
    look_up_bits : int or None
        Number of bits of the first part of codes, which has a column of its own; None without that column.
    layout : CodeLayout or None
        The parts of codes with fields of a product quantizer, if the store ranks by them, as a FAISS file
        does; None for Hamming distance.

    See Also
    --------
    manihash.open_store : Open a store.
    manihash.create_store : Create a store.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from manihash import create_store
    >>> path = os.path.join(tempfile.mkdtemp(), "codes.faiss")
    >>> with create_store(path, n_bits=8) as store:
    ...     store.add(np.array([[0], [1], [255]], np.uint8), ids=[10, 11, 12])
    ...     distances, ids = store.search(np.array([[3]], np.uint8), k=2)
    >>> distances, ids
    (array([[1, 2]], dtype=int32), array([[11, 10]]))
    """

    def __init__(self, driver: Driver, url: str) -> None:
        self._driver = driver
        self.url = url
        self.n_bits, self.id_type = driver.n_bits, driver.id_type
        self.look_up_bits = driver.look_up_bits
        self.layout: CodeLayout | None = getattr(driver, "layout", None)
        self._id_dtype: Any = object if self.id_type is str else np.int64

    @property
    def rewrites_on_add(self) -> bool:
        """Whether each `add` rewrites the store, so that large batches are faster than small ones."""
        return self._driver.rewrites_on_add

    def __len__(self) -> int:
        return self.count()

    def count(self) -> int:
        """Count the rows of the store.

        Returns
        -------
        int
            Number of rows.
        """
        return self._driver.count()

    def add(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Add codes under new ids: all of them, or none if it fails.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array-like of shape (n,)
            Distinct 64-bit integers, or strings if `id_type` is str, that are not in the store yet.

        Raises
        ------
        StoreError
            If an id is already in the store.
        """
        rows, numbers = self._checked(codes, ids)
        with self._driver.writing():
            stored, _ = self._fetch(numbers)
            if len(stored):
                raise StoreError(
                    f"{listed_ids(stored)} already in {self.url}: remove these rows first, or use new ids"
                )
            if len(rows):
                self._driver.add(rows, numbers)

    def add_missing(self, codes: ArrayLike, ids: ArrayLike) -> int:
        """Add the codes whose ids are not in the store yet.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array-like of shape (n,)
            Distinct ids.

        Returns
        -------
        int
            Number of rows that were added.

        Raises
        ------
        StoreError
            If an id is in the store with a different code. Nothing is added then.
        """
        rows, numbers = self._checked(codes, ids)
        with self._driver.writing():
            missing = self._missing(rows, numbers)
            if missing.any():
                self._driver.add(np.ascontiguousarray(rows[missing]), numbers[missing])
        return int(np.count_nonzero(missing))

    def get(self, ids: ArrayLike) -> Codes:
        """Return the codes of ids.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids that are in the store.

        Returns
        -------
        ndarray of shape (n, ceil(n_bits / 8)), uint8
            Packed codes, in the order of `ids`.

        Raises
        ------
        StoreError
            If an id is not in the store.
        """
        numbers = check_ids(ids, id_type=self.id_type)
        stored, codes = self._fetch(numbers)
        self._check_known(numbers, stored)
        order = np.argsort(stored)
        return codes[order[np.searchsorted(stored, numbers, sorter=order)]]

    def contains(self, ids: ArrayLike) -> Mask:
        """Tell which ids are in the store.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids.

        Returns
        -------
        ndarray of shape (n,), bool
            True where the id is in the store.
        """
        numbers = check_ids(ids, id_type=self.id_type)
        return is_in(numbers, self._fetch(numbers)[0])

    def remove(self, ids: ArrayLike) -> None:
        """Remove rows: all of them, or none if it fails.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Distinct ids that are in the store.

        Raises
        ------
        StoreError
            If an id is not in the store.
        """
        numbers = check_ids(ids, id_type=self.id_type)
        with self._driver.writing():
            self._check_known(numbers, self._fetch(numbers)[0])
            if len(numbers):
                self._driver.delete(numbers)

    def search(
        self, queries: ArrayLike, k: int, *, asymmetric: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Ids]:
        """Find the k nearest codes of each query by Hamming distance, or by the layout of the store.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes.
        k : int
            Number of neighbors. If the store holds fewer than k rows, all are returned with a warning.
        asymmetric : array-like of shape (q, v), default=None
            Real values of the queries, as ``embed`` returns them, if the store has a layout: rows are then
            ranked by the distance of ``manihash.search.asymmetric_distances``.

        Returns
        -------
        distances : ndarray of shape (q, k), int32
            Distances, nearest first, ties by id; float32 if the store has a layout.
        ids : ndarray of shape (q, k)
            The ids at these distances: int64, or strings in an array of objects.
        """
        k, n = positive_int(k, "k"), self.count()
        if k > n:
            _log.warning("k=%d exceeds the %d codes of the store: all %d are returned", k, n, n)
        k = min(k, n)
        rows = self._checked_codes(queries, "queries")
        if asymmetric is not None and self.layout is None:
            raise StoreError(
                f"{self.url} ranks by Hamming distance: omit asymmetric, or use an index file or, for codes "
                "with a product quantizer, a FAISS file"
            )
        matches: list[Matches] = []
        if k and asymmetric is not None:
            matches = cast(LayoutDriver, self._driver).search(
                rows,
                k,
                self.layout.checked_values(asymmetric),  # type: ignore[union-attr]
            )
        elif k:
            matches = self._driver.search(rows, k)
        k = min([k, *(len(number) for _, number in matches)])  # another process may have deleted rows
        kind = np.int32 if self.layout is None else np.float32
        distances, ids = np.empty((len(rows), k), kind), np.empty((len(rows), k), self._id_dtype)
        for i, (distance, number) in enumerate(matches):
            distances[i], ids[i] = distance[:k], number[:k]
        return distances, ids

    def within(
        self, queries: ArrayLike, radius: int, *, part: str | None = None
    ) -> tuple[Ids, NDArray[np.int32], Ids]:
        """Find all codes within a Hamming radius of each query.

        Parameters
        ----------
        queries : array-like of shape (q, ceil(n_bits / 8)), uint8
            Packed codes.
        radius : int
            Largest distance, in bits.
        part : {"first"} or None, default=None
            The radius and the distances are those of the first part of the codes, if the store has a column
            for it (`look_up_bits`); None for all bits.

        Returns
        -------
        lims : ndarray of shape (q + 1,), int64
            The matches of query i are the entries from ``lims[i]`` to ``lims[i + 1]``.
        distances : ndarray of shape (lims[-1],), int32
            Distances, nearest first within a query, ties by id.
        ids : ndarray of shape (lims[-1],)
            The ids at these distances.
        """
        radius = min(positive_int(radius, "radius", least=0), self.n_bits)
        rows = self._checked_codes(queries, "queries")
        matches = self._driver.within(rows, radius) if part is None else self._first(rows, radius, part)
        lims = np.cumsum([0, *(len(ids) for _, ids in matches)], dtype=np.int64)
        columns = [np.concatenate([np.empty(0, np.int64), *(m[i] for m in matches)]) for i in (0, 1)]
        return lims, columns[0].astype(np.int32), columns[1].astype(self._id_dtype)

    def close(self) -> None:
        """Close files and connections."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, codes: ArrayLike, ids: ArrayLike) -> tuple[Codes, Ids]:
        rows = self._checked_codes(codes, "codes")
        return rows, check_ids(ids, len(rows), id_type=self.id_type)

    def _checked_codes(self, codes: ArrayLike, name: str) -> Codes:
        return np.ascontiguousarray(check_codes(codes, self.n_bits, name))

    def _first(self, queries: Codes, radius: int, part: str) -> list[Matches]:
        """Return the rows whose first part is within the radius of each query's."""
        if part != "first":
            raise ValueError(f"got part={part!r}: expected 'first', or None for all bits")
        if self.look_up_bits is None:
            raise StoreError(
                f"{self.url} has no column for the first part of codes: create it with layout=, in "
                "DuckDB, SQLite, PostgreSQL, ClickHouse or Qdrant"
            )
        first = CodeLayout(self.n_bits, self.look_up_bits).first(queries)
        return cast(FirstPartDriver, self._driver).within_first(first, min(radius, self.look_up_bits))

    def _fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return the stored ids among `ids`, in any order, with their codes (n, bytes)."""
        starts = range(0, len(ids), _IDS_PER_FETCH)
        batches = [self._driver.fetch(ids[i : i + _IDS_PER_FETCH]) for i in starts]
        empty = np.empty((0, -(-self.n_bits // 8)), np.uint8)
        stored = np.concatenate([np.empty(0, np.int64), *(batch[0] for batch in batches)])
        return stored.astype(self._id_dtype), np.concatenate([empty, *(batch[1] for batch in batches)])

    def _missing(self, codes: Codes, ids: Ids) -> Mask:
        """Return which ids are not in the store; raise if one is there with a different code."""
        stored, stored_codes = self._fetch(ids)
        order = np.argsort(ids)
        position = order[np.searchsorted(ids, stored, sorter=order)]
        different = np.flatnonzero((codes[position] != stored_codes).any(axis=1))
        if len(different):
            raise StoreError(
                f"{listed_ids(stored[different])} in {self.url} with a different code: these are not the "
                "same rows. Use a new table or other ids"
            )
        missing = np.ones(len(codes), np.bool_)
        missing[position] = False
        return missing

    def _check_known(self, ids: Ids, stored: Ids) -> None:
        unknown = ids[~is_in(ids, stored)]
        if len(unknown):
            raise StoreError(f"{listed_ids(unknown)} not in {self.url}: use ids that were added")
