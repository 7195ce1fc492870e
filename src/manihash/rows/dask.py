"""Rows on many machines: the chunks of a dask array, visited where they lie. The only file that imports dask.

A chunk is a span of rows, with which a worker does what one machine does with a span: the same blocks, added
up in the same order. So neither how the array was cut nor which worker did what changes a bit.
"""

import os
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from manihash.checks import extra
from manihash.progress import advance
from manihash.rows import dask_client
from manihash.rows.local import Arrays, Rows, joined, span_rows
from manihash.types import Floats, Ints

Result = TypeVar("Result")

# Chunks computed at once where there is no cluster, but dask's own threads.
_AT_ONCE = 16
# dask lets workers give memory back at once; each block of rows would ask for it anew, half the time again.
_WORKER = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
_WORKER |= {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MKL_NUM_THREADS": 1}


def is_dask(X: Any) -> bool:
    """Whether X is a dask array."""
    return type(X).__module__.startswith("dask.array")


def rows_of(X: Any, *, normalize: bool = False, origin: Floats | None = None) -> Rows:
    """The rows of X, wherever they lie."""
    return (DaskRows if is_dask(X) else Rows)(X, normalize=normalize, origin=origin)


def check_chunks(X: Any) -> None:
    """Raise if a dask array cannot be visited in blocks of rows, or the workers cannot do it."""
    if np.isnan(X.shape).any():
        raise ValueError(
            f"the dask array has chunks of unknown size (shape {X.shape}): call X.compute_chunk_sizes() first"
        )
    if X.numblocks[1] > 1:
        raise ValueError(
            f"the dask array is split along its columns, {X.chunks[1]}, and a row must lie in one chunk: "
            "give X.rechunk({1: -1})"
        )
    if (client := dask_client.current()) is not None:
        dask_client.check_workers(client)


class DaskRows(Rows):
    """The rows of a dask array (n, d), one span to a chunk."""

    def __init__(
        self, X: Any, *, normalize: bool = False, origin: Floats | None = None, numbers: int | Ints = 0
    ) -> None:
        spans = X.rechunk({0: span_rows(X.shape[1]), 1: -1})
        super().__init__(spans, normalize=normalize, origin=origin, numbers=numbers)
        self._given = X
        self._held = False

    def map(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f of each block, by the workers; from another row than the first, the blocks begin there."""
        rows = self._like(self.X[start:], self._numbers_between(start, len(self))) if start else self
        for results in rows._visit(lambda chunk: list(chunk.map(f)), stage, start):
            yield from results

    in_turns = map

    def fold(self, f: Callable[[Floats], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """As that of ``Rows``; a span is added up by one worker."""
        return joined(self._visit(lambda chunk: chunk.fold(f), stage))

    def lay(self, f: Callable[[Floats], Floats], width: int, dtype: Any, stage: str = "") -> Any:
        """f of each block as a dask array (n, width), in the chunks that X has, computed when asked for."""
        return self._given.map_blocks(
            _laid,
            job=self._job(lambda chunk: chunk.stack(f, width, dtype)),
            dtype=dtype,
            chunks=(self._given.chunks[0], (width,)),
            meta=np.empty((0, 0), dtype),
        )

    def take(self, index: Any) -> Floats:
        """The rows at the given positions, prepared here."""
        order = np.argsort(index, kind="stable")
        ordered = np.asarray(index)[order]
        taken = np.empty((len(index), self.width), self.dtype)
        taken[order] = self._prepare(_computed(self.X[ordered]), self._numbers_of(ordered))
        return taken

    def only(self, index: Ints) -> "DaskRows":
        """The rows at the given positions, which ascend; they stay with the workers."""
        return self._like(self.X[index], self._numbers_of(index))

    def block(self, start: int, stop: int) -> Floats:
        """Rows start to stop, prepared here."""
        return self._prepare(_computed(self.X[start:stop]), self._numbers_of(np.arange(start, stop)))

    def kept(self) -> "DaskRows":
        """Self; the chunks stay in the memory of the workers, if half of it holds them."""
        if not self._held and self.X.nbytes <= dask_client.memory():
            self.X = self.X.persist()
            self._held = True
        return self

    def _like(self, X: Any, numbers: int | Ints) -> "DaskRows":
        return DaskRows(X, normalize=self.normalize, origin=self.origin, numbers=numbers)

    def _job(self, visit: Callable[[Rows], Any]) -> Any:
        """What is done with each chunk, as one value of the graph: it travels to a worker once."""
        job = _Job(visit, self.normalize, self.origin)
        return extra("dask", "dask").delayed(job, name=f"manihash-{uuid.uuid4().hex}", traverse=False)

    def _visit(self, visit: Callable[[Rows], Result], stage: str = "", first: int = 0) -> Iterator[Result]:
        """visit(rows) of each chunk, in the order of the rows."""
        job, visited = self._job(visit), extra("dask", "dask").delayed(_visited, pure=False)
        chunks, stops = _chunks(self.X), np.cumsum(self.X.chunks[0])
        starts = stops - self.X.chunks[0]
        tasks = [
            visited(job, chunk, self._numbers_between(start, stop))
            for chunk, start, stop in zip(chunks, starts, stops, strict=True)
        ]
        for done, result in zip(stops, _results(tasks), strict=True):
            yield result
            if stage:
                advance(stage, first + int(done), first + len(self))

    def _numbers_between(self, start: int, stop: int) -> int | Ints:
        return self.numbers + int(start) if isinstance(self.numbers, int) else self.numbers[start:stop]


@dataclass(frozen=True)
class _Job:
    visit: Callable[[Rows], Any]
    normalize: bool
    origin: Floats | None

    def __call__(self, chunk: Any, numbers: int | Ints) -> Any:
        return self.visit(Rows(chunk, normalize=self.normalize, origin=self.origin, numbers=numbers))


def _visited(job: _Job, chunk: Any, numbers: int | Ints) -> Any:
    return job(chunk, numbers)


def _laid(chunk: Any, *, job: _Job, block_info: Any = None) -> Any:
    (first, _), _ = block_info[0]["array-location"]
    return job(chunk, int(first))


def _results(tasks: list[Any]) -> Iterator[Any]:
    """The results of the tasks in their order; the rest is called off when nobody wants it any more."""
    client = dask_client.current()
    if client is None:
        for start in range(0, len(tasks), _AT_ONCE):
            yield from extra("dask", "dask").compute(*tasks[start : start + _AT_ONCE])
        return
    futures = deque(client.compute(tasks))
    try:
        while futures:
            with dask_client.told():
                result = futures[0].result()
            futures.popleft().release()
            yield result
    finally:
        with suppress(OSError):  # a cluster that is gone needs no call
            if futures:
                client.cancel(list(futures))


def _chunks(X: Any) -> list[Any]:
    """The chunks of an array as its graph has them; in one that dask improved, old names mean new things."""
    return list(X.to_delayed(optimize_graph=False)[:, 0])


def _computed(X: Any) -> NDArray[Any]:
    return np.concatenate([np.asarray(chunk) for chunk in _results(_chunks(X))])


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Use the cluster at an address, or so many worker processes of this machine, while the block runs."""
    with (
        extra("dask", "dask").config.set({"distributed.nanny.pre-spawn-environ": _WORKER}),
        dask_client.connected(where),
    ):
        yield


def array_of(read: Callable[[int, int], NDArray[Any]], shape: tuple[int, int], dtype: Any) -> Any:
    """A dask array (n, d) whose chunks the workers read themselves, by ``read(start, stop)``."""
    n, d = shape
    size = span_rows(d)
    rows = tuple(min(size, n - start) for start in range(0, n, size))
    da = extra("dask.array", "dask")
    return da.map_blocks(
        _read_here, read=read, chunks=(rows, (d,)), dtype=dtype, meta=np.empty((0, 0), dtype)
    )


def _read_here(*, read: Callable[[int, int], NDArray[Any]], block_info: Any = None) -> NDArray[Any]:
    (start, stop), _ = block_info[None]["array-location"]
    try:
        return read(int(start), int(stop))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}. This is the Dask worker on {os.uname().nodename}: every worker must see the file, at "
            "the same path"
        ) from error
