"""Distinct codes, each with the list of its rows.

Rows are known by rank, their place in ascending order of id. The distinct codes stand in order of their
lowest rank, so that of codes equally far from a query the first one holds the lowest id.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import words
from manihash.search.offsets import FewRepeat, Ints, Offsets, Ranks, offsets
from manihash.types import Codes

MOST_ROWS = 2**32 - 1


class DamagedIndexError(ValueError):
    """An index whose lists point where no rows are, or whose file is not whole."""


@dataclass(frozen=True, eq=False)
class Buckets:
    """u distinct codes of n rows; the ranks of bucket i are rows[offset i : offset i + 1], ascending."""

    codes: Codes  # (u, b), aligned
    offsets: Offsets | FewRepeat  # u + 1
    rows: Ranks  # (n,)
    ids: Ints | Ranks | None  # of all ranks, ascending; None where a rank is its id
    size: int  # how many ranks there are: n, or more where some rows are left out

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def _single(self) -> bool:
        """Whether every row has a code of its own: the offsets then need not be read."""
        return len(self.codes) == len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes held, in memory or in a mapped file."""
        arrays = (self.codes, self.offsets, self.rows, self.ids)
        return sum(array.nbytes for array in arrays if array is not None)

    def counts(self, position: NDArray[Any]) -> Ints:
        """How many rows have the codes at these positions, any shape."""
        if self._single:
            return np.ones(position.shape, np.int64)
        return self.offsets.at(position + 1) - self.offsets.at(position)

    def expand(self, position: Ints, take: Ints | None = None) -> tuple[Ints, Ints]:
        """Ranks of all rows, or the ``take`` lowest, of each code asked for: which of these, and the rank."""
        if self._single:
            which = np.arange(len(position)) if take is None else np.flatnonzero(take)
            at = position[which]
        else:
            count = self.counts(position) if take is None else take
            which = np.repeat(np.arange(len(position)), count)
            start = self.offsets.at(position) - (np.cumsum(count) - count)
            at = start[which] + np.arange(len(which))
        rank = self.rows[at].astype(np.int64)
        self.check_ranks(rank)
        return which, rank

    def check_ranks(self, rank: NDArray[Any]) -> None:
        """Raise where a rank points past the rows, which only a damaged file can make it do."""
        if rank.size and rank.max() >= self.size:
            raise DamagedIndexError(
                f"the index lists row {int(rank.max())} of {self.size}: its file is damaged, build it anew"
            )

    def names(self, rank: Ints) -> Ints:
        """The ids of ranks, any shape."""
        return rank if self.ids is None else self.ids[rank].astype(np.int64)

    def firsts(self, position: Ints) -> Ranks:
        """The lowest ranks that have the codes at these positions."""
        return self.rows[self.offsets.at(position)]

    def bucket_of_listed(self) -> Ints:
        """The position of the code of each of ``rows``, (n,)."""
        return np.repeat(np.arange(len(self.codes)), self.counts(np.arange(len(self.codes))))

    def ranks(self, ids: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The ranks of ids, and whether there is such an id (where not, the rank means nothing)."""
        if self.ids is None:
            return ids, (ids >= 0) & (ids < self.size)
        kind = np.iinfo(self.ids.dtype)
        rank = np.searchsorted(self.ids, np.clip(ids, kind.min, kind.max).astype(self.ids.dtype))
        rank[rank == self.size] = 0
        return rank, (self.ids[rank] == ids) if self.size else np.zeros(len(ids), np.bool_)

    def of_rows(self) -> tuple[Codes, Ints]:
        """The code of each row and its id, rows in ascending order of id: (n, b), (n,)."""
        self.check_ranks(self.rows)
        order = np.argsort(self.rows, kind="stable")
        return self.codes[self.bucket_of_listed()[order]], self.names(self.rows[order].astype(np.int64))

    def only(self, mask: NDArray[np.bool_]) -> "Buckets":
        """The rows whose ranks the mask (size,) keeps, under the same ranks and ids."""
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


def build(codes: Codes, ids: Ints | None) -> Buckets:
    """Group n codes (n, b) by value; ids ascending, or None for 0 … n - 1."""
    n = len(codes)
    if n > MOST_ROWS:
        raise ValueError(f"{n} codes came, an index holds at most {MOST_ROWS}: cut them into several indexes")
    names = _narrow(ids)
    word = words(codes)
    order = np.argsort(word[:, 0], kind="stable") if word.shape[1] == 1 else np.lexsort(word.T)
    ordered = word[order]
    new = np.ones(n, np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    start = np.flatnonzero(new)
    count = np.diff(start, append=n)
    sorted_rows = order.astype(np.uint32)
    by_value = Buckets(codes[order[start]], offsets(count), sorted_rows, names, n)
    first = np.argsort(order[start], kind="stable")
    rows = by_value.expand(first)[1].astype(np.uint32)
    return Buckets(aligned(by_value.codes[first]), offsets(count[first]), rows, names, n)


def _narrow(ids: Ints | None) -> Ints | Ranks | None:
    """Ascending ids in as few bytes as hold them: none for 0 … n - 1, four where they are below 2^32."""
    if ids is None or (len(ids) and ids[0] == 0 and ids[-1] == len(ids) - 1):
        return None
    return ids.astype(np.uint32) if len(ids) and ids[0] >= 0 and ids[-1] < 2**32 else ids


def aligned_bytes(width: int) -> int:
    """Bytes that a code of so many bytes is kept in: four, or whole words, which FAISS compares fast."""
    return 4 if width <= 4 else -(-width // 8) * 8


def aligned(codes: Codes) -> Codes:
    """The codes with zero bytes behind them, as they are kept."""
    width = aligned_bytes(codes.shape[1])
    if width == codes.shape[1]:
        return np.ascontiguousarray(codes)
    padded = np.zeros((len(codes), width), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded
