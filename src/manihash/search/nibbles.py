"""A fast scan of codes whose distances are sums over half bytes: signs, and fields of at most 4 bits.

FAISS's ``IndexPQFastScan`` adds up tables of 16 small whole numbers in registers. Tables of a query are
rounded to whole numbers from 0 to 255 here, so that FAISS, which rounds tables itself, rounds nothing more.
The sum of rounded entries times the step is within half a step per table of the distance. The codes with the
smallest sums are added up exactly, and it is checked that no other code can be an answer.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from manihash.types import Codes, Ints

# The largest entry of a rounded table, and the most tables whose sums FAISS holds in 16 bits.
_LARGEST, _MOST_TABLES = 255, 256


class PackedCodes(Protocol):
    """Codes (u, b) as a fast scan reads them."""

    def smallest(self, tables: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], Ints]:
        """Sums and positions (q, k) of codes with the smallest sums of entries of tables (q, 2 b, 16)."""


@dataclass(frozen=True)
class RoundedTables:
    """Tables (q, 2 b, 16) of whole numbers, of the low and the high half of each byte.

    The distance of a code is ``least`` plus ``step`` times the sum of its entries, up to ``step`` times b.
    """

    entries: NDArray[np.float32]
    least: NDArray[np.float64]  # (q,)
    step: NDArray[np.float64]  # (q,)

    @classmethod
    def of(cls, tables: NDArray[np.float32]) -> "RoundedTables":
        """Round tables (q, b, 256) whose entries are sums of those of their half bytes."""
        q, b = tables.shape[:2]
        by_byte = np.empty((q, b, 2, 16))
        by_byte[:, :, 0] = tables[:, :, :16]
        by_byte[:, :, 1] = tables[:, :, ::16].astype(np.float64) - tables[:, :, :1]
        halves = by_byte.reshape(q, 2 * b, 16)
        lowest = halves.min(axis=2, keepdims=True)
        halves -= lowest
        step = halves.max(axis=(1, 2)) / _LARGEST
        entries = np.rint(halves / np.where(step > 0, step, 1)[:, None, None]).astype(np.float32)
        return cls(entries, lowest.sum(axis=(1, 2)), step)

    def take(self, which: Ints) -> "RoundedTables":
        """The tables of some queries."""
        return RoundedTables(self.entries[which], self.least[which], self.step[which])

    def sums(self, codes: Codes) -> NDArray[np.float32]:
        """Sums (q,) of the entries of codes (q, b), one per query."""
        halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)  # (q, 2 b)
        entries = np.take_along_axis(self.entries, halves[:, :, None].astype(np.intp), axis=2)
        return entries.sum(axis=(1, 2), dtype=np.float32)

    def bounds(self, sums: NDArray[np.float32]) -> NDArray[np.float64]:
        """Distances (q,) below which no code has a sum of at least ``sums`` (q,)."""
        error = self.entries.shape[1] / 2
        return self.least + self.step * (sums.astype(np.float64) - error)


def is_separable(n_bytes: int, bits_per_field: int) -> bool:
    """Whether the distance of codes of so many bytes is a sum over half bytes that a fast scan can add."""
    return bits_per_field <= 4 and 2 * n_bytes <= _MOST_TABLES


def candidates(
    packed: PackedCodes, rounded: RoundedTables, codes: Codes, k: int
) -> tuple[Ints, NDArray[np.float64]]:
    """Positions (q, k) of codes, and distances (q,) below which there is no other code.

    A bound is -inf if the scan did not add up the entries as expected.
    """
    sums, position = packed.smallest(rounded.entries, k)
    query, last = np.arange(len(sums)), sums.argmax(axis=1)
    bounds, largest = rounded.bounds(sums[query, last]), codes[position[query, last]]
    bounds[(rounded.sums(largest) != sums[query, last]) | (rounded.step <= 0)] = -np.inf
    return position, bounds
