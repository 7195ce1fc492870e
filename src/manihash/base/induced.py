"""The map of rows by induction: bits that are certain, and values that do not depend on the batch.

With scores s_i of the k nearest base points, value j is V_j = Σ_i w_i Y_ij, w_i = exp(2 (s_i - s_1) / σ²), up
to a factor 1 / Σ w_i that does not change its sign. If each s_i has an error of at most δ, a weight is wrong
by a factor of at most e^ε with ε = 2 δ / σ², and V_j by (e^ε - 1) Σ_i w_i |Y_ij|: a larger |V_j| has a
certain sign. Rows with another V_j are computed again in float64.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.base.closest import Closest, OneRow, Search
from manihash.compute.rounding import buffer, sum_error
from manihash.rows.raw import DecidedMap, Preparation, ScaledBlock
from manihash.types import Codes, Floats, Ints, Mask

# Rows times columns of a part that is mapped at once; more with cells, since more rows then share a cell.
_PART_NUMBERS, _PART_NUMBERS_IN_CELLS = 2**21, 2**23
# Values at neighbors that are summed at once: they fit into the cache of a core.
_SUMMED_NUMBERS = 2**17


class InducedMap(DecidedMap):
    """Maps rows to bits, codes or values, given values Y_B (m, r) at the base points that ``search`` finds.

    ``combine`` turns the values V (b, r) into those of the method, and their signs into its bits.
    """

    def __init__(
        self,
        search: Search,
        k: int,
        sigma: float,
        Y_B: Floats,
        preparation: Preparation,
        combine: Callable[[Any], Any] = lambda V: V,
    ) -> None:
        self.search, self.k, self.sigma, self.preparation = search, k, sigma, preparation
        self.Y = Y_B.astype(np.float64, order="C")
        self.combine = combine
        largest = np.abs(self.Y).max(axis=0)
        # A column of zeros gives bits of zero, like one of negative numbers.
        scaled = np.where(largest > 0, self.Y / np.where(largest > 0, largest, 1), -1)
        self._signed = scaled.astype(preparation.dtype)
        self._size = np.abs(self._signed)
        self._exponent = 2 / float(np.clip(sigma * sigma, np.finfo(float).tiny, np.finfo(float).max))
        self._one_row: OneRow | None = None
        if preparation.origin is None:
            self._one_row = OneRow(search, k, self._exponent, self._signed, preparation)

    def bits(self, part: Any, row_numbers: Any) -> NDArray[np.uint8]:
        """The bits (b, r) of a part of X."""
        return self._bits(part, row_numbers).view(np.uint8)

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """The packed codes of a part of X."""
        return codes.pack(self._bits(part, row_numbers))

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """The values (b, r) of a part of X, in the type of the rows; computed in float64."""
        found = [self._part_values(part[a:z], row_numbers[a:z]) for a, z in self._parts(part)]
        return (found[0] if len(found) == 1 else np.concatenate(found)).astype(self.preparation.dtype)

    def _parts(self, part: Any) -> list[tuple[int, int]]:
        b, d = part.shape
        numbers = _PART_NUMBERS_IN_CELLS if self.search.in_cells else _PART_NUMBERS
        step = max(64, numbers // d)
        return [(start, min(start + step, b)) for start in range(0, b, step)]

    def _bits(self, X: Any, row_numbers: Any) -> Mask:
        """The bits (b, r) as booleans; what is not certain is computed again in float64."""
        if len(X) == 1 and self._one_row is not None:
            signs = self._one_row.signs(X[0])
            if signs is not None:
                return self.combine(signs[None])
        positive = np.empty((len(X), self._signed.shape[1]), bool)
        repeated = 0
        for a, z in self._parts(X):
            left, closest = self._decide(X[a:z], row_numbers[a:z], positive[a:z])
            if len(left):
                positive[a + left] = self._exact_values(X[a + left], closest) > 0
            repeated += len(left)
        self.count(repeated, len(X))
        return self.combine(positive)

    def _decide(self, X: Any, row_numbers: Any, positive: Mask) -> tuple[Ints, Closest]:
        """Set which values (b, r) are positive; return the rows that are not certain, and their neighbors."""
        with np.errstate(all="ignore"):  # what overflows is not certain
            block = self.preparation.scaled(X, row_numbers)
            closest = self.search.closest(block, self.k)
            certain = self._signs(block, closest, positive)
        left = np.flatnonzero(~(certain & closest.certain))
        return left, closest.take(left)

    def _part_values(self, X: Any, row_numbers: Any) -> Floats:
        with np.errstate(all="ignore"):
            block = self.preparation.scaled(X, row_numbers)
            closest = self.search.closest(block, self.k)
        return self.combine(self._exact_values(X, closest))

    def _signs(self, block: ScaledBlock, closest: Closest, positive: Mask) -> Mask:
        """Set which values (b, r) are positive; return the rows (b,) whose signs are certain."""
        (b, r), dtype = positive.shape, self._signed.dtype
        factor = (self._exponent / block.scale).astype(dtype)
        exponents = (closest.scores - closest.scores[:, :1]) * factor[:, None]
        w = np.ascontiguousarray(np.exp(exponents))
        # Besides the error of the scores: that of the scale in the exponent, and that of w and of the sum.
        relative = closest.error * factor + sum_error(self.k, dtype)
        relative -= exponents[:, -1] * sum_error(self.search.points.d, dtype)
        relative = np.expm1(1.01 * relative)
        least = relative * w.sum(axis=1)
        certain = np.empty(b, bool)
        step = max(16, _SUMMED_NUMBERS // (self.k * r))
        for some in (slice(start, start + step) for start in range(0, b, step)):
            index, w_some = closest.index[some], w[some]
            V = _sums(w_some, self._signed, index)
            np.greater(V, 0, out=positive[some])
            np.abs(V, out=V)
            decided = V[np.arange(len(V)), V.argmin(axis=1)] > least[some]
            if not decided.all():
                rest = np.flatnonzero(~decided)
                size = V[rest]
                sizes = _sums(w_some[rest], self._size, index[rest])
                decided[rest] = (size > relative[some][rest, None] * sizes).all(axis=1)
            certain[some] = decided
        return certain

    def _exact_values(self, X: Any, closest: Closest) -> Floats:
        """Values (b, r) in float64, in a fixed order, of rows whose nearest points may not be certain."""
        Z = self.search.place(self.preparation.exact(X))
        index = self._exact_index(Z, closest)
        scores = self.search.points.exact_scores(Z, index)
        with np.errstate(over="ignore"):  # a weight of zero
            w = np.exp((scores - scores.max(axis=1, keepdims=True)) * self._exponent)
        w /= np.add.reduce(w, axis=1, keepdims=True)
        values = np.zeros((len(Z), self.Y.shape[1]))
        for j in range(self.k):
            values += w[:, j : j + 1] * self.Y[index[:, j]]
        return values

    def _exact_index(self, Z: Floats, closest: Closest) -> Ints:
        """The k nearest points (b, k) in ascending order of their indices."""
        if len(which := np.flatnonzero(closest.exchange)):
            closest.settle(which, Z[which], self.search.points)
        index = np.sort(closest.index, axis=1)
        if len(rest := np.flatnonzero(~closest.certain)):
            index[rest] = np.sort(self.search.index(Z[rest], self.k), axis=1)
        return index


def _sums(w: Floats, Y: Floats, index: Ints) -> Floats:
    """Σ_i w_i Y[index_i], (b, r), in memory of this thread that the next call overwrites."""
    (b, k), r = index.shape, Y.shape[1]
    near = np.take(Y, index, axis=0, out=buffer("near", (b, k, r), Y.dtype), mode="clip")
    return np.matmul(w[:, None], near, out=buffer("values", (b, 1, r), Y.dtype))[:, 0]
