"""Rows on many machines: the chunks of a dask array, visited where they lie. The only file that knows dask.

A chunk is a span of rows, with which a worker does what one machine does with a span: the same blocks, added
up in the same order. So neither how the array was cut nor which worker did what changes a bit.
"""

import logging
import os
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from manihash import __version__
from manihash.arrays import Floats, Ints
from manihash.checks import extra, positive_int
from manihash.progress import advance
from manihash.rows import KEEP_BYTES, Arrays, Rows, joined, span_rows

Result = TypeVar("Result")

_SECONDS_TO_ANSWER = 10
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
    if (client := _client()) is not None:
        _check_workers(client)


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
        if not self._held and self.X.nbytes <= _memory():
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
    client = _client()
    if client is None:
        for start in range(0, len(tasks), _AT_ONCE):
            yield from extra("dask", "dask").compute(*tasks[start : start + _AT_ONCE])
        return
    futures = deque(client.compute(tasks))
    try:
        while futures:
            with _told():
                result = futures[0].result()
            futures.popleft().release()
            yield result
    finally:
        if futures:
            client.cancel(list(futures))


def _chunks(X: Any) -> list[Any]:
    """The chunks of an array as its graph has them; in one that dask improved, old names mean new things."""
    return list(X.to_delayed(optimize_graph=False)[:, 0])


def _computed(X: Any) -> NDArray[Any]:
    return np.concatenate([np.asarray(chunk) for chunk in _results(_chunks(X))])


@contextmanager
def _told() -> Iterator[None]:
    """What a cluster that breaks down raises, in words."""
    try:
        yield
    except CancelledError as error:
        raise ConnectionError(
            f"the Dask cluster went away ({error}): start it again, and this work"
        ) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise ConnectionError(
                f"several Dask workers died over the same rows ({error}): give them more memory, or X in "
                "smaller chunks"
            ) from error
        raise


def _client() -> Any:
    """The client of the cluster in use, None if there is none."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.default_client()
    except ValueError:
        return None


def _memory() -> int:
    """Bytes of rows that may be held between visits: half of what the workers have."""
    client = _client()
    if client is None:
        return KEEP_BYTES
    known = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
    return int(sum(known) / max(1, len(known)) * len(client.nthreads())) // 2


def _check_workers(client: Any) -> None:
    """Raise if there are no workers, or some have no manihash or another one."""
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
    except TimeoutError as error:
        raise ConnectionError(
            f"the Dask cluster at {client.scheduler.address} has no workers: start one with "
            f"`dask worker {client.scheduler.address}`"
        ) from error
    # Names of builtins only: nothing that a worker without manihash could not read.
    found = client.run(eval, "__import__('manihash').__version__", on_error="return")
    for worker, version in found.items():
        if version != __version__:
            came = f"manihash {version}" if isinstance(version, str) else f"no manihash ({version})"
            raise ValueError(
                f"the Dask worker {worker} has {came}, and {__version__} is wanted: install it in the "
                "environment of every worker and start them again"
            )


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Use the cluster at an address, or so many worker processes of this machine, while the block runs."""
    distributed = extra("distributed", "dask")
    if where.isdecimal():
        n = positive_int(int(where), "the number of Dask workers")
        with (
            extra("dask", "dask").config.set({"distributed.nanny.pre-spawn-environ": _WORKER}),
            distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            distributed.Client(cluster),
        ):
            yield
        return
    try:
        client = distributed.Client(where, timeout=_SECONDS_TO_ANSWER)
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionError(
            f"no Dask scheduler answered at {where} ({str(error) or type(error).__name__}): start one with "
            "`dask scheduler`, check its address (tcp://host:8786), or give a number for so many workers on "
            "this machine"
        ) from error
    with client:
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
