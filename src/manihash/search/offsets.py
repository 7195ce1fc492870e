"""Where the rows of each distinct code begin, kept in as few bytes as the codes allow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ranks = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Offsets:
    """One number for each code, and the end."""

    every: Ranks  # (u + 1,)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.every.nbytes

    def at(self, position: NDArray[Any]) -> Ints:
        """Offsets of codes, any shape; that of code u is the number of rows."""
        return self.every[position].astype(np.int64)

    def dense(self) -> Ranks:
        """All of them, as a file has them."""
        return self.every


@dataclass(frozen=True, eq=False)
class FewRepeat:
    """Offsets where few codes have several rows: code i begins at i, and as many rows later as repeated."""

    codes: int  # u
    repeated: Ranks  # (m,): positions of the codes that have several rows, ascending
    more: Ranks  # (m + 1,): how many rows beyond their first the repeated ones before have

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.repeated.nbytes + self.more.nbytes

    def at(self, position: NDArray[Any]) -> Ints:
        """Offsets of codes, any shape; that of code u is the number of rows."""
        before = np.searchsorted(self.repeated, position.astype(np.uint32))
        return position.astype(np.int64) + self.more[before]

    def dense(self) -> Ranks:
        """All of them, as a file has them."""
        return self.at(np.arange(self.codes + 1)).astype(np.uint32)


# Where there are fewer codes for each row, rows and ids outweigh the offsets, which are then kept for speed.
_MANY_CODES = 0.75


def offsets(count: Ints) -> Offsets | FewRepeat:
    """Offsets of codes that have so many rows each; in the short form where most rows have their own code."""
    if len(count) <= _MANY_CODES * count.sum():
        return Offsets(_summed(count))
    repeated = np.flatnonzero(count > 1)
    return FewRepeat(len(count), repeated.astype(np.uint32), _summed(count[repeated] - 1))


def _summed(count: Ints) -> Ranks:
    return np.concatenate([[0], np.cumsum(count)]).astype(np.uint32)
