"""Ids and filters as users give them."""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.search.living import Living
from manihash.search.parts import Mask
from manihash.types import Ids

_log = logging.getLogger(__name__)

Ints = NDArray[np.int64]
Filter = ArrayLike | Iterable[int] | None

LARGEST_ID = 2**63 - 1


def check_ids(ids: ArrayLike, n: int | None = None) -> Ids:
    """Return the ids as int64; raise unless they are distinct integers, n of them if n is given."""
    array = np.asarray(ids)
    if not array.size:
        array = array.reshape(-1).astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (n is not None and len(array) != n):
        expected = "a 1-D array of integers" if n is None else f"{n} integers, one per code"
        raise ValueError(
            f"ids must be {expected}, got an array of shape {array.shape} and type {array.dtype}"
        )
    if len(array) and array.max() > LARGEST_ID:
        raise ValueError(f"ids must fit into a signed 64-bit integer, got {array.max()}: use smaller ids")
    if len(np.unique(array)) < len(array):
        values, counts = np.unique(array, return_counts=True)
        most = counts.argmax()
        raise ValueError(
            f"ids must be distinct, but {values[most]} occurs {counts[most]} times: give each code its own id"
        )
    return array.astype(np.int64)


def check_there(living: Living, ids: Ints, wanted: bool) -> None:
    """Raise where an id is not in the index though it should be, or is though it should not."""
    wrong = living.there(ids) != wanted
    if wrong.any():
        said = "is not in the index" if wanted else "is in the index already: use update()"
        more = int(wrong.sum()) - 1
        others = f" (and {more} others)" if more else ""
        raise ValueError(f"id {int(ids[wrong][0])}{others} {said}. Nothing was changed")


def masks(living: Living, filter: Filter) -> list[Mask | None]:
    """For each part of the index which of its ranks the filter keeps; None for all."""
    parts = living.parts()
    if filter is None:
        return [None] * len(parts)
    kept = _kept(filter)
    if kept.dtype == np.bool_:
        if kept.shape != (len(living),):
            raise ValueError(
                f"a filter of shape {kept.shape} came for an index of {len(living)} rows: "
                "give one boolean for each of its ids in ascending order, or the ids to keep"
            )
        if len(parts) == 1 and parts[0].alive is None:
            return [kept]
        kept = living.ids()[kept]
    found: list[Mask | None] = []
    known = np.zeros(len(kept), np.bool_)
    for part in parts:
        rank, there = part.holds(kept)
        mask = np.zeros(part.buckets.size, np.bool_)
        mask[rank[there]] = True
        known |= there
        found.append(mask)
    if not known.all():
        _log.warning("%d of %d ids of the filter are not in the index", int((~known).sum()), len(known))
    return found


def _kept(filter: Any) -> NDArray[Any]:
    given = np.asarray(list(filter) if isinstance(filter, set | frozenset | range) else filter)
    if given.dtype == np.bool_ or (given.ndim == 1 and given.dtype.kind in "iu"):
        if given.dtype == np.uint64:  # ids that no row can have would come out negative
            given = given[given <= np.iinfo(np.int64).max]
        return given if given.dtype == np.bool_ else given.astype(np.int64)
    if given.ndim == 1 and not given.size:
        return np.empty(0, np.int64)
    raise ValueError(
        f"a filter is a set of ids or one boolean for each row, not {given.shape} of {given.dtype}"
    )
