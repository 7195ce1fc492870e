"""Maps from the space of a new embedding model into that of an old one, with the same numbers everywhere.

A mapped row is rounded to a grid of fixed width, far finer than the error of any map. BLAS computes the row
in float64, with a bound on its error. Where the bound leaves two grid points possible, the number is computed
again in a fixed order. So a mapped row does not depend on the batch, the threads or the machine, and neither
does the code that an old hasher gives it.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.rounding import ordered_norms, paired_products, sum_error
from manihash.rows.raw import check_squares
from manihash.types import Floats, Ints

# Multiples of the step up to this one are exact in float32.
_EXACT_IN_FLOAT32 = 2.0**22
# Numbers of mapped rows that are computed at once: they fit into the cache of a core.
_CHUNK_NUMBERS = 2**16
# Stages of sums whose errors add up: the reduced row, its hidden values, and the mapped row.
_STAGES = 3


@dataclass(frozen=True)
class SpaceMap:
    """A map of rows x (d,) of the new space to rows y (p,) of the old one.

        y = z A + t B + max(t W + c, 0) V + b,   z = x - m, t = z U

    Orthogonal and ridge maps have A alone, low-rank maps U and B. A residual map has A, U, W, c and V. What a
    map does not have is None. If ``unit`` is true, rows are scaled to unit length first. The center m keeps
    rounding errors small for rows far from zero. ``step`` is the width of the grid that mapped rows are
    rounded to, a power of two.
    """

    kind: str
    unit: bool
    step: float
    center: Floats  # m (d,)
    offset: Floats  # b (p,)
    linear: Floats | None = None  # A (d, p)
    down: Floats | None = None  # U (d, r)
    up: Floats | None = None  # B (r, p)
    hidden: Floats | None = None  # W (r, h)
    hidden_offset: Floats | None = None  # c (h,)
    residual: Floats | None = None  # V (h, p)

    def values(self) -> dict[str, Any]:
        """The fields as plain values for a model file."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def n_products(self) -> int:
        """Multiplications per row."""
        parts = (self.linear, self.down, self.up, self.hidden, self.residual)
        return sum(part.size for part in parts if part is not None)

    def centered(self, X: Floats) -> Floats:
        """The rows z (n, d) in float64, of rows x: scaled if the map needs it, in a fixed order."""
        Z = np.array(X, np.float64)
        if self.unit:
            Z = numpy_backend.unit_rows(Z, ordered_norms(Z), out=Z)
        Z -= self.center
        return Z

    def apply(self, X: Floats) -> Floats:
        """The mapped rows (n, p) of rows (n, d), in float64, not rounded to the grid."""
        return self.of_centered(self.centered(X))

    def of_centered(self, Z: Any) -> Any:
        """The mapped rows (n, p) of centered rows z, an array or a tensor in float64."""
        xp = backend(Z)
        Y = None if self.linear is None else Z @ xp.like(self.linear, Z)
        if self.down is not None:
            t = Z @ xp.like(self.down, Z)
            if self.up is not None:
                Y = t @ xp.like(self.up, Z) if Y is None else Y + t @ xp.like(self.up, Z)
            if self.hidden is not None:
                h = t @ xp.like(self.hidden, Z) + xp.like(self.hidden_offset, Z)
                h = xp.where(h > 0, h, xp.zeros_like(h)) @ xp.like(self.residual, Z)
                Y = h if Y is None else Y + h
        Y += xp.like(self.offset, Z)
        return Y


class CertainMap:
    """Maps rows to grid points of the old space: the same ones in every batch and on every machine."""

    def __init__(self, space_map: SpaceMap, dtype: Any = np.float32) -> None:
        self._map = space_map
        self._in_steps = _divided(space_map, space_map.step)
        exact = np.abs(self._in_steps.offset).max(initial=0) <= _EXACT_IN_FLOAT32
        self.dtype = np.dtype(dtype if exact else np.float64)
        per_length, fixed = _error_bound(self._in_steps)
        self._per_length, self._fixed = float(per_length.max(initial=0)), float(fixed.max(initial=0))
        self._chunk = max(16, _CHUNK_NUMBERS // len(space_map.offset))
        self._columns = {
            name: None if (part := getattr(self._in_steps, name)) is None else np.ascontiguousarray(part.T)
            for name in ("linear", "down", "up", "hidden", "residual")
        }

    def rows(self, part: Any, row_numbers: Any) -> Floats:
        """The mapped rows (b, p) of a part of X (b, d) as it was given; ``row_numbers`` names bad rows."""
        check_squares(part, numpy_backend.squared_norms(np.asarray(part, np.float64)), row_numbers)
        Z = self._map.centered(part)
        margin = self._margin(np.sqrt(numpy_backend.squared_norms(Z)))
        mapped = np.empty((len(Z), len(self._map.offset)), self.dtype)
        for start in range(0, len(Z), self._chunk):
            some = slice(start, start + self._chunk)
            nearest = self._numbers(Z[some], margin[some])
            with np.errstate(over="ignore"):  # the old hasher names the row
                np.multiply(nearest, self._map.step, out=mapped[some], casting="same_kind")
        return mapped

    def _margin(self, length: Any) -> Any:
        """How far a number may be from its grid point and be certain, (b,), in steps, given lengths |z| (b,).

        Twice the error is left: the number in a fixed order must be on the same side as the exact one.
        """
        return 0.5 - 2 * (self._per_length * length + self._fixed)

    def _numbers(self, Z: Floats, margin: Floats) -> Floats:
        """The numbers of the grid points nearest to mapped rows (b, p), given centered rows (b, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            Y = self._in_steps.of_centered(Z)
            nearest = np.rint(Y)
            np.abs(np.subtract(Y, nearest, out=Y), out=Y)
            doubtful = np.flatnonzero(~(Y.max(axis=1) < margin))
        if len(doubtful):
            rows, columns = np.nonzero(~(Y[doubtful] < margin[doubtful, None]))
            rows = doubtful[rows]
            nearest[rows, columns] = np.rint(self._exact(Z, rows, columns))
        return nearest

    def tensor(self, X: Any) -> Any:
        """As ``rows``, for a tensor (b, d) of checked rows in float64; the result is in float64, too."""
        xp = backend(X)
        Z = xp.unit_rows(X, xp.squared_norms(X)) if self._map.unit else X
        Z = Z - xp.like(self._map.center, Z)
        margin = self._margin(xp.squared_norms(Z) ** 0.5)
        Y = self._in_steps.of_centered(Z)
        nearest = xp.round(Y)
        certain = (xp.abs(Y - nearest) < margin[:, None]) & (xp.abs(nearest) <= _EXACT_IN_FLOAT32)
        again = np.flatnonzero(xp.to_numpy(~certain.all(axis=1)))
        nearest *= self._map.step
        if len(again):
            nearest[again] = xp.copy_like(self.rows(xp.to_numpy(X[again]), again), nearest)
        return nearest

    def _exact(self, Z: Floats, rows: Ints, columns: Ints) -> Floats:
        """Numbers of mapped rows at the given places, in steps, added in a fixed order."""
        own, place = np.unique(rows, return_inverse=True)
        X, at = Z[own], columns[:, None]
        found = np.zeros((len(rows), 1))
        if (A := self._columns["linear"]) is not None:
            found += paired_products(X[place], A, at)
        if (U := self._columns["down"]) is not None:
            t = _ordered_product(X, U)
            if (B := self._columns["up"]) is not None:
                found += paired_products(t[place], B, at)
            if (W := self._columns["hidden"]) is not None:
                h = np.maximum(_ordered_product(t, W) + self._in_steps.hidden_offset, 0)
                found += paired_products(h[place], self._columns["residual"], at)  # type: ignore[arg-type]
        return found[:, 0] + self._in_steps.offset[columns]


def _divided(space_map: SpaceMap, step: float) -> SpaceMap:
    """The map with results divided by a step; exact, since the step is a power of two."""
    parts = {
        name: getattr(space_map, name) / step
        for name in ("linear", "up", "residual")
        if getattr(space_map, name) is not None
    }
    return replace(space_map, offset=space_map.offset / step, **parts)


def _ordered_product(X: Floats, C: Floats) -> Floats:
    """X (b, d) times the transpose of C (m, d), added in an order that depends on d alone."""
    return paired_products(X, C, np.broadcast_to(np.arange(len(C)), (len(X), len(C))))


def _error_bound(space_map: SpaceMap) -> tuple[Floats, Floats]:
    """Bounds (p,) on the error of mapped rows in float64: one per unit of the length |z|, and one fixed.

    The fixed one has the error of z itself: rows x are prepared alike everywhere except on a GPU, where their
    scaling to unit length, and so z, may differ by a rounding of a row of unit length.
    """
    parts = (space_map.linear, space_map.down, space_map.hidden, space_map.residual, space_map.up)
    longest = max(len(part) for part in parts if part is not None)
    per_length, fixed = np.zeros(len(space_map.offset)), np.abs(space_map.offset)
    if space_map.linear is not None:
        per_length += np.linalg.norm(space_map.linear, axis=0)
    if space_map.down is not None:
        of_reduced = np.linalg.norm(space_map.down, axis=0)  # |t_j| <= |z| |u_j|
        if space_map.up is not None:
            per_length += of_reduced @ np.abs(space_map.up)
        if space_map.hidden is not None and space_map.residual is not None:
            size = np.abs(space_map.residual)
            per_length += of_reduced @ np.abs(space_map.hidden) @ size
            fixed = fixed + np.abs(space_map.hidden_offset) @ size  # type: ignore[arg-type]
    if space_map.unit:
        fixed = fixed + per_length
    relative = _STAGES * sum_error(longest, np.dtype(np.float64))
    return relative * per_length, relative * fixed
