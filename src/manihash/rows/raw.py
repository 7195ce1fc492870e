"""Rows as they were given, prepared twice: fast in their own type with an error bound, and in float64."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from manihash import checks
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import buffer, ordered_norms, sum_error
from manihash.rows.rows import largest_square, overflow_error
from manihash.types import Floats, Ints

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScaledBlock:
    """Prepared rows z (b, d), each multiplied by a scale t, with bounds.

    ``rows`` (b, d) holds t z, ``scale`` (b,) t, and ``length`` (b,) the lengths |t z|. ``error`` bounds the
    error of t z beyond rounding, (b,) or one number.
    """

    rows: Floats
    scale: Floats
    length: Floats
    error: Any = 0.0

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Preparation:
    """How rows are prepared: converted to ``dtype``, scaled to unit length, and shifted by ``origin`` (d,).

    A row is not divided by its length, which would be another pass: t z = x with t = |x|.
    """

    dtype: np.dtype[Any]
    normalize: bool = False
    origin: Floats | None = None

    @property
    def exact_until_shifted(self) -> bool:
        """Whether rows are prepared in float64: rows of unit length that lie close to each other."""
        return self.normalize and self.origin is not None

    def scaled(self, part: Any, row_numbers: Any) -> ScaledBlock:
        """The rows of a part of X (b, d) as a block, in memory of this thread that the next call overwrites.

        Raises ``BadRowsError`` for NaN, infinity or squares that overflow; ``row_numbers`` names the rows.
        """
        if self.normalize and self.origin is not None:
            check_squares(part, numpy_backend.squared_norms(np.asarray(part, self.dtype)), row_numbers)
            Z = self.exact(part)
            error = 4 * sum_error(Z.shape[1], np.float64) * (1 + float(np.linalg.norm(self.origin)))
            return as_block(Z, self.dtype, error)
        rows = self._typed(part)
        squared = numpy_backend.squared_norms(rows)
        check_squares(part, squared, row_numbers)
        if self.origin is not None:
            rows = np.subtract(
                rows, self.origin.astype(self.dtype), out=buffer("rows", rows.shape, self.dtype)
            )
            squared = numpy_backend.squared_norms(rows)
        length = np.sqrt(squared)
        if not self.normalize:
            return ScaledBlock(rows, np.ones_like(length), length)
        limits = np.finfo(self.dtype)
        faint = squared < limits.tiny / limits.eps
        if not faint.any():
            return ScaledBlock(rows, length, length)
        # Squares underflow: nothing is decided.
        return ScaledBlock(rows, np.where(faint, 1, length), np.where(faint, np.inf, length))

    def _typed(self, part: Any) -> Floats:
        """The part in the type of this preparation: not copied if it has it, otherwise in reused memory."""
        if part.dtype == self.dtype and numpy_backend.is_plain(part):
            return part
        rows = buffer("rows", part.shape, self.dtype)
        np.copyto(rows, part, casting="unsafe")
        return rows

    def exact(self, part: Any) -> Floats:
        """The prepared rows z (b, d) of a part of X in float64; they depend on nothing but the row."""
        Z = np.array(part, np.float64, order="C")  # in another order, a sum over columns is another one
        if self.normalize:
            Z = numpy_backend.unit_rows(Z, ordered_norms(Z), out=Z)
        if self.origin is not None:
            Z -= self.origin
        return Z


class DecidedMap:
    """Base class of maps that decide bits by bounds; counts the rows that it computes again in float64."""

    repeated = 0

    def count(self, repeated: int, rows: int) -> None:
        """Count the rows of a part that were computed again."""
        self.repeated += repeated
        _log.debug("%d of %d rows were computed again in float64", repeated, rows)


def as_block(Z: Floats, dtype: Any, error: float = 0.0) -> ScaledBlock:
    """Prepared rows z (b, d) as a block with scale 1."""
    rows = Z.astype(dtype, copy=False)
    length = np.sqrt(numpy_backend.squared_norms(rows))
    return ScaledBlock(rows, np.ones_like(length), length, error)


def check_squares(part: Any, squared: Floats, row_numbers: Any) -> None:
    """Raise for NaN, infinity, or distances that would overflow, and name the first such row."""
    if not (squared <= largest_square(squared.dtype)).all():
        numbers: Ints = np.asarray(row_numbers)
        checks.finite_block(np.asarray(part), row_numbers=numbers)
        raise overflow_error(squared.dtype, int(numbers[int(squared.argmax())]))
