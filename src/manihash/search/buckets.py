"""Distinct codes, each with the list of its rows.

A row is known by its rank, which is its position in ascending order of id. The distinct codes are ordered by
their lowest rank: among codes at the same distance from a query, the first one has the row of the lowest id.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import words
from manihash.errors import DamagedIndexError
from manihash.search.ids import StringIds, are_strings
from manihash.types import Codes, Ids, Ints, Mask

Ranks = NDArray[np.uint32]

MAX_ROWS = 2**32 - 1
# With fewer distinct codes per row than this, rows and ids need most of the memory, and the faster form of
# the offsets is used.
_MANY_CODES = 0.75


@dataclass(frozen=True, eq=False)
class DenseOffsets:
    """Start of each code's row list, one number per code, and the end of the last."""

    values: Ranks  # (u + 1,)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes

    def at(self, position: NDArray[Any]) -> Ints:
        """Offsets at code positions of any shape; position u gives the number of rows."""
        return self.values[position].astype(np.int64)

    def spans(self, position: NDArray[Any]) -> tuple[Ints, Ints]:
        """Offsets at code positions and at those after them."""
        return self.at(position), self.at(position + 1)

    def dense(self) -> Ranks:
        """All offsets (u + 1,), as index files store them."""
        return self.values


@dataclass(frozen=True, eq=False)
class SparseOffsets:
    """Offsets if few codes repeat: offset i is i plus the extra rows of the repeated codes before i."""

    n_codes: int  # u
    repeated: Ranks  # (m,): positions of the codes that have several rows, ascending
    extra: Ranks  # (m + 1,): running sum of the rows beyond the first of each repeated code

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.repeated.nbytes + self.extra.nbytes

    def at(self, position: NDArray[Any]) -> Ints:
        """Offsets at code positions of any shape; position u gives the number of rows."""
        before = np.searchsorted(self.repeated, position.astype(np.uint32))
        return position.astype(np.int64) + self.extra[before]

    def spans(self, position: NDArray[Any]) -> tuple[Ints, Ints]:
        """Offsets at code positions and at those after them."""
        asked, start = position.astype(np.uint32), position.astype(np.int64)
        before, after = self.repeated.searchsorted(asked), self.repeated.searchsorted(asked, "right")
        return start + self.extra[before], start + 1 + self.extra[after]

    def dense(self) -> Ranks:
        """All offsets (u + 1,), as index files store them."""
        return self.at(np.arange(self.n_codes + 1)).astype(np.uint32)


def offsets(count: Ints) -> DenseOffsets | SparseOffsets:
    """Offsets of codes with ``count`` (u,) rows each, in the smaller form if most codes have one row."""
    if len(count) <= _MANY_CODES * count.sum():
        return DenseOffsets(_summed(count))
    repeated = np.flatnonzero(count > 1)
    return SparseOffsets(len(count), repeated.astype(np.uint32), _summed(count[repeated] - 1))


def _summed(count: Ints) -> Ranks:
    return np.concatenate([[0], np.cumsum(count)]).astype(np.uint32)


@dataclass(frozen=True, eq=False)
class Buckets:
    """u distinct codes of n rows; the ranks of bucket i are rows[offset i : offset i + 1], ascending."""

    codes: Codes  # (u, b), aligned
    offsets: DenseOffsets | SparseOffsets  # u + 1
    rows: Ranks  # (n,)
    ids: Ids | Ranks | StringIds | None  # of all ranks, ascending; None if the id of a row is its rank
    size: int  # number of ranks: n, or more if rows were filtered out

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_string_ids(self) -> bool:
        """Whether ids are strings; otherwise they are integers."""
        return isinstance(self.ids, StringIds)

    @property
    def is_single(self) -> bool:
        """Whether all rows have distinct codes: the offsets need not be read then."""
        return len(self.codes) == len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes held, in memory or in a mapped file."""
        arrays = (self.codes, self.offsets, self.rows, self.ids)
        return sum(array.nbytes for array in arrays if array is not None)

    def spans(self, position: NDArray[Any]) -> tuple[Ints, Ints]:
        """Start and end of the row lists of the codes at positions of any shape."""
        if self.is_single:
            return position, position + 1
        return self.offsets.spans(position)

    def counts(self, position: NDArray[Any]) -> Ints:
        """Number of rows of the codes at positions of any shape."""
        start, end = self.spans(position)
        return end - start

    def expand(self, position: Ints, take: Ints | None = None) -> tuple[Ints, Ints]:
        """Ranks of the rows of the codes at ``position`` (m,), all or the ``take`` (m,) lowest of each.

        Returns two arrays with one entry per row: the index into ``position``, and the rank.
        """
        if self.is_single:
            which = np.arange(len(position)) if take is None else np.flatnonzero(take)
            at = position[which]
        else:
            start, end = self.spans(position)
            count = end - start if take is None else take
            which = np.repeat(np.arange(len(position)), count)
            at = (start - (count.cumsum() - count))[which] + np.arange(len(which))
        rank = self.rows[at].astype(np.int64)
        self.check_ranks(rank)
        return which, rank

    def check_ranks(self, rank: NDArray[Any]) -> None:
        """Raise if a rank exceeds the number of rows, which is possible only in a damaged file."""
        if rank.size and rank.max() >= self.size:
            raise DamagedIndexError(
                f"the index lists row {int(rank.max())}, but has {self.size} rows: its file is damaged, "
                "build the index again"
            )

    def ids_of(self, rank: Ints) -> Ids:
        """Ids of ranks of any shape."""
        if isinstance(self.ids, StringIds):
            return self.ids.take(rank)
        return rank if self.ids is None else self.ids[rank].astype(np.int64)

    def lowest_ranks(self, position: Ints) -> Ranks:
        """Lowest rank of each of the codes at ``position``."""
        return self.rows[self.offsets.at(position)]

    def code_positions(self) -> Ints:
        """Position of the code of each entry of ``rows``: (n,)."""
        return np.repeat(np.arange(len(self.codes)), self.counts(np.arange(len(self.codes))))

    def ranks_of(self, ids: Ids) -> tuple[Ints, Mask]:
        """Ranks of ids (m,), and whether each id exists; the rank of an unknown id is arbitrary."""
        if self.ids is None:
            return ids, (ids >= 0) & (ids < self.size)
        if isinstance(self.ids, StringIds):
            return self.ids.ranks_of(ids)
        kind = np.iinfo(self.ids.dtype)
        rank = np.searchsorted(self.ids, np.clip(ids, kind.min, kind.max).astype(self.ids.dtype))
        rank[rank == self.size] = 0
        return rank, (self.ids[rank] == ids) if self.size else np.zeros(len(ids), np.bool_)

    def by_row(self) -> tuple[Codes, Ids]:
        """Code (n, b) and id (n,) of each row, in ascending order of id."""
        self.check_ranks(self.rows)
        order = np.argsort(self.rows, kind="stable")
        return self.codes[self.code_positions()[order]], self.ids_of(self.rows[order].astype(np.int64))

    def filtered(self, mask: Mask) -> "Buckets":
        """Buckets of the rows whose ranks the mask (size,) selects, with the same ranks and ids."""
        self.check_ranks(self.rows)
        kept = mask[self.rows]
        before = np.concatenate([[0], np.cumsum(kept)])[self.offsets.dense()]
        count, rows = np.diff(before), self.rows[kept]
        left = np.flatnonzero(count)
        codes, count = self.codes[left], count[left]
        order = np.argsort(rows[before[left]], kind="stable") if len(left) else left
        smaller = replace(self, codes=codes, offsets=offsets(count), rows=rows)
        ordered = smaller.expand(order)[1].astype(np.uint32)
        return replace(self, codes=codes[order], offsets=offsets(count[order]), rows=ordered)


def build(codes: Codes, ids: Ids | None) -> Buckets:
    """Buckets of n codes (n, b); ids are ascending, or None for 0 … n - 1."""
    n = len(codes)
    if n > MAX_ROWS:
        raise ValueError(f"got {n} codes, but an index holds at most {MAX_ROWS}: split them into indexes")
    narrow = _narrow(ids)
    word = words(codes)
    order = np.argsort(word[:, 0], kind="stable") if word.shape[1] == 1 else np.lexsort(word.T)
    ordered = word[order]
    new = np.ones(n, np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    start = np.flatnonzero(new)
    count = np.diff(start, append=n)
    by_value = Buckets(codes[order[start]], offsets(count), order.astype(np.uint32), narrow, n)
    first = np.argsort(order[start], kind="stable")
    rows = by_value.expand(first)[1].astype(np.uint32)
    return Buckets(aligned(by_value.codes[first]), offsets(count[first]), rows, narrow, n)


def merge(rows: list[tuple[Codes, Ids]]) -> Buckets:
    """Buckets of several sets of rows, given as codes (n, b) and ids (n,) in any order."""
    codes, ids = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.argsort(ids, kind="stable")
    return build(codes[order], ids[order])


def _narrow(ids: Ids | None) -> Ids | Ranks | StringIds | None:
    """Ascending ids in the fewest bytes: None for 0 … n - 1, four bytes each if all are below 2^32."""
    if ids is not None and are_strings(ids):
        return StringIds.of(ids)
    if ids is None or (len(ids) and ids[0] == 0 and ids[-1] == len(ids) - 1):
        return None
    return ids.astype(np.uint32) if len(ids) and ids[0] >= 0 and ids[-1] < 2**32 else ids


def aligned_bytes(width: int) -> int:
    """Bytes that store a code of ``width`` bytes: four or a multiple of eight, which FAISS compares fast."""
    return 4 if width <= 4 else -(-width // 8) * 8


def aligned(codes: Codes) -> Codes:
    """Codes padded with zero bytes to ``aligned_bytes``, contiguous."""
    width = aligned_bytes(codes.shape[1])
    if width == codes.shape[1]:
        return np.ascontiguousarray(codes)
    padded = np.zeros((len(codes), width), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded
