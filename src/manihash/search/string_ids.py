"""Ids that are strings, such as file names: their checks, and a compact table of many of them.

Arrays of string ids have the type object, so that one long string does not make all others long. Strings are
ordered by their code points, which is the order of their bytes in UTF-8.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DamagedIndexError
from manihash.types import Ids, Ints, Mask

MAX_BYTES = 1024  # of an id in UTF-8: object stores and databases have this limit for keys
_SHOWN = 40  # characters of an id in a message
# With more strings to locate than this share of the table, a dictionary of the whole table is faster.
_MANY = 1 / 16


def are_strings(ids: Ids) -> bool:
    """Whether checked ids are strings; otherwise they are integers."""
    return ids.dtype == object


def shown_id(identity: Any) -> str:
    """An id as messages show it: strings in quotes, long ones cut."""
    if not isinstance(identity, str):
        return str(identity)
    return repr(identity if len(identity) <= _SHOWN else identity[:_SHOWN] + "…")


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
