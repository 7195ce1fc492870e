"""Rows on this machine, in memory or in a file, visited in fixed blocks on several threads.

X is an array, a memory map, a scipy.sparse matrix, or any object that has a ``shape``, a numpy ``dtype`` and
supports ``X[start:stop]``: a file opened by ``open_vectors``, an h5py or zarr array.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from math import inf
from time import monotonic
from typing import Any

import numpy as np

from manihash.checks import check_unmasked
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.progress import advance
from manihash.rows.raw import Preparation, check_squares
from manihash.rows.rows import (
    CACHE_BYTES,
    Arrays,
    Result,
    Rows,
    combine,
    largest_square,
    span_rows,
)
from manihash.types import Floats, Ints

# How long ``stream`` computes blocks before it hands them to the user.
_STREAM_SECONDS = 1.0


class LocalRows(Rows):
    """Rows in memory or in a file of this machine.

    Only a few prepared blocks are in memory at a time, unless ``cached`` keeps them all. The size of a block
    depends on the width of X alone, so a sum over blocks is the same on one thread and on many.
    """

    _cache: Floats | None = None

    def map(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f(block) of each block, in row order: this thread reads X, others prepare the blocks and call f."""
        return self._map(f, self._reader, stage, start)

    def stream(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """As ``map``, for a loop of the user: blocks are computed for a second, then handed over.

        So BLAS is limited to one thread while blocks are computed, and not while the user works with them.
        """
        while start < len(self):
            done = list(self._map(f, self._reader, stage, start, until=monotonic() + _STREAM_SECONDS))
            start += len(done) * self._rows_at_once()
            yield from done

    def fold(self, f: Callable[[Floats], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """As ``Rows.fold``."""
        blocks = self.map(f, stage)
        per_span = span_rows(self.width) // numpy_backend.block_rows(self.width)
        spans = range(0, len(self), span_rows(self.width))
        return combine(combine(islice(blocks, per_span)) for _ in spans)

    def take(self, index: Any) -> Floats:
        """The prepared rows at the given positions."""
        order = np.argsort(index, kind="stable")
        ordered = np.asarray(index)[order]
        taken = np.empty((len(index), self.width), self.dtype)
        if self._cache is not None:
            taken[order] = self._cache[ordered]
        else:
            taken[order] = prepare(self, read_rows(self.X, ordered), self._numbers_at(ordered))
        return taken

    def subset(self, index: Ints) -> "LocalRows":
        """The rows at the given ascending positions, not copied."""
        numbers = self._numbers_at(index)
        X = Subset(self.X, index)
        return LocalRows(X, **self.prepared_as, row_numbers=numbers)

    def block(self, start: int, stop: int) -> Floats:
        """The prepared rows from start to stop."""
        return self._reader(start, stop)()

    def cached(self) -> "LocalRows":
        """Self, after all rows were checked once and, if they fit into ``CACHE_BYTES``, cached."""
        if self._cache is not None:
            return self
        unchanged = not self.normalize and self.origin is None and self.X.dtype == self.dtype
        if unchanged and isinstance(self.X, np.ndarray) and numpy_backend.is_plain(self.X):
            for _ in self.map(_discard):
                pass
            self._cache = self.X
        elif len(self) * self.width * self.dtype.itemsize <= CACHE_BYTES:
            cache = np.empty((len(self), self.width), self.dtype)
            for _ in self._map(_discard, lambda a, b: self._reader(a, b, cache[a:b])):
                pass
            self._cache = cache
        return self

    def _map(
        self,
        f: Callable[[Floats], Result],
        reader: Callable[[int, int], Callable[[], Floats]],
        stage: str = "",
        start: int = 0,
        until: float = inf,
    ) -> Iterator[Result]:
        """f(reader(a, b)()) of all blocks; after the time ``until`` no more blocks are started."""
        size, n = self._rows_at_once(), len(self)
        starts = range(start, n, size)
        if len(starts) == 1 and self.raw:  # what is computed with raw blocks does not depend on threads
            yield f(reader(start, n)())
            return
        with single_blas_thread() as threads:
            if threads == 1 and self._in_memory:  # nothing to read while another thread computes
                for done in starts:
                    yield f(reader(done, min(done + size, n))())
                    if stage:
                        advance(stage, min(done + size, n), n)
                    if monotonic() > until:
                        return
                return
            if len(starts) == 1:
                yield f(reader(start, n)())
                return
            with ThreadPoolExecutor(threads) as pool:
                pending: deque[Future[Result]] = deque()
                done = start
                try:
                    for done in starts:
                        pending.append(pool.submit(_apply, f, reader(done, min(done + size, n))))
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

    @property
    def _in_memory(self) -> bool:
        return self._cache is not None or (
            isinstance(self.X, np.ndarray) and not isinstance(self.X, np.memmap)
        )

    def _rows_at_once(self) -> int:
        return self.blocks_at_once * numpy_backend.block_rows(self.width)

    def _reader(self, start: int, stop: int, out: Floats | None = None) -> Callable[[], Any]:
        """Read rows start to stop now; the function returned prepares them, in ``out`` if given."""
        if self._cache is not None:
            return partial(_identity, self._cache[start:stop])
        if self.raw:
            return partial(_dense, self.X[start:stop], self._numbers_at(np.arange(start, stop)))
        return partial(prepare, self, self.X[start:stop], self._numbers_at(np.arange(start, stop)), out)


def prepare(rows: Rows | Preparation, part: Any, row_numbers: Ints, out: Floats | None = None) -> Floats:
    """A part of X as read, dense or sparse (b, d), prepared as ``rows`` says, in ``out`` if given."""
    part = _dense(part, row_numbers)[0]
    if rows.exact_until_shifted:
        block = numpy_backend.plain(part, np.float64)
    elif out is None:
        block = numpy_backend.plain(part, rows.dtype)
    else:
        np.copyto(block := out, part, casting="unsafe")
    if rows.normalize:
        squared = numpy_backend.squared_norms(block)
        check_squares(part, squared, row_numbers)
        block = numpy_backend.unit_rows(
            block, squared, out=None if np.may_share_memory(block, part) else block
        )
    elif not numpy_backend.sum_of_squares(block) <= largest_square(rows.dtype):
        check_squares(part, numpy_backend.squared_norms(block), row_numbers)
    if rows.origin is None:
        return block
    shifted = np.subtract(block, rows.origin.astype(block.dtype, copy=False), out=out, casting="same_kind")
    return shifted.astype(rows.dtype, copy=False)


def is_sliceable(X: Any) -> bool:
    """Whether X is not an array, but supports X[start:stop]: rows in a file, or on other machines."""
    if isinstance(X, np.ndarray) or hasattr(X, "toarray") or not hasattr(X, "__getitem__"):
        return False
    return isinstance(getattr(X, "dtype", None), np.dtype) and len(getattr(X, "shape", ())) == 2


class Subset:
    """Some rows of X, in a form that can be sliced; they are read from X when they are needed."""

    def __init__(self, X: Any, index: Ints) -> None:
        self.X = X
        self.index = index
        self.shape = len(index), X.shape[1]
        self.dtype = X.dtype

    def __getitem__(self, part: slice) -> Any:
        return read_rows(self.X, self.index[part])

    def rows_at(self, ordered: Ints) -> Any:
        """The rows at ascending positions within the subset."""
        return read_rows(self.X, self.index[ordered])


def read_rows(X: Any, ordered: Ints) -> Any:
    """The rows of X at ascending positions; a file is read in blocks from the first to the last of them.

    If X has a method ``rows_at``, it is called instead.
    """
    if isinstance(X, np.ndarray) or hasattr(X, "toarray"):
        return X[ordered]
    if hasattr(X, "rows_at"):
        return X.rows_at(ordered)
    taken = np.empty((len(ordered), X.shape[1]), X.dtype)
    size, at = numpy_backend.block_rows(X.shape[1]), 0
    while at < len(ordered):
        first = ordered[at]
        end = int(np.searchsorted(ordered, first + size))
        part = X[first : ordered[end - 1] + 1]
        check_unmasked(part, row_numbers=np.arange(first, first + len(part)))
        taken[at:end] = np.asarray(part)[ordered[at:end] - first]
        at = end
    return taken


def _apply(f: Callable[[Floats], Result], read: Callable[[], Floats]) -> Result:
    return f(read())


def _dense(part: Any, row_numbers: Ints) -> tuple[Any, Ints]:
    """A part of X as an array; a file or a dask array may give masked ones."""
    check_unmasked(part, row_numbers=row_numbers)
    return part.toarray() if hasattr(part, "toarray") else np.asarray(part), row_numbers


def _identity(block: Floats) -> Floats:
    return block


def _discard(block: Floats) -> None:
    """Do nothing: the rows are visited to be checked."""
