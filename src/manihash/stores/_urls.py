"""Which store an address means."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from manihash.checks import positive_int, positive_number
from manihash.stores._store import Engine, NoStore, Store, StoreError
from manihash.stores.faiss_file import FaissFile
from manihash.stores.lance import LanceTable
from manihash.stores.milvus import MilvusCollection
from manihash.stores.postgres import PostgresTable

FORMS = (
    "PATH.faiss, PATH.lance or lance:FOLDER, postgres://user@host/database?table=NAME, "
    "milvus://host:19530?table=NAME, or PATH.db for milvus-lite"
)
_TABLE = "codes"


@dataclass(frozen=True)
class _Ways:
    """How the store of an address is opened, and how it is created."""

    open: Callable[[], Engine]
    create: Callable[[int], Engine]


def open_store(url: str, n_bits: int | None = None) -> Store:
    """The store at an address: PATH.faiss, PATH.lance, postgres://…, milvus://host:port, or PATH.db.

    With ``n_bits`` the store is created where there is none, and one of codes of another length is refused.
    """
    ways, shown = _ways(url), without_password(url)
    if n_bits is not None:
        positive_int(n_bits, "n_bits")
    try:
        store = Store(ways.open(), shown)
    except NoStore:
        if n_bits is None:
            raise
        return Store(ways.create(n_bits), shown)
    if n_bits is not None and n_bits != store.n_bits:
        store.close()
        raise StoreError(
            f"{shown} holds codes of {store.n_bits} bits, and these have {n_bits}: give another table, or "
            "the n_bits that it was made with"
        )
    return store


def create_store(url: str, n_bits: int) -> Store:
    """A new store of codes of n_bits at an address; where there is one already, an error."""
    return Store(_ways(url).create(positive_int(n_bits, "n_bits")), without_password(url))


def without_password(url: str) -> str:
    """The address as it may be shown."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    netloc = parts.netloc if parts.password is None else parts.netloc.replace(f":{parts.password}@", ":***@")
    query = re.sub(r"(^|&)(password)=[^&]*", r"\1\2=***", parts.query)
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _ways(url: str) -> _Ways:
    scheme, _, rest = url.partition(":")
    if scheme in ("postgres", "postgresql"):
        return _postgres(url)
    if scheme in ("milvus", "milvus+https"):
        return _milvus_cluster(url)
    if scheme == "lance":
        folder = Path(rest)
        return _lance(folder if folder.suffix == ".lance" else folder / f"{_TABLE}.lance")
    name, _, options = url.partition("?")
    path = Path(name)
    if path.suffix == ".db":
        return _milvus({"uri": name}, _options_of(url, options, "table", "timeout"), file=path)
    if path.suffix in (".faiss", ".lance"):
        _options_of(url, options)
        return _lance(path) if path.suffix == ".lance" else _faiss(path)
    raise ValueError(f"{without_password(url)!r} is no address of a store: one of {FORMS} was wanted")


def _faiss(path: Path) -> _Ways:
    return _Ways(lambda: FaissFile.open(path), lambda n_bits: FaissFile.create(path, n_bits))


def _lance(path: Path) -> _Ways:
    return _Ways(lambda: LanceTable.open(path), lambda n_bits: LanceTable.create(path, n_bits))


def _postgres(url: str) -> _Ways:
    """``table`` and ``index`` are ours; what else stands behind the question mark is for the server."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    table, index = given.pop("table", _TABLE), given.pop("index", "scan")
    if index not in ("scan", "hnsw"):
        raise ValueError(f"index={index} came with {without_password(url)}: scan or hnsw was wanted")
    address = urlunsplit(parts._replace(query=urlencode(given, quote_via=quote)))
    hnsw = index == "hnsw"
    return _Ways(
        lambda: PostgresTable.open(address, table, hnsw=hnsw),
        lambda n_bits: PostgresTable.create(address, table, n_bits, hnsw=hnsw),
    )


def _milvus_cluster(url: str) -> _Ways:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if not host:
        raise ValueError(f"{url!r} names no host: milvus://host:19530 was wanted")
    scheme = "https" if parts.scheme.endswith("+https") else "http"
    address = {"uri": f"{scheme}://{host}"}
    if parts.username:
        address |= {"user": unquote(parts.username), "password": unquote(parts.password or "")}
    if parts.path.strip("/"):
        address["db_name"] = parts.path.strip("/")
    return _milvus(address, _options_of(url, parts.query, "table", "timeout"))


def _milvus(address: dict[str, str], options: dict[str, str], file: Path | None = None) -> _Ways:
    name = options.get("table", _TABLE)
    timeout = _seconds(options.get("timeout", "30"))

    def opened() -> Engine:
        if file is not None and not file.exists():
            raise NoStore(f"no file of milvus-lite at {file}: create it, or give the path of one")
        return MilvusCollection.open(address, name, timeout=timeout)

    return _Ways(opened, lambda n_bits: MilvusCollection.create(address, name, n_bits, timeout=timeout))


def _seconds(text: str) -> float:
    try:
        return positive_number(float(text), "timeout")
    except ValueError as error:
        raise ValueError(f"timeout={text} came: a number of seconds above zero was wanted") from error


def _options_of(url: str, query: str, *known: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in known:
            wanted = f"it takes {' and '.join(known)}" if known else "it takes none"
            raise ValueError(f"{without_password(url)} has an option {name!r}: {wanted}")
    return given
