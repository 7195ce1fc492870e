"""DuckDB: a table in a database file, or a Parquet file in place; codes are columns of UBIGINT."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from manihash.checks import extra
from manihash.errors import StoreError, StoreExistsError, StoreNotFoundError
from manihash.files import locks
from manihash.files.atomic import atomic_write
from manihash.files.locks import locked
from manihash.stores.driver import RowFormat, consecutive, creating, file_version, first_line, read_version
from manihash.stores.sql import Column, WordTable, format_of_words, quoted, record_of, word_names
from manihash.types import Codes, Ids

_TYPES: dict[type, str] = {int: "BIGINT", str: "VARCHAR"}
_ID_TYPES = {name: kind for kind, name in _TYPES.items()}
_WRITER = RLock()  # between threads: no other process can open a file that this one has open
_LOCKED = "Could not set lock on file"
_POLL_SECONDS = 0.05
_RECORD_KEY = "manihash"


class _DuckDB(WordTable):
    """Codes that DuckDB searches."""

    def __init__(self, connection: Any, table: str, row_format: RowFormat) -> None:
        super().__init__(table, row_format)
        self._connection = connection
        self._in_use = RLock()  # a connection refuses calls of other threads while it is busy

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _distance(self, part: str, n_bits: int) -> str:
        # bit_count returns a TINYINT, and the sum of two of them overflows.
        names = self._names(part, n_bits)
        return " + ".join(f"bit_count(xor({name}, ?::UBIGINT))::INTEGER" for name in names)

    def _having(self, ids: Ids) -> tuple[str, Sequence[Any]]:
        if ends := consecutive(ids):
            return "id BETWEEN ? AND ?", ends
        return f"id IN (SELECT unnest(?::{_TYPES[self.id_type]}[]))", [ids.tolist()]

    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._in_use, _translated_errors():
            return list(self._connection.execute(statement, parameters).fetchnumpy().values())

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        with self._in_use, _translated_errors():
            self._connection.execute(statement, parameters)

    @contextmanager
    def _given(self, columns: Mapping[str, Column]) -> Iterator[None]:
        """Show rows to DuckDB as the table ``manihash_given``."""
        rows = {name: np.asarray(own) for name, own in columns.items()}
        with self._in_use:
            with _translated_errors():
                self._connection.register("manihash_given", rows)
            try:
                yield
            finally:
                self._connection.unregister("manihash_given")


class DuckDBTable(_DuckDB):
    """A table with the columns ``id`` and ``code``; n_bits in its comment.

    It has no primary key, which would make loading many times slower; ``Store`` checks the ids.
    """

    @classmethod
    def open(cls, path: Path, table: str) -> "DuckDBTable":
        """Open a table of a file."""
        if not path.exists():
            raise StoreNotFoundError(f"no DuckDB file at {path}: create it, or give the path of one")
        connection = _connect(path)
        try:
            with _translated_errors():
                return cls(connection, quoted(table), _format_of_table(connection, table))
        except BaseException:
            connection.close()
            raise

    @classmethod
    def create(cls, path: Path, table: str, row_format: RowFormat) -> "DuckDBTable":
        """Create an empty table, and the file if it does not exist."""
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in _columns(row_format).items())
        connection = _connect(path)
        try:
            with _WRITER, _translated_errors(), _transaction(connection):
                connection.execute(f"CREATE TABLE {quoted(table)} ({columns})")
                connection.execute(f"COMMENT ON TABLE {quoted(table)} IS '{record_of(row_format)}'")
        except BaseException:
            connection.close()
            raise
        return cls(connection, quoted(table), row_format)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a change in one transaction, in which other threads that change a file wait."""
        with _WRITER, self._in_use, _translated_errors(), _transaction(self._connection):
            yield

    def _insert(self, columns: Mapping[str, Column]) -> None:
        names = ", ".join(columns)
        with self._given(columns):
            self._run(f"INSERT INTO {self._table} ({names}) SELECT {names} FROM manihash_given")


class ParquetFile(_DuckDB):
    """A Parquet file: DuckDB searches it where it is, and each change rewrites it."""

    rewrites_on_add = True

    def __init__(self, path: Path) -> None:
        connection = extra("duckdb", "duckdb").connect()
        with _translated_errors(path):
            row_format = _format_of_parquet(connection, path)
        super().__init__(connection, f"read_parquet({_literal(str(path))})", row_format)
        self._path, self._version = path, file_version(path)

    @classmethod
    def open(cls, path: Path) -> "ParquetFile":
        """Open a file with the columns ``id`` and ``code``."""
        if not path.is_file():
            raise StoreNotFoundError(f"no Parquet file at {path}: create it, or give the path of one")
        return cls(path)

    @classmethod
    def create(cls, path: Path, row_format: RowFormat) -> "ParquetFile":
        """Create a file without rows."""
        nulls = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _columns(row_format).items())
        with creating(path), extra("duckdb", "duckdb").connect() as connection, _translated_errors(path):
            _write(connection, f"SELECT {nulls} WHERE false", path, row_format)
        return cls(path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file."""
        self._check_unchanged()
        with locked(self._path), self._in_use:
            yield

    def delete(self, ids: Ids) -> None:
        """Rewrite the file without these rows."""
        condition, parameters = self._having(ids)
        self._rewrite(f"SELECT * FROM {self._table} WHERE NOT ({condition})", parameters)

    def put(self, codes: Codes, ids: Ids) -> None:
        """Rewrite the file once, with these codes instead of those that it has under these ids."""
        condition, parameters = self._having(ids)
        self._append(self._rows(codes, ids), f"WHERE NOT ({condition})", parameters)

    def _insert(self, columns: Mapping[str, Column]) -> None:
        self._append(columns)

    def _append(self, columns: Mapping[str, Column], kept: str = "", parameters: Sequence[Any] = ()) -> None:
        """Rewrite the file with its rows that are kept, and new ones."""
        names = ", ".join(columns)
        old = f"SELECT {names} FROM {self._table} {kept}"
        with self._given(columns):
            self._rewrite(f"{old} UNION ALL SELECT {names} FROM manihash_given", parameters)

    def _rewrite(self, select: str, parameters: Sequence[Any]) -> None:
        row_format = RowFormat(self.n_bits, self.id_type, self.look_up_bits)
        with self._in_use, _translated_errors(self._path):
            _write(self._connection, select, self._path, row_format, parameters)
        self._version = file_version(self._path)

    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """As for tables; asked again if another handle replaced the file while DuckDB read it."""

        def read() -> list[Any]:
            self._check_unchanged()
            return super(ParquetFile, self)._select(statement, parameters)

        return read_version(self._path, read)[0]

    def _check_unchanged(self) -> None:
        """Raise if another handle has replaced the file by one of another format."""
        version = file_version(self._path)
        if version == self._version:
            return
        with self._in_use, _translated_errors(self._path):
            found = _format_of_parquet(self._connection, self._path)
        if found != RowFormat(self.n_bits, self.id_type, self.look_up_bits):
            raise StoreError(
                f"{self._path} was replaced: it has codes of {found.n_bits} bits instead of {self.n_bits}, "
                "or ids of another type. Open it again"
            )
        self._version = version


def _connect(path: Path) -> Any:
    """Open a database file; wait if another process has it open."""
    duckdb = extra("duckdb", "duckdb")
    deadline = time.monotonic() + locks._WAIT_SECONDS
    while True:
        try:
            return duckdb.connect(str(path))
        except duckdb.IOException as error:
            if _LOCKED not in str(error):
                raise StoreError(f"{path}: DuckDB reports an error: {first_line(error)}") from error
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{path} is open in another process, and a DuckDB file belongs to one process: try again "
                    "when it has finished"
                ) from error
        except duckdb.Error as error:
            raise StoreError(f"{path}: DuckDB reports an error: {first_line(error)}") from error
        time.sleep(_POLL_SECONDS)


def _columns(row_format: RowFormat) -> dict[str, str]:
    """The names and types of the columns of a table."""
    names = word_names("code", row_format.n_bits)
    if row_format.look_up_bits is not None:
        names += word_names("first", row_format.look_up_bits)
    return {"id": _TYPES[row_format.id_type], **dict.fromkeys(names, "UBIGINT")}


def _format_of_table(connection: Any, table: str) -> RowFormat:
    """The format of a table, from its columns and its comment."""
    schema, _, name = table.rpartition(".")
    at = [schema or "main", name]
    where = "WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
    columns = dict(
        connection.execute(f"SELECT column_name, data_type FROM duckdb_columns() {where}", at).fetchall()
    )
    if not columns:
        raise StoreNotFoundError(
            f"no table {table} in this DuckDB file: create it, or name an existing one with ?table=NAME"
        )
    comments = connection.execute(f"SELECT comment FROM duckdb_tables() {where}", at).fetchall()
    return format_of_words(
        f"table {table}", columns, comments[0][0] if comments else None, _ID_TYPES, "UBIGINT"
    )


def _format_of_parquet(connection: Any, path: Path) -> RowFormat:
    """The format of a Parquet file, from its columns and its metadata."""
    described = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({_literal(str(path))})").fetchall()
    metadata = connection.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    record = dict(metadata).get(_RECORD_KEY.encode())
    columns = {name: kind for name, kind, *_ in described}
    return format_of_words(str(path), columns, record.decode() if record else None, _ID_TYPES, "UBIGINT")


def _write(
    connection: Any, select: str, path: Path, row_format: RowFormat, parameters: Sequence[Any] = ()
) -> None:
    """Write the rows of a statement to a Parquet file."""
    record = f"{{{_RECORD_KEY}: {_literal(record_of(row_format))}}}"
    with atomic_write(path) as part:
        statement = f"COPY ({select}) TO {_literal(str(part))} (FORMAT parquet, KV_METADATA {record})"
        connection.execute(statement, parameters)


def _literal(text: str) -> str:
    """A string as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _transaction(connection: Any) -> Iterator[None]:
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@contextmanager
def _translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise errors of DuckDB as errors of the store."""
    duckdb = extra("duckdb", "duckdb")
    try:
        yield
    except duckdb.CatalogException as error:
        if "already exists" in str(error):
            raise StoreExistsError(
                f"{first_line(error)} Open it, or name another one with ?table=NAME"
            ) from error
        raise StoreError(f"DuckDB reports an error: {first_line(error)}") from error
    except duckdb.Error as error:
        where = f"{path}: " if path else ""
        raise StoreError(f"{where}DuckDB reports an error: {first_line(error)}") from error
