"""Codes that come and go: large buckets that do not change, and a small dictionary of what came since.

A row added is put into the dictionary, a row removed is struck from a mask; both are read beside the buckets,
and taken up into new ones when they have grown.
"""

import threading
from math import isqrt

import numpy as np

from manihash.codes import n_bytes
from manihash.search.buckets import Buckets, Ints, aligned_bytes, build
from manihash.search.engines import engine
from manihash.search.parts import Mask, Part
from manihash.search.routes import Routes
from manihash.types import Codes

# The dictionary may grow to this many times the root of the number of rows: reading it after a change costs
# as much as it holds, taking it up as much as there are rows.
_RECENT = 16


class Living:
    """The rows of an index, in one or two parts; ids are checked by the caller."""

    def __init__(self, buckets: Buckets, n_bits: int, next_id: int = 0) -> None:
        self._n_bits, self._engine = n_bits, engine()
        self._base = self._part(buckets)
        self._recent: dict[int, bytes] = {}
        self._recent_part: Part | None = None
        self._lock = threading.Lock()
        self.next_id = max(next_id, self._base.next_id)

    def __len__(self) -> int:
        return len(self._base) + len(self._recent)

    def parts(self) -> list[Part]:
        """What is to be searched, the large part first."""
        if not self._recent:
            return [self._base]
        with self._lock:
            if self._recent_part is None:
                self._recent_part = self._part(self._recent_buckets())
            return [self._base, self._recent_part]

    def ids(self) -> Ints:
        """The ids of all rows, ascending."""
        parts = self.parts()
        return parts[0].ids() if len(parts) == 1 else np.sort(np.concatenate([p.ids() for p in parts]))

    def there(self, ids: Ints) -> Mask:
        """Whether each id is in the index."""
        recent = np.fromiter((i in self._recent for i in ids.tolist()), np.bool_, len(ids))
        return self._base.holds(ids)[1] | recent

    def put(self, codes: Codes, ids: Ints) -> None:
        """Rows of aligned codes under ids that are not there."""
        if not len(ids):
            return
        self.next_id = max(self.next_id, 1 + int(ids.max()))
        if len(self._recent) + len(ids) > self._limit():
            self._settle(codes, ids)
        else:
            self._recent.update(zip(ids.tolist(), map(bytes, codes), strict=True))
        self._recent_part = None

    def drop(self, ids: Ints) -> None:
        """Take out rows that are there."""
        old = [i for i in ids.tolist() if self._recent.pop(i, None) is not None]
        rank, there = self._base.holds(np.setdiff1d(ids, np.array(old, np.int64)))
        if there.any():
            self._base = self._base.without(rank[there])
        self._recent_part = None
        if 2 * len(self._base) < self._base.buckets.size:
            self._settle()

    def settled(self) -> Buckets:
        """All rows in one set of buckets."""
        if not self._recent and self._base.alive is None:
            return self._base.buckets
        return self._merged([part.living().of_rows() for part in self.parts()])

    def nbytes(self) -> int:
        """Bytes of codes, lists and ids; tables for radius look-up are not among them."""
        return sum(part.buckets.nbytes for part in self.parts())

    def table_nbytes(self) -> int:
        """Bytes of the tables that radius look-up made."""
        return sum(part.routes.nbytes for part in self.parts())

    def _limit(self) -> int:
        return _RECENT * isqrt(1 + self._base.buckets.size)

    def _settle(self, codes: Codes | None = None, ids: Ints | None = None) -> None:
        rows = [part.living().of_rows() for part in self.parts()]
        if codes is not None and ids is not None:
            rows.append((codes, ids))
        self._base = self._part(self._merged(rows))
        self._recent = {}

    def _part(self, buckets: Buckets) -> Part:
        return Part(buckets, Routes(buckets.codes, self._n_bits, self._engine))

    def _recent_buckets(self) -> Buckets:
        width = aligned_bytes(n_bytes(self._n_bits))
        codes = np.frombuffer(b"".join(self._recent.values()), np.uint8).reshape(-1, width)
        return self._merged([(codes, np.array(list(self._recent), np.int64))])

    def _merged(self, rows: list[tuple[Codes, Ints]]) -> Buckets:
        codes, ids = (np.concatenate(column) for column in zip(*rows, strict=True))
        order = np.argsort(ids, kind="stable")
        return build(codes[order], ids[order])
