"""Ranking by tables: the distance of a query to a code is a sum of entries, one for each byte of the code.

This ranks the real values of a query against stored codes (asymmetric distance), and codes with fields of a
product quantizer. A byte of signs is a field, too, whose 256 centers are the corners of a cube.

If entries are sums over half bytes, as those of signs and of fields of at most 4 bits, there is a fast scan:
FAISS's ``IndexPQFastScan`` adds up tables of 16 small whole numbers in registers. Tables of a query are
rounded to whole numbers from 0 to 255 here, so that FAISS, which rounds tables itself, rounds nothing more.
The sum of rounded entries times the step is within half a step per table of the distance. The codes with the
smallest sums are added up exactly, and it is checked that no other code can be an answer.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.code_tables import table_distances
from manihash.codes import check_codes, n_bytes
from manihash.compute.largest import smallest
from manihash.search.buckets import aligned, build
from manihash.search.routes import QueryPlan, RouteEstimate, estimate_scan
from manihash.search.scanners import PackedCodes, Scanner
from manihash.types import Codes, Ints

# Queries whose distances to all codes are held at once.
_QUERIES = 16
# Candidates beside those requested, which rounding may bring into another order.
_SPARE = 16
# Up to this many codes, and for more answers than this, numpy compares all codes.
_FEW_CODES, _MANY_ANSWERS = 2**10, 2**10
# Queries from which on a copy of the codes for a fast scan pays, and candidates beside those requested.
_PACKED_FROM, _FAST_CANDIDATES = 16, (16, 240)
# Codes per first part from which on first parts are visited in the order of their distance.
_PER_FIRST = 4
# Codes that are compared before the first bound is known, per answer.
_FIRST_CODES = 64
# Time of a code in a scan by tables beside one by Hamming distance; queries that ``plan`` tries.
_TABLE_COST, _EXPLAINED = 5, 8
# Rounding of a sum of b float32 numbers that are not negative: b times this, relative.
_ROUNDING = 2.0**-23
# The largest entry of a rounded table, and the most tables whose sums FAISS holds in 16 bits.
_LARGEST, _MOST_TABLES = 255, 256


def asymmetric_distances(
    Y: ArrayLike, codes: ArrayLike, n_bits: int, *, layout: CodeLayout | None = None
) -> NDArray[np.float32]:
    """Compute the asymmetric distances of embedded queries to codes.

    The distance of y to a code is Σ_j w_j [bit_j ≠ (y_j > 0)] with w_j = min(|y_j|, ‖y‖ / √r). Bits of which
    the query is uncertain count little. No bit counts more than the root mean square of the query's values,
    because the values of the row, of which only the bits are stored, need not be as large. If all |y_j| are
    1, it is the Hamming distance. ``average_precision`` accepts it like any other distance.

    For codes of two parts, the weights w_j of a part of signs are divided by the root mean square of the
    query's values in this part, and the distance of a part of fields is that to its centers. The distance is
    that of the first part plus ``weight * scale`` times that of the second.

    Parameters
    ----------
    Y : array-like of shape (q, v)
        Real values of the queries, as ``embed`` returns them.
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes.
    n_bits : int
        Length of a code.
    layout : CodeLayout, default=None
        The parts of the codes, ``hasher.layout_``; None if codes are one part of signs.

    Returns
    -------
    ndarray of shape (q, n), float32
        Distances.

    Examples
    --------
    >>> from manihash import pack
    >>> from manihash.search import asymmetric_distances
    >>> asymmetric_distances([[1.0, -1.0, 0.5]], pack([[1, 0, 1], [1, 0, 0]]), n_bits=3)
    array([[0. , 0.5]], dtype=float32)
    """
    stored = check_codes(codes, positive_int(n_bits, "n_bits"))
    layout = CodeLayout(n_bits) if layout is None else layout
    return table_distances(layout.tables(Y), layout.split(stored))


def pair_distances(
    tables: NDArray[np.float32], query: Ints, codes: Codes, position: Ints
) -> NDArray[np.float32]:
    """Distances (p,) of pairs of queries of the tables (q, b, 256) and split codes (n, b), by positions."""
    distance = np.zeros(len(query), np.float32)
    for byte in range(tables.shape[1]):
        distance += tables[query, byte, codes[position, byte]]
    return distance


@dataclass(frozen=True, eq=False)
class FirstParts:
    """Distinct first parts of codes (u, b), and the codes that have each of them."""

    parts: Codes  # (v, b1)
    starts: Ints  # (v + 1,): the codes of first part i are order[starts[i] : starts[i + 1]]
    order: Ints  # (u,): positions of codes, ascending for each first part
    seconds: Codes  # (u, b2): the other bytes of the codes, in this order

    @classmethod
    def of(cls, codes: Codes, n_first: int) -> "FirstParts":
        """The first parts of split codes whose first part is ``n_first`` bytes."""
        buckets = build(codes[:, :n_first], None)
        starts = buckets.offsets.dense().astype(np.int64)
        order = buckets.rows.astype(np.int64)
        parts = np.ascontiguousarray(buckets.codes[:, :n_first])
        return cls(parts, starts, order, np.ascontiguousarray(codes[order, n_first:]))


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


class TableScan:
    """Finds the codes (u, b) of a layout with the smallest sums of table entries."""

    def __init__(self, codes: Codes, layout: CodeLayout, scanner: Scanner) -> None:
        self._codes, self._layout, self._scanner = codes, layout, scanner
        self._n_first = n_bytes(layout.look_up_bits) if layout.has_two_parts and layout.is_split else 0
        self._n_bytes = (
            n_bytes(layout.look_up_bits) + n_bytes(layout.second_bits)
            if layout.has_fields
            else n_bytes(layout.n_bits)
        )
        self._is_separable = layout.bits_per_field <= 4 and 2 * self._n_bytes <= _MOST_TABLES
        self._asked = 0

    @cached_property
    def split(self) -> Codes:
        """The codes with each part in bytes of its own."""
        return self._codes if self._layout.is_split else aligned(self._layout.split(self._codes))

    @cached_property
    def _firsts(self) -> FirstParts | None:
        """The first parts of the codes if they repeat; None otherwise."""
        if not self._n_first or len(self._codes) <= _FEW_CODES:
            return None
        firsts = FirstParts.of(self._codes, self._n_first)
        return firsts if len(firsts.order) >= _PER_FIRST * len(firsts.parts) else None

    @cached_property
    def _packed(self) -> PackedCodes | None:
        return self._scanner.packed(self.split, self._n_bytes)

    def plan(self, k: int, n_queries: int) -> QueryPlan:
        """The plan of a search for the k nearest rows."""
        codes, firsts = self._codes, self._firsts
        scan = estimate_scan(codes, self._scanner, n_queries)
        scan = replace(scan, query=_TABLE_COST * scan.query, why=scan.why.replace("compared", "added up"))
        if firsts is None:
            return QueryPlan(f"nearest {k}", n_queries, (scan,))
        share = self._share_compared(firsts, k)
        skipped = f"{100 * (1 - share):.1f} % skipped by their bound"
        why = f"{len(firsts.parts):,} first parts in order; of {len(codes):,} codes {skipped}"
        visit = RouteEstimate("first parts", share * 2 * scan.query + 1e-8 * len(firsts.parts), 0, why)
        return QueryPlan(f"nearest {k}", n_queries, (visit,))

    def _share_compared(self, firsts: FirstParts, k: int) -> float:
        """Share of the codes that a search for k rows compares, mean over a few codes as queries."""
        codes = self._codes
        some = codes[np.linspace(0, len(codes) - 1, _EXPLAINED).astype(np.int64)]
        tables = _widened(self._layout.tables(self._layout.values_of(some)), codes.shape[1])
        compared = [nearest_by_first_parts(table, firsts, min(k, len(codes) - 1))[2] for table in tables]
        return float(np.mean(compared)) / len(codes)

    def nearest(self, tables: NDArray[np.float32], m: int) -> tuple[NDArray[np.float32], Ints]:
        """Distances and positions (q, m) of the codes nearest to tables (q, b, 256), ties by position."""
        tables = _widened(tables, self.split.shape[1])
        if m > _MANY_ANSWERS or len(self.split) <= max(_FEW_CODES, 4 * m):
            return self._all_compared(tables, m)
        if self._firsts is not None:
            found = [nearest_by_first_parts(table, self._firsts, m) for table in tables]
            return np.stack([each[0] for each in found]), np.stack([each[1] for each in found])
        self._asked += len(tables)
        if self._asked >= _PACKED_FROM and self._is_separable and self._packed is not None:
            return self._fast_scanned(self._packed, tables, m)
        return self._scanned(tables, m)

    def _fast_scanned(
        self, packed: PackedCodes, tables: NDArray[np.float32], m: int
    ) -> tuple[NDArray[np.float32], Ints]:
        """As ``nearest``: candidates of a fast scan of half bytes, in two lengths, then as ``_scanned``."""
        codes, b = self.split, self._n_bytes
        distance, position = np.empty((len(tables), m), np.float32), np.empty((len(tables), m), np.int64)
        rounded, unsure = RoundedTables.of(tables[:, :b]), np.arange(len(tables))
        slack = 1 - 2 * tables.shape[1] * _ROUNDING
        for more in _FAST_CANDIDATES:
            k = min(m + more, len(codes))
            some = rounded if len(unsure) == len(tables) else rounded.take(unsure)
            found, bounds = _candidates(packed, some, codes[:, :b], k)
            distance[unsure], position[unsure] = _ranked(tables[unsure], codes, found, m)
            sure = (distance[unsure, -1] < bounds * slack) | (k == len(codes))
            unsure = unsure[~sure]
            if not len(unsure):
                return distance, position
        distance[unsure], position[unsure] = self._scanned(tables[unsure], m)
        return distance, position

    def _scanned(self, tables: NDArray[np.float32], m: int) -> tuple[NDArray[np.float32], Ints]:
        """As ``nearest``: candidates of the scanner, if it is certain that they hold the answers."""
        found = self._scanner.by_tables(tables, self.split, min(m + _SPARE, len(self.split)))
        if found is None:
            return self._all_compared(tables, m)
        rough, position = found
        distance, position = _ranked(tables, self.split, position, m)
        slack = 1 - 2 * tables.shape[1] * _ROUNDING
        unsure = np.flatnonzero(rough.max(axis=1) * slack <= distance[:, -1])
        if len(unsure):
            distance[unsure], position[unsure] = self._all_compared(tables[unsure], m)
        return distance, position

    def _all_compared(self, tables: NDArray[np.float32], m: int) -> tuple[NDArray[np.float32], Ints]:
        """As ``nearest``, by adding up the entries of all codes."""
        distance, position = np.empty((len(tables), m), np.float32), np.empty((len(tables), m), np.int64)
        for i in range(0, len(tables), _QUERIES):
            every = table_distances(tables[i : i + _QUERIES], self.split)
            position[i : i + _QUERIES] = smallest(every, m)
            distance[i : i + _QUERIES] = np.take_along_axis(every, position[i : i + _QUERIES], axis=1)
        return distance, position


def _ranked(
    tables: NDArray[np.float32], codes: Codes, position: Ints, m: int
) -> tuple[NDArray[np.float32], Ints]:
    """Distances and positions (q, m) of the nearest of some codes, at positions (q, s), ties by position."""
    query = np.repeat(np.arange(len(tables)), position.shape[1])
    distance = pair_distances(tables, query, codes, position.ravel()).reshape(position.shape)
    order = np.lexsort((position, distance), axis=1)[:, :m]
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(position, order, axis=1)


def _candidates(
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


def nearest_by_first_parts(
    table: NDArray[np.float32], firsts: FirstParts, m: int
) -> tuple[NDArray[np.float32], Ints, int]:
    """Distances and positions (m,) of the codes nearest to a table (b, 256), and the codes compared.

    The sum of a code's first bytes is that of its first part. First parts are visited nearest first. Once m
    codes are known, first parts whose sum plus the smallest possible sum of the other bytes exceeds the m-th
    distance cannot hold an answer, and their codes are not looked at.
    """
    n_first = firsts.parts.shape[1]
    near = table_distances(table[None, :n_first], firsts.parts)[0]
    sizes = np.diff(firsts.starts)
    order = np.argsort(near, kind="stable")
    enough = int(np.searchsorted(np.cumsum(sizes[order]), _FIRST_CODES * m)) + 1
    found, place = _distances_of(table, firsts, near, order[:enough])
    bound = np.partition(found, m - 1)[m - 1] if len(found) > m else found.max()
    least = float(table[n_first:].min(axis=1).sum(dtype=np.float64))
    slack = 1 - 2 * len(table) * _ROUNDING
    left = order[enough:]
    left = left[(near[left] + least) * slack <= bound]
    if len(left):
        more, places = _distances_of(table, firsts, near, left)
        found, place = np.concatenate([found, more]), np.concatenate([place, places])
    compared = len(found)
    if compared > 4 * m:
        kept = np.flatnonzero(found <= np.partition(found, m - 1)[m - 1])
        found, place = found[kept], place[kept]
    position = firsts.order[place]
    best = np.lexsort((position, found))[:m]
    return found[best], position[best], compared


def _distances_of(
    table: NDArray[np.float32], firsts: FirstParts, near: NDArray[np.float32], which: Ints
) -> tuple[NDArray[np.float32], Ints]:
    """Distances of all codes of some first parts, and their places in ``firsts.order``."""
    start, count = firsts.starts[which], firsts.starts[which + 1] - firsts.starts[which]
    place = np.repeat(start - (np.cumsum(count) - count), count) + np.arange(count.sum())
    distance = np.repeat(near[which], count)
    seconds = firsts.seconds[place]
    for byte, values in enumerate(table[firsts.parts.shape[1] :]):
        distance += values[seconds[:, byte]]
    return distance, place


def _widened(tables: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Tables (q, b, 256) for codes of ``width`` bytes, which are padded with zeros."""
    if tables.shape[1] == width:
        return tables
    wide: NDArray[Any] = np.zeros((len(tables), width, 256), np.float32)
    wide[:, : tables.shape[1]] = tables
    return wide
