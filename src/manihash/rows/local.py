"""How rows are visited: in fixed blocks, in order, on several threads, each block prepared the same way.

Rows may lie in an array, a memory map, a scipy.sparse matrix, or in anything else that has a ``shape``, a
numpy ``dtype`` and gives ``X[start:stop]``: a file that ``open_vectors`` opened, an h5py or zarr array.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from math import inf
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from manihash import checks
from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.progress import advance
from manihash.rows.places import Chosen, rows_at
from manihash.types import Floats, Ints

Result = TypeVar("Result")
Arrays = tuple[Any, ...]

# Prepared rows are kept in memory up to this many bytes, and prepared anew on each visit beyond.
KEEP_BYTES = 2**29
# Numbers in a span: some blocks whose sums are added up where they are made (see ``Rows.fold``).
_SPAN_NUMBERS = 2**24
# How long blocks are made before a user is given them (see ``Rows.in_turns``).
_TURN_SECONDS = 1.0
# How many times the spread of the rows their mean may be, in squares, before it is subtracted.
_FAR = 100
# Rows that tell where the rows lie.
_STRETCHES, _STRETCH_ROWS, _STRETCH_NUMBERS = 8, 64, 2**17


class Rows:
    """The rows of X (n, d): checked for NaN and infinity, converted, scaled to unit length if so asked.

    An ``origin`` (d,) is subtracted last (see ``far_origin``). An error names rows by their ``numbers``: that
    of each, or of the first.

    Only blocks of X are held as numbers to compute with, but for what fits ``KEEP_BYTES``. The blocks depend
    on the width of X alone, so a sum over them is the same on one thread and on many.
    ``together`` blocks are handed over at once where what is done with them needs no fixed blocks.
    """

    together = 1
    device: Any = None  # of torch, where blocks are tensors

    def __init__(
        self,
        X: Any,
        *,
        normalize: bool = False,
        origin: Floats | None = None,
        numbers: int | Ints = 0,
    ) -> None:
        self.X = X
        self.normalize = normalize
        self.origin = origin
        self.numbers = numbers
        self.dtype = backend(X).float_type(X)
        self._kept: Floats | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    def map(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f of each block of rows, in the order of the rows, from row ``start`` on.

        ``stage`` names the work for a progress bar. X is read here, one block after the other, and prepared
        on the threads.
        """
        return self._mapped(f, self._reading, stage, start)

    def in_turns(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """As ``map``, for a loop of the user's: blocks are made for a second, and then handed over.

        So BLAS is on one thread while they are made, and not while the user does something with them.
        """
        while start < len(self):
            made = list(self._mapped(f, self._reading, stage, start, until=monotonic() + _TURN_SECONDS))
            start += len(made) * self.together * numpy_backend.block_rows(self.width)
            yield from made

    def _mapped(
        self,
        f: Callable[[Floats], Result],
        reading: Callable[[int, int], Callable[[], Floats]],
        stage: str = "",
        start: int = 0,
        until: float = inf,
    ) -> Iterator[Result]:
        """``map`` of what ``reading`` gives, until a moment: what was begun is then brought to its end."""
        size, n = self.together * numpy_backend.block_rows(self.width), len(self)
        starts = range(start, n, size)
        with single_blas_thread() as threads:
            if len(starts) == 1:
                yield f(reading(start, n)())
                return
            with ThreadPoolExecutor(threads) as pool:
                pending: deque[Future[Result]] = deque()
                done = start
                try:
                    for done in starts:
                        pending.append(pool.submit(_apply, f, reading(done, min(done + size, n))))
                        if len(pending) > 2 * threads:
                            yield pending.popleft().result()
                        if stage:
                            advance(stage, done, n)
                        if monotonic() > until:
                            break
                    while pending:
                        yield pending.popleft().result()
                    if stage and done + size >= n:
                        advance(stage, n, n)
                finally:
                    for future in pending:
                        future.cancel()

    def fold(self, f: Callable[[Floats], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """What f says of each row, one below the other, and what it sums, added up in float64.

        f gives two tuples of arrays: those of the first are as long as the block, those of the second, which
        may be sparse, are added. Blocks are added up in a span, spans to the whole, in the order of the rows:
        a span can be added up on another machine, and not a bit changes.
        """
        blocks = self.map(f, stage)
        per_span = span_rows(self.width) // numpy_backend.block_rows(self.width)
        spans = range(0, len(self), span_rows(self.width))
        return joined(joined(islice(blocks, per_span)) for _ in spans)

    def stack(self, f: Callable[[Floats], Floats], width: int, dtype: Any, stage: str = "") -> Floats:
        """f of each block, (b, width), written one below the other: (n, width)."""
        out = np.empty((len(self), width), dtype)
        start = 0
        for part in self.map(f, stage):
            out[start : start + len(part)] = part
            start += len(part)
        return out

    def lay(self, f: Callable[[Floats], Floats], width: int, dtype: Any, stage: str = "") -> Any:
        """As ``stack``, for what a user asks for: of rows that lie elsewhere it may be computed later."""
        return self.stack(f, width, dtype, stage)

    def to_device(self, array: Floats) -> Any:
        """The array as the backend of these rows takes it: as it is, or as a tensor on their device."""
        return array

    def take(self, index: Any) -> Floats:
        """The rows at the given positions, prepared."""
        order = np.argsort(index, kind="stable")
        ordered = np.asarray(index)[order]
        taken = np.empty((len(index), self.width), self.dtype)
        if self._kept is not None:
            taken[order] = self._kept[ordered]
        else:
            taken[order] = self._prepare(rows_at(self.X, ordered), self._numbers_of(ordered))
        return taken

    def only(self, index: Ints) -> "Rows":
        """The rows at the given positions, which ascend, as rows to visit; they stay where they are."""
        numbers = self._numbers_of(index)
        return Rows(Chosen(self.X, index), normalize=self.normalize, origin=self.origin, numbers=numbers)

    def drawn(self, size: int, rng: np.random.Generator) -> "Rows":
        """So many rows to visit, one from each of ``size`` equal stretches: nothing of length n is held."""
        edges = np.arange(size + 1) * len(self) // size
        return self.only(rng.integers(edges[:-1], edges[1:]))

    def block(self, start: int, stop: int) -> Floats:
        """Rows start to stop, prepared."""
        return self._reading(start, stop)()

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
        elif len(self) * self.width * self.dtype.itemsize <= KEEP_BYTES:
            held = np.empty((len(self), self.width), self.dtype)
            for _ in self._mapped(_nothing, lambda a, b: self._reading(a, b, held[a:b])):
                pass
            self._kept = held
        return self

    def _reading(self, start: int, stop: int, out: Floats | None = None) -> Callable[[], Floats]:
        """Rows start to stop: read now, prepared when called, in ``out`` or anew."""
        if self._kept is not None:
            return partial(_itself, self._kept[start:stop])
        return partial(self._prepare, self.X[start:stop], self._numbers_of(np.arange(start, stop)), out)

    def _numbers_of(self, index: Ints) -> Ints:
        return index + self.numbers if isinstance(self.numbers, int) else self.numbers[index]

    def _prepare(self, part: Any, numbers: Ints, out: Floats | None = None) -> Floats:
        """Rows as they were read, made ready, in ``out`` or anew; ``numbers`` are their names in an error."""
        part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        if out is None:
            block = np.ascontiguousarray(part, self.dtype)
        else:
            np.copyto(block := out, part, casting="unsafe")
        if self.normalize:
            squared = numpy_backend.squared_norms(block)
            _check_squares(part, squared, numbers)
            own = None if np.may_share_memory(block, part) else block
            block = numpy_backend.unit_rows(block, squared, out=own)
        elif not numpy_backend.sum_of_squares(block) <= largest_square(self.dtype):
            _check_squares(part, numpy_backend.squared_norms(block), numbers)
        if self.origin is None:
            return block
        return np.subtract(block, self.origin.astype(self.dtype, copy=False), out=out)


def span_rows(width: int) -> int:
    """Rows in a span: whole blocks, a function of the width alone."""
    block = numpy_backend.block_rows(width)
    return block * max(1, _SPAN_NUMBERS // (block * max(width, 1)))


def joined(parts: Iterable[tuple[Arrays, Arrays]]) -> tuple[Arrays, Arrays]:
    """Two tuples of arrays from many: the first put one below the other, the second added up in float64."""
    each: list[Arrays] = []
    sums: Arrays = ()
    for of_rows, summed in parts:
        each.append(of_rows)
        sums = sums or tuple(np.zeros(part.shape) for part in summed)
        for total, part in zip(sums, summed, strict=True):
            total += part.toarray() if hasattr(part, "toarray") else part
    return tuple(np.concatenate(column) for column in zip(*each, strict=True)), sums


def largest_square(dtype: np.dtype[Any]) -> float:
    """How long a row may be, in squares: |x - c|² is up to 4 max(|x|², |c|²), and must not overflow."""
    return float(np.finfo(dtype).max / 8)


def _check_squares(part: Any, squared: Floats, numbers: Ints) -> None:
    """Raise for NaN, infinity, or distances that would overflow."""
    if not (squared <= largest_square(squared.dtype)).all():
        checks.finite_block(np.asarray(part), numbers=numbers)
        raise checks.BadRowsError(
            f"the squares of some values overflow {squared.dtype} (row {numbers[int(squared.argmax())]}): "
            "scale the vectors down, or give them as float64"
        )


def far_origin(rows: Rows) -> Floats | None:
    """The mean of some rows, if they lie so far from zero that float32 would blur distances.

    |x|² - 2xᵀc + |c|² is then a small difference of large numbers. Distances do not depend on the origin.
    """
    if rows.dtype == np.float64:
        return None
    some = rows.take(_stretches(len(rows), rows.width)).astype(np.float64)
    mean = some.mean(axis=0)
    spread = float(numpy_backend.squared_norms(some - mean).mean())
    return mean if float(mean @ mean) > _FAR * spread > 0 else None


def _stretches(n: int, width: int) -> Ints:
    """Places of some rows out of n: a few stretches, evenly apart, since files are read in stretches."""
    rows = min(_STRETCH_ROWS, 2 + _STRETCH_NUMBERS // max(width, 1))
    starts = np.linspace(0, max(n - rows, 0), _STRETCHES).astype(np.intp)
    places = np.unique(starts[:, None] + np.arange(rows))
    return places[places < n]


def _apply(f: Callable[[Floats], Result], reading: Callable[[], Floats]) -> Result:
    return f(reading())


def _itself(block: Floats) -> Floats:
    return block


def _nothing(block: Floats) -> None:
    """A visit for the sake of its checks."""
