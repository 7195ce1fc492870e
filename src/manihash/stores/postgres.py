"""PostgreSQL with pgvector: a column bit(n) and its Hamming distance ``<~>``.

Values are sent as parameters and names as quoted identifiers; no statement is built from text. A search scans
the table and is exact, even if the table has an HNSW index; ``index=hnsw`` in the address uses the index.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from manihash.checks import extra
from manihash.codes import from_pgvector, to_pgvector
from manihash.stores.driver import (
    Matches,
    StoreConnectionError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
    id_array,
    sorted_matches,
)
from manihash.types import Codes, Ids

_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})  # of COPY
_EF_SEARCH = (40, 1000)  # default and maximum of pgvector


class PostgresTable:
    """A table with the columns ``id``, bigint or text, and ``code bit(n)``.

    The column of strings has the collation "C", which orders them by code points, as manihash does.
    """

    rewrites_on_add = False

    def __init__(self, connection: Any, table: str, *, hnsw: bool) -> None:
        self._sql = extra("psycopg", "postgres").sql
        self._connection = connection
        self._table = self._sql.Identifier(*table.split("."))
        self._hnsw = hnsw
        self.n_bits, self.id_type = self._layout_of(table)

    @classmethod
    def open(cls, address: str, table: str, *, hnsw: bool = False) -> "PostgresTable":
        """Open a table; with ``hnsw``, searches use its HNSW index, which is created if it is missing."""
        connection = _connect(address)
        with _translated_errors(), _closed_on_error(connection):
            opened = cls(connection, table, hnsw=hnsw)
            if hnsw:
                opened._create_index(table)
            return opened

    @classmethod
    def create(
        cls, address: str, table: str, n_bits: int, id_type: type, *, hnsw: bool = False
    ) -> "PostgresTable":
        """Create an empty table."""
        sql = extra("psycopg", "postgres").sql
        connection = _connect(address)
        statement = sql.SQL("CREATE TABLE {} (id {} PRIMARY KEY, code bit({}) NOT NULL)")
        kind = sql.SQL('text COLLATE "C"' if id_type is str else "bigint")
        name = sql.Identifier(*table.split("."))
        with _translated_errors(), _closed_on_error(connection):
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute(statement.format(name, kind, sql.Literal(n_bits)))
                created = cls(connection, table, hnsw=hnsw)
                if hnsw:
                    created._create_index(table)
            return created

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a change in one transaction, in which other writers of the table wait; readers do not."""
        with _translated_errors(), self._connection.transaction():
            self._connection.execute(self._statement("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
            yield

    def add(self, codes: Codes, ids: Ids) -> None:
        """Insert rows in one transaction."""
        shown = (text.translate(_ESCAPES) for text in ids.tolist()) if self.id_type is str else ids.tolist()
        lines = zip(shown, to_pgvector(codes, self.n_bits), strict=True)
        text = "".join(f"{identity}\t{bits}\n" for identity, bits in lines)
        statement = self._statement("COPY {table} (id, code) FROM STDIN")
        with (
            _translated_errors(),
            self._connection.transaction(),
            self._connection.cursor().copy(statement) as copy,
        ):
            copy.write(text)

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, found by a scan or by the HNSW index."""
        search = self._search_index if self._hnsw else self._scan
        with _translated_errors():
            return [search(query, k) for query in to_pgvector(queries, self.n_bits)]

    def within(self, queries: Codes, radius: int) -> list[Matches]:
        """Return all codes within the radius of each query, found by a scan."""
        statement = self._statement(
            "SELECT code <~> %s::{bits}, id FROM {table} WHERE code <~> %s::{bits} <= %s"
        )
        with _translated_errors():
            return [
                self._matches(statement, query, query, radius) for query in to_pgvector(queries, self.n_bits)
            ]

    def fetch(self, ids: Ids) -> tuple[Ids, Codes]:
        """Return rows by id."""
        statement = self._statement("SELECT id, code::text FROM {table} WHERE id = ANY(%s)")
        with _translated_errors():
            rows = self._connection.execute(statement, [ids.tolist()]).fetchall()
        return id_array([row[0] for row in rows]), from_pgvector([row[1] for row in rows], self.n_bits)

    def delete(self, ids: Ids) -> None:
        """Delete rows in one transaction."""
        with _translated_errors():
            self._connection.execute(
                self._statement("DELETE FROM {table} WHERE id = ANY(%s)"), [ids.tolist()]
            )

    def count(self) -> int:
        """Return the number of rows of the table."""
        with _translated_errors():
            return int(
                self._connection.execute(self._statement("SELECT count(*) FROM {table}")).fetchone()[0]
            )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _scan(self, query: str, k: int) -> Matches:
        """Return the k nearest by a scan: no index supports an order by the distance as an int."""
        text = "SELECT (code <~> %s::{bits})::int AS distance, id FROM {table} ORDER BY distance, id LIMIT %s"
        return self._matches(self._statement(text), query, k)

    def _search_index(self, query: str, k: int) -> Matches:
        """Return the k nearest by the HNSW index; if it finds fewer than k, by a scan."""
        default, maximum = _EF_SEARCH
        statement = self._statement(
            "SELECT code <~> %s::{bits}, id FROM {table} ORDER BY code <~> %s::{bits} LIMIT %s"
        )
        with self._connection.transaction():
            ef = str(min(max(k, default), maximum))
            self._connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", [ef])
            matches = self._matches(statement, query, query, k)
        return matches if len(matches[1]) == k else self._scan(query, k)

    def _matches(self, statement: Any, *parameters: Any) -> Matches:
        rows = self._connection.execute(statement, parameters).fetchall()
        return sorted_matches([row[0] for row in rows], [row[1] for row in rows])

    def _statement(self, text: str) -> Any:
        bits = self._sql.SQL("bit({})").format(self._sql.Literal(self.n_bits))
        return self._sql.SQL(text).format(table=self._table, bits=bits)

    def _create_index(self, table: str) -> None:
        """Create the index ``<table>_code_hnsw``; on a large table this is slow."""
        name = self._sql.Identifier(f"{table.split('.')[-1]}_code_hnsw")
        text = self._sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (code bit_hamming_ops)")
        self._connection.execute(text.format(name, self._table))

    def _layout_of(self, table: str) -> tuple[int, type]:
        """Return n from the type bit(n) of the column ``code``, and the type of the ids."""
        quoted = self._table.as_string(self._connection)
        columns = {name: rest for name, *rest in self._connection.execute(_COLUMNS, [quoted]).fetchall()}
        if not columns:
            raise StoreNotFoundError(
                f"no table {table} in this database: create it, or name an existing one with ?table=NAME"
            )
        kind, bits = columns.get("code", ["", 0])
        id_type = {"bigint": int, "text": str}.get(columns.get("id", [""])[0])
        if id_type is None or not kind.startswith("bit("):
            shown = ", ".join(f"{name} {rest[0]}" for name, rest in columns.items())
            raise StoreError(
                f"table {table} has the columns {shown}: expected id bigint or text, and code bit(n). "
                "Name another one with ?table=NAME"
            )
        return int(bits), id_type


def _connect(address: str) -> Any:
    psycopg = extra("psycopg", "postgres")
    timeout = {} if "connect_timeout" in address else {"connect_timeout": 10}
    with _translated_errors():
        try:
            return psycopg.connect(address, autocommit=True, **timeout)
        except psycopg.ProgrammingError:  # its message contains the address with the password
            raise StoreError(
                "PostgreSQL does not accept this address: expected "
                "postgres://user:password@host:5432/database"
            ) from None


@contextmanager
def _closed_on_error(connection: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise errors of psycopg as errors of the store."""
    psycopg = extra("psycopg", "postgres")
    try:
        yield
    except psycopg.errors.DuplicateTable as error:
        raise StoreExistsError(
            f"{_first_line(error)}: open it, or name another one with ?table=NAME"
        ) from error
    except psycopg.Error as error:
        if _is_connection_error(error, psycopg):
            raise StoreConnectionError(f"PostgreSQL does not respond: {_first_line(error)}") from error
        raise StoreError(f"PostgreSQL reports an error: {_first_line(error)}") from error


def _is_connection_error(error: Any, psycopg: Any) -> bool:
    """Return whether the connection failed: no SQLSTATE, or class 08 (connection) or 57P (shutdown)."""
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
