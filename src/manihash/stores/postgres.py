"""PostgreSQL with pgvector: a column bit(n), and its Hamming distance ``<~>``.

Values go to the server as parameters, names as quoted identifiers; no statement is pasted together. A search
scans the table and is exact, also where the table has an HNSW index; ``index=hnsw`` in the address uses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from manihash.checks import extra
from manihash.codes import from_pgvector, to_pgvector
from manihash.stores._store import Answers, Ints, NoStore, StoreDown, StoreError, in_order
from manihash.types import Codes

_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_EF_SEARCH = (40, 1000)  # pgvector's own default, and the most it takes


class PostgresTable:
    """A table with the columns ``id bigint`` and ``code bit(n)``."""

    writes_whole = False

    def __init__(self, connection: Any, table: str, *, hnsw: bool) -> None:
        self._sql = extra("psycopg", "postgres").sql
        self._connection = connection
        self._table = self._sql.Identifier(*table.split("."))
        self._hnsw = hnsw
        self.n_bits = self._bits_of(table)

    @classmethod
    def open(cls, address: str, table: str, *, hnsw: bool = False) -> "PostgresTable":
        """A table that is there; ``hnsw`` answers ``search`` by its index, made if it is missing."""
        connection = _connect(address)
        with _told(), _closed_on_error(connection):
            opened = cls(connection, table, hnsw=hnsw)
            if hnsw:
                opened._make_index(table)
            return opened

    @classmethod
    def create(cls, address: str, table: str, n_bits: int, *, hnsw: bool = False) -> "PostgresTable":
        """A new table of no rows."""
        sql = extra("psycopg", "postgres").sql
        connection = _connect(address)
        statement = sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY, code bit({}) NOT NULL)")
        name = sql.Identifier(*table.split("."))
        with _told(), _closed_on_error(connection):
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute(statement.format(name, sql.Literal(n_bits)))
                created = cls(connection, table, hnsw=hnsw)
                if hnsw:
                    created._make_index(table)
            return created

    def add(self, codes: Codes, ids: Ints) -> None:
        """Copy rows in, in one transaction."""
        lines = zip(ids.tolist(), to_pgvector(codes, self.n_bits), strict=True)
        text = "".join(f"{number}\t{bits}\n" for number, bits in lines)
        statement = self._statement("COPY {table} (id, code) FROM STDIN")
        with _told(), self._connection.transaction(), self._connection.cursor().copy(statement) as copy:
            copy.write(text)

    def search(self, queries: Codes, k: int) -> list[Answers]:
        """The k nearest of each query, by a scan or by the HNSW index."""
        one = self._by_index if self._hnsw else self._by_scan
        with _told():
            return [one(query, k) for query in to_pgvector(queries, self.n_bits)]

    def within(self, queries: Codes, radius: int) -> list[Answers]:
        """All within the radius of each query, by a scan."""
        statement = self._statement(
            "SELECT code <~> %s::{bits}, id FROM {table} WHERE code <~> %s::{bits} <= %s"
        )
        with _told():
            return [
                self._answers(statement, query, query, radius) for query in to_pgvector(queries, self.n_bits)
            ]

    def fetch(self, ids: Ints) -> tuple[Ints, Codes]:
        """Rows by id."""
        statement = self._statement("SELECT id, code::text FROM {table} WHERE id = ANY(%s)")
        with _told():
            rows = self._connection.execute(statement, [ids.tolist()]).fetchall()
        return np.array([row[0] for row in rows], np.int64), from_pgvector(
            [row[1] for row in rows], self.n_bits
        )

    def delete(self, ids: Ints) -> None:
        """Drop rows, in one transaction."""
        with _told():
            self._connection.execute(
                self._statement("DELETE FROM {table} WHERE id = ANY(%s)"), [ids.tolist()]
            )

    def count(self) -> int:
        """Rows of the table."""
        with _told():
            return int(
                self._connection.execute(self._statement("SELECT count(*) FROM {table}")).fetchone()[0]
            )

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _by_scan(self, query: str, k: int) -> Answers:
        """An order by the distance as an int: no index has that, so that every row is looked at."""
        text = "SELECT (code <~> %s::{bits})::int AS distance, id FROM {table} ORDER BY distance, id LIMIT %s"
        return self._answers(self._statement(text), query, k)

    def _by_index(self, query: str, k: int) -> Answers:
        """What the graph finds; where that is fewer than k, the scan."""
        least, most = _EF_SEARCH
        statement = self._statement(
            "SELECT code <~> %s::{bits}, id FROM {table} ORDER BY code <~> %s::{bits} LIMIT %s"
        )
        with self._connection.transaction():
            ef = str(min(max(k, least), most))
            self._connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", [ef])
            answers = self._answers(statement, query, query, k)
        return answers if len(answers[1]) == k else self._by_scan(query, k)

    def _answers(self, statement: Any, *parameters: Any) -> Answers:
        rows = self._connection.execute(statement, parameters).fetchall()
        return in_order([row[0] for row in rows], [row[1] for row in rows])

    def _statement(self, text: str) -> Any:
        bits = self._sql.SQL("bit({})").format(self._sql.Literal(self.n_bits))
        return self._sql.SQL(text).format(table=self._table, bits=bits)

    def _make_index(self, table: str) -> None:
        """The index ``<table>_code_hnsw``; building it on a full table takes its time."""
        name = self._sql.Identifier(f"{table.split('.')[-1]}_code_hnsw")
        text = self._sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (code bit_hamming_ops)")
        self._connection.execute(text.format(name, self._table))

    def _bits_of(self, table: str) -> int:
        """n, from the type bit(n) of the column ``code``."""
        quoted = self._table.as_string(self._connection)
        columns = {name: rest for name, *rest in self._connection.execute(_COLUMNS, [quoted]).fetchall()}
        if not columns:
            raise NoStore(f"no table {table} in this database: create it, or give ?table=NAME of one")
        kind, bits = columns.get("code", ["", 0])
        if columns.get("id", [""])[0] != "bigint" or not kind.startswith("bit("):
            shown = ", ".join(f"{name} {rest[0]}" for name, rest in columns.items())
            raise StoreError(
                f"table {table} has the columns {shown}: id bigint and code bit(n) were wanted. "
                "Give another with ?table=NAME"
            )
        return int(bits)


def _connect(address: str) -> Any:
    psycopg = extra("psycopg", "postgres")
    waiting = {} if "connect_timeout" in address else {"connect_timeout": 10}
    with _told():
        try:
            return psycopg.connect(address, autocommit=True, **waiting)
        except psycopg.ProgrammingError:  # which shows the address, and in it the password
            raise StoreError(
                "PostgreSQL does not understand this address: postgres://user:password@host:5432/database "
                "was wanted"
            ) from None


@contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _told() -> Iterator[None]:
    """What psycopg raises, as an error of ours."""
    psycopg = extra("psycopg", "postgres")
    try:
        yield
    except psycopg.errors.DuplicateTable as error:
        raise StoreError(f"{_first_line(error)}: open it, or give another with ?table=NAME") from error
    except psycopg.Error as error:
        if _is_down(error, psycopg):
            raise StoreDown(f"PostgreSQL does not answer: {_first_line(error)}") from error
        raise StoreError(f"PostgreSQL refused: {_first_line(error)}") from error


def _is_down(error: Any, psycopg: Any) -> bool:
    """Errors of the connection have no SQLSTATE, or one of class 08 (connection) or 57P (shutting down)."""
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
