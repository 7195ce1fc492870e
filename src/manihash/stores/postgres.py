"""PostgreSQL with pgvector: a column bit(n) and its Hamming distance ``<~>``.

Values are sent as parameters and names as quoted identifiers. A search scans the table and is exact, even if
the table has an HNSW index; ``index=hnsw`` in the address uses the index.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from manihash.checks import extra
from manihash.codes import from_pgvector, to_pgvector
from manihash.errors import StoreConnectionError, StoreError, StoreExistsError, StoreNotFoundError
from manihash.stores.driver import Matches, RowFormat, first_line
from manihash.stores.sql import Column, SqlTable, plain_values
from manihash.types import Codes, Ids

_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})  # of COPY
_EF_SEARCH = (40, 1000)  # default and maximum of pgvector


class PostgresTable(SqlTable):
    """A table with the columns ``id``, bigint or text, and ``code bit(n)``; and ``first bit(m)``.

    The column of strings has the collation "C", which orders them by code points, as manihash does.
    """

    def __init__(self, connection: Any, table: str, *, hnsw: bool) -> None:
        self._sql = extra("psycopg", "postgres").sql
        self._connection = connection
        self._in_use = RLock()  # threads share the connection, and their transactions must not interleave
        name = self._sql.Identifier(*table.split(".")).as_string(connection)
        super().__init__(name, _format_of(connection, table, name))
        self._hnsw = hnsw

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
        cls, address: str, table: str, row_format: RowFormat, *, hnsw: bool = False
    ) -> "PostgresTable":
        """Create an empty table."""
        sql = extra("psycopg", "postgres").sql
        connection = _connect(address)
        kind = 'text COLLATE "C"' if row_format.id_type is str else "bigint"
        first = "" if row_format.look_up_bits is None else f", first bit({row_format.look_up_bits}) NOT NULL"
        columns = f"id {kind} PRIMARY KEY, code bit({row_format.n_bits}) NOT NULL{first}"
        with _translated_errors(), _closed_on_error(connection):
            name = sql.Identifier(*table.split(".")).as_string(connection)
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute(f"CREATE TABLE {name} ({columns})")
                created = cls(connection, table, hnsw=hnsw)
                if hnsw:
                    created._create_index(table)
            return created

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run a change in one transaction, in which other writers of the table wait; readers do not."""
        with self._in_use, _translated_errors(), self._connection.transaction():
            self._connection.execute(f"LOCK TABLE {self._table} IN SHARE ROW EXCLUSIVE MODE")
            yield

    def search(self, queries: Codes, k: int) -> list[Matches]:
        """Return the k nearest of each query, found by a scan or by the HNSW index."""
        if not self._hnsw:
            return super().search(queries, k)
        with _translated_errors():
            found = [self._search_index(query, k) for query in to_pgvector(queries, self.n_bits)]
        # If the graph finds fewer than k rows, a scan answers.
        return [
            matches if len(matches[1]) == k else super(PostgresTable, self).search(queries[i : i + 1], k)[0]
            for i, matches in enumerate(found)
        ]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _stored(self, part: str, codes: Codes, n_bits: int) -> dict[str, Column]:
        return {part: to_pgvector(codes, n_bits)}

    def _packed(self, columns: Sequence[Any], n_bits: int) -> Codes:
        return from_pgvector(columns[0], n_bits)

    def _distance(self, part: str, n_bits: int) -> str:
        # No index supports an order by the distance as an int, so that a search with it is exact.
        return f"({part} <~> %s::bit({n_bits}))::int"

    def _having(self, ids: Ids) -> tuple[str, Sequence[Any]]:
        return "id = ANY(%s)", [ids.tolist()]

    def _insert(self, columns: Mapping[str, Column]) -> None:
        ids, *parts = (plain_values(column) for column in columns.values())
        shown = [text.translate(_ESCAPES) for text in ids] if self.id_type is str else ids
        lines = zip(map(str, shown), *parts, strict=True)
        text = "".join("\t".join(line) + "\n" for line in lines)
        statement = f"COPY {self._table} ({', '.join(columns)}) FROM STDIN"
        with (
            self._in_use,
            _translated_errors(),
            self._connection.transaction(),
            self._connection.cursor().copy(statement) as copy,
        ):
            copy.write(text)

    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._in_use, _translated_errors():
            rows = self._connection.execute(statement, parameters or None).fetchall()
        return list(zip(*rows, strict=True))

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        with self._in_use, _translated_errors():
            self._connection.execute(statement, parameters)

    def _search_index(self, query: str, k: int) -> Matches:
        """Return the k nearest, or fewer, by the HNSW index."""
        default, maximum = _EF_SEARCH
        near = f"code <~> %s::bit({self.n_bits})"
        with self._in_use, self._connection.transaction():
            ef = str(min(max(k, default), maximum))
            self._connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", [ef])
            return self._matches(
                f"SELECT {near}, id FROM {self._table} ORDER BY {near} LIMIT {k}", [query, query]
            )

    def _create_index(self, table: str) -> None:
        """Create the index ``<table>_code_hnsw``; on a large table this is slow."""
        name = self._sql.Identifier(f"{table.split('.')[-1]}_code_hnsw").as_string(self._connection)
        self._connection.execute(
            f"CREATE INDEX IF NOT EXISTS {name} ON {self._table} USING hnsw (code bit_hamming_ops)"
        )


def _format_of(connection: Any, table: str, name: str) -> RowFormat:
    """Return n from the type bit(n) of the column ``code``, the type of the ids, and bits of ``first``."""
    columns = {column: rest for column, *rest in connection.execute(_COLUMNS, [name]).fetchall()}
    if not columns:
        raise StoreNotFoundError(
            f"no table {table} in this database: create it, or name an existing one with ?table=NAME"
        )
    kind, bits = columns.get("code", ["", 0])
    id_type = {"bigint": int, "text": str}.get(columns.get("id", [""])[0])
    if id_type is None or not kind.startswith("bit("):
        shown = ", ".join(f"{column} {rest[0]}" for column, rest in columns.items())
        raise StoreError(
            f"table {table} has the columns {shown}: expected id bigint or text, and code bit(n). "
            "Name another one with ?table=NAME"
        )
    first_kind, look_up_bits = columns.get("first", ["", 0])
    return RowFormat(int(bits), id_type, int(look_up_bits) if first_kind.startswith("bit(") else None)


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
            f"{first_line(error)}: open it, or name another one with ?table=NAME"
        ) from error
    except psycopg.Error as error:
        if _is_connection_error(error, psycopg):
            raise StoreConnectionError(f"PostgreSQL does not respond: {first_line(error)}") from error
        raise StoreError(f"PostgreSQL reports an error: {first_line(error)}") from error


def _is_connection_error(error: Any, psycopg: Any) -> bool:
    """Return whether the connection failed: no SQLSTATE, or class 08 (connection) or 57P (shutdown)."""
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost and (error.sqlstate is None or error.sqlstate.startswith(("08", "57P")))
