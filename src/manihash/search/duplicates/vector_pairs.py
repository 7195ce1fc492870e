"""Similarity of given pairs of rows, and of some rows to all rows, by their original vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import check_unmasked, finite_block, not_numbers, positive_number
from manihash.types import Floats, Ids, Mask

# Values of original vectors read at once, at most and at least.
_VALUES, _FEWEST_VALUES = 2**21, 2**12
# Pairs that are compared at once.
_PAIRS = 2**20
# Bytes of memory that a value read at once, and a pair of some rows with all rows, need.
_BYTES_PER_VALUE, _BYTES_PER_PAIR = 40, 48
# Rows from which the mean and the scale of all rows are estimated.
_SAMPLE = 512
# Relative rounding error of float32, and the largest number that is rounded to zero.
_ROUNDING, _UNDERFLOW = 2.0**-24, 2.0**-126


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
    """Compares rows of X (n, d), in memory or memory-mapped, with each other. A zero row has cosine 0.

    Rows are kept in float32 if that needs at most half of ``memory`` bytes; otherwise they are read and
    prepared when they are compared. They are of unit length for cosines, otherwise shifted to their mean and
    divided by a power of two. What the error bounds of these copies do not decide is computed in float64
    from X.
    """

    def __init__(self, X: Any, threshold: Threshold, memory: int) -> None:
        if X.dtype.kind not in "fiub":
            raise not_numbers(X.dtype, "the vectors to compare hold")
        self.threshold = threshold
        self._X, self._memory = X, memory
        self._lengths = np.empty(len(X))  # of the rows that are kept
        sample = _float64(X[np.unique(np.linspace(0, len(X) - 1, min(len(X), _SAMPLE)).astype(np.intp))])
        largest = np.abs(sample[np.isfinite(sample)]).max(initial=0)
        self._scale = _power_of_two(largest)
        self._origin = (sample / self._scale).mean(axis=0)
        self._kept = None
        kept = np.empty(X.shape, np.float32) if 4 * int(np.prod(X.shape)) <= memory // 2 else None
        for rows, block in self._blocks():
            self._lengths[rows] = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))
            if kept is not None:
                kept[rows] = block
        self._kept = kept

    def verified(self, a: Ids, b: Ids) -> tuple[Mask, Floats]:
        """Whether the rows a and b (p,) of each pair are duplicates, and their cosine or distance.

        Of pairs that are no duplicates, it is an estimate.
        """
        values = np.empty(len(a))
        for some in _slices(len(a), self._rows_at_once):
            values[some] = self._estimates(a[some], b[some])
        certain = np.abs(values - self._limit) > self._errors(a, b)  # false for NaN as well
        again = np.flatnonzero(~certain | self._holds(values))
        if not self.threshold.is_cosine:
            values *= self._scale
        for some in _slices(len(again), self._rows_at_once):
            i, j = a[again[some]], b[again[some]]
            values[again[some]] = self._exact(_float64(self._X[i]), _float64(self._X[j]))
        is_pair = np.zeros(len(a), bool)
        is_pair[again] = self.threshold.holds(values[again])
        return is_pair, values

    def duplicates_of(self, some: Ids) -> Iterator[tuple[Ids, Ids]]:
        """All duplicates of some rows among all rows, block by block: positions in ``some``, and rows."""
        queries, lengths = self._rows(some), self._lengths[some, None]
        for rows, block in self._blocks(self._memory // (4 * _BYTES_PER_PAIR * max(1, len(some)))):
            values = (queries @ block.T).astype(np.float64)
            size = lengths + self._lengths[rows]
            error = 2 * (block.shape[1] + 16) * _ROUNDING * size * size
            if self.threshold.is_cosine:
                near = ~(values < self._limit - error)
            else:
                values *= -2
                values += lengths**2 + self._lengths[rows] ** 2
                near = ~(values > (self._limit + self._absolute(size)) ** 2 + error)
            query, row = np.nonzero(near)
            row = row + rows.start
            other = some[query] != row
            query, row = query[other], row[other]
            for part in _slices(len(query), _PAIRS):
                is_pair, _ = self.verified(some[query[part]], row[part])
                yield query[part][is_pair], row[part][is_pair]

    def squared_spread(self, some: Ids) -> float:
        """Mean squared distance of some rows to their mean, in the unit of ``largest_gap``."""
        rows = self._rows(some).astype(np.float64)
        return float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())

    @property
    def n_columns(self) -> int:
        """Number of values of a row."""
        return int(self._X.shape[1])

    @property
    def largest_gap(self) -> float:
        """Euclidean distance of two duplicates at the threshold, as rows are kept."""
        return float(np.sqrt(max(0.0, 2 - 2 * self._limit))) if self.threshold.is_cosine else self._limit

    @property
    def _rows_at_once(self) -> int:
        return _rows_at_once(self._X, self._memory)

    @property
    def _limit(self) -> float:
        """The threshold in the unit of the rows that are kept."""
        return self.threshold.value / (1 if self.threshold.is_cosine else self._scale)

    def _holds(self, values: Floats) -> Mask:
        return values >= self._limit if self.threshold.is_cosine else values <= self._limit

    def _estimates(self, a: Ids, b: Ids) -> Floats:
        """Cosines or distances of the kept rows a and b (p,)."""
        A, B = self._rows(a), self._rows(b)
        if self.threshold.is_cosine:
            return np.einsum("ij,ij->i", A, B).astype(np.float64)
        difference = np.subtract(A, B, out=A)
        return np.sqrt(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))

    def _errors(self, a: Ids, b: Ids) -> Floats:
        """Bounds (p,) on the errors of the estimates."""
        d = self._X.shape[1]
        size = self._lengths[a] + self._lengths[b]
        return (d + 16) * _ROUNDING * size if self.threshold.is_cosine else self._absolute(size)

    def _absolute(self, size: Floats) -> Floats:
        """A bound on the error of distances between kept rows whose lengths add up to ``size``."""
        # Rounding of both rows, of their difference, of the shift, and numbers that underflow.
        shift = 2.0**-50 * float(np.abs(self._origin).max(initial=0)) * self._X.shape[1] ** 0.5
        return 8 * _ROUNDING * size + shift + _UNDERFLOW * self._X.shape[1]

    def _exact(self, A: Floats, B: Floats) -> Floats:
        """Cosines or distances of the rows of A and B (p, d), float64; they may be very large or small."""
        with np.errstate(over="ignore"):
            if not self.threshold.is_cosine:
                difference = A - B
                scale = _power_of_two(np.abs(difference).max(axis=1))
                difference /= scale[:, None]
                return np.sqrt(np.einsum("ij,ij->i", difference, difference)) * scale
            A, B = (rows / _power_of_two(np.abs(rows).max(axis=1))[:, None] for rows in (A, B))
            squares = np.einsum("ij,ij->i", A, A) * np.einsum("ij,ij->i", B, B)
            return np.einsum("ij,ij->i", A, B) / np.sqrt(np.where(squares > 0, squares, np.inf))

    def _rows(self, positions: Ids) -> Floats:
        return self._kept[positions] if self._kept is not None else self._prepared(self._X[positions])

    def _blocks(self, at_most: int = _VALUES) -> Iterator[tuple[slice, Floats]]:
        for rows in _slices(len(self._X), max(1, min(self._rows_at_once, at_most))):
            if self._kept is not None:
                yield rows, self._kept[rows]
                continue
            part = self._X[rows]
            check_unmasked(part, "the vectors to compare")
            finite_block(_float64(part), rows.start, name="the vectors to compare")
            yield rows, self._prepared(part)

    def _prepared(self, part: Any) -> Floats:
        """Rows as they are kept, float32 (b, d); what overflows is decided in float64."""
        rows = _float64(part)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if not self.threshold.is_cosine:
                return (rows / self._scale - self._origin).astype(np.float32)
            rows = rows / _power_of_two(np.abs(rows).max(axis=1))[:, None]
            length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            return (rows / np.where(length > 0, length, 1)[:, None]).astype(np.float32)


def _float64(rows: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(rows, np.float64)


def _power_of_two(values: Any) -> Any:
    """The power of two next to each value, by which division is exact; 1 for zero and what is not finite."""
    exponent = np.clip(np.frexp(values)[1], -1000, 1000)
    return np.where(np.isfinite(values) & (np.asarray(values) > 0), np.ldexp(1.0, exponent), 1.0)


class RowMarks:
    """128-bit hashes of rows of X (n, d): rows with equal bytes have equal hashes, others almost never.

    Each half is Σ_j a_j x_j mod 2^64 over the 32-bit words x_j of a row, with random odd numbers a_j. Of two
    different rows both halves are equal with a probability of at most 2^-62.
    """

    def __init__(self, X: Any, memory: int) -> None:
        self._X = X
        self._rows_at_once = _rows_at_once(X, memory)
        count = -(-X.dtype.itemsize * X.shape[1] // 4)
        random = np.random.default_rng(11).integers(2**63, size=(count, 2), dtype=np.uint64)
        self._factors = random * np.uint64(2) + np.uint64(1)

    def words(self, first: int, last: int) -> NDArray[np.uint64]:
        """The hashes of some rows: (last - first, 2)."""
        last = min(last, len(self._X))
        hashes = np.empty((last - first, 2), np.uint64)
        for some in _slices(last - first, self._rows_at_once):
            rows = np.ascontiguousarray(self._X[first + some.start : first + some.stop])
            content = rows.view(np.uint8).reshape(len(rows), -1)
            padded = np.pad(content, ((0, 0), (0, -content.shape[1] % 4))).view(np.uint32)
            hashes[some] = padded.astype(np.uint64) @ self._factors
        return hashes

    def sample(self) -> str:
        """The hashes of some rows as text, which identifies the vectors of a resumed run."""
        n = len(self._X)
        rows = np.unique(np.linspace(0, n - 1, min(n, 64)).astype(np.int64)).tolist()
        return "".join(f"{int(self.words(row, row + 1)[0, 0]):x}" for row in rows) + f"{tuple(self._X.shape)}"


def _rows_at_once(X: Any, memory: int) -> int:
    """Rows of X (n, d) that are read at once, in a quarter of the memory."""
    return max(1, min(_VALUES, max(_FEWEST_VALUES, memory // (4 * _BYTES_PER_VALUE))) // X.shape[1])


def _slices(n: int, step: int) -> Iterator[slice]:
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
