"""ClickHouse: a MergeTree table whose codes are columns of UInt64, on a server or in a folder with chDB."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from manihash.checks import extra
from manihash.errors import StoreConnectionError, StoreError, StoreExistsError, StoreNotFoundError
from manihash.stores.driver import RowFormat, first_line, id_condition
from manihash.stores.sql import Column, WordTable, format_of_words, plain_values, record_of, word_names
from manihash.types import Ids

_TYPES: dict[type, str] = {int: "Int64", str: "String"}
_ID_TYPES = {name: kind for kind, name in _TYPES.items()}
# Lists of ids make long statements. An insert returns when its rows are stored.
_SETTINGS = {"max_query_size": 2**28, "async_insert": 0}
_COLUMNS = """SELECT name, type FROM system.columns
    WHERE database = currentDatabase() AND table = {name:String} ORDER BY position"""
_COMMENT = "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"


class ClickHouseTable(WordTable):
    """A table with the columns ``id`` and ``code``, sorted by id; n_bits in its comment."""

    def __init__(self, client: Any, name: str, row_format: RowFormat) -> None:
        super().__init__(_identifier(name), row_format)
        self._client, self._name = client, name

    @classmethod
    def open(cls, address: dict[str, Any], name: str) -> "ClickHouseTable":
        """Open a table; ``address`` holds the arguments of clickhouse_connect.get_client."""
        client = _connect(address)
        with _closed_on_error(client), _translated_errors():
            columns = dict(client.query(_COLUMNS, parameters={"name": name}).result_rows)
            if not columns:
                raise StoreNotFoundError(
                    f"no table {name} in this ClickHouse: create it, or name an existing one with ?table=NAME"
                )
            comment = client.query(_COMMENT, parameters={"name": name}).result_rows[0][0]
            return cls(client, name, format_of_words(f"table {name}", columns, comment, _ID_TYPES, "UInt64"))

    @classmethod
    def create(cls, address: dict[str, Any], name: str, row_format: RowFormat) -> "ClickHouseTable":
        """Create an empty table."""
        client = _connect(address)
        names = word_names("code", row_format.n_bits)
        if row_format.look_up_bits is not None:
            names += word_names("first", row_format.look_up_bits)
        columns = ", ".join([f"id {_TYPES[row_format.id_type]}", *(f"{word} UInt64" for word in names)])
        with _closed_on_error(client), _translated_errors():
            client.command(
                f"CREATE TABLE {_identifier(name)} ({columns}) ENGINE = MergeTree ORDER BY id "
                f"COMMENT '{record_of(row_format)}'"
            )
        return cls(client, name, row_format)

    def writing(self) -> AbstractContextManager[None]:
        """Do nothing: ClickHouse has no locks."""
        return nullcontext()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _distance(self, part: str, n_bits: int) -> str:
        names = self._names(part, n_bits)
        return " + ".join(f"bitHammingDistance({name}, {{q{i}:UInt64}})" for i, name in enumerate(names))

    def _having(self, ids: Ids) -> tuple[str, Sequence[Any]]:
        return id_condition(ids, "id IN ({})", _literal), ()

    def _insert(self, columns: Mapping[str, Column]) -> None:
        values = [plain_values(column) if name == "id" else column for name, column in columns.items()]
        with _translated_errors():
            self._client.insert(self._name, values, column_names=list(columns), column_oriented=True)

    def _select(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        bound = {f"q{i}": value for i, value in enumerate(parameters)}
        with _translated_errors():
            found = self._client.query(statement, parameters=bound or None)
        return list(found.result_columns)

    def _run(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        with _translated_errors():
            self._client.command(statement)


def _connect(address: dict[str, Any]) -> Any:
    library = extra("clickhouse_connect", "clickhouse")
    with _translated_errors():
        return library.get_client(**address, settings=_SETTINGS)


def _identifier(name: str) -> str:
    """A name between backquotes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _literal(text: str) -> str:
    """A string as SQL of ClickHouse writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _closed_on_error(client: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        client.close()
        raise


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise errors of clickhouse-connect as errors of the store, without what it logs about them."""
    errors = extra("clickhouse_connect.driver.exceptions", "clickhouse")
    log = logging.getLogger("clickhouse_connect")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    except errors.Error as error:
        text = _short(error)
        if "TABLE_ALREADY_EXISTS" in str(error):
            raise StoreExistsError(f"{text}: open it, or name another one with ?table=NAME") from error
        if isinstance(error, errors.OperationalError) and "DB::Exception" not in str(error):
            raise StoreConnectionError(f"ClickHouse does not respond: {text}") from error
        raise StoreError(f"ClickHouse reports an error: {text}") from error
    finally:
        log.setLevel(level)


def _short(error: Exception) -> str:
    """The message of an error without the words of the HTTP client and of the C++ class."""
    text = first_line(error)
    _, failed, reason = text.partition("(Caused by ")
    if failed:
        reason = reason.rpartition(" executing HTTP request")[0] or reason
        reason = re.sub(r"""["']\)*$""", "", reason)  # of NewConnectionError("HTTPConnection(…): reason")
        return reason.rpartition("): ")[2]
    return text.partition("DB::Exception: ")[2] or text
