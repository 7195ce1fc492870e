"""Ids of rows: distinct integers, or distinct strings such as file names.

Arrays of string ids have the type object, so that one long string does not make all others long. Strings are
ordered by their code points, which is the order of their bytes in UTF-8.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked
from manihash.errors import DamagedIndexError
from manihash.types import Ids, Ints, Mask

LARGEST_ID = 2**63 - 1
MAX_BYTES = 1024  # of an id in UTF-8: object stores and databases have this limit for keys
_SHOWN = 40  # characters of an id in a message
_SHOWN_BITS = 128  # of an integer in a message
# With more strings to locate than this share of the table, a dictionary of the whole table is faster.
_MANY = 1 / 16


def are_strings(ids: Ids) -> bool:
    """Whether checked ids are strings; otherwise they are integers."""
    return ids.dtype == object


def shown_id(identity: Any) -> str:
    """An id as messages show it: strings in quotes, long ones cut."""
    if not isinstance(identity, str):
        return str(identity)
    text = str(identity)  # of a string of numpy, whose repr names its type
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def string_array(strings: Iterable[str]) -> Ids:
    """Strings as an array of objects (n,)."""
    values = list(strings)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def check_texts(values: list[str]) -> None:
    """Raise unless each string can be an id: not empty, not too long, valid Unicode without NUL."""
    for i, value in enumerate(values):
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError(
                f"id {i}, {shown_id(value)}, is not valid Unicode, as the name of a file that is not UTF-8: "
                "rename it, or use its row number as id"
            ) from None
        if not size or "\0" in value:
            fault = "contains a NUL character" if size else "is an empty string"
            raise ValueError(f"id {i} {fault}: give every row an id of at least one character, without NUL")
        if size > MAX_BYTES:
            raise ValueError(
                f"id {i}, {shown_id(value)}, has {size:,} bytes in UTF-8, "
                f"more than {MAX_BYTES:,}: use shorter ids"
            )


def check_strings(values: list[str]) -> None:
    """Raise unless the strings can be the ids of rows: each can be an id, and they are distinct."""
    check_texts(values)
    if len(set(values)) < len(values):
        value, count = Counter(values).most_common(1)[0]
        raise ValueError(
            f"ids must be distinct, but {shown_id(value)} occurs {count} times: give each code its own id"
        )


class StringIds:
    """Ascending distinct strings; string i is text[offsets[i] : offsets[i + 1]] in UTF-8."""

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[Any]) -> None:
        self.text = text  # bytes of all strings
        self.offsets = offsets  # (n + 1,)
        self._bytes = memoryview(np.ascontiguousarray(text).data)

    @classmethod
    def of(cls, ids: Ids) -> "StringIds":
        """The table of ascending strings (n,)."""
        encoded = [value.encode() for value in ids.tolist()]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(list(map(len, encoded)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rank: int) -> bytes:
        return bytes(self._bytes[self.offsets[rank] : self.offsets[rank + 1]])

    @property
    def nbytes(self) -> int:
        """Bytes held, in memory or in a mapped file."""
        return int(self.text.nbytes + self.offsets.nbytes)

    def take(self, rank: Ints) -> Ids:
        """Strings of ranks of any shape, as an array of objects."""
        flat = rank.reshape(-1)
        starts, stops = self.offsets[flat].tolist(), self.offsets[flat + 1].tolist()
        try:
            found = [str(self._bytes[a:b], "utf-8") for a, b in zip(starts, stops, strict=True)]
        except UnicodeDecodeError as error:
            raise DamagedIndexError(
                f"the index has an id that is not valid UTF-8 ({error}): its file is damaged, build the "
                "index again"
            ) from error
        return string_array(found).reshape(rank.shape)

    def ranks_of(self, ids: Ids) -> tuple[Ints, Mask]:
        """Ranks of strings (m,), and whether each exists; the rank of an unknown one is arbitrary."""
        wanted = [value.encode() for value in ids.tolist()]
        if len(wanted) > _MANY * len(self):
            known = {self[i]: i for i in range(len(self))}
            ranks = np.array([known.get(value, -1) for value in wanted], np.int64)
            return np.maximum(ranks, 0), ranks >= 0
        places = [bisect_left(self, value) for value in wanted]
        present = [i < len(self) and self[i] == value for i, value in zip(places, wanted, strict=True)]
        return np.minimum(places, len(self) - 1).astype(np.int64), np.array(present, np.bool_)

    def check_offsets(self) -> None:
        """Raise ``ValueError`` unless the strings are in the text, one after another, of allowed lengths."""
        lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.text):
            raise ValueError("its ids have other sizes than their text")
        if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= MAX_BYTES:
            raise ValueError("its ids overlap, are empty or are too long")

    def are_ascending(self) -> bool:
        """Whether all strings are valid, distinct and ascending."""
        try:
            check_strings(self.take(np.arange(len(self))).tolist())
        except ValueError:
            return False
        return all(a < b for a, b in pairwise(self[i] for i in range(len(self))))


def check_ids(ids: ArrayLike, n: int | None = None, *, id_type: type | None = None) -> Ids:
    """Return the ids as int64 or, if they are strings, as objects.

    Raise unless they are distinct integers or distinct strings: n of them if n is given, and of the type
    ``id_type``, int or str, if it is given.
    """
    array = as_id_array(ids)
    if not array.size:
        array = array.reshape(-1).astype(object if id_type is str else np.int64)
    strings = array.dtype == object
    if array.ndim != 1 or array.dtype.kind not in "iuO" or (n is not None and len(array) != n):
        expected = (
            "a 1-D array of integers or strings" if n is None else f"{n} integers or strings, one per code"
        )
        raise ValueError(
            f"ids must be {expected}, got an array of shape {array.shape} and type "
            f"{'str' if strings else array.dtype}"
        )
    if id_type is not None and strings != (id_type is str):
        kinds = ("integers", "strings") if strings else ("strings", "integers")
        raise ValueError(
            f"the ids of the other rows are {kinds[0]}, got {kinds[1]}: use one type for all rows"
        )
    if strings:
        check_strings(array.tolist())
        return array
    if len(array) and array.max() > LARGEST_ID:
        raise ValueError(f"ids must fit into a signed 64-bit integer, got {array.max()}: use smaller ids")
    if len(np.unique(array)) < len(array):
        values, counts = np.unique(array, return_counts=True)
        most = counts.argmax()
        raise ValueError(
            f"ids must be distinct, but {values[most]} occurs {counts[most]} times: give each code its own id"
        )
    return array.astype(np.int64)


def rows_of_ids(wanted: Ids, ids: ArrayLike, n: int) -> Ints:
    """The positions of wanted ids among n others; raise if one is not among them."""
    given = check_ids(ids, n, id_type=str if are_strings(wanted) else int)
    order = np.argsort(given)
    place = np.searchsorted(given, wanted, sorter=order)
    rows = order[np.minimum(place, n - 1)]
    missing = wanted[given[rows] != wanted]
    if len(missing):
        raise ValueError(
            f"{len(missing):,} ids have no vector, such as {shown_id(missing[0])}: give all of them"
        )
    return rows


def is_in(ids: Ids, others: Ids) -> Mask:
    """Whether each id is one of others, as ``np.isin``, which is slow for strings."""
    if not are_strings(ids):
        return np.isin(ids, others)
    known = set(others.tolist())
    return np.fromiter((value in known for value in ids.tolist()), np.bool_, len(ids))


def next_id_after(ids: Ids, next_id: int) -> int:
    """The next unused integer after rows with these ids were added; strings use none."""
    return next_id if are_strings(ids) else max(next_id, 1 + int(ids.max(initial=-1)))


def next_ids(next_id: int, n: int) -> Ids:
    """The n unused integers from ``next_id`` on; raise if there are not as many."""
    if next_id + n > LARGEST_ID:
        raise ValueError(f"no free ids are left after {next_id - 1}: give the ids of new rows")
    return np.arange(next_id, next_id + n)


def as_id_array(ids: Any) -> NDArray[Any]:
    """Ids as an array, strings as objects; raise for a mixture of types, which numpy turns into strings."""
    check_unmasked(ids, "ids")
    first = ids[0] if isinstance(ids, list | tuple) and ids else None
    array = np.array(ids, object) if isinstance(first, str) else np.asarray(ids)
    if array.dtype.kind in "US" and not hasattr(ids, "dtype"):
        array = np.array(ids, object)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind == "f" and isinstance(first, int) and all(isinstance(i, int) for i in ids):
        array = np.array(ids, object)  # numpy makes real numbers of integers beyond 64 bits
    if array.dtype != object or not array.size:
        return array
    kinds = {type(value) for value in array.flat}
    if all(issubclass(kind, str) for kind in kinds):
        return string_array(map(str, array.flat)).reshape(array.shape)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        _check_range(array)
        return array.astype(np.int64)
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(
        f"ids must be all integers or all strings, got {names}: convert them, for example with map(str, ids)"
    )


def _check_range(ids: NDArray[Any]) -> None:
    """Raise if one of some integers of Python does not fit into 64 bits."""
    for value in map(int, ids.flat):
        if not -LARGEST_ID - 1 <= value <= LARGEST_ID:
            given = value if value.bit_length() <= _SHOWN_BITS else f"one of {value.bit_length()} bits"
            raise ValueError(f"ids must fit into a signed 64-bit integer, got {given}: use smaller ids")
