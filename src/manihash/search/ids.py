"""Checks of ids, and filters that restrict a query to some rows."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked
from manihash.search.segments import Segment
from manihash.search.string_ids import are_strings, check_strings, shown_id, string_array
from manihash.types import Ids, Ints, Mask

_log = logging.getLogger(__name__)

Filter = ArrayLike | Iterable[int] | Iterable[str] | None

LARGEST_ID = 2**63 - 1


def check_ids(ids: ArrayLike, n: int | None = None, *, id_type: type | None = None) -> Ids:
    """Return the ids as int64 or, if they are strings, as objects.

    Raise unless they are distinct integers or distinct strings: n of them if n is given, and of the type
    ``id_type``, int or str, if it is given.
    """
    array = _as_array(ids)
    if not array.size:
        array = array.reshape(-1).astype(object if id_type is str else np.int64)
    strings = array.dtype == object
    if array.ndim != 1 or array.dtype.kind not in "iuO" or (n is not None and len(array) != n):
        expected = (
            "a 1-D array of integers or strings" if n is None else f"{n} integers or strings, one per code"
        )
        raise ValueError(
            f"ids must be {expected}, got an array of shape {array.shape} and type "
            f"{'str' if strings else array.dtype}"
        )
    if id_type is not None and strings != (id_type is str):
        kinds = ("integers", "strings") if strings else ("strings", "integers")
        raise ValueError(
            f"the ids of the other rows are {kinds[0]}, got {kinds[1]}: use one type for all rows"
        )
    if strings:
        check_strings(array.tolist())
        return array
    if len(array) and array.max() > LARGEST_ID:
        raise ValueError(f"ids must fit into a signed 64-bit integer, got {array.max()}: use smaller ids")
    if len(np.unique(array)) < len(array):
        values, counts = np.unique(array, return_counts=True)
        most = counts.argmax()
        raise ValueError(
            f"ids must be distinct, but {values[most]} occurs {counts[most]} times: give each code its own id"
        )
    return array.astype(np.int64)


def rows_of_ids(wanted: Ids, ids: ArrayLike, n: int) -> Ints:
    """The positions of wanted ids among n others; raise if one is not among them."""
    given = check_ids(ids, n, id_type=str if are_strings(wanted) else int)
    order = np.argsort(given)
    place = np.searchsorted(given, wanted, sorter=order)
    rows = order[np.minimum(place, n - 1)]
    missing = wanted[given[rows] != wanted]
    if len(missing):
        raise ValueError(
            f"{len(missing):,} ids have no vector, such as {shown_id(missing[0])}: give all of them"
        )
    return rows


def is_in(ids: Ids, others: Ids) -> Mask:
    """Whether each id is one of others, as ``np.isin``, which is slow for strings."""
    if not are_strings(ids):
        return np.isin(ids, others)
    known = set(others.tolist())
    return np.fromiter((value in known for value in ids.tolist()), np.bool_, len(ids))


def next_id_after(ids: Ids, next_id: int) -> int:
    """The next unused integer after rows with these ids were added; strings use none."""
    return next_id if are_strings(ids) else max(next_id, 1 + int(ids.max(initial=-1)))


def next_ids(next_id: int, n: int) -> Ids:
    """The n unused integers from ``next_id`` on; raise if there are not as many."""
    if next_id + n > LARGEST_ID:
        raise ValueError(f"no free ids are left after {next_id - 1}: give the ids of new rows")
    return np.arange(next_id, next_id + n)


def _as_array(ids: Any) -> NDArray[Any]:
    """Ids as an array, strings as objects; raise for a mixture of types, which numpy turns into strings."""
    check_unmasked(ids, "ids")
    first = ids[0] if isinstance(ids, list | tuple) and ids else None
    array = np.array(ids, object) if isinstance(first, str) else np.asarray(ids)
    if array.dtype.kind in "US" and not hasattr(ids, "dtype"):
        array = np.array(ids, object)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype != object or not array.size:
        return array
    kinds = {type(value) for value in array.flat}
    if all(issubclass(kind, str) for kind in kinds):
        return string_array(map(str, array.flat)).reshape(array.shape)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return np.array(array.tolist())
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise ValueError(
        f"ids must be all integers or all strings, got {names}: convert them, for example with map(str, ids)"
    )


def filter_masks(segments: Sequence[Segment], filter: Filter) -> list[Mask | None]:
    """For each segment the mask (size,) of the ranks that the filter selects; None selects all."""
    if filter is None:
        return [None] * len(segments)
    selected = _selected(filter, strings=segments[0].buckets.has_string_ids)
    if selected.dtype == np.bool_:
        n = sum(map(len, segments))
        if selected.shape != (n,):
            raise ValueError(
                f"got a boolean filter of shape {selected.shape} for an index of {n} rows: "
                "pass one boolean per row, in ascending order of id, or the ids to select"
            )
        if len(segments) == 1 and segments[0].live is None:
            return [selected]
        selected = all_ids(segments)[selected]
    masks: list[Mask | None] = []
    known = np.zeros(len(selected), np.bool_)
    for segment in segments:
        rank, present = segment.locate(selected)
        mask = np.zeros(segment.buckets.size, np.bool_)
        mask[rank[present]] = True
        known |= present
        masks.append(mask)
    if not known.all():
        _log.warning("%d of %d ids of the filter are not in the index", int((~known).sum()), len(known))
    return masks


def selected_rows(segments: Sequence[Segment], masks: Sequence[Mask | None]) -> int:
    """Number of rows that the masks of ``filter_masks`` select."""
    return sum(
        len(segment) if mask is None else int(np.count_nonzero(mask))
        for segment, mask in zip(segments, masks, strict=True)
    )


def all_ids(segments: Sequence[Segment]) -> Ids:
    """Ids of all rows of the segments, ascending."""
    if len(segments) == 1:
        return segments[0].ids()
    return np.sort(np.concatenate([segment.ids() for segment in segments]))


def _selected(filter: Any, *, strings: bool) -> NDArray[Any]:
    """The filter as an array of booleans or of ids, which must be of the type of the ids of the index."""
    given = _as_array(list(filter) if isinstance(filter, set | frozenset | range) else filter)
    if given.dtype == np.bool_:
        return given
    if given.ndim == 1 and not given.size:
        return np.empty(0, object if strings else np.int64)
    if given.ndim == 1 and (given.dtype == object if strings else given.dtype.kind in "iu"):
        if given.dtype == np.uint64:  # larger ids would become negative in int64, and no row has them
            given = given[given <= LARGEST_ID]
        return given if strings else given.astype(np.int64)
    kind = "strings" if given.dtype == object else given.dtype
    expected = "strings" if strings else "integers"
    raise ValueError(
        f"filter must be a set of ids or one boolean per row, got an array of shape {given.shape} and type "
        f"{kind}: the ids are {expected}"
    )
