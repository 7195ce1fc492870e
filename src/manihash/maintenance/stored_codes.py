"""Stored codes after an update of their model: rows whose code changed are replaced, and no others.

Every step compares what is stored with the codes of the updated model, so a run that was interrupted at any
moment is completed by the same call, with the same result.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from manihash.files.lineage import model_id
from manihash.hashers._hasher import Hasher
from manihash.search.hamming_index import HammingIndex
from manihash.search.index import Index
from manihash.stores.export import put_codes
from manihash.stores.store import Store
from manihash.types import Codes, Ids, Mask

_CHECKED = 1_000


def check_origin(codes: Any, X: Any, old: Hasher, new: Hasher, name: str) -> None:
    """Raise unless stored codes (n, bytes) are codes of the rows of X by the old or the new model."""
    n = X.shape[0]
    if len(codes) != n:
        raise ValueError(
            f"{name} holds {len(codes):,} codes, but there are {n:,} old vectors: give one per code"
        )
    rows = _some_rows(n)
    _compare(np.asarray(codes[rows]), rows, X, old, new, name)


def check_codes_of(codes: Codes, rows: Ids, X: Any, old: Hasher, new: Hasher, name: str) -> None:
    """Raise unless stored codes (m, bytes) are codes of these rows of X by the old or the new model."""
    some = _some_rows(len(rows))
    _compare(np.asarray(codes[some]), rows[some], X, old, new, name)


def check_store(store: Store, ids: Ids, X: Any, old: Hasher, new: Hasher) -> None:
    """Raise unless the codes of ids in a store are codes of the rows of X by the old or the new model.

    Rows may be missing, as after an interrupted update, but not all of them.
    """
    if store.n_bits != new.n_bits_:
        raise ValueError(
            f"{store.url} holds codes of {store.n_bits} bits, but the model makes {new.n_bits_} bits: "
            "give the store of this model"
        )
    rows = _some_rows(X.shape[0])
    rows = rows[store.contains(ids[rows])]
    if not len(rows):
        raise ValueError(f"{store.url} has none of the ids of the old vectors: give their ids")
    _compare(store.get(ids[rows]), rows, X, old, new, store.url)


def _some_rows(n: int) -> Ids:
    return np.unique(np.linspace(0, n - 1, min(n, _CHECKED)).astype(np.int64))


def _compare(stored: Codes, rows: Ids, X: Any, old: Hasher, new: Hasher, name: str) -> None:
    """Raise unless stored codes are those of some rows of X by one of two models."""
    some = np.stack([np.asarray(X[int(i) : int(i) + 1])[0] for i in rows])
    known = (stored == old.encode(some)).all(axis=1) | (stored == new.encode(some)).all(axis=1)
    if not known.all():
        raise ValueError(
            f"{name}: the code of row {int(rows[~known][0])} is not that of the model, and so are "
            f"{int((~known).sum())} of {len(rows)} compared rows: give codes and vectors that belong together"
        )


def differences(hasher: Hasher, X: Any, codes: Any) -> Iterator[tuple[slice, Mask, Codes]]:
    """Yield blocks of rows, the mask of those whose stored code differs, and the codes of all of them."""
    start = 0
    for block in hasher.encode_blocks(X):
        part = slice(start, start + len(block))
        yield part, (np.asarray(codes[part]) != block).any(axis=1), block
        start = part.stop


def new_codes(hasher: Hasher, X: Any, codes: Any) -> tuple[Ids, Codes]:
    """Return the rows whose stored code differs from that of the hasher, and their codes."""
    rows, changed = [np.empty(0, np.int64)], [np.empty((0, codes.shape[1]), np.uint8)]
    for part, different, block in differences(hasher, X, codes):
        rows.append(part.start + np.flatnonzero(different))
        changed.append(block[different])
    return np.concatenate(rows), np.concatenate(changed)


def update_index(index: HammingIndex, hasher: Hasher, X: Any, ids: Ids) -> int:
    """Replace the codes in an index that differ from those of the rows of X; return their number.

    An index that holds its model gets the hasher, too.
    """
    order = np.searchsorted(index.ids, ids)
    rows, codes = new_codes(hasher, X, index.codes[order])
    HammingIndex.update(index, codes, ids[rows])
    _adopt(index, hasher)
    return len(rows)


def replace_index(index: HammingIndex, hasher: Hasher, X: Any, ids: Ids) -> int:
    """Make an index hold the codes of all rows of X, and add those that it does not have.

    Return the number of rows added. An index that holds its model gets the hasher, too.
    """
    known = index.contains(ids)
    codes = np.concatenate(list(hasher.encode_blocks(X)))
    HammingIndex.update(index, codes[known], ids[known])
    if not known.all():
        HammingIndex.add(index, codes[~known], ids[~known])
    _adopt(index, hasher)
    return int((~known).sum())


def _adopt(index: HammingIndex, hasher: Hasher) -> None:
    """Record the hasher as the one that made the codes of an index."""
    index.made_by = model_id(hasher)
    if isinstance(index, Index):
        index.hasher = hasher
        index.set_layout(hasher.layout_.with_weight(index.layout.weight))


def update_store(store: Store, hasher: Hasher, X: Any, ids: Ids) -> int:
    """Replace the codes in a store that differ or are missing, block by block; return their number."""
    start = changed = 0
    for block in hasher.encode_blocks(X):
        numbers = ids[start : start + len(block)]
        present = store.contains(numbers)
        different = ~present
        different[present] = (store.get(numbers[present]) != block[present]).any(axis=1)
        if different.any():
            put_codes(store, np.ascontiguousarray(block[different]), numbers[different])
        changed += int(different.sum())
        start += len(block)
    return changed
