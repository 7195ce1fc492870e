"""The nearest base points of rows, with a statement for each row whether rounding could have changed them.

Scores t (z·c - |c|²/2) are largest where |z - c| is smallest. They are computed in the type of the rows, in
any order, with a bound on their error. The k best are certain if the k-th and the next score differ by more
than two errors. The other rows are computed again in float64, and where even that is not certain, in a fixed
order: what is returned does not depend on the batch, the threads, BLAS or the CPU.

A single row has few calls of numpy, which take longer than its arithmetic (``OneRow``).
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np

from manihash.compute.largest import set_k_largest
from manihash.compute.rounding import buffer, paired_squares, subtract_outer, sum_error, underflow_error
from manihash.rows.raw import Preparation, ScaledBlock, as_block
from manihash.rows.rows import largest_square
from manihash.types import Floats, Ints, Mask

# Bits of the vector that is subtracted from base points: few, so that the differences are exact.
_CENTER_BITS = 8
# Scores in memory at once, and those that are searched at once for the largest: they fit into a cache.
_HELD_SCORES, _SEARCHED_SCORES = 2**22, 2**17
# Numbers of rows that are repeated at once for pairs of a row and a point.
_PAIRED = 2**20


@dataclass(frozen=True)
class Closest:
    """The k best scores and their indices (b, k), best first, and the error (b,) of the scores.

    ``certain`` says whether rounding could not have changed the indices. ``exchange`` says that the last of
    them and ``next`` (b,), whose score is ``next_score``, may have to be exchanged, and no others.
    """

    scores: Floats
    index: Ints
    error: Floats
    certain: Mask
    exchange: Mask
    next: Ints
    next_score: Floats

    def take(self, which: Ints) -> "Closest":
        """The same for some rows."""
        return Closest(*(getattr(self, part.name)[which] for part in fields(self)))

    def settle(self, which: Ints, Z: Floats, points: "Points") -> None:
        """Exchange the last point of rows ``which`` and the next one if it is nearer to Z, in float64."""
        two = np.sort(np.column_stack([self.index[which, -1], self.next[which]]), axis=1)
        scores = points.exact_scores(Z, two)
        nearer = two[np.arange(len(two)), (scores[:, 1] > scores[:, 0]).view(np.int8)]
        changed = which[nearer != self.index[which, -1]]
        self.index[changed, -1], self.scores[changed, -1] = self.next[changed], self.next_score[changed]
        self.certain[which] = True


# Points of one row, their ascending scores, and the error of the scores.
Nearest = tuple[Ints, list[float], float]


def certain_nearest(scores: Floats, k: int, error: float) -> Nearest | None:
    """The positions of the k largest of some scores (m,); None if rounding could have changed them."""
    if len(scores) <= k:
        return None
    near = scores.argpartition(-k - 1)[-k - 1 :]
    near = near[scores[near].argsort()]
    values: list[float] = scores[near].tolist()
    return (near[1:], values[1:], error) if values[0] < values[1] - 2 * error else None


class Search(Protocol):
    """Finds the nearest of fixed base points."""

    points: "Points"
    in_cells: bool

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """The k nearest points of each row of a block."""

    def nearest(self, row: ScaledBlock, k: int) -> "Nearest | None":
        """The k nearest points of one row; None if they are not certain. The fields of ``row`` have no b."""

    def index(self, Z: Floats, k: int) -> Ints:
        """The indices (b, k) of the k nearest points of rows (b, d) in float64, certain."""

    def place(self, Z: Floats) -> Floats:
        """Rows (b, d) in float64, in the space of the points."""


class Points:
    """Points c (m, d), relative to a vector near their middle, and numbers h: half their squared lengths.

    z·c - h differs from that of the points themselves by a number that depends on z alone.
    """

    def __init__(self, B: Floats) -> None:
        B = B.astype(np.float64, order="C")
        self.B, (self.m, self.d) = B, B.shape
        self.farthest = float(np.sqrt(np.square(B).sum(axis=1).max()))
        middle = _coarse(B.mean(axis=0), float(np.abs(B).max(initial=0)))
        self.c = B - middle
        self.h = np.add.reduce(self.c * (self.c / 2 + middle), axis=1)
        self.h -= _coarse((self.h.max() + self.h.min()) / 2, float(np.abs(self.h).max()))
        self.longest = float(np.sqrt(np.square(self.c).sum(axis=1).max()))
        self.highest = float(np.abs(self.h).max())
        self._typed: dict[Any, tuple[Floats, Floats]] = {}

    def typed(self, dtype: Any, order: Literal["C", "F"] = "F") -> tuple[Floats, Floats]:
        """The transpose of c (d, m) in a type and a memory order, and h (m,) in the type."""
        if (dtype, order) not in self._typed:
            with np.errstate(over="ignore"):
                self._typed[dtype, order] = self.c.T.astype(dtype, order), self.h.astype(dtype)
        return self._typed[dtype, order]

    def error(self, block: ScaledBlock) -> Floats:
        """A bound (b,) on the error of the scores of a block."""
        dtype = block.rows.dtype
        relative, least = sum_error(self.d, dtype), underflow_error(self.d, dtype)
        error: Floats = block.length * (relative * self.longest) + block.scale * (relative * self.highest)
        # The same scores in a fixed order have an error, too: it is part of the bound, so that both agree.
        fixed = (
            sum_error(self.d, np.float64) * (block.length + block.scale * self.farthest) ** 2 / block.scale
        )
        return error + (block.error * self.longest + least + fixed)

    def exact_scores(self, Z: Floats, index: Ints) -> Floats:
        """Scores (b, k) in float64 of some points, index (b, k), of each row of Z; in a fixed order.

        They are -|z - c|² / 2, which does not depend on the other points.
        """
        return paired_squares(Z, self.B, index) / -2

    def pair_scores(self, Z: Floats, row: Ints, point: Ints) -> Floats:
        """As ``exact_scores``, of pairs of a row of Z and a point: (p,)."""
        step, scores = max(1, _PAIRED // self.d), np.empty(len(row))
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            scores[some] = self.exact_scores(Z[row[some]], point[some, None])[:, 0]
        return scores


def _coarse(values: Any, largest: float) -> Any:
    """The values rounded to multiples of a power of two that is small beside ``largest``."""
    grid = np.ldexp(1.0, int(np.frexp(largest)[1]) - _CENTER_BITS)
    return np.round(values / grid) * grid if grid > 0 else values


class AllPoints:
    """A search among all points."""

    in_cells = False

    def __init__(self, B: Floats) -> None:
        self.points = Points(B)

    def place(self, Z: Floats) -> Floats:
        """The rows as they are."""
        return Z

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``: by one product."""
        # In this order, BLAS multiplies a few rows in half the time, and many as fast as in the other.
        (ct, h), b, m = self.points.typed(block.rows.dtype, "C"), len(block), self.points.m
        found = empty_closest(b, k, self.points.error(block))
        largest = max(64, _HELD_SCORES // m)
        for first in range(0, b, largest):
            part = slice(first, first + largest)
            rows = block.rows[part]
            scores = np.matmul(rows, ct, out=buffer("scores", (len(rows), m), h.dtype))
            set_largest(found, part, scores, (block.scale[part], h))
        return found

    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``."""
        ct, h = self.points.typed(row.rows.dtype, "C")
        scores = row.rows @ ct
        scores -= h * row.scale
        return certain_nearest(scores, k, float(self.points.error(row)))

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``."""
        found = self.closest(as_block(Z, np.float64), k)
        exchange = np.flatnonzero(found.exchange)
        found.settle(exchange, Z[exchange], self.points)
        rest = np.flatnonzero(~found.certain)
        step = max(1, _SEARCHED_SCORES // self.points.m)
        for some in np.split(rest, range(step, len(rest), step)):
            scores = Z[some] @ self.points.c.T - self.points.h
            least = np.partition(scores, self.points.m - k, axis=1)[:, self.points.m - k]
            row, point = np.nonzero(scores >= (least - 2 * found.error[some])[:, None])
            found.index[some] = nearest_pairs(self.points, Z[some], row, point, k)
        return found.index


class FinderSearch:
    """A search by the ``k_nearest`` of a finder that has no search of its own, in float64."""

    in_cells = True

    def __init__(self, finder: Any, B: Floats) -> None:
        self.finder, self.B, self.points = finder, B.astype(np.float64), Points(B)

    def place(self, Z: Floats) -> Floats:
        """The rows as they are."""
        return Z

    def closest(self, block: ScaledBlock, k: int) -> Closest:
        """As ``Search.closest``: nothing is certain."""
        found = empty_closest(len(block), k, np.zeros(len(block), block.rows.dtype))
        found.index[:], found.certain[:] = 0, False
        return found

    def nearest(self, row: ScaledBlock, k: int) -> Nearest | None:
        """As ``Search.nearest``: nothing is certain."""
        return None

    def index(self, Z: Floats, k: int) -> Ints:
        """As ``Search.index``."""
        return self.finder.k_nearest(Z, self.B, k)[1]


def nearest_pairs(points: Points, Z: Floats, row: Ints, point: Ints, k: int) -> Ints:
    """The k nearest points (b, k) of each row of Z among pairs of a row and a point; ties by point.

    Rows are ascending, and each has at least k pairs.
    """
    scores = points.pair_scores(Z, row, point)
    order = np.lexsort((point, -scores, row))
    first = np.searchsorted(row, np.arange(len(Z)))
    found: Ints = point[order][first[:, None] + np.arange(k)]
    return found


def search_of(finder: Any, B: Floats, k: int) -> Search:
    """The search for the k nearest of base points B (m, d) by a finder; None compares with all of them."""
    if finder is None:
        return AllPoints(B)
    return finder._search(B, k) if hasattr(finder, "_search") else FinderSearch(finder, B)


def empty_closest(b: int, k: int, error: Floats) -> Closest:
    """The result for b rows, to be filled by ``set_largest``."""
    # Columns are contiguous: operations on k numbers per row are then operations on k long columns.
    scores, index = np.empty((k, b), error.dtype).T, np.empty((k, b), np.intp).T
    certain, exchange = np.ones(b, bool), np.zeros(b, bool)
    return Closest(scores, index, error, certain, exchange, np.zeros(b, np.intp), np.empty(b, error.dtype))


def set_largest(
    found: Closest, part: Any, scores: Floats, heights: tuple[Floats, Floats] | None = None
) -> None:
    """Set the part of ``found`` to the k largest of its scores (b, m); they are overwritten.

    From ``heights``, t (b,) and h (m,), t h is subtracted from the scores first.
    """
    (b, m), k = scores.shape, found.index.shape[1]
    kept, step = min(k + 1, m), max(16, _SEARCHED_SCORES // m)
    best, index = np.empty((kept, b), scores.dtype).T, np.empty((kept, b), np.intp).T
    for start in range(0, b, step):
        some = slice(start, start + step)
        if heights is not None:
            subtract_outer(scores[some], heights[0][some], heights[1])
        set_k_largest(scores[some], best[some], index[some])
    found.scores[part], found.index[part] = best[:, :k], index[:, :k]
    if m == k:
        return
    found.next[part], found.next_score[part] = index[:, k], best[:, k]
    error = 2 * found.error[part]
    found.certain[part] = certain = best[:, k] < best[:, k - 1] - error
    if not certain.all():
        rest = np.flatnonzero(~certain)
        others = scores[rest]
        third = others[np.arange(len(rest)), others.argmax(axis=1)]
        alone = third < best[rest, k - 1] - error[rest]
        if k > 1:
            alone &= best[rest, k] < best[rest, k - 2] - error[rest]
        exchange = np.zeros(b, bool)
        exchange[rest] = alone
        found.exchange[part] = exchange


class OneRow:
    """Decides the signs of the values of one row by the bounds of ``InducedMap``."""

    def __init__(
        self, search: Search, k: int, exponent: float, signed: Floats, preparation: Preparation
    ) -> None:
        self.search, self.k, self.exponent, self.signed = search, k, exponent, signed
        self.dtype, self.normalize = preparation.dtype, preparation.normalize
        limits = np.finfo(self.dtype)
        self._least = float(limits.tiny / limits.eps)
        self._largest = float(largest_square(self.dtype))
        self._sums = sum_error(search.points.d, self.dtype), sum_error(k, self.dtype)

    def signs(self, x: Any) -> Mask | None:
        """Whether the values (r,) of a row x (d,) are positive; None if that is not certain, or x invalid."""
        x = x.astype(self.dtype, copy=False)
        with np.errstate(all="ignore"):
            squared = float(x @ x)
            if not self._least <= squared <= self._largest:
                return None
            length = math.sqrt(squared)
            scale = length if self.normalize else 1.0
            found = self.search.nearest(ScaledBlock(x, scale, length), self.k)  # type: ignore[arg-type]
            return None if found is None else self._decided(*found, self.exponent / scale)

    def _decided(self, near: Any, scores: list[float], error: float, factor: float) -> Mask | None:
        """As ``signs``, given the nearest points with ascending scores and the error of the scores."""
        exponents = [(score - scores[-1]) * factor for score in scores]
        w = [math.exp(exponent) for exponent in exponents]
        weights, Y = np.array(w, self.dtype), self.signed[near]
        V = weights @ Y
        relative = error * factor - exponents[0] * self._sums[0] + self._sums[1]
        if not relative < 1:
            return None
        relative, size = math.expm1(1.01 * relative), np.abs(V)
        certain = size.min() > relative * sum(w) or (size > (weights @ np.abs(Y)) * relative).all()
        return V > 0 if certain else None
