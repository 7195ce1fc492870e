"""Similarity of given pairs of rows, and of some rows to all rows, by their original vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manihash.checks import finite_block, positive_number
from manihash.types import Floats, Ids, Mask

# Values of original vectors read at once.
_VALUES = 2**21
# Rows are kept as float32 up to this many bytes; larger ones are read when they are compared.
_KEPT_BYTES = 2**31
# A value this close to the threshold is computed again in float64.
_CLOSE = 1e-5


@dataclass(frozen=True)
class Threshold:
    """Rows are duplicates if their cosine is at least, or their Euclidean distance at most, ``value``."""

    value: float
    is_cosine: bool

    def holds(self, values: Floats) -> Mask:
        """Whether pairs with these cosines or distances are duplicates."""
        return np.asarray(values >= self.value if self.is_cosine else values <= self.value)

    def __str__(self) -> str:
        return f"cosine >= {self.value:g}" if self.is_cosine else f"distance <= {self.value:g}"


def threshold_of(cosine: Any, distance: Any) -> Threshold:
    """The threshold, if exactly one of the two values is given."""
    if (cosine is None) == (distance is None):
        raise ValueError("give either cosine or distance: how similar the vectors of duplicates are")
    if cosine is None:
        return Threshold(positive_number(distance, "distance", zero=True), False)
    if not 0 < positive_number(cosine, "cosine") <= 1:
        raise ValueError(f"cosine must be above 0 and at most 1, got {cosine!r}: duplicates are near 1")
    return Threshold(float(cosine), True)


class PairVerifier:
    """Compares rows of X (n, d), in memory or memory-mapped, with each other. A zero row has cosine 0."""

    def __init__(self, X: Any, threshold: Threshold) -> None:
        self.threshold = threshold
        self._X = X
        self._squares = np.empty(len(X))
        kept = 4 * int(np.prod(X.shape)) <= _KEPT_BYTES
        self._kept = np.empty(X.shape, np.float32) if kept else None
        for rows, block in self._blocks():
            self._squares[rows] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
            if self._kept is not None:
                self._kept[rows] = block

    def verified(self, a: Ids, b: Ids) -> tuple[Mask, Floats]:
        """Whether the rows a and b (p,) of each pair are duplicates, and their cosine or distance."""
        values = np.empty(len(a))
        for some in _slices(len(a), max(1, _VALUES // self._X.shape[1])):
            values[some] = self._values(self._rows(a[some]), self._rows(b[some]), a[some], b[some])
        close = np.flatnonzero(
            np.abs(values - self.threshold.value) <= _CLOSE * max(1.0, self.threshold.value)
        )
        for some in _slices(len(close), max(1, _VALUES // self._X.shape[1])):
            i, j = a[close[some]], b[close[some]]
            A, B = np.asarray(self._X[i], np.float64), np.asarray(self._X[j], np.float64)
            values[close[some]] = self._values(A, B, i, j)
        return self.threshold.holds(values), values

    def duplicates_of(self, some: Ids) -> Iterator[tuple[Ids, Ids]]:
        """All duplicates of some rows among all rows, block by block: positions in ``some``, and rows."""
        queries = self._rows(some)
        for rows, block in self._blocks():
            product = queries @ block.T.astype(queries.dtype, copy=False)
            if self.threshold.is_cosine:
                lengths = np.sqrt(np.outer(self._squares[some], self._squares[rows]))
                values = product / np.where(lengths > 0, lengths, np.inf)
            else:
                squared = self._squares[some, None] + self._squares[rows] - 2 * product
                values = np.sqrt(np.maximum(squared, 0))
            query, row = np.nonzero(self.threshold.holds(values))
            row = row + rows.start
            other = some[query] != row
            yield query[other], row[other]

    def _values(self, A: Floats, B: Floats, a: Ids, b: Ids) -> Floats:
        """Cosines or distances of the rows A and B (p, d), whose positions are a and b."""
        if not self.threshold.is_cosine:
            difference = A - B
            return np.sqrt(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))
        lengths = np.sqrt(self._squares[a] * self._squares[b])
        return np.asarray(np.einsum("ij,ij->i", A, B) / np.where(lengths > 0, lengths, np.inf))

    def _rows(self, positions: Ids) -> Floats:
        if self._kept is not None:
            return self._kept[positions]
        return np.asarray(self._X[positions], np.float32)

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        for rows in _slices(len(self._X), max(1, _VALUES // self._X.shape[1])):
            block = np.asarray(self._X[rows])
            finite_block(block, rows.start, name="the vectors to compare")
            yield rows, block.astype(np.float64 if block.dtype == np.float64 else np.float32)


def _slices(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
