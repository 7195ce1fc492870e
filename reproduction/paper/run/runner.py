"""Runs trials in worker processes: finished trials are skipped, and a worker that dies does not stop others.

A worker returns its outcome, and the parent process writes the file: a killed worker leaves no partial file.
"""

import logging
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from time import perf_counter
from typing import Any

from manihash.progress import advance
from reproduction.paper.run import provenance
from reproduction.paper.run.trial import Outcome, Result, ResultFolder, Trial

_log = logging.getLogger(__name__)
_STAGE = "trials"
_SECONDS_BETWEEN_REPORTS = 1.0  # a trial that takes minutes is reported while it runs

Measure = Callable[[Trial], Outcome]


def run(
    trials: Iterable[Trial], results: ResultFolder, measure: Measure, *, jobs: int = 1
) -> dict[Trial, str]:
    """Run the trials that have no result yet, in order, and return the reasons of those that failed.

    ``measure`` is a module-level function, which workers import by name (``tasks.measure``). Trials that
    measure time run last, one after the other, with nothing else running.
    """
    asked = list(dict.fromkeys(trials))
    waiting = [trial for trial in asked if trial not in results.of([trial])]
    total = len(waiting)
    failures: dict[Trial, str] = {}
    parallel = [trial for trial in waiting if not trial.is_timed]
    alone = [trial for trial in waiting if trial.is_timed]
    advance(_STAGE, 0, total)
    for group, workers in ((parallel, jobs), (alone, 1)):
        before = 0 if group is parallel else len(parallel)
        failures |= _Crew(results, measure, workers).run(group, before, total)
    advance(_STAGE, total, total)
    return failures


class _Crew:
    """Workers that share one list of trials."""

    def __init__(self, results: ResultFolder, measure: Measure, jobs: int) -> None:
        self.results, self.measure, self.jobs = results, measure, jobs
        self.failures: dict[Trial, str] = {}

    def run(self, trials: list[Trial], before: int, total: int) -> dict[Trial, str]:
        waiting, done = deque(trials), before
        self.workers = [_Worker(self.measure, self.jobs) for _ in range(min(self.jobs, len(trials)))]
        try:
            while waiting or any(worker.trial for worker in self.workers):
                for worker in self.workers:
                    if worker.trial is None and waiting:
                        worker.begin(waiting.popleft())
                busy = [worker for worker in self.workers if worker.trial]
                advance(_STAGE, done, total, ", ".join(f"running {worker.trial}" for worker in busy))
                ready = wait([worker.connection for worker in busy], timeout=_SECONDS_BETWEEN_REPORTS)
                for worker in [worker for worker in busy if worker.connection in ready]:
                    self._finish(worker)
                    done += 1
        finally:
            for worker in self.workers:
                worker.stop()
        return self.failures

    def _finish(self, worker: "_Worker") -> None:
        """Store the outcome of a worker; one that has died is replaced."""
        trial, worker.trial = worker.trial, None
        assert trial is not None
        seconds = perf_counter() - worker.started
        try:
            found = worker.connection.recv()
        except (EOFError, OSError):
            worker.stop()
            self._fail(trial, f"its process ended with exit code {worker.process.exitcode}")
            self.workers[self.workers.index(worker)] = _Worker(self.measure, self.jobs)
            return
        if isinstance(found, str):
            self._fail(trial, found)
            return
        about = provenance.machine() | {"date": provenance.now(), "jobs": str(self.jobs)}
        self.results.put(Result(trial, found.figures, found.seconds | {"all": seconds}, about))
        _log.info("%s: %.1f s", trial, seconds)

    def _fail(self, trial: Trial, reason: str) -> None:
        self.failures[trial] = reason
        _log.warning("%s: no result: %s", trial, reason)


class _Worker:
    """A process that runs one trial at a time; ``trial`` is the current one."""

    trial: Trial | None = None

    def __init__(self, measure: Measure, jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, measure, jobs), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, trial: Trial) -> None:
        self.trial, self.started = trial, perf_counter()
        with suppress(OSError):  # it has died already, which reading its answer will show
            self.connection.send(trial)

    def stop(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _work(connection: Connection, measure: Measure, jobs: int) -> None:
    """Run trials until there are no more, with an equal share of the cores."""
    import signal

    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threadpool_limits(max(1, provenance.cores() // jobs))
    with suppress(EOFError, OSError):  # there are no more trials, or the parent is gone
        while True:
            connection.send(_tried(measure, connection.recv()))


def _tried(measure: Measure, trial: Trial) -> Any:
    """The outcome of the trial, or the reason why there is none."""
    try:
        return measure(trial)
    except Exception as error:
        _log.debug("%s", trial, exc_info=True)
        return f"{type(error).__name__}: {error}"
