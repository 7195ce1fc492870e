"""The Dask cluster that this process uses: connect to it and check that it can do the work.

The only file that imports distributed.
"""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from manihash import __version__
from manihash.checks import extra, positive_int
from manihash.rows.rows import CACHE_BYTES

_SECONDS_TO_ANSWER = 10
# Calls that use builtins only, so that a machine without manihash can unpickle them.
_ASK_VERSION = (eval, "__import__('manihash').__version__")
_ASK_MEMORY = (eval, "__import__('distributed').system.MEMORY_LIMIT")


def library() -> Any:
    """The library distributed; the error without it names the extra that installs it."""
    return extra("distributed", "dask")


@contextmanager
def connected(where: str) -> Iterator[None]:
    """Connect to the cluster at an address or, given a number, start one with that many workers."""
    distributed = library()
    if where.isdecimal():
        n = positive_int(int(where), "the number of Dask workers")
        with (
            distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            distributed.Client(cluster),
        ):
            yield
        return
    with _silenced():
        try:
            asyncio.run(asyncio.wait_for(_greet(where), 2 * _SECONDS_TO_ANSWER))
            client = distributed.Client(where, timeout=_SECONDS_TO_ANSWER)
        except Exception as error:
            raise ConnectionError(
                f"no Dask scheduler answered at {where} ({_why(error)}): start one with `dask scheduler`, "
                "check its address (tcp://host:8786), or give the number of workers to start on this machine"
            ) from error
        with client:
            yield


@contextmanager
def _silenced() -> Iterator[None]:
    """Hide the log messages of distributed below CRITICAL: errors are raised as well."""
    handlers = logging.getLogger("distributed").handlers
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)


async def _greet(where: str) -> None:
    """Raise if no scheduler answers; a client would wait forever for a server that never answers."""
    distributed = library()
    options = distributed.Security().get_connection_args("client")
    comm = await distributed.comm.connect(where, timeout=_SECONDS_TO_ANSWER, **options)
    try:
        await comm.write({"op": "identity", "reply": True})
        kind = (await comm.read())["type"]
    finally:
        comm.abort()
    if kind != "Scheduler":
        raise ValueError(f"it is the address of a Dask {kind.lower()}")


def _why(error: Exception) -> str:
    """The reason for a failed connection, in words."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"a server accepted the connection but did not answer within {2 * _SECONDS_TO_ANSWER} s"
    known = isinstance(error, OSError | ValueError | TypeError | ImportError) and str(error)
    return str(error) if known else "the server there is not a Dask scheduler"


def current() -> Any:
    """The client of the cluster in use, or None."""
    distributed = sys.modules.get("distributed")
    try:
        return None if distributed is None else distributed.default_client()
    except ValueError:
        return None


def cache_bytes() -> int:
    """Bytes of rows that may be cached between visits: half of the memory of the workers.

    A worker without a limit counts as its share of its machine. A client only knows some of the workers: the
    others are assumed to be like them.
    """
    client = current()
    if client is None:
        return CACHE_BYTES
    workers = list(client.nthreads())
    limits = {name: w["memory_limit"] for name, w in client.scheduler_info()["workers"].items()}
    if unlimited := [name for name, limit in limits.items() if not limit]:
        machines = Counter(map(_machine, workers))
        found = client.run(*_ASK_MEMORY, workers=unlimited, on_error="ignore")  # some may have died
        limits = {name: limit for name, limit in limits.items() if limit}
        limits |= {name: memory / max(1, machines[_machine(name)]) for name, memory in found.items()}
    return int(sum(limits.values()) / max(1, len(limits)) * len(workers)) // 2


def _machine(worker: str) -> str:
    """The machine in an address such as tcp://10.0.0.1:41234."""
    return worker.rsplit(":", 1)[0]


def check_workers(client: Any) -> None:
    """Raise if there are no workers, or if a worker or the scheduler has another version of manihash.

    A worker that dies before it answers is no error: other workers compute its rows, or it is restarted.
    """
    scheduler = client.scheduler.address
    for worker, version in _versions(client).items():
        _check_version(f"worker {worker}", version)
    try:
        version = client.run_on_scheduler(*_ASK_VERSION)
    except ImportError as error:
        version = error
    _check_version(f"scheduler {scheduler}", version)


def _versions(client: Any) -> dict[str, Any]:
    """The version of manihash, or the error, of each worker that answers: at least one."""
    scheduler = client.scheduler.address
    until, lost = time.monotonic() + _SECONDS_TO_ANSWER, None
    while (left := until - time.monotonic()) > 0:
        try:
            client.wait_for_workers(1, timeout=left)
        except TimeoutError as error:
            lost = lost or error
            break
        answers = client.run(*_ASK_VERSION, on_error="return")
        if versions := {worker: got for worker, got in answers.items() if not _is_lost(got)}:
            return versions
        lost = next(iter(answers.values()), None)
    raise ConnectionError(
        f"the Dask cluster at {scheduler} has no workers: start one with `dask worker {scheduler}`"
    ) from lost


def _is_lost(answer: Any) -> bool:
    """Whether an answer is the error of a lost connection; errors raised by a worker have a traceback."""
    return isinstance(answer, OSError) and answer.__traceback__ is None


def _check_version(who: str, version: Any) -> None:
    if version != __version__:
        got = f"manihash {version}" if isinstance(version, str) else f"no manihash ({version})"
        raise ConnectionError(
            f"the Dask {who} has {got}, expected {__version__}: install it in the environment of the "
            "scheduler and of every worker, and restart them"
        )


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn the errors of a cluster that breaks down into a ConnectionError that says what to do."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        if isinstance(error, CancelledError) or kind == "CommClosedError":
            raise ConnectionError(
                "the connection to the Dask cluster was lost: check that its scheduler runs, then try again"
            ) from error
        if kind == "KilledWorker":
            raise ConnectionError(
                f"several Dask workers died while computing the same rows ({error}): give them more memory, "
                "or use smaller chunks of X"
            ) from error
        raise
