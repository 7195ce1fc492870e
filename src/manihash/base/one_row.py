"""The signs of a single row, by few calls of numpy: they take longer than the arithmetic of one row."""

import math
from typing import Any

import numpy as np

from manihash.base.closest import Points
from manihash.compute.rounding import sum_error
from manihash.rows.raw import Preparation, ScaledBlock
from manihash.rows.rows import largest_square
from manihash.types import Floats, Mask


class OneRow:
    """Decides the signs of the values of one row by the bounds of ``InducedMap``, if k < m."""

    def __init__(
        self, points: Points, k: int, exponent: float, signed: Floats, preparation: Preparation
    ) -> None:
        self.points, self.k, self.exponent, self.signed = points, k, exponent, signed
        self.dtype, self.normalize = preparation.dtype, preparation.normalize
        self._ct, self._h = points.typed(self.dtype, "C")
        limits = np.finfo(self.dtype)
        self._least = float(limits.tiny / limits.eps)
        self._largest = float(largest_square(self.dtype))
        self._sums = sum_error(points.d, self.dtype), sum_error(k, self.dtype)

    def signs(self, x: Any) -> Mask | None:
        """Whether the values (r,) of a row x (d,) are positive; None if that is not certain, or x invalid."""
        x = x.astype(self.dtype, copy=False)
        with np.errstate(all="ignore"):
            squared = float(x @ x)
            if not self._least <= squared <= self._largest:
                return None
            length = math.sqrt(squared)
            scale = length if self.normalize else 1.0
            scores = x @ self._ct
            scores -= self._h * scale
            near = scores.argpartition(-self.k - 1)[-self.k - 1 :]
            near = near[scores[near].argsort()]
            nearest: list[float] = scores[near].tolist()
            error = float(self.points.error(ScaledBlock(x, scale, length)))  # type: ignore[arg-type]
            if not nearest[0] < nearest[1] - 2 * error:
                return None
            return self._decided(near[1:], nearest[1:], error, self.exponent / scale)

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
