"""How rows are visited: in fixed blocks, in order, on several threads, each block prepared the same way."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from manihash import arrays, checks
from manihash.arrays import Floats, Ints
from manihash.progress import advance

Result = TypeVar("Result")

# Prepared rows are kept in memory up to this many bytes, and prepared anew on each visit beyond.
_KEEP_BYTES = 2**29
# How many times the spread of the rows their mean may be, in squares, before it is subtracted.
_FAR = 100


class Rows:
    """The rows of X (n, d): checked for NaN and infinity, converted, scaled to unit length if so asked.

    An ``origin`` (d,) is subtracted last (see ``far_origin``).

    X may be any two-dimensional array, a memory map among them; only blocks of it are held as numbers to
    compute with, but for what fits ``_KEEP_BYTES``. The blocks depend on the width of X alone, so a sum over
    them is the same on one thread and on many.
    """

    def __init__(self, X: Any, *, normalize: bool = False, origin: Floats | None = None) -> None:
        self.X = X
        self.normalize = normalize
        self.origin = origin
        self.dtype = arrays.float_type(X)
        self._kept: Floats | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    def map(self, f: Callable[[Floats], Result], stage: str = "") -> Iterator[Result]:
        """f of each block of rows, in the order of the rows; ``stage`` names the work for a progress bar."""
        size, n = arrays.block_rows(self.width), len(self)
        starts = range(0, n, size)
        with arrays.single_blas_thread() as threads:
            if len(starts) == 1:
                yield f(self.block(0, n))
                return
            with ThreadPoolExecutor(threads) as pool:
                pending: deque[Future[Result]] = deque()
                try:
                    for done, start in enumerate(starts):
                        pending.append(pool.submit(self._visit, f, start, min(start + size, n)))
                        if len(pending) > 2 * threads:
                            yield pending.popleft().result()
                        if stage:
                            advance(stage, done, len(starts))
                    while pending:
                        yield pending.popleft().result()
                    if stage:
                        advance(stage, len(starts), len(starts))
                finally:
                    for future in pending:
                        future.cancel()

    def stack(self, f: Callable[[Floats], Floats], width: int, dtype: Any, stage: str = "") -> Floats:
        """f of each block, (b, width), written one below the other: (n, width)."""
        out = np.empty((len(self), width), dtype)
        start = 0
        for part in self.map(f, stage):
            out[start : start + len(part)] = part
            start += len(part)
        return out

    def take(self, index: Any) -> Floats:
        """The rows at the given positions, prepared."""
        order = np.argsort(index, kind="stable")
        ordered = np.asarray(index)[order]
        taken = np.empty((len(index), self.width), self.dtype)
        taken[order] = self._prepare(self.X[ordered], ordered)
        return taken

    def block(self, start: int, stop: int) -> Floats:
        """Rows start to stop, prepared."""
        if self._kept is not None:
            return self._kept[start:stop]
        return self._prepare(self.X[start:stop], np.arange(start, stop))

    def kept(self) -> "Rows":
        """Self, made ready to be visited many times: checked once, and the prepared rows held if they fit."""
        as_it_is = not self.normalize and self.origin is None
        plain = isinstance(self.X, np.ndarray) and self.X.dtype == self.dtype and as_it_is
        if self._kept is not None:
            return self
        if plain and self.X.flags.c_contiguous:
            for _ in self.map(_nothing):
                pass
            self._kept = self.X
        elif len(self) * self.width * self.dtype.itemsize <= _KEEP_BYTES:
            self._kept = self.stack(_itself, self.width, self.dtype)
        return self

    def _visit(self, f: Callable[[Floats], Result], start: int, stop: int) -> Result:
        return f(self.block(start, stop))

    def _prepare(self, part: Any, numbers: Ints) -> Floats:
        """Rows of X made ready; ``numbers`` are their places in X, by which an error names them."""
        block = np.ascontiguousarray(part, self.dtype)
        if self.normalize:
            squared = arrays.squared_norms(block)
            _check_squares(part, squared, numbers)
            block = arrays.unit_rows(block, squared)
        elif not np.isfinite(arrays.sum_of_squares(block)):
            _check_squares(part, arrays.squared_norms(block), numbers)
        return block if self.origin is None else block - self.origin.astype(self.dtype, copy=False)


def _check_squares(part: Any, squared: Floats, numbers: Ints) -> None:
    """Raise for NaN, infinity, or distances that would overflow: |x - c|² is up to 4 max(|x|², |c|²)."""
    if not (squared <= np.finfo(squared.dtype).max / 8).all():
        checks.finite_block(np.asarray(part), numbers=numbers)
        raise ValueError(
            f"the squares of some values overflow {squared.dtype} (row {numbers[int(squared.argmax())]}): "
            "scale the vectors down, or give them as float64"
        )


def far_origin(rows: Rows) -> Floats | None:
    """The mean of the first block of rows, if they lie so far from zero that float32 would blur distances.

    |x|² - 2xᵀc + |c|² is then a small difference of large numbers. Distances do not depend on the origin.
    """
    if rows.dtype == np.float64:
        return None
    block = rows.block(0, min(len(rows), arrays.block_rows(rows.width))).astype(np.float64)
    mean = block.mean(axis=0)
    spread = float(arrays.squared_norms(block - mean).mean())
    return mean if float(mean @ mean) > _FAR * spread > 0 else None


def _itself(block: Floats) -> Floats:
    return block


def _nothing(block: Floats) -> None:
    """A visit for the sake of its checks."""
