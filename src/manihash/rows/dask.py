"""Rows of a dask array, visited by the workers that hold its chunks. The only file that imports dask.

A chunk is one span of rows. A worker computes it as one machine would: the same blocks, added in the same
order. So results do not depend, in any bit, on the chunks of the array or on which worker did what.

distributed hands out arrays that lie anywhere in a message, at odd addresses too. numpy reads these through a
buffer and adds their numbers in another order. So functions and results travel as ``_Sealed`` values, and
``prepare`` copies chunks that are not aligned.
"""

import pickle
import platform
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.checks import check_unmasked, extra
from manihash.progress import advance
from manihash.rows import dask_client
from manihash.rows.local import LocalRows, prepare
from manihash.rows.rows import Arrays, Result, Rows, combine, span_rows
from manihash.types import Floats, Ints

# Chunks computed at once by the threads of dask, without a cluster.
_AT_ONCE = 16
# By default workers return freed memory at once, and every block allocates it again: 50 % slower.
_WORKER = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
_WORKER |= {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MKL_NUM_THREADS": 1}
# A worker that dies is started again. By default a new cluster gives it up for good if it is not there 15 s
# later: because the machine is busy, or because it has just died once more. Without workers nothing ends.
_NEW_CLUSTER = {
    "distributed.nanny.pre-spawn-environ": _WORKER,
    "distributed.deploy.lost-worker-timeout": "24h",
}


def is_dask(X: Any) -> bool:
    """Whether X is a dask array."""
    return type(X).__module__.startswith("dask.array")


def check_chunks(X: Any) -> None:
    """Raise if a dask array cannot be visited in blocks of rows, or if the cluster is not usable."""
    if np.isnan(X.shape).any():
        raise ValueError(
            f"the dask array has chunks of unknown size (shape {X.shape}): call X.compute_chunk_sizes() first"
        )
    if X.numblocks[1] > 1:
        raise ValueError(
            f"the dask array is split along its columns, {X.chunks[1]}, but each row must be in one chunk: "
            "pass X.rechunk({1: -1})"
        )
    if (client := dask_client.current()) is not None:
        dask_client.check_workers(client)


class DaskRows(Rows):
    """The rows of a dask array (n, d), rechunked to one span per chunk."""

    lazy = True

    def __init__(
        self,
        X: Any,
        *,
        normalize: bool = False,
        origin: Floats | None = None,
        row_numbers: int | Ints = 0,
        dtype: Any = None,
    ) -> None:
        spans = X.rechunk({0: span_rows(X.shape[1]), 1: -1})
        super().__init__(spans, normalize=normalize, origin=origin, row_numbers=row_numbers, dtype=dtype)
        self._original = X
        self._persisted = False

    def map(self, f: Callable[[Floats], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f(block) of each block, computed by the workers; the first block begins at ``start``."""
        rows = self._like(self.X[start:], self._numbers_between(start, len(self))) if start else self
        for results in rows._visit(lambda chunk: list(chunk.map(f)), stage, start):
            yield from results

    def fold(self, f: Callable[[Floats], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """As ``Rows.fold``; one worker adds up a span."""
        return combine(self._visit(lambda chunk: chunk.fold(f), stage))

    def map_blocks(self, f: Callable[[Floats], Floats], width: int, dtype: Any, stage: str = "") -> Any:
        """The blocks f(block) as a dask array (n, width) with the chunks of X, computed when it is needed."""
        return self._original.map_blocks(
            _visit_located,
            job=self._job(lambda chunk: chunk.stack(f, width, dtype)),
            dtype=dtype,
            chunks=(self._original.chunks[0], (width,)),
            meta=np.empty((0, 0), dtype),
        )

    def take(self, index: Any) -> Floats:
        """The prepared rows at the given positions, as a numpy array on this machine."""
        order = np.argsort(index, kind="stable")
        ordered = np.asarray(index)[order]
        taken = np.empty((len(index), self.width), self.dtype)
        taken[order] = prepare(self, computed(self.X[ordered]), self._numbers_at(ordered))
        return taken

    def subset(self, index: Ints) -> "DaskRows":
        """The rows at the given ascending positions; they stay with the workers."""
        return self._like(self.X[index], self._numbers_at(index))

    def block(self, start: int, stop: int) -> Floats:
        """The prepared rows from start to stop, on this machine."""
        return prepare(self, computed(self.X[start:stop]), self._numbers_at(np.arange(start, stop)))

    def cached(self) -> "DaskRows":
        """Self, with the chunks kept in the memory of the workers if they fit into half of it."""
        if not self._persisted and self.X.nbytes <= dask_client.cache_bytes():
            self.X = self.X.persist()
            self._persisted = True
        return self

    def _like(self, X: Any, row_numbers: int | Ints) -> "DaskRows":
        rows = DaskRows(X, **self.prepared_as, row_numbers=row_numbers)
        rows.raw = self.raw
        return rows

    def _job(self, visit: Callable[[Rows], Any]) -> Any:
        """The work on each chunk as one value of the graph, so that it is sent to a worker once."""
        job = _Job(_Sealed((visit, self.prepared_as)), self.raw)
        return extra("dask", "dask").delayed(job, name=f"manihash-{uuid.uuid4().hex}", traverse=False)

    def _visit(self, visit: Callable[[Rows], Result], stage: str = "", first: int = 0) -> Iterator[Result]:
        """visit(rows) of each chunk, in row order."""
        job, visited = self._job(visit), extra("dask", "dask").delayed(_run, pure=False)
        chunks, stops = _chunks(self.X), np.cumsum(self.X.chunks[0])
        starts = stops - self.X.chunks[0]
        tasks = [
            visited(job, chunk, self._numbers_between(start, stop))
            for chunk, start, stop in zip(chunks, starts, stops, strict=True)
        ]
        for done, sealed in zip(stops, _results(tasks), strict=True):
            yield sealed.value
            if stage:
                advance(stage, first + int(done), first + len(self))

    def _numbers_between(self, start: int, stop: int) -> int | Ints:
        if isinstance(self.row_numbers, int):
            return self.row_numbers + int(start)
        return self.row_numbers[start:stop]


@dataclass(frozen=True)
class _Sealed:
    """A value that is pickled in one piece, so that its arrays are aligned where it arrives."""

    value: Any

    def __reduce__(self) -> Any:
        return _unsealed, (extra("cloudpickle", "dask").dumps(self.value),)


def _unsealed(pickled: bytes) -> _Sealed:
    """The value; its arrays are copied out of the bytes into memory of their own."""
    return _Sealed(pickle.loads(pickled))


@dataclass(frozen=True)
class _Job:
    """A sealed function of the rows of a chunk, and how these rows are prepared."""

    sealed: _Sealed
    raw: bool

    def __call__(self, chunk: Any, row_numbers: int | Ints) -> Any:
        visit, prepared_as = self.sealed.value
        rows = LocalRows(chunk, **prepared_as, row_numbers=row_numbers)
        rows.raw = self.raw
        return visit(rows)


def _run(job: _Job, chunk: Any, row_numbers: int | Ints) -> _Sealed:
    """The result of a job for one chunk."""
    return _Sealed(job(chunk, row_numbers))


def _visit_located(chunk: Any, *, job: _Job, block_info: Any = None) -> Any:
    """The result of a job for a chunk whose first row dask gives."""
    (first, _), _ = block_info[0]["array-location"]
    return job(chunk, int(first))


def _results(tasks: list[Any]) -> Iterator[Any]:
    """The results of the tasks in order; if the caller stops early, the remaining tasks are canceled."""
    client = dask_client.current()
    if client is None:
        for start in range(0, len(tasks), _AT_ONCE):
            yield from extra("dask", "dask").compute(*tasks[start : start + _AT_ONCE])
        return
    futures = deque(client.compute(tasks))
    try:
        while futures:
            with dask_client.readable_errors():
                result = futures[0].result()
            futures.popleft().release()
            yield result
    finally:
        with suppress(OSError):  # the cluster is gone
            if futures:
                client.cancel(list(futures))


def task_results(
    task: Callable[..., Result], items: Iterable[Any], blocks: Any = None, size: int = 0
) -> Iterator[Result]:
    """task(item) of each item, computed by the workers, in order.

    If ``blocks`` is a dask array (n, d), ``size`` of its rows are the second argument for each item.
    """
    done = extra("dask", "dask").delayed(_task, pure=False)
    job = extra("dask", "dask").delayed(task, name=f"manihash-{uuid.uuid4().hex}", traverse=False)
    rows = [] if blocks is None else [[chunk] for chunk in _chunks(blocks.rechunk({0: size, 1: -1}))]
    chosen = zip(items, rows, strict=True) if rows else ((item, []) for item in items)
    yield from _results([done(job, item, *row) for item, row in chosen])


def _task(task: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a task."""
    return task(*arguments)


def _chunks(X: Any) -> list[Any]:
    """The chunks of an array from its graph as it is: dask's optimization gives old names new meanings."""
    return list(X.to_delayed(optimize_graph=False)[:, 0])


def computed(X: Any) -> NDArray[Any]:
    """The dask array as a numpy array."""
    chunks = list(_results(_chunks(X)))
    starts = np.cumsum([0, *(chunk.shape[0] for chunk in chunks)])
    for start, chunk in zip(starts[:-1], chunks, strict=True):
        check_unmasked(chunk, row_numbers=start + np.arange(chunk.shape[0]))
    return np.concatenate(
        [chunk.toarray() if hasattr(chunk, "toarray") else np.asarray(chunk) for chunk in chunks]
    )


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Use the cluster at an address, or, given a number, that many new worker processes of this machine."""
    # Its defaults are part of the configuration: imported later, they would be lost when ``set`` ends.
    dask_client.library()
    with (
        extra("dask", "dask").config.set(_NEW_CLUSTER),
        dask_client.connected(where),
    ):
        yield


def array_of(read: Callable[[int, int], NDArray[Any]], shape: tuple[int, int], dtype: Any) -> Any:
    """A dask array (n, d) whose chunks are read by the workers, with ``read(start, stop)``."""
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
            f"{error}. This is the Dask worker on {platform.node()}: every worker must be able to read "
            "the file at the same path"
        ) from error
