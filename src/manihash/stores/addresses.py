"""Open and create the store at an address."""

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.errors import StoreError, StoreExistsError, StoreNotFoundError
from manihash.stores.driver import RowFormat
from manihash.stores.locations import Location, location_of
from manihash.stores.passwords import mask_password
from manihash.stores.store import Store


def open_store(
    url: str,
    n_bits: int | None = None,
    *,
    id_type: type | None = None,
    layout: CodeLayout | None = None,
) -> Store:
    """Open the store at an address; with `n_bits`, create it if it does not exist.

    Parameters
    ----------
    url : str
        Address of the store:

        - ``PATH.duckdb?table=NAME``: a table of a DuckDB file;
        - ``PATH.parquet``: a Parquet file, searched in place by DuckDB;
        - ``PATH.db?table=NAME`` or ``PATH.sqlite``: a table of a SQLite file;
        - ``PATH.faiss``: an index file of FAISS; with a ``layout`` it ranks codes of a product quantizer;
        - ``PATH.usearch``: an index file of usearch; searches are exact, add ``?index=hnsw`` for an
          approximate search by its HNSW graph;
        - ``PATH.lance`` or ``lance:FOLDER``: a LanceDB table;
        - ``postgres://user:password@host/database?table=NAME``: a PostgreSQL table with pgvector; searches
          are exact, add ``&index=hnsw`` for an approximate search by an HNSW index;
        - ``milvus://user:password@host:19530/database?table=NAME``: a Milvus collection (``milvus+https://``
          with TLS), with ``&timeout=SECONDS``;
        - ``milvus:PATH.db?table=NAME``: a file of milvus-lite;
        - ``clickhouse://user:password@host:8123/database?table=NAME``: a ClickHouse table
          (``clickhouse+https://`` with TLS);
        - ``qdrant://:KEY@host:6333?table=NAME``: a Qdrant collection (``qdrant+https://`` with TLS);
        - ``qdrant:FOLDER?table=NAME``: a folder of qdrant-client, without a server.

        The default table is ``codes``. A file of any name can be given with its kind, such as
        ``duckdb:PATH`` or ``sqlite:PATH``.
    n_bits : int, default=None
        Number of bits of a code. If given, a missing store is created and an existing one must have codes of
        this length.
    id_type : {int, str}, default=None
        Type of the ids. If given, an existing store must have ids of this type. A missing store is created
        with ids of this type, by default integers.
    layout : CodeLayout, default=None
        The parts of the codes, ``hasher.layout_``. If there are two, a missing store is created with a column
        for the first part, so that ``within`` can look up by it, and an existing store must have such a
        column of its length. If codes have fields of a product quantizer, a missing FAISS file is created as
        an ``IndexPQ`` that ranks by the layout, and an existing one must have this layout.

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
    location, shown = location_of(url), mask_password(url)
    created_type = _checked_type(id_type or int)
    row_format = None if n_bits is None else _checked_format(location, shown, n_bits, created_type, layout)
    try:
        store = Store(location.open(), shown)
    except StoreNotFoundError:
        if row_format is None:
            raise
        try:
            return Store(location.create(row_format), shown)
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
    ranked = location.has_layout and layout is not None and layout.has_fields
    if (
        layout is not None
        and not ranked
        and layout.has_two_parts
        and layout.look_up_bits != store.look_up_bits
    ):
        store.close()
        own = "no column for" if store.look_up_bits is None else f"{store.look_up_bits} bits of"
        raise StoreError(
            f"{shown} has {own} the first part of codes, got a layout with {layout.look_up_bits} bits: use "
            "another table"
        )
    if ranked and layout is not None and layout != store.layout:
        store.close()
        own = "all bits alike" if store.layout is None else store.layout.described()
        raise StoreError(
            f"{shown} ranks codes by {own}, which is not the given layout, {layout.described()}: use another "
            "file, or the model that made its codes"
        )
    return store


def create_store(url: str, n_bits: int, *, id_type: type = int, layout: CodeLayout | None = None) -> Store:
    """Create an empty store at an address.

    Parameters
    ----------
    url : str
        Address of the store, as in `open_store`.
    n_bits : int
        Number of bits of a code.
    id_type : {int, str}, default=int
        Type of the ids: 64-bit integers, or strings such as file names, of at most 1,024 bytes in UTF-8.
    layout : CodeLayout, default=None
        The parts of the codes, ``hasher.layout_``. If there are two, the store gets a column for the first
        part, so that ``within`` can look up by it; usearch, LanceDB and Milvus have no such column. A FAISS
        file becomes an ``IndexPQ`` that ranks by the layout if codes have fields of a product quantizer, and
        has no such column otherwise.

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
    location, shown = location_of(url), mask_password(url)
    row_format = _checked_format(location, shown, n_bits, _checked_type(id_type), layout)
    return Store(location.create(row_format), shown)


def _checked_format(
    location: Location, shown: str, n_bits: int, id_type: type, layout: CodeLayout | None
) -> RowFormat:
    """The format of the rows of a new store; raise if the store cannot have it."""
    positive_int(n_bits, "n_bits")
    if layout is not None and layout.n_bits != n_bits:
        raise ValueError(f"got n_bits={n_bits} and a layout of {layout.n_bits} bits: give the same number")
    if layout is not None and layout.has_fields and location.has_layout:
        return RowFormat(n_bits, id_type, layout=layout)
    if layout is None or not layout.has_two_parts:
        return RowFormat(n_bits, id_type)
    if not location.has_first:
        raise StoreError(
            f"{shown}: {location.kind} has no column for the first part of codes: omit layout, or use "
            "DuckDB, SQLite, PostgreSQL, ClickHouse or Qdrant"
        )
    return RowFormat(n_bits, id_type, layout.look_up_bits)


def _checked_type(id_type: type) -> type:
    if id_type not in (int, str):
        raise ValueError(f"got id_type={id_type!r}: expected int or str")
    return id_type
