"""What a database driver implements, and helpers that the drivers share."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.code_layout import CodeLayout
from manihash.errors import StoreError, StoreExistsError, StoreNotFoundError
from manihash.files.locks import locked
from manihash.search.ids import are_strings, shown_id, string_array
from manihash.types import Codes, Ids

Result = TypeVar("Result")
_ATTEMPTS = 100  # to read a file that others replace
# Distances are integers, or float32 if the store ranks by a layout.
Matches = tuple[NDArray[Any], Ids]  # distances and ids found for one query, nearest first, ties by id


@dataclass(frozen=True)
class RowFormat:
    """What every row of a store holds: an id, a code of n_bits and, beside it, the first part of the code."""

    n_bits: int
    id_type: type = int
    look_up_bits: int | None = None
    """Number of bits of the first part, which has a column of its own; None for codes of one part."""
    layout: CodeLayout | None = None
    """The parts of codes with fields of a product quantizer, in a store that ranks by them."""


class Driver(Protocol):
    """The operations of one database. `Store` has validated all arguments."""

    n_bits: int
    id_type: type
    """The type of all ids, int or str."""
    look_up_bits: int | None
    """Number of bits of the column of first parts; None if the store has no such column."""
    rewrites_on_add: bool
    """Whether each `add` rewrites the whole store: few large batches are then faster than many small ones."""

    def writing(self) -> AbstractContextManager[Any]:
        """Keep other writers out during a change, and see the newest state of the store."""

    def add(self, codes: Codes, ids: Ids) -> None:
        """Insert new rows: all of them, or none if it fails.

        A driver whose ``writing`` is no transaction may have a method ``put`` that replaces rows in one step.
        """

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest codes of each query."""

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes at a distance of at most `radius` from each query."""

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return the stored ids among `ids`, in any order, with their codes."""

    def delete(self, ids: Ids) -> None:
        """Delete rows: all of them, or none if it fails."""

    def count(self) -> int:
        """Return the number of rows."""

    def close(self) -> None:
        """Close files and connections."""


class LayoutDriver(Driver, Protocol):
    """The operations of a database that ranks by a layout of codes."""

    layout: CodeLayout | None

    def search(self, queries: Codes, k: int, values: NDArray[Any] | None = None) -> list[Matches]:
        """Return the k nearest codes of each query, by its real values (q, n_values) if given."""


class FirstPartDriver(Driver, Protocol):
    """The operations of a database with a column of first parts."""

    def within_first(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all rows whose first part is within `radius` of a query's; queries are first parts."""


def file_version(path: Path) -> tuple[int, ...]:
    """Return numbers that change whenever the file is replaced."""
    try:
        return version_of(path.stat())
    except FileNotFoundError:
        raise StoreNotFoundError(f"{path} was removed while it was open: create it again") from None


def version_of(state: os.stat_result) -> tuple[int, ...]:
    """Return the numbers of ``file_version`` from the state of a file."""
    return state.st_ino, state.st_mtime_ns, state.st_size


def read_version(path: Path, read: Callable[[], Result]) -> tuple[Result, tuple[int, ...]]:
    """Return what ``read`` returns and the version of the file that it read.

    It is called again if another handle replaced the file meanwhile, as it may open the path several times.
    """
    for _ in range(_ATTEMPTS):
        version = file_version(path)
        try:
            result = read()
        except StoreError:
            if file_version(path) == version:
                raise
            continue
        if file_version(path) == version:
            return result, version
    raise TimeoutError(f"{path} is being changed again and again: try again")


def first_line(error: Exception) -> str:
    """Return the first line of the message of an error."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@contextmanager
def creating(path: Path) -> Iterator[None]:
    """Create a file or folder at a path where there is none; other processes that create one here wait."""
    with locked(path.parent) if path.parent.is_dir() else nullcontext():
        if path.exists():
            raise StoreExistsError(f"{path} already exists: open it, or use another name")
        yield


def sorted_matches(distances: ArrayLike, ids: ArrayLike) -> Matches:
    """Return the matches of one query sorted by distance, ties by id."""
    distance, found = np.asarray(distances).astype(np.int64), id_array(ids)
    order = np.lexsort((found, distance))
    return distance[order], found[order]


def id_array(ids: Any) -> Ids:
    """Return the ids that a database found, integers or strings, as an array."""
    return string_array(ids) if len(ids) and isinstance(ids[0], str) else np.asarray(ids, np.int64)


def nearest_with_ties(
    k: int,
    nearest: Callable[[int], Matches],
    within: Callable[[int], Matches],
    limit: int | None = None,
) -> Matches:
    """Return the k nearest, ties by id, from a database that breaks ties arbitrarily.

    More than k matches are fetched (at most `limit`). If the list continues beyond the distance of its k-th
    entry, or ends before the limit, it contains every row at that distance. Otherwise all rows up to that
    distance are fetched with `within`.
    """
    fetch = 3 * k if limit is None else min(3 * k, limit)
    distance, ids = nearest(fetch)
    if len(ids) == fetch and distance[k - 1] == distance[-1]:
        distance, ids = within(int(distance[k - 1]))
    return distance[:k], ids[:k]


def consecutive(ids: Ids) -> tuple[int, int] | None:
    """Return the lowest and the highest of distinct ids that are consecutive integers, else None."""
    if are_strings(ids) or not len(ids):
        return None
    low, high = int(ids.min()), int(ids.max())
    return (low, high) if high - low + 1 == len(ids) else None


def id_condition(ids: Ids, list_template: str, literal: Callable[[str], str]) -> str:
    """Return a condition on the column `id` that selects these ids: a range of consecutive integers.

    `list_template` is the database's syntax for a list, such as ``"id IN ({})"``, and `literal` writes a
    string as the database reads it, so that no text from a user is read as a part of the condition.
    """
    if are_strings(ids):
        return list_template.format(", ".join(map(literal, ids.tolist())))
    if ends := consecutive(ids):
        return f"id >= {ends[0]} and id <= {ends[1]}"
    return list_template.format(", ".join(map(str, ids.tolist())))


def listed_ids(ids: Ids) -> str:
    """Return ``id 5 is`` or ``ids 1, 2, 3 and 17 more are``."""
    shown = ", ".join(map(shown_id, np.sort(ids)[:3]))
    if len(ids) == 1:
        return f"id {shown} is"
    return f"ids {shown} and {len(ids) - 3:,} more are" if len(ids) > 3 else f"ids {shown} are"
