"""What an address means: the kind of store, where it is, and its options."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlunsplit

from manihash.checks import positive_number
from manihash.errors import StoreNotFoundError
from manihash.stores.clickhouse import ClickHouseTable
from manihash.stores.driver import Driver, RowFormat
from manihash.stores.duckdb_file import DuckDBTable, ParquetFile
from manihash.stores.faiss_file import FaissFile
from manihash.stores.lance import LanceTable
from manihash.stores.milvus import MilvusCollection
from manihash.stores.passwords import mask_password, split_address
from manihash.stores.postgres import PostgresTable
from manihash.stores.qdrant import QdrantCollection
from manihash.stores.sqlite_file import SQLiteTable
from manihash.stores.usearch_file import UsearchFile

_FORMS = (
    "PATH.duckdb, PATH.parquet, PATH.db (SQLite), PATH.faiss, PATH.usearch, PATH.lance or lance:FOLDER, "
    "postgres://user@host/database?table=NAME, clickhouse://host:8123/database?table=NAME, "
    "qdrant://host:6333?table=NAME or qdrant:FOLDER, milvus://host:19530?table=NAME, or milvus:PATH.db for "
    "milvus-lite"
)
_DEFAULT_TABLE = "codes"


@dataclass(frozen=True)
class Location:
    """How to open and how to create the store of an address."""

    kind: str
    open: Callable[[], Driver]
    create: Callable[[RowFormat], Driver]
    has_first: bool = False
    """Whether the store can have a column for the first part of codes."""
    has_layout: bool = False
    """Whether the store ranks codes with fields of a product quantizer by their layout."""


def location_of(url: str) -> Location:
    """The location of an address: its scheme decides, or else the ending of the name of the file."""
    scheme, _, rest = url.partition(":")
    if scheme in _SERVERS and (rest.startswith("//") or scheme not in _SCHEMES):
        return _SERVERS[scheme](url)
    if scheme in _SCHEMES:
        return _file(url, _SCHEMES[scheme], rest)
    suffix = Path(url.partition("?")[0]).suffix
    if suffix not in _SUFFIXES:
        raise ValueError(f"{mask_password(url)!r} is not the address of a store: expected one of {_FORMS}")
    return _file(url, _SUFFIXES[suffix], url)


@dataclass(frozen=True)
class _FileKind:
    """A kind of store that is a file or folder: its options, and what its location is."""

    options: tuple[str, ...]
    location: Callable[[Path, dict[str, str]], Location]


def _file(url: str, kind: _FileKind, rest: str) -> Location:
    name, _, query = rest.partition("?")
    if not name:
        raise ValueError(f"{url!r} names no file: expected {url.partition(':')[0]}:PATH")
    return kind.location(Path(name), _checked_options(url, query, *kind.options))


def _duckdb(path: Path, options: dict[str, str]) -> Location:
    table = options.get("table", _DEFAULT_TABLE)
    return Location(
        "DuckDB",
        lambda: DuckDBTable.open(path, table),
        lambda form: DuckDBTable.create(path, table, form),
        has_first=True,
    )


def _parquet(path: Path, options: dict[str, str]) -> Location:
    return Location(
        "a Parquet file",
        lambda: ParquetFile.open(path),
        lambda form: ParquetFile.create(path, form),
        has_first=True,
    )


def _sqlite(path: Path, options: dict[str, str]) -> Location:
    table = options.get("table", _DEFAULT_TABLE)
    return Location(
        "SQLite",
        lambda: SQLiteTable.open(path, table),
        lambda form: SQLiteTable.create(path, table, form),
        has_first=True,
    )


def _faiss(path: Path, options: dict[str, str]) -> Location:
    return Location(
        "a FAISS file",
        lambda: FaissFile.open(path),
        lambda form: FaissFile.create(path, form),
        has_layout=True,
    )


def _usearch(path: Path, options: dict[str, str]) -> Location:
    hnsw = _is_hnsw(options, str(path))
    return Location(
        "usearch",
        lambda: UsearchFile.open(path, hnsw=hnsw),
        lambda form: UsearchFile.create(path, form.n_bits, form.id_type, hnsw=hnsw),
    )


def _lance(path: Path, options: dict[str, str]) -> Location:
    table = path if path.suffix == ".lance" else path / f"{_DEFAULT_TABLE}.lance"
    return Location(
        "LanceDB",
        lambda: LanceTable.open(table),
        lambda form: LanceTable.create(table, form.n_bits, form.id_type),
    )


def _milvus_file(path: Path, options: dict[str, str]) -> Location:
    return _milvus({"uri": str(path)}, options, file=path)


def _qdrant_folder(path: Path, options: dict[str, str]) -> Location:
    return _qdrant({"path": str(path)}, options, folder=path)


def _chdb(path: Path, options: dict[str, str]) -> Location:
    return _clickhouse({"interface": "chdb", "path": str(path.absolute())}, options)


def _postgres(url: str) -> Location:
    """Return the location of a table; options other than `table` and `index` are passed to the server."""
    parts = split_address(url)
    options = dict(parse_qsl(parts.query))
    hnsw, table = _is_hnsw(options, mask_password(url)), options.pop("table", _DEFAULT_TABLE)
    options.pop("index", None)
    address = urlunsplit(parts._replace(query=urlencode(options, quote_via=quote)))
    return Location(
        "PostgreSQL",
        lambda: PostgresTable.open(address, table, hnsw=hnsw),
        lambda form: PostgresTable.create(address, table, form, hnsw=hnsw),
        has_first=True,
    )


def _milvus_server(url: str) -> Location:
    scheme, host, login, database, query = _server(url, "milvus://host:19530")
    address = {"uri": f"{scheme}://{host}"}
    if login[0]:
        address |= {"user": login[0], "password": login[1]}
    if database:
        address["db_name"] = database
    return _milvus(address, _checked_options(url, query, "table", "timeout"))


def _milvus(address: dict[str, str], options: dict[str, str], file: Path | None = None) -> Location:
    name = options.get("table", _DEFAULT_TABLE)
    timeout = _seconds(options.get("timeout", "30"))

    def open_collection() -> Driver:
        if file is not None and not file.exists():
            raise StoreNotFoundError(f"no milvus-lite file at {file}: create it, or give the path of one")
        return MilvusCollection.open(address, name, timeout=timeout)

    return Location(
        "Milvus",
        open_collection,
        lambda form: MilvusCollection.create(address, name, form.n_bits, form.id_type, timeout=timeout),
    )


def _clickhouse_server(url: str) -> Location:
    scheme, _, login, database, query = _server(url, "clickhouse://host:8123")
    parts = split_address(url)
    address: dict[str, Any] = {"interface": scheme, "host": parts.hostname}
    if parts.port is not None:
        address["port"] = parts.port
    if login[0]:
        address |= {"username": login[0], "password": login[1]}
    if database:
        address["database"] = database
    options = _checked_options(url, query, "table", "timeout")
    timeout = _seconds(options.get("timeout", "30"))
    return _clickhouse(address | {"connect_timeout": timeout, "send_receive_timeout": timeout}, options)


def _clickhouse(address: dict[str, Any], options: dict[str, str]) -> Location:
    table = options.get("table", _DEFAULT_TABLE)
    return Location(
        "ClickHouse",
        lambda: ClickHouseTable.open(address, table),
        lambda form: ClickHouseTable.create(address, table, form),
        has_first=True,
    )


def _qdrant_server(url: str) -> Location:
    scheme, host, login, database, query = _server(url, "qdrant://host:6333")
    if database or (login[0] and not login[1]):
        raise ValueError("a Qdrant server has an API key, and no user or database: qdrant://:KEY@host:6333")
    options = _checked_options(url, query, "table", "timeout", "index")
    # The port is always stated: qdrant-client takes 6333 instead of that of the scheme.
    default = "" if host.rpartition(":")[2].isdigit() else ":6333"
    address: dict[str, Any] = {"url": f"{scheme}://{host}{default}"}
    if login[1]:
        address["api_key"] = login[1]
    return _qdrant(address | {"timeout": max(1, round(_seconds(options.get("timeout", "30"))))}, options)


def _qdrant(address: dict[str, Any], options: dict[str, str], folder: Path | None = None) -> Location:
    name, hnsw = options.get("table", _DEFAULT_TABLE), _is_hnsw(options, "the address")

    def open_collection() -> Driver:
        if folder is not None and not folder.exists():
            raise StoreNotFoundError(f"no Qdrant folder at {folder}: create it, or give the path of one")
        return QdrantCollection.open(address, name, hnsw=hnsw)

    return Location(
        "Qdrant",
        open_collection,
        lambda form: QdrantCollection.create(address, name, form, hnsw=hnsw),
        has_first=True,
    )


_SERVERS: dict[str, Callable[[str], Location]] = {
    "postgres": _postgres,
    "postgresql": _postgres,
    "milvus": _milvus_server,
    "milvus+https": _milvus_server,
    "clickhouse": _clickhouse_server,
    "clickhouse+https": _clickhouse_server,
    "qdrant": _qdrant_server,
    "qdrant+https": _qdrant_server,
}
_SCHEMES = {
    "duckdb": _FileKind(("table",), _duckdb),
    "parquet": _FileKind((), _parquet),
    "sqlite": _FileKind(("table",), _sqlite),
    "faiss": _FileKind((), _faiss),
    "usearch": _FileKind(("index",), _usearch),
    "lance": _FileKind((), _lance),
    "milvus": _FileKind(("table", "timeout"), _milvus_file),
    "qdrant": _FileKind(("table",), _qdrant_folder),
    "chdb": _FileKind(("table",), _chdb),
}
_SUFFIXES = {
    ".duckdb": _SCHEMES["duckdb"],
    ".parquet": _SCHEMES["parquet"],
    ".db": _SCHEMES["sqlite"],
    ".sqlite": _SCHEMES["sqlite"],
    ".sqlite3": _SCHEMES["sqlite"],
    ".faiss": _SCHEMES["faiss"],
    ".usearch": _SCHEMES["usearch"],
    ".lance": _SCHEMES["lance"],
}


def _server(url: str, form: str) -> tuple[str, str, tuple[str, str], str, str]:
    """The scheme (http or https), host, user and password, database and options of a server's address."""
    parts = split_address(url)
    host = parts.netloc.rpartition("@")[2]
    if not host:
        raise ValueError(f"{mask_password(url)!r} names no host: expected {form}")
    scheme = "https" if parts.scheme.endswith("+https") else "http"
    login = unquote(parts.username or ""), unquote(parts.password or "")
    return scheme, host, login, parts.path.strip("/"), parts.query


def _is_hnsw(options: dict[str, str], shown: str) -> bool:
    """Whether the options ask for an approximate search."""
    index = options.get("index", "scan")
    if index not in ("scan", "hnsw"):
        raise ValueError(f"got index={index} in {shown}: expected scan or hnsw")
    return index == "hnsw"


def _seconds(text: str) -> float:
    try:
        return positive_number(float(text), "timeout")
    except ValueError as error:
        raise ValueError(f"got timeout={text}: expected a positive number of seconds") from error


def _checked_options(url: str, query: str, *known: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            accepted = f"this kind of store accepts {' and '.join(known)}" if known else "this kind has none"
            raise ValueError(f"{mask_password(url)} has the unknown option {name!r}: {accepted}")
    return options
