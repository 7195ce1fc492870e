"""SQLite: a table in a file, with the module sqlite3 of Python or with apsw; codes are BLOBs.

The extension sqlite-vec computes distances where extensions can be loaded: by apsw, or by a sqlite3 that was
built with them. Elsewhere a function of Python does. A look-up within a small radius needs neither: it asks
an index of the table for all codes within the radius.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from math import comb
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from manihash.codes import n_bytes, pack
from manihash.errors import StoreError, StoreExistsError, StoreNotFoundError
from manihash.stores.driver import Matches, RowFormat, first_line
from manihash.stores.sql import Column, SqlTable, plain_values, quoted, record_of, recorded_bits
from manihash.types import Codes, Ids

_TYPES: dict[type, str] = {int: "INTEGER", str: "TEXT"}
_ID_TYPES = {name: kind for kind, name in _TYPES.items()}
_MOST_PROBES = 4096  # codes within a radius that are looked up one by one; above it a scan is faster
_WAIT_MILLISECONDS = 60_000
_MILVUS_TABLE = "collection_meta"  # in a file of milvus-lite


class SQLiteTable(SqlTable):
    """A table with the columns ``id`` and ``code``; n_bits in a comment of the statement that created it.

    The index ``<table>_buckets`` finds all rows with the same code or, if codes have two parts, with the same
    first part.
    """

    def __init__(self, connection: Any, table: str, row_format: RowFormat, *, fast: bool) -> None:
        super().__init__(quoted(table), row_format)
        self._connection = connection
        self._in_use = RLock()  # threads share the connection, and a transaction of one is not read by others
        self._hamming = "vec_distance_hamming(vec_bit({}), vec_bit(?))" if fast else "hamming({}, ?)"

    @classmethod
    def open(cls, path: Path, table: str) -> "SQLiteTable":
        """Open a table of a file."""
        if not path.exists():
            raise StoreNotFoundError(f"no SQLite file at {path}: create it, or give the path of one")
        connection, fast = _connect(path)
        with _closed_on_error(connection), _translated_errors(path):
            _refuse_milvus(connection, path)
            return cls(connection, table, _format_of(connection, path, table), fast=fast)

    @classmethod
    def create(cls, path: Path, table: str, row_format: RowFormat) -> "SQLiteTable":
        """Create an empty table and its index, and the file if it does not exist."""
        connection, fast = _connect(path)
        first = "" if row_format.look_up_bits is None else ", first BLOB NOT NULL"
        columns = f"id {_TYPES[row_format.id_type]} PRIMARY KEY NOT NULL, code BLOB NOT NULL{first}"
        looked_up = "first" if first else "code"
        with _closed_on_error(connection), _translated_errors(path), _transaction(connection):
            _refuse_milvus(connection, path)
            connection.execute(f"CREATE TABLE {quoted(table)} ({columns} /* {record_of(row_format)} */)")
            connection.execute(f"CREATE INDEX {quoted(f'{table}_buckets')} ON {quoted(table)} ({looked_up})")
        return cls(connection, table, row_format, fast=fast)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a change in one transaction, in which other writers of the file wait."""
        with self._in_use, _translated_errors(), _transaction(self._connection):
            yield

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _stored(self, part: str, codes: Codes, n_bits: int) -> dict[str, Column]:
        return {part: [row.tobytes() for row in codes]}

    def _packed(self, columns: Sequence[Any], n_bits: int) -> Codes:
        return np.frombuffer(b"".join(columns[0]), np.uint8).reshape(-1, n_bytes(n_bits))

    def _distance(self, part: str, n_bits: int) -> str:
        return self._hamming.format(part)

    def _having(self, ids: Ids) -> tuple[str, Sequence[Any]]:
        return "id IN (SELECT value FROM json_each(?))", [json.dumps(ids.tolist())]

    def _insert(self, columns: Mapping[str, Column]) -> None:
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {self._table} ({', '.join(columns)}) VALUES ({marks})"
        with self._in_use, _translated_errors():
            self._connection.executemany(statement, zip(*map(plain_values, columns.values()), strict=True))

    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._in_use, _translated_errors():
            rows = self._connection.execute(statement, parameters).fetchall()
        return list(zip(*rows, strict=True))

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        with self._in_use, _translated_errors():
            self._connection.execute(statement, parameters)

    def _within(self, part: str, queries: Codes, n_bits: int, radius: int) -> list[Matches]:
        """The rows of which a part is within the radius: by the index if few codes are, else by a scan."""
        indexed = "code" if self.look_up_bits is None else "first"
        near = sum(comb(n_bits, flips) for flips in range(radius + 1))
        if part != indexed or near > min(_MOST_PROBES, 1 + self.count()):
            return super()._within(part, queries, n_bits, radius)
        flips, distances = _flips(n_bits, radius)
        return [self._looked_up(part, query ^ flips, distances) for query in queries]

    def _looked_up(self, part: str, codes: Codes, distances: Sequence[int]) -> Matches:
        """The rows whose part is one of codes (m, b) at these distances from a query."""
        keys = json.dumps([[row.tobytes().hex(), near] for row, near in zip(codes, distances, strict=True)])
        statement = (
            "SELECT near.value ->> 1, stored.id FROM json_each(?) AS near CROSS JOIN "
            f"{self._table} AS stored ON stored.{part} = unhex(near.value ->> 0)"
        )
        return self._matches(statement, [keys])


@lru_cache(maxsize=16)
def _flips(n_bits: int, radius: int) -> tuple[Codes, list[int]]:
    """All codes (m, b) with at most ``radius`` bits set, and the number of these bits."""
    sets = [bits for count in range(radius + 1) for bits in combinations(range(n_bits), count)]
    flipped = np.zeros((len(sets), n_bits), np.bool_)
    for row, bits in zip(flipped, sets, strict=True):
        row[list(bits)] = True
    return pack(flipped), [len(bits) for bits in sets]


def _connect(path: Path) -> tuple[Any, bool]:
    """A connection that commits every statement, and whether sqlite-vec is loaded."""
    connection: Any
    with _translated_errors(path):
        if find_spec("apsw"):
            apsw = import_module("apsw")
            connection = apsw.Connection(str(path))
            connection.create_scalar_function("unhex", bytes.fromhex, 1, deterministic=True)
            connection.create_scalar_function("hamming", _hamming, 2, deterministic=True)
        else:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
            connection.create_function("hamming", 2, _hamming, deterministic=True)
    with _closed_on_error(connection), _translated_errors(path):
        connection.execute(f"PRAGMA busy_timeout = {_WAIT_MILLISECONDS}")
    return connection, _load_extension(connection)


def _load_extension(connection: Any) -> bool:
    """Load sqlite-vec, and return whether that was possible."""
    if not find_spec("sqlite_vec") or not hasattr(connection, "enable_load_extension"):
        return False
    with suppress(*_database_errors()):
        connection.enable_load_extension(True)
        connection.load_extension(import_module("sqlite_vec").loadable_path())
        connection.enable_load_extension(False)
        return True
    return False


def _hamming(code: bytes, query: bytes) -> int:
    """The Hamming distance of two codes, as a function of SQL."""
    return (int.from_bytes(code) ^ int.from_bytes(query)).bit_count()


def _format_of(connection: Any, path: Path, table: str) -> RowFormat:
    """The format of a table, from its columns and the statement that created it."""
    columns = dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", [table]).fetchall())
    if not columns:
        raise StoreNotFoundError(
            f"no table {table} in {path}: create it, or name an existing one with ?table=NAME"
        )
    id_type = _ID_TYPES.get(columns.get("id", "").upper())
    if id_type is None or columns.get("code", "").upper() != "BLOB":
        shown = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise StoreError(
            f"table {table} of {path} has the columns {shown}: expected id INTEGER or TEXT, and code BLOB. "
            "Name another one with ?table=NAME"
        )
    created = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchall()
    recorded = recorded_bits(created[0][0])
    if recorded is None:
        lengths = connection.execute(f"SELECT length(code) FROM {quoted(table)} LIMIT 1").fetchall()
        if not lengths:
            raise StoreError(
                f"table {table} of {path} has no rows, and no record of n_bits: use another table"
            )
        recorded = 8 * lengths[0][0], None
    return RowFormat(recorded[0], id_type, recorded[1])


def _refuse_milvus(connection: Any, path: Path) -> None:
    """Raise if a file is one of milvus-lite, which is a SQLite file and often ends in .db, too."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [_MILVUS_TABLE]).fetchall():
        raise StoreError(f"{path} is a file of milvus-lite: its address is milvus:{path}")


@contextmanager
def _transaction(connection: Any) -> Iterator[None]:
    """Execute a transaction that other writers wait for, from its first statement on."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(*_database_errors()):  # a full disk has ended the transaction already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _database_errors() -> tuple[type[Exception], ...]:
    """The errors of sqlite3 and, if it is installed, of apsw."""
    return (sqlite3.Error, *([import_module("apsw").Error] if find_spec("apsw") else ()))


@contextmanager
def _translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise errors of SQLite as errors of the store."""
    try:
        yield
    except _database_errors() as error:
        where = f"{path}: " if path else ""
        text = f"{where}SQLite reports an error: {first_line(error)}"
        if "already exists" in str(error):
            raise StoreExistsError(f"{text}. Open it, or name another one with ?table=NAME") from error
        if "locked" in str(error) or "busy" in str(error).lower():
            raise TimeoutError(
                f"{text}. It is being written by another process: try again when it has finished"
            ) from error
        raise StoreError(text) from error
