"""Write codes to a store in batches; an interrupted export can be resumed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.display import Shown
from manihash.errors import StoreConnectionError, StoreError
from manihash.progress import advance
from manihash.search.ids import check_ids
from manihash.stores.store import Store
from manihash.types import Codes, Ids


@dataclass(frozen=True, repr=False)
class ExportResult(Shown):
    """The result of `export_codes`.

    Parameters
    ----------
    rows : int
        Number of codes that were to be exported.
    added : int
        Number of codes that were added; the others were in the store already.
    count : int
        Number of rows in the store after the export, including rows of others.

    Examples
    --------
    >>> from manihash.stores import ExportResult
    >>> ExportResult(rows=100, added=40, count=250)
    ExportResult(rows=100, added=40, count=250)
    """

    rows: int
    added: int
    count: int


def export_codes(
    codes: ArrayLike, store: Store, ids: ArrayLike | None = None, batch: int = 10_000
) -> ExportResult:
    """Write codes to a store in batches.

    An export can be resumed: call it again with the same codes and ids. Rows that are in the store already
    are compared with the given codes and not written again. If the store holds different codes under these
    ids, it is not changed.

    Parameters
    ----------
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    store : Store
        The store to write to.
    ids : array-like of shape (n,), default=None
        Distinct 64-bit integers or strings, as the store has them. If None, the id of a code is its row
        number.
    batch : int, default=10_000
        Number of rows per batch.

    Returns
    -------
    ExportResult
        The number of rows exported, added, and now in the store.

    Raises
    ------
    StoreError
        If the store holds different codes under these ids, or somebody else removed rows meanwhile.
    StoreConnectionError
        If the database does not respond. The message says how many rows are in the store.

    See Also
    --------
    open_store : Open a store, or create it if it does not exist.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from manihash import create_store, export_codes
    >>> codes = np.arange(200, dtype=np.uint8).reshape(100, 2)
    >>> with create_store(os.path.join(tempfile.mkdtemp(), "codes.faiss"), n_bits=16) as store:
    ...     export_codes(codes, store)
    ...     export_codes(codes, store)
    ExportResult(rows=100, added=100, count=100)
    ExportResult(rows=100, added=0, count=100)
    """
    rows = check_codes(codes, store.n_bits)
    if ids is None and store.id_type is str:
        raise StoreError(f"the ids of {store.url} are strings: pass one id per code")
    row_ids = np.arange(len(rows)) if ids is None else check_ids(ids, len(rows), id_type=store.id_type)
    batch = positive_int(batch, "batch")
    if store.rewrites_on_add:
        batch = max(1, len(rows))
    before = store.count()
    added = _add(store, rows, row_ids, batch)
    count = store.count()
    if count != before + added:  # somebody else is writing to the store
        _check_all_kept(store, rows, row_ids, batch)
    return ExportResult(len(rows), added, count)


def put_codes(store: Store, codes: Codes, ids: Ids) -> None:
    """Write codes under ids that may be in the store already.

    Most stores hold all old rows or all new ones if it is interrupted. LanceDB, Milvus and ClickHouse can be
    without the rows then, and a folder of Qdrant can have some of both, until they are put again.
    """
    driver = store._driver
    with driver.writing():
        if hasattr(driver, "put"):
            driver.put(codes, ids)
            return
        stored = store._fetch(ids)[0]
        if len(stored):
            driver.delete(stored)
        driver.add(codes, ids)


def _add(store: Store, codes: Codes, ids: Ids, batch: int) -> int:
    """Add the missing rows, compare the others, and return the number of rows added."""
    added, done, n = 0, 0, len(codes)
    advance("export", done, n)
    try:
        for i in range(0, n, batch):
            added += store.add_missing(codes[i : i + batch], ids[i : i + batch])
            done = min(i + batch, n)
            advance("export", done, n)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(_resumable(done, n)) from error
    except StoreConnectionError as error:
        raise StoreConnectionError(f"{error}; {_resumable(done, n)}") from error
    return added


def _check_all_kept(store: Store, codes: Codes, ids: Ids, batch: int) -> None:
    """Raise if rows that were exported are not in the store any more, or hold other codes."""
    parts = (slice(i, i + batch) for i in range(0, len(codes), batch))
    missing = sum(int(store._missing(codes[part], ids[part]).sum()) for part in parts)
    if missing:
        raise StoreError(
            f"{missing:,} of {len(codes):,} rows are not in {store.url} after the export: somebody else is "
            "removing rows. Export again when they have finished"
        )


def _resumable(done: int, n: int) -> str:
    return f"{done:,} of {n:,} rows are in the store; run the same export again to resume it"
