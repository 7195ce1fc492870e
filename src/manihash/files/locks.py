"""Locks between processes: one writer of a file or folder at a time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.005


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of an existing file or folder; other threads and processes that ask for it wait.

    The lock ends with the process, however that ends, and leaves no file behind. It works with files that are
    replaced by a rename. Systems without ``flock``, such as Windows, have no lock.
    """
    if not find_spec("fcntl"):
        yield
        return
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        handle = os.open(path, os.O_RDONLY)
        try:
            _acquire(handle, path, deadline)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                yield
                return
        finally:
            os.close(handle)  # another writer has replaced the file: lock the new one


def lock_at_once(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process or handle has locked it."""
    if not find_spec("fcntl"):
        return True
    from fcntl import LOCK_EX, LOCK_NB, flock

    try:
        flock(handle, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(handle: int, path: Path, deadline: float) -> None:
    """Lock an open file, or raise a TimeoutError at the deadline."""
    while not lock_at_once(handle):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} is being written by another process: try again when it has finished")
        time.sleep(_POLL_SECONDS)
