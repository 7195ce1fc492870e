"""What all stores share: the verbs, the checks at the door, answers in order of distance and then of id."""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.search.ids import check_ids
from manihash.types import Codes

_log = logging.getLogger(__name__)

Ints = NDArray[np.int64]
Answers = tuple[Ints, Ints]  # distances and ids, nearest first, ties by id

_IDS_AT_ONCE = 10_000  # what a statement, or an answer of Milvus (16,384), holds with ease


class StoreError(ValueError):
    """A store that refuses: it does not hold what was asked, or not codes of this kind."""


class NoStore(StoreError):
    """There is no such file, table or collection yet."""


class StoreDown(ConnectionError):
    """A store that does not answer, or no longer."""


class Engine(Protocol):
    """What one database does; ``Store`` has checked everything that comes here."""

    n_bits: int
    writes_whole: bool
    """Every ``add`` writes the whole store anew, so that few large ones are better than many small ones."""

    def add(self, codes: Codes, ids: Ints) -> None:
        """Keep new rows: all of them, or none if it fails."""

    def search(self, queries: Codes, k: int) -> list[Answers]:
        """The k nearest codes of each query."""

    def within(self, queries: Codes, radius: int) -> list[Answers]:
        """All codes of each query at a distance of at most ``radius``."""

    def fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        """Those of the ids that are held, in any order, with their codes."""

    def delete(self, ids: Ints) -> None:
        """Drop rows: all of them, or none if it fails."""

    def count(self) -> int:
        """Rows held."""

    def close(self) -> None:
        """Let go of files and connections."""


class Store:
    """Codes of n_bits with their ids, in a database: ``open_store`` and ``create_store`` give one.

    What ``add`` and ``delete`` have returned from is kept; a call that fails has changed nothing.
    """

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self.url = url
        self.n_bits = engine.n_bits

    @property
    def writes_whole(self) -> bool:
        """Every ``add`` writes the whole store anew: few large ones are better than many small ones."""
        return self._engine.writes_whole

    def __len__(self) -> int:
        return self.count()

    def count(self) -> int:
        """Rows held."""
        return self._engine.count()

    def add(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Keep codes (n, bytes) under n new ids, whole numbers of 64 bits."""
        rows, numbers = self._checked(codes, ids)
        held, _ = self._fetch(numbers)
        if len(held):
            raise StoreError(
                f"{_some(held)} already in {self.url}: delete {_them(held)} first, or give new ids"
            )
        if len(rows):
            self._engine.add(rows, numbers)

    def add_missing(self, codes: ArrayLike, ids: ArrayLike) -> int:
        """Keep those codes whose ids are not held yet, and say how many; held ones must be the same codes."""
        rows, numbers = self._checked(codes, ids)
        held, there = self._fetch(numbers)
        order = np.argsort(numbers)
        position = order[np.searchsorted(numbers, held, sorter=order)]
        other = np.flatnonzero((rows[position] != there).any(axis=1))
        if len(other):
            raise StoreError(
                f"{_some(held[other])} in {self.url} with another code: these are not the same rows. "
                "Give a new table, or other ids"
            )
        missing = np.ones(len(rows), bool)
        missing[position] = False
        if missing.any():
            self._engine.add(np.ascontiguousarray(rows[missing]), numbers[missing])
        return int(np.count_nonzero(missing))

    def get(self, ids: ArrayLike) -> Codes:
        """The codes (n, bytes) of n ids."""
        numbers = check_ids(ids)
        held, codes = self._fetch(numbers)
        self._refuse_unknown(numbers, held)
        order = np.argsort(held)
        return codes[order[np.searchsorted(held, numbers, sorter=order)]]

    def has(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Which of the ids are held."""
        numbers = check_ids(ids)
        return np.isin(numbers, self._fetch(numbers)[0])

    def delete(self, ids: ArrayLike) -> None:
        """Drop the rows of these ids; where one is not held, nothing is dropped."""
        numbers = check_ids(ids)
        self._refuse_unknown(numbers, self._fetch(numbers)[0])
        if len(numbers):
            self._engine.delete(numbers)

    def search(self, queries: ArrayLike, k: int) -> tuple[NDArray[np.int32], Ints]:
        """Distances and ids of the k nearest codes of each query, nearest first, ties by id: two (q, k).

        Where k is larger than the store, there are as many columns as rows held.
        """
        k, n = positive_int(k, "k"), self.count()
        if k > n:
            _log.warning("%d nearest asked of a store of %d codes: all %d are given", k, n, n)
        k = min(k, n)
        asked = self._queries(queries)
        answers = self._engine.search(asked, k) if k else []
        distances, ids = np.empty((len(asked), k), np.int32), np.empty((len(asked), k), np.int64)
        for i, (distance, number) in enumerate(answers):
            distances[i], ids[i] = distance, number
        return distances, ids

    def within(self, queries: ArrayLike, radius: int) -> tuple[Ints, NDArray[np.int32], Ints]:
        """All codes at a distance of at most ``radius``: lims (q + 1,), distances and ids.

        The answers of query i are those from lims[i] to lims[i + 1], nearest first, ties by id.
        """
        radius = min(positive_int(radius, "radius", least=0), self.n_bits)
        answers = self._engine.within(self._queries(queries), radius)
        lims = np.cumsum([0, *(len(ids) for _, ids in answers)], dtype=np.int64)
        nothing = np.empty(0, np.int64)
        distances = np.concatenate([nothing, *(distance for distance, _ in answers)])
        return lims, distances.astype(np.int32), np.concatenate([nothing, *(ids for _, ids in answers)])

    def close(self) -> None:
        """Let go of files and connections."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, codes: ArrayLike, ids: ArrayLike) -> tuple[Codes, Ints]:
        rows = np.ascontiguousarray(check_codes(codes, self.n_bits))
        return rows, check_ids(ids, len(rows))

    def _queries(self, queries: ArrayLike) -> Codes:
        return np.ascontiguousarray(check_codes(queries, self.n_bits, "queries"))

    def _fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        parts = [self._engine.fetch(ids[i : i + _IDS_AT_ONCE]) for i in range(0, len(ids), _IDS_AT_ONCE)]
        empty = np.empty((0, -(-self.n_bits // 8)), np.uint8)
        held = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
        return held, np.concatenate([empty, *(part[1] for part in parts)])

    def _refuse_unknown(self, ids: Ints, held: Ints) -> None:
        unknown = np.setdiff1d(ids, held)
        if len(unknown):
            raise StoreError(f"{_some(unknown)} not in {self.url}: ask for ids that were added")


def in_order(distances: ArrayLike, ids: ArrayLike) -> Answers:
    """Answers by distance, ties by id."""
    distance, number = np.asarray(distances).astype(np.int64), np.asarray(ids, np.int64)
    order = np.lexsort((number, distance))
    return distance[order], number[order]


def with_whole_ties(
    k: int, nearest: Callable[[int], Answers], within: Callable[[int], Answers], most: int | None = None
) -> Answers:
    """The k nearest, ties by id, of an engine that promises nothing about which rows of a tie it gives.

    More than k are fetched (at most ``most``): a list that goes on to a larger distance than its k-th holds
    that whole tie, and so does one that ended by itself. Otherwise all rows as near as the k-th are fetched.
    """
    fetch = 3 * k if most is None else min(3 * k, most)
    distance, ids = nearest(fetch)
    if len(ids) == fetch and distance[k - 1] == distance[-1]:
        distance, ids = within(int(distance[k - 1]))
    return distance[:k], ids[:k]


def where_ids(ids: Ints, a_list: str) -> str:
    """A condition on the column ``id`` that holds for these ids: a range if they follow each other.

    ``a_list`` has the engine's form of a list, such as ``"id IN ({})"``. Ids are whole numbers: nothing that
    a user typed gets into the text.
    """
    low, high = int(ids.min()), int(ids.max())
    if high - low + 1 == len(ids):
        return f"id >= {low} and id <= {high}"
    return a_list.format(", ".join(map(str, ids.tolist())))


def _some(ids: Ints) -> str:
    """``id 5 is``, ``ids 1, 2, 3 and 17 more are``."""
    shown = ", ".join(map(str, np.sort(ids)[:3]))
    if len(ids) == 1:
        return f"id {shown} is"
    return f"ids {shown} and {len(ids) - 3:,} more are" if len(ids) > 3 else f"ids {shown} are"


def _them(ids: Ints) -> str:
    return "it" if len(ids) == 1 else "them"
