"""Checks of ids, and filters that restrict a query to some rows."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.search.segments import Segment
from manihash.types import Ids, Mask

_log = logging.getLogger(__name__)

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


def filter_masks(segments: Sequence[Segment], filter: Filter) -> list[Mask | None]:
    """For each segment the mask (size,) of the ranks that the filter selects; None selects all."""
    if filter is None:
        return [None] * len(segments)
    selected = _selected(filter)
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


def _selected(filter: Any) -> NDArray[Any]:
    """The filter as an array of booleans or of int64 ids."""
    given = np.asarray(list(filter) if isinstance(filter, set | frozenset | range) else filter)
    if given.dtype == np.bool_ or (given.ndim == 1 and given.dtype.kind in "iu"):
        if given.dtype == np.uint64:  # larger ids would become negative in int64, and no row has them
            given = given[given <= LARGEST_ID]
        return given if given.dtype == np.bool_ else given.astype(np.int64)
    if given.ndim == 1 and not given.size:
        return np.empty(0, np.int64)
    raise ValueError(
        f"filter must be a set of ids or one boolean per row, got an array of shape {given.shape} and type "
        f"{given.dtype}"
    )
