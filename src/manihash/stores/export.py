"""Codes into a store, in batches; an export that was cut off goes on where it stopped."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.progress import advance
from manihash.search.ids import check_ids
from manihash.stores._store import Ints, Store, StoreDown, StoreError
from manihash.types import Codes


@dataclass(frozen=True)
class Exported:
    """What an export did."""

    rows: int
    added: int
    """The others were in the store already, with the same codes."""
    count: int
    """Rows that the store holds now, those of others among them."""


def export_codes(
    codes: ArrayLike, store: Store, ids: ArrayLike | None = None, batch: int = 10_000
) -> Exported:
    """Put codes into a store; without ``ids`` a code's id is its position.

    Rows go in in order, so those already there are the first ones: the first missing one is found by halving,
    and the work goes on one batch before it, whose rows are compared code by code. A store that holds other
    codes under these ids is left as it is, with an error. In the end the store's count must have grown by
    what was added.
    """
    rows = check_codes(codes, store.n_bits)
    numbers = np.arange(len(rows), dtype=np.int64) if ids is None else check_ids(ids, len(rows))
    batch = positive_int(batch, "batch")
    if store.writes_whole:
        batch = max(1, len(rows))
    before = store.count()
    start = max(0, _first_missing(store, numbers) - batch) if before else 0
    added = _add(store, rows, numbers, start, batch)
    if store.count() < len(rows):  # rows before the start are gone: somebody deleted some
        added += _add(store, rows, numbers, 0, batch)
    count = store.count()
    if count != before + added:
        raise StoreError(
            f"{store.url} held {before:,} rows, {added:,} were added, and it holds {count:,}: somebody else "
            "writes to it too. Export again when they are done"
        )
    return Exported(len(rows), added, count)


def _first_missing(store: Store, ids: Ints) -> int:
    """The position of the first id that is not held, if those held come first."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if store.has(ids[middle : middle + 1])[0]:
            low = middle + 1
        else:
            high = middle
    return low


def _add(store: Store, codes: Codes, ids: Ints, start: int, batch: int) -> int:
    """Add what is missing from a row on; say how far it came where it is cut off."""
    added, done, n = 0, start, len(codes)
    advance("export", done, n)
    try:
        for i in range(start, n, batch):
            added += store.add_missing(codes[i : i + batch], ids[i : i + batch])
            done = min(i + batch, n)
            advance("export", done, n)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(_goes_on(done, n)) from error
    except StoreDown as error:
        raise StoreDown(f"{error}; {_goes_on(done, n)}") from error
    return added


def _goes_on(done: int, n: int) -> str:
    return f"{done:,} of {n:,} rows are in the store, and the same export goes on from there"
