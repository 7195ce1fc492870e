"""Open and create the store at an address."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlunsplit

from manihash.checks import positive_int, positive_number
from manihash.stores.driver import Driver, StoreError, StoreExistsError, StoreNotFoundError
from manihash.stores.faiss_file import FaissFile
from manihash.stores.lance import LanceTable
from manihash.stores.milvus import MilvusCollection
from manihash.stores.passwords import mask_password, split_address
from manihash.stores.postgres import PostgresTable
from manihash.stores.store import Store

_FORMS = (
    "PATH.faiss, PATH.lance or lance:FOLDER, postgres://user@host/database?table=NAME, "
    "milvus://host:19530?table=NAME, or PATH.db for milvus-lite"
)
_DEFAULT_TABLE = "codes"


@dataclass(frozen=True)
class _Location:
    """How to open and how to create the store of an address."""

    open: Callable[[], Driver]
    create: Callable[[int, type], Driver]


def open_store(url: str, n_bits: int | None = None, *, id_type: type | None = None) -> Store:
    """Open the store at an address; with `n_bits`, create it if it does not exist.

    Parameters
    ----------
    url : str
        Address of the store:

        - ``PATH.faiss``: an index file of FAISS;
        - ``PATH.lance`` or ``lance:FOLDER``: a LanceDB table;
        - ``postgres://user:password@host/database?table=NAME``: a PostgreSQL table with pgvector; searches
          are exact, add ``&index=hnsw`` for an approximate search by an HNSW index;
        - ``milvus://user:password@host:19530/database?table=NAME``: a Milvus collection (``milvus+https://``
          with TLS), with ``&timeout=SECONDS``;
        - ``PATH.db?table=NAME``: a file of milvus-lite.

        The default table is ``codes``.
    n_bits : int, default=None
        Number of bits of a code. If given, a missing store is created and an existing one must have codes of
        this length.
    id_type : {int, str}, default=None
        Type of the ids. If given, an existing store must have ids of this type. A missing store is created
        with ids of this type, by default integers.

    Returns
    -------
    Store
        The open store. Close it, or use it in a ``with`` block.

    Raises
    ------
    StoreNotFoundError
        If there is no store at the address and `n_bits` is None.
    StoreError
        If the codes in the store have another length than `n_bits`, or its ids another type than `id_type`,
        or the store cannot be read.
    StoreConnectionError
        If the database does not respond.

    See Also
    --------
    create_store : Create a store; fail if it exists.
    export_codes : Write many codes to a store in batches.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from manihash import open_store
    >>> path = os.path.join(tempfile.mkdtemp(), "codes.faiss")
    >>> with open_store(path, n_bits=16) as store:
    ...     store.add(np.array([[1, 2], [3, 4]], np.uint8), ids=[7, 8])
    >>> with open_store(path) as store:
    ...     print(store.n_bits, store.count(), store.get([8]))
    16 2 [[3 4]]
    """
    location, shown = _location(url), mask_password(url)
    if n_bits is not None:
        positive_int(n_bits, "n_bits")
    created_type = _checked_type(id_type or int)
    try:
        store = Store(location.open(), shown)
    except StoreNotFoundError:
        if n_bits is None:
            raise
        try:
            return Store(location.create(n_bits, created_type), shown)
        except StoreExistsError:  # another process has just created it
            store = Store(location.open(), shown)
    if n_bits is not None and n_bits != store.n_bits:
        store.close()
        raise StoreError(
            f"{shown} holds codes of {store.n_bits} bits, got codes of {n_bits} bits: use another table, or "
            f"n_bits={store.n_bits}"
        )
    if id_type not in (None, store.id_type):
        store.close()
        kinds = {int: "integers", str: "strings"}
        raise StoreError(
            f"the ids of {shown} are {kinds[store.id_type]}, got {kinds[created_type]}: use ids of its "
            "type, or another table"
        )
    return store


def create_store(url: str, n_bits: int, *, id_type: type = int) -> Store:
    """Create an empty store at an address.

    Parameters
    ----------
    url : str
        Address of the store, as in `open_store`.
    n_bits : int
        Number of bits of a code.
    id_type : {int, str}, default=int
        Type of the ids: 64-bit integers, or strings such as file names, of at most 1,024 bytes in UTF-8.

    Returns
    -------
    Store
        The new store.

    Raises
    ------
    StoreError
        If there already is a store at the address.
    StoreConnectionError
        If the database does not respond.

    See Also
    --------
    open_store : Open a store, or create it if it does not exist.

    Examples
    --------
    >>> import os, tempfile
    >>> from manihash import create_store
    >>> with create_store(os.path.join(tempfile.mkdtemp(), "codes.faiss"), n_bits=64) as store:
    ...     store.count()
    0
    """
    driver = _location(url).create(positive_int(n_bits, "n_bits"), _checked_type(id_type))
    return Store(driver, mask_password(url))


def _checked_type(id_type: type) -> type:
    if id_type not in (int, str):
        raise ValueError(f"got id_type={id_type!r}: expected int or str")
    return id_type


def _location(url: str) -> _Location:
    scheme, _, rest = url.partition(":")
    if scheme in ("postgres", "postgresql"):
        return _postgres(url)
    if scheme in ("milvus", "milvus+https"):
        return _milvus_server(url)
    if scheme == "lance":
        folder = Path(rest)
        return _lance(folder if folder.suffix == ".lance" else folder / f"{_DEFAULT_TABLE}.lance")
    name, _, options = url.partition("?")
    path = Path(name)
    if path.suffix == ".db":
        return _milvus({"uri": name}, _checked_options(url, options, "table", "timeout"), file=path)
    if path.suffix in (".faiss", ".lance"):
        _checked_options(url, options)
        return _lance(path) if path.suffix == ".lance" else _faiss(path)
    raise ValueError(f"{mask_password(url)!r} is not the address of a store: expected one of {_FORMS}")


def _faiss(path: Path) -> _Location:
    return _Location(lambda: FaissFile.open(path), lambda n_bits, kind: FaissFile.create(path, n_bits, kind))


def _lance(path: Path) -> _Location:
    return _Location(
        lambda: LanceTable.open(path), lambda n_bits, kind: LanceTable.create(path, n_bits, kind)
    )


def _postgres(url: str) -> _Location:
    """Return the location of a table; options other than `table` and `index` are passed to the server."""
    parts = split_address(url)
    options = dict(parse_qsl(parts.query))
    table, index = options.pop("table", _DEFAULT_TABLE), options.pop("index", "scan")
    if index not in ("scan", "hnsw"):
        raise ValueError(f"got index={index} in {mask_password(url)}: expected scan or hnsw")
    address = urlunsplit(parts._replace(query=urlencode(options, quote_via=quote)))
    hnsw = index == "hnsw"
    return _Location(
        lambda: PostgresTable.open(address, table, hnsw=hnsw),
        lambda n_bits, kind: PostgresTable.create(address, table, n_bits, kind, hnsw=hnsw),
    )


def _milvus_server(url: str) -> _Location:
    parts = split_address(url)
    host = parts.netloc.rpartition("@")[2]
    if not host:
        raise ValueError(f"{mask_password(url)!r} names no host: expected milvus://host:19530")
    scheme = "https" if parts.scheme.endswith("+https") else "http"
    address = {"uri": f"{scheme}://{host}"}
    if parts.username:
        address |= {"user": unquote(parts.username), "password": unquote(parts.password or "")}
    if parts.path.strip("/"):
        address["db_name"] = parts.path.strip("/")
    return _milvus(address, _checked_options(url, parts.query, "table", "timeout"))


def _milvus(address: dict[str, str], options: dict[str, str], file: Path | None = None) -> _Location:
    name = options.get("table", _DEFAULT_TABLE)
    timeout = _seconds(options.get("timeout", "30"))

    def open_collection() -> Driver:
        if file is not None and not file.exists():
            raise StoreNotFoundError(f"no milvus-lite file at {file}: create it, or give the path of one")
        return MilvusCollection.open(address, name, timeout=timeout)

    return _Location(
        open_collection,
        lambda n_bits, kind: MilvusCollection.create(address, name, n_bits, kind, timeout=timeout),
    )


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
