"""Ranking by tables: the distance of a query to a code is a sum of entries, one for each byte of the code.

This ranks the real values of a query against stored codes (asymmetric distance), and codes with fields of a
product quantizer. A byte of signs is a field, too, whose 256 centers are the corners of a cube.

A fast scan finds candidates: FAISS's ``IndexPQFastScan`` adds up tables of 16 small whole numbers in
registers. Entries of signs and of fields of at most 4 bits are sums over half bytes. The 256 centers of a
field of 8 bits are 16 groups of near centers, with the smallest entry of each, so that sums are bounds from
below. Tables of a query are rounded to whole numbers from 0 to 255 here, so that FAISS, which rounds tables
itself, rounds nothing more. The codes with the smallest sums are added up exactly, and it is checked that no
other code can be an answer.
"""

from collections import Counter
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

# Queries whose distances to all codes are held at once, and queries of a scan; pairs added up at once.
_QUERIES, _SCANNED, _PAIRS = 16, 64, 2**16
# Candidates beside those requested, which rounding may bring into another order.
_SPARE = 16
# Up to this many codes, and for more answers than this, numpy compares all codes.
_FEW_CODES, _MANY_ANSWERS = 2**10, 2**10
# Queries from which on a copy of the codes for a fast scan pays, and candidates beside those requested. A
# candidate takes as long as a scan of so many codes.
_PACKED_FROM, _FAST_CANDIDATES, _CANDIDATE = 16, (24, 256, 4096), 100
# A number of candidates is not tried again if it left a third of the queries, and so many, undecided.
_TRIED = 16
# Codes per first part from which on first parts are visited in the order of their distance, and the share of
# all codes, one in so many, up to which visits are faster than a scan.
_PER_FIRST, _VISITED = 4, 4
# Codes that are compared before the first bound is known, per answer; codes of a first part from which on
# they are scanned by themselves.
_FIRST_CODES, _LARGE = 64, 2**13
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
    distance, each = np.empty(len(query), np.float32), np.arange(tables.shape[1])[:, None]
    for i in range(0, len(query), _PAIRS):
        pairs = slice(i, i + _PAIRS)
        entries = tables[query[pairs], each, codes[position[pairs]].T[: len(each)]]
        distance[pairs] = np.add.accumulate(entries, axis=0)[-1]  # in this order, unlike a sum
    return distance


@dataclass(frozen=True, eq=False)
class FirstParts:
    """Distinct first parts of codes (u, b), and the codes that have each of them."""

    parts: Codes  # (v, b1)
    starts: Ints  # (v + 1,): the codes of first part i are order[starts[i] : starts[i + 1]]
    order: Ints  # (u,): positions of codes, ascending for each first part
    codes: Codes  # (u, b): the codes in this order

    @classmethod
    def of(cls, codes: Codes, n_first: int) -> "FirstParts":
        """The first parts of split codes whose first part is ``n_first`` bytes."""
        buckets = build(codes[:, :n_first], None)
        starts = buckets.offsets.dense().astype(np.int64)
        order = buckets.rows.astype(np.int64)
        parts = np.ascontiguousarray(buckets.codes[:, :n_first])
        return cls(parts, starts, order, codes[order])


@dataclass(frozen=True, eq=False)
class HalfBytes:
    """How a fast scan sees split codes: as half bytes, each with a table of 16 entries.

    A byte whose entries are sums over its halves is both halves. A field of 8 bits is the number
    of the group of its center.
    """

    n_separable: int  # bytes whose entries are sums over their halves
    centers: Ints  # (f, 256): the centers of each field of 8 bits, 16 of each group

    @classmethod
    def of(cls, layout: CodeLayout) -> "HalfBytes":
        """The half bytes of the codes of a layout."""
        if layout.codebooks is None or layout.bits_per_field <= 4:
            return cls(layout.n_split_bytes, np.empty((0, 256), np.intp))
        return cls(n_bytes(layout.look_up_bits), np.stack([_grouped(book) for book in layout.codebooks]))

    @property
    def n_tables(self) -> int:
        """Number of half bytes of a code."""
        return 2 * self.n_separable + len(self.centers)

    def packed(self, codes: Codes) -> Codes:
        """The half bytes of split codes (u, b), two in a byte, the low one first."""
        f, separable = len(self.centers), codes[:, : self.n_separable]
        groups = np.zeros((len(codes), f + f % 2), np.uint8)
        for j, centers in enumerate(self.centers):
            group = np.empty(256, np.uint8)
            group[centers] = np.arange(256) // 16
            groups[:, j] = group[codes[:, self.n_separable + j]]
        return np.hstack([separable, groups[:, ::2] | groups[:, 1::2] << 4])

    def tables(self, tables: NDArray[np.float32]) -> NDArray[np.float64]:
        """Bounds from below (q, t, 16) on what each half byte adds to distances, of tables (q, b, 256)."""
        q, n, f = len(tables), self.n_separable, len(self.centers)
        halves = np.empty((q, 2 * n + f, 16))
        halves[:, : 2 * n : 2] = tables[:, :n, :16]
        np.subtract(tables[:, :n, ::16], tables[:, :n, :1], out=halves[:, 1 : 2 * n : 2])
        if f:
            entries = tables[:, np.arange(n, n + f)[:, None], self.centers]
            entries.reshape(q, f, 16, 16).min(axis=3, out=halves[:, 2 * n :])
        return halves


def _grouped(book: NDArray[np.floating]) -> Ints:
    """The numbers (256,) of the centers (256, w) of a field, 16 of each group of near centers.

    Groups are halved at the median along their first principal axis.
    """
    groups = [np.arange(len(book))]
    while len(groups) < 16:
        halves = []
        for group in groups:
            centered = book[group] - book[group].mean(axis=0)
            axis = np.linalg.svd(centered, full_matrices=False)[2][0]
            halves += np.array_split(group[np.argsort(centered @ axis, kind="stable")], 2)
        groups = halves
    return np.concatenate(groups)


@dataclass(frozen=True)
class RoundedTables:
    """Tables (q, t, 16) of whole numbers.

    The sum of the entries that they were rounded from is ``least`` plus ``step`` times the sum of their
    entries, up to ``step`` times t / 2.
    """

    entries: NDArray[np.float32]
    least: NDArray[np.float64]  # (q,)
    step: NDArray[np.float64]  # (q,)

    @classmethod
    def of(cls, halves: NDArray[np.float64]) -> "RoundedTables":
        """Round tables (q, t, 16), which are overwritten."""
        lowest = halves.min(axis=2, keepdims=True)
        halves -= lowest
        step = halves.max(axis=(1, 2)) / _LARGEST
        halves /= np.where(step > 0, step, 1)[:, None, None]
        return cls(np.rint(halves, dtype=np.float32, casting="same_kind"), lowest.sum(axis=(1, 2)), step)

    def take(self, which: Ints) -> "RoundedTables":
        """The tables of some queries."""
        return RoundedTables(self.entries[which], self.least[which], self.step[which])

    def bounds(self, sums: NDArray[np.float32]) -> NDArray[np.float64]:
        """Distances (q,) below which no code has a sum of at least ``sums`` (q,)."""
        return self.least + self.step * (sums - self.entries.shape[1] / 2)


class TableScan:
    """Finds the codes (u, b) of a layout with the smallest sums of table entries."""

    def __init__(self, codes: Codes, layout: CodeLayout, scanner: Scanner) -> None:
        self._codes, self._layout, self._scanner = codes, layout, scanner
        self._n_first = n_bytes(layout.look_up_bits) if layout.has_two_parts and layout.is_split else 0
        self._asked = 0
        self._tried: Counter[int] = Counter()  # queries, by the number of candidates
        self._undecided: Counter[int] = Counter()

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
    def _half_bytes(self) -> HalfBytes:
        return HalfBytes.of(self._layout)

    @cached_property
    def _packed(self) -> PackedCodes | None:
        """The codes for a fast scan; None if there is none."""
        half_bytes = self._half_bytes
        if half_bytes.n_tables > _MOST_TABLES:
            return None
        return self._scanner.packed(half_bytes.packed(self.split), half_bytes.n_tables)

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
        return QueryPlan(f"nearest {k}", n_queries, (visit, scan))

    def _share_compared(self, firsts: FirstParts, k: int) -> float:
        """Share of the codes that a search for k rows compares, mean over a few codes as queries."""
        codes = self._codes
        some = codes[np.linspace(0, len(codes) - 1, _EXPLAINED).astype(np.int64)]
        tables = _widened(self._layout.tables(self._layout.values_of(some)), codes.shape[1])
        m = min(k, len(codes) - 1)
        found = [nearest_by_first_parts(table, firsts, m, self._scanner) for table in tables]
        return float(np.mean([len(codes) if each is None else each[2] for each in found])) / len(codes)

    def nearest(self, tables: NDArray[np.float32], m: int) -> tuple[NDArray[np.float32], Ints]:
        """Distances and positions (q, m) of the codes nearest to tables (q, b, 256), ties by position."""
        tables = _widened(tables, self.split.shape[1])
        if m > _MANY_ANSWERS or len(self.split) <= max(_FEW_CODES, 4 * m):
            return _all_compared(tables, self.split, m)
        if len(tables) > _SCANNED:
            parts = [self.nearest(tables[i : i + _SCANNED], m) for i in range(0, len(tables), _SCANNED)]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        if self._firsts is None:
            return self._nearest_of_all(tables, m)
        distance, position = np.empty((len(tables), m), np.float32), np.empty((len(tables), m), np.int64)
        left = []
        for i, table in enumerate(tables):
            found = nearest_by_first_parts(table, self._firsts, m, self._scanner)
            if found is None:
                left.append(i)
            else:
                distance[i], position[i], _ = found
        if left:
            distance[left], position[left] = self._nearest_of_all(tables[left], m)
        return distance, position

    def _nearest_of_all(self, tables: NDArray[np.float32], m: int) -> tuple[NDArray[np.float32], Ints]:
        """As ``nearest``, by a scan of all codes."""
        self._asked += len(tables)
        sizes = [
            n
            for n in _FAST_CANDIDATES
            if n * _CANDIDATE <= len(self.split) and 3 * self._undecided[n] <= self._tried[n] + _TRIED
        ]
        if self._asked >= _PACKED_FROM and sizes and self._packed is not None:
            return self._fast_scanned(self._packed, tables, m, sizes)
        return _scanned(self._scanner, tables, self.split, m)

    def _fast_scanned(
        self, packed: PackedCodes, tables: NDArray[np.float32], m: int, sizes: list[int]
    ) -> tuple[NDArray[np.float32], Ints]:
        """As ``nearest``: candidates of a fast scan, in several numbers, then as ``_scanned``."""
        distance, position = np.empty((len(tables), m), np.float32), np.empty((len(tables), m), np.int64)
        rounded, unsure = RoundedTables.of(self._half_bytes.tables(tables)), np.arange(len(tables))
        slack = 1 - 2 * tables.shape[1] * _ROUNDING
        for size in sizes:
            sums, found = packed.smallest(rounded.entries, m + size)
            near, place = _ranked(tables, self.split, found, m)
            distance[unsure], position[unsure] = near, place
            open_ = np.flatnonzero(~(near[:, -1] < rounded.bounds(sums.max(axis=1)) * slack))
            self._tried[size] += len(unsure)
            self._undecided[size] += len(open_)
            if not len(open_):
                return distance, position
            rounded, tables, unsure = rounded.take(open_), tables[open_], unsure[open_]
        distance[unsure], position[unsure] = _scanned(self._scanner, tables, self.split, m)
        return distance, position


def _scanned(
    scanner: Scanner, tables: NDArray[np.float32], codes: Codes, m: int
) -> tuple[NDArray[np.float32], Ints]:
    """As ``TableScan.nearest``: candidates of the scanner, if it is certain that they hold the answers."""
    found = scanner.by_tables(tables, codes, min(m + _SPARE, len(codes)))
    if found is None:
        return _all_compared(tables, codes, m)
    rough, candidates = found
    distance, position = _ranked(tables, codes, candidates, m)
    slack = 1 - 2 * tables.shape[1] * _ROUNDING
    sure = (rough.max(axis=1) * slack > distance[:, -1]) & (candidates.min(axis=1) >= 0)
    unsure = np.flatnonzero(~sure)
    if len(unsure):
        distance[unsure], position[unsure] = _all_compared(tables[unsure], codes, m)
    return distance, position


def _all_compared(tables: NDArray[np.float32], codes: Codes, m: int) -> tuple[NDArray[np.float32], Ints]:
    """As ``TableScan.nearest``, by adding up the entries of all codes."""
    distance, position = np.empty((len(tables), m), np.float32), np.empty((len(tables), m), np.int64)
    for i in range(0, len(tables), _QUERIES):
        every = table_distances(tables[i : i + _QUERIES], codes)
        position[i : i + _QUERIES] = smallest(every, m)
        distance[i : i + _QUERIES] = np.take_along_axis(every, position[i : i + _QUERIES], axis=1)
    return distance, position


def _ranked(
    tables: NDArray[np.float32], codes: Codes, position: Ints, m: int
) -> tuple[NDArray[np.float32], Ints]:
    """Distances and positions (q, m) of the nearest of some codes, at positions (q, s), ties by position."""
    query = np.arange(len(tables))
    pairs = pair_distances(tables, query.repeat(position.shape[1]), codes, position.ravel())
    distance = pairs.reshape(position.shape)
    best = query[:, None], np.lexsort((position, distance), axis=1)[:, :m]
    return distance[best], position[best]


def nearest_by_first_parts(
    table: NDArray[np.float32], firsts: FirstParts, m: int, scanner: Scanner
) -> tuple[NDArray[np.float32], Ints, int] | None:
    """Distances and positions (m,) of the codes nearest to a table (b, 256), and the codes compared.

    The sum of a code's first bytes is that of its first part. First parts are visited nearest first. Once m
    codes are known, first parts whose sum plus the smallest possible sum of the other bytes exceeds the m-th
    distance cannot hold an answer, and their codes are not looked at. None if this skips too few codes.
    """
    n_first = firsts.parts.shape[1]
    near = table_distances(table[None, :n_first], firsts.parts)[0]
    sizes = np.diff(firsts.starts)
    order = np.argsort(near, kind="stable")
    enough = int(np.searchsorted(np.cumsum(sizes[order]), _FIRST_CODES * m)) + 1
    least = float(table[n_first:].min(axis=1).sum(dtype=np.float64))
    bounds = (near + least) * (1 - 2 * len(table) * _ROUNDING)
    best, compared = (np.empty(0, np.float32), np.empty(0, np.int64)), 0
    for which in (order[:enough], order[enough:]):
        which = which[bounds[which] <= _farthest(best, m)]
        if compared and _VISITED * sizes[which].sum() > len(firsts.order):
            return None
        is_large = sizes[which] >= _LARGE
        small = which[~is_large]
        if len(small):
            best = _merged(best, _nearest_of_some(table, firsts, near, small, m), m)
            compared += int(sizes[small].sum())
        for first in which[is_large]:
            if bounds[first] > _farthest(best, m):
                break
            start, end = firsts.starts[first : first + 2]
            distance, place = _scanned(
                scanner, table[None], firsts.codes[start:end], min(m, int(end - start))
            )
            best = _merged(best, (distance[0], firsts.order[start + place[0]]), m)
            compared += int(end - start)
    return *best, compared


def _nearest_of_some(
    table: NDArray[np.float32], firsts: FirstParts, near: NDArray[np.float32], which: Ints, m: int
) -> tuple[NDArray[np.float32], Ints]:
    """Distances and positions of the m nearest codes of some first parts, and of others, in any order."""
    start, count = firsts.starts[which], firsts.starts[which + 1] - firsts.starts[which]
    place = np.repeat(start - (np.cumsum(count) - count), count) + np.arange(count.sum())
    distance = np.repeat(near[which], count)
    codes = firsts.codes[place]
    for byte in range(firsts.parts.shape[1], len(table)):
        distance += table[byte, codes[:, byte]]
    if len(distance) > 4 * m:
        kept = np.flatnonzero(distance <= np.partition(distance, m - 1)[m - 1])
        distance, place = distance[kept], place[kept]
    return distance, firsts.order[place]


def _farthest(best: tuple[NDArray[np.float32], Ints], m: int) -> float:
    """The m-th distance; infinite if fewer are known."""
    return float(best[0][-1]) if len(best[0]) == m else np.inf


def _merged(
    best: tuple[NDArray[np.float32], Ints], more: tuple[NDArray[np.float32], Ints], m: int
) -> tuple[NDArray[np.float32], Ints]:
    """The m nearest of distances and positions, ties by position."""
    distance, position = np.concatenate([best[0], more[0]]), np.concatenate([best[1], more[1]])
    order = np.lexsort((position, distance))[:m]
    return distance[order], position[order]


def _widened(tables: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Tables (q, b, 256) for codes of ``width`` bytes, which are padded with zeros."""
    if tables.shape[1] == width:
        return tables
    wide: NDArray[Any] = np.zeros((len(tables), width, 256), np.float32)
    wide[:, : tables.shape[1]] = tables
    return wide
