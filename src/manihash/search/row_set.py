"""The rows of an index, which can be added, removed and updated.

One large segment does not change. Added rows go into a dictionary, of which a small second segment is built
when a query needs it; removed rows are masked out. Both are merged into a new large segment when they have
grown.
"""

import threading
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike

from manihash.codes import check_codes, n_bytes
from manihash.search.buckets import Buckets, aligned, aligned_bytes, merge
from manihash.search.ids import LARGEST_ID, all_ids, check_ids
from manihash.search.routes import CodeFinder
from manihash.search.scanners import default_scanner
from manihash.search.segments import Segment
from manihash.types import Codes, Ids

# The dictionary may grow to this many times the square root of the number of rows: the first query after a
# change takes time in proportion to the dictionary, and a merge in proportion to the number of rows.
_RECENT = 16


class RowSet:
    """Rows of codes of n_bits under distinct ids."""

    def __init__(self, buckets: Buckets, n_bits: int, next_id: int = 0) -> None:
        self.n_bits = n_bits
        self._scanner = default_scanner()
        self._base = self._segment(buckets)
        self._recent: dict[int, bytes] = {}  # from id to aligned code
        self._recent_segment: Segment | None = None
        self._lock = threading.Lock()
        self._next_id = max(next_id, self._base.next_id)

    def __len__(self) -> int:
        return len(self._base) + len(self._recent)

    @property
    def ids(self) -> Ids:
        """Ids of all rows, ascending: ndarray of shape (n,), int64."""
        return all_ids(self._segments())

    @property
    def codes(self) -> Codes:
        """Codes of all rows in the order of ``ids``: ndarray of shape (n, ceil(n_bits / 8)), uint8."""
        return self._merged().by_row()[0][:, : n_bytes(self.n_bits)]

    @property
    def distinct_codes(self) -> int:
        """Number of distinct codes."""
        segments = self._segments()
        buckets = segments[0].live_buckets() if len(segments) == 1 else self._merged()
        return len(buckets.codes)

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add rows.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            Packed codes.
        ids : array-like of shape (n,), default=None
            Distinct integers that are not in the index. By default the next unused ids.

        Returns
        -------
        ndarray of shape (n,), int64
            Ids of the added rows.
        """
        new = self._checked(codes, "codes")
        if ids is None:
            start = self._next_id
            if start + len(new) > LARGEST_ID:
                raise ValueError(f"no free ids are left after {start - 1}: pass ids")
            given = np.arange(start, start + len(new))
        else:
            given = check_ids(ids, len(new))
            self._check_presence(given, expected=False)
        self._insert(new, given)
        return given

    def remove(self, ids: ArrayLike) -> None:
        """Remove rows; if an id is not in the index, nothing is removed.

        Parameters
        ----------
        ids : array-like of int
            Distinct ids of rows in the index.
        """
        given = check_ids(ids)
        self._check_presence(given, expected=True)
        self._delete(given)

    def update(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Replace the codes of rows; if an id is not in the index, nothing is changed.

        Parameters
        ----------
        codes : array-like of shape (n, ceil(n_bits / 8)), uint8
            New packed codes.
        ids : array-like of shape (n,)
            Distinct ids of rows in the index.
        """
        new = self._checked(codes, "codes")
        given = check_ids(ids, len(new))
        self._check_presence(given, expected=True)
        self._delete(given)
        self._insert(new, given)

    def _segments(self) -> list[Segment]:
        """The segments to search, the large one first."""
        if not self._recent:
            return [self._base]
        with self._lock:
            if self._recent_segment is None:
                width = aligned_bytes(n_bytes(self.n_bits))
                codes = np.frombuffer(b"".join(self._recent.values()), np.uint8).reshape(-1, width)
                buckets = merge([(codes, np.array(list(self._recent), np.int64))])
                self._recent_segment = self._segment(buckets)
            return [self._base, self._recent_segment]

    def _segment(self, buckets: Buckets) -> Segment:
        return Segment(buckets, CodeFinder(buckets.codes, self.n_bits, self._scanner))

    def _merged(self, *more: tuple[Codes, Ids]) -> Buckets:
        """Buckets of all rows, and of more rows given as aligned codes and ids."""
        if not more and not self._recent and self._base.live is None:
            return self._base.buckets
        return merge([*(segment.live_buckets().by_row() for segment in self._segments()), *more])

    def _insert(self, codes: Codes, ids: Ids) -> None:
        """Add rows of aligned codes under new ids."""
        if not len(ids):
            return
        self._next_id = max(self._next_id, 1 + int(ids.max()))
        if len(self._recent) + len(ids) > _RECENT * isqrt(1 + self._base.buckets.size):
            self._compact((codes, ids))
        else:
            self._recent.update(zip(ids.tolist(), map(bytes, codes), strict=True))
        self._recent_segment = None

    def _delete(self, ids: Ids) -> None:
        """Remove rows that are in the index."""
        others = np.array([i for i in ids.tolist() if self._recent.pop(i, None) is None], np.int64)
        rank, present = self._base.locate(others)
        if present.any():
            self._base = self._base.without(rank[present])
        self._recent_segment = None
        if 2 * len(self._base) < self._base.buckets.size:
            self._compact()

    def _compact(self, *more: tuple[Codes, Ids]) -> None:
        """Merge all rows, and more rows, into a new large segment."""
        self._base = self._segment(self._merged(*more))
        self._recent = {}

    def _check_presence(self, ids: Ids, *, expected: bool) -> None:
        """Raise unless all ids are in the index, or unless none is."""
        recent = np.fromiter((i in self._recent for i in ids.tolist()), np.bool_, len(ids))
        wrong = (self._base.locate(ids)[1] | recent) != expected
        if wrong.any():
            fault = "is not in the index" if expected else "is already in the index: use update()"
            more = int(wrong.sum()) - 1
            others = f" (and {more} others)" if more else ""
            raise ValueError(f"id {int(ids[wrong][0])}{others} {fault}. Nothing was changed")

    def _checked(self, codes: ArrayLike, name: str) -> Codes:
        """The codes, checked and aligned."""
        return aligned(check_codes(codes, self.n_bits, name))
