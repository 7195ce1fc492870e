"""What the tables of SQL databases share: the statements. A subclass is the dialect of one database.

A table has the columns ``id`` and ``code``, and ``first`` if codes have two parts. A code is stored as the
database computes with it: as 64-bit words, as bytes, or as a string of bits. A code of several words has the
columns ``code_0``, ``code_1`` and so on.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.codes import n_bytes
from manihash.errors import StoreError
from manihash.stores.driver import Matches, RowFormat, id_array, sorted_matches
from manihash.types import Codes, Ids

Column = Sequence[Any] | NDArray[Any]

_WORD_BITS = 64
_RECORD = re.compile(r"manihash n_bits=(\d+)(?: \w+=(\d+))?")  # the name of the second number has changed


class SqlTable(ABC):
    """A table of codes: every search is one statement that the database executes."""

    rewrites_on_add = False

    def __init__(self, table: str, row_format: RowFormat) -> None:
        self._table = table  # quoted
        self.n_bits, self.id_type = row_format.n_bits, row_format.id_type
        self.look_up_bits = row_format.look_up_bits

    @abstractmethod
    def _stored(self, part: str, codes: Codes, n_bits: int) -> dict[str, Column]:
        """The columns of a part ("code" or "first") of codes (n, b), as values of the database."""

    @abstractmethod
    def _packed(self, columns: Sequence[Any], n_bits: int) -> Codes:
        """The codes (n, b) of the columns of a part, the inverse of ``_stored``."""

    @abstractmethod
    def _distance(self, part: str, n_bits: int) -> str:
        """The expression of the distance to a query, with one parameter per column of the part."""

    @abstractmethod
    def _having(self, ids: Ids) -> tuple[str, Sequence[Any]]:
        """The condition that selects ids, and its parameters."""

    @abstractmethod
    def _insert(self, columns: Mapping[str, Column]) -> None:
        """Insert rows, given by column."""

    @abstractmethod
    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """The columns of the result of a statement; of no rows there may be none."""

    @abstractmethod
    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement without a result."""

    def add(self, codes: Codes, ids: Ids) -> None:
        """Insert rows by one statement."""
        self._insert(self._rows(codes, ids))

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, found by a scan."""
        statement = (
            f"SELECT {self._distance('code', self.n_bits)} AS distance, id FROM {self._table} "
            f"ORDER BY distance, id LIMIT {k}"
        )
        return [self._matches(statement, query) for query in self._asked("code", queries, self.n_bits)]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query."""
        return self._within("code", queries, self.n_bits, radius)

    def within_first(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all rows whose first part is within the radius of each first part of a query."""
        return self._within("first", queries, self.look_up_bits or 0, radius)

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        condition, parameters = self._having(ids)
        names = self._names("code", self.n_bits)
        statement = f"SELECT {', '.join(['id', *names])} FROM {self._table} WHERE {condition}"
        found, *columns = self._select(statement, parameters) or [()] * (1 + len(names))
        return id_array(found), self._packed(columns, self.n_bits)

    def delete(self, ids: Ids) -> None:
        """Delete rows by one statement."""
        condition, parameters = self._having(ids)
        self._run(f"DELETE FROM {self._table} WHERE {condition}", parameters)

    def count(self) -> int:
        """Return the number of rows of the table."""
        return int(self._select(f"SELECT count(*) FROM {self._table}")[0][0])

    def _names(self, part: str, n_bits: int) -> list[str]:
        """The columns of a part of n_bits."""
        return [part]

    def _rows(self, codes: Codes, ids: Ids) -> dict[str, Column]:
        """The columns of rows."""
        columns: dict[str, Column] = {"id": ids, **self._stored("code", codes, self.n_bits)}
        if self.look_up_bits is None:
            return columns
        first = CodeLayout(self.n_bits, self.look_up_bits).first(codes)
        return {**columns, **self._stored("first", first, self.look_up_bits)}

    def _within(self, part: str, queries: Codes, n_bits: int, radius: int) -> list[Matches]:
        """The rows of which a part is within the radius of each query."""
        statement = (
            f"SELECT distance, id FROM (SELECT {self._distance(part, n_bits)} AS distance, id "
            f"FROM {self._table}) AS found WHERE distance <= {radius}"
        )
        return [self._matches(statement, query) for query in self._asked(part, queries, n_bits)]

    def _asked(self, part: str, queries: Codes, n_bits: int) -> list[Sequence[Any]]:
        """The parameters of the distance to each query."""
        columns = self._stored(part, queries, n_bits).values()
        return list(zip(*map(plain_values, columns), strict=True))

    def _matches(self, statement: str, parameters: Sequence[Any]) -> Matches:
        return sorted_matches(*(self._select(statement, parameters) or [(), ()]))


class WordTable(SqlTable):
    """A table whose codes are 64-bit words: bit 0 of a code is the highest bit of its first word."""

    def _names(self, part: str, n_bits: int) -> list[str]:
        return word_names(part, n_bits)

    def _stored(self, part: str, codes: Codes, n_bits: int) -> dict[str, Column]:
        padded = np.zeros((len(codes), 8 * n_words(n_bits)), np.uint8)
        padded[:, : codes.shape[1]] = codes
        words = np.ascontiguousarray(padded.view(">u8").astype(np.uint64).T)
        return dict(zip(self._names(part, n_bits), words, strict=True))

    def _packed(self, columns: Sequence[Any], n_bits: int) -> Codes:
        words = np.array([np.asarray(column, np.uint64) for column in columns])
        return np.ascontiguousarray(words.T).astype(">u8").view(np.uint8)[:, : n_bytes(n_bits)]


def n_words(n_bits: int) -> int:
    """Number of 64-bit words that hold a code of n_bits."""
    return -(-n_bits // _WORD_BITS)


def word_names(part: str, n_bits: int) -> list[str]:
    """The columns of a part of n_bits that is stored as words: ``code``, or ``code_0`` and so on."""
    n = n_words(n_bits)
    return [part] if n == 1 else [f"{part}_{i}" for i in range(n)]


def record_of(row_format: RowFormat) -> str:
    """The text in a table's description that records what its columns do not say."""
    first = "" if row_format.look_up_bits is None else f" look_up_bits={row_format.look_up_bits}"
    return f"manihash n_bits={row_format.n_bits}{first}"


def recorded_bits(text: str | None) -> tuple[int, int | None] | None:
    """n_bits and look_up_bits from the description of a table; None in a table of another program."""
    found = _RECORD.search(text or "")
    return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)


def format_of_words(
    table: str, columns: Mapping[str, str], description: str | None, id_types: Mapping[str, type], word: str
) -> RowFormat:
    """The format of a table of words; raise if it has other columns (name: type)."""
    id_type = id_types.get(columns.get("id", ""))
    words = [name for name, kind in columns.items() if re.fullmatch(r"code(_\d+)?", name) and kind == word]
    n_bits, look_up_bits = recorded_bits(description) or (_WORD_BITS * max(1, len(words)), None)
    expected = [*word_names("code", n_bits), *(word_names("first", look_up_bits) if look_up_bits else ())]
    if id_type is None or any(columns.get(name) != word for name in expected):
        shown = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise StoreError(
            f"{table} has the columns {shown}: expected id {' or '.join(id_types)}, and "
            f"{', '.join(f'{name} {word}' for name in expected)}. Use another table"
        )
    return RowFormat(n_bits, id_type, look_up_bits)


def plain_values(column: Column) -> list[Any]:
    """The values of a column as objects of Python."""
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def quoted(name: str) -> str:
    """A name between double quotes, each part of ``schema.table`` for itself."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
