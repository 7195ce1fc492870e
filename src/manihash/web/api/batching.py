"""Requests that arrive while others are computed are computed together, beside the event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from manihash.web.application import RequestError


class Sized(Protocol):
    """Work with a number of rows."""

    def __len__(self) -> int: ...


Job = TypeVar("Job", bound=Sized)
Result = TypeVar("Result")

_SHORT_SECONDS = 0.005  # the event loop can wait so long: a thread would keep the interpreter as long


class Batcher(Generic[Job, Result]):
    """Passes jobs to a function that computes several at once, in the order of their arrival.

    A job that arrives while nothing is computed starts at once, alone. Jobs that arrive meanwhile form the
    next batch. So nothing waits while the machine is idle, and batches grow with the load. Batches are
    computed in a thread, so that the event loop can answer others, unless all their jobs are quick and take
    less than 5 ms together.

    Parameters
    ----------
    compute : callable
        Takes a list of jobs, and returns for each job its result, or the exception to raise for it.
    most_rows : int
        Number of rows of a batch; a larger job is a batch of its own.
    most_waiting : int
        Number of jobs that may wait; further ones are refused with status 503.
    is_quick : callable, default=None
        Whether the time of a job is in proportion to its rows. By default that of no job is.
    """

    def __init__(
        self,
        compute: Callable[[list[Job]], list[Result | Exception]],
        most_rows: int,
        most_waiting: int,
        is_quick: Callable[[Job], bool] | None = None,
    ) -> None:
        self._compute, self._most_rows, self._most_waiting = compute, most_rows, most_waiting
        self._is_quick, self._seconds_per_row = is_quick, 1.0  # until it is measured
        self._cpu_seconds = 0.0
        self._waiting: deque[tuple[Job, asyncio.Future[Result]]] = deque()
        self._thread = ThreadPoolExecutor(1, "manihash-compute")
        self._running: asyncio.Task[None] | None = None

    @property
    def n_waiting(self) -> int:
        """Number of jobs that wait for the next batches."""
        return len(self._waiting)

    async def result(self, job: Job) -> Result:
        """Compute a job, and return its result or raise its exception."""
        if len(self._waiting) >= self._most_waiting:
            raise RequestError(503, "too many requests are waiting: try again later", {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((job, future))
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await future

    def close(self) -> None:
        """Wait for the end of the computation, and end the thread."""
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await self._arrivals()
                jobs, futures = self._next_batch()
                if not jobs:
                    continue
                quick = self._is_quick is not None and all(map(self._is_quick, jobs))
                n = sum(map(len, jobs))
                if quick and n * self._seconds_per_row < _SHORT_SECONDS:
                    results = self._results(jobs)
                else:
                    results = await loop.run_in_executor(self._thread, self._results, jobs)
                if quick:
                    self._seconds_per_row = self._cpu_seconds / n
                for future, result in zip(futures, results, strict=True):
                    if future.done():  # its client has given up
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        finally:
            self._running = None

    async def _arrivals(self) -> None:
        """Wait until the event loop has read all requests that have arrived: they join the batch."""
        n = 0
        while n < len(self._waiting) < self._most_rows:
            n = len(self._waiting)
            await asyncio.sleep(0)

    def _next_batch(self) -> tuple[list[Job], list["asyncio.Future[Result]"]]:
        jobs: list[Job] = []
        futures: list[asyncio.Future[Result]] = []
        n = 0
        while self._waiting and (not jobs or n + len(self._waiting[0][0]) <= self._most_rows):
            job, future = self._waiting.popleft()
            if not future.done():
                jobs.append(job)
                futures.append(future)
                n += len(job)
        return jobs, futures

    def _results(self, jobs: list[Job]) -> list[Result | Exception]:
        start = time.thread_time()
        try:
            return self._compute(jobs)
        except Exception as error:
            return [error] * len(jobs)
        finally:
            self._cpu_seconds = time.thread_time() - start
