"""Limit BLAS to one thread while blocks of rows are computed on several threads; locks that survive a fork.

On several threads BLAS adds in another order, and small products wait for each other.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, pairwise
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> Any:
    """The BLAS libraries of numpy and of scipy; the latter is separate and must be loaded to be found."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """The number of threads that BLAS uses: that of the machine, or the limit set by the user."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def _let_any_thread_set_the_limit() -> None:
    """Allow any thread to set the limit: newer versions of threadpoolctl only allow the first that did."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class ForkSafeLock:
    """A lock that is free in a forked child, even if another thread held it when the process forked.

    That thread does not exist in the child, so an ordinary lock would never be released there.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._owner != os.getpid():
            self._lock, self._owner = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class _Limit:
    """The number of active ``single_blas_thread`` blocks: the first sets the limit, the last removes it.

    The lock is not a ``ForkSafeLock``: an interrupt could end its methods, which are written in Python,
    before they release it, and the next block would wait forever.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(after_in_child=self._free)
        self.users = 0
        self.limit: Any = None
        self.threads = 1

    def _free(self) -> None:
        """Replace the lock in a forked child: the thread that held it does not exist there."""
        self.lock = threading.Lock()


_limit = _Limit()


def is_limited() -> bool:
    """Whether ``single_blas_thread`` limits BLAS now."""
    return _limit.users > 0


@contextmanager
def single_blas_thread() -> Iterator[int]:
    """Limit BLAS to one thread inside the block; yield the number it had. Thread-safe."""
    with _limit.lock:
        if _limit.users == 0:
            _limit.threads = blas_threads()
            _let_any_thread_set_the_limit()
            _limit.limit = _blas().limit(limits=1)
        _limit.users += 1
    try:
        yield _limit.threads
    finally:
        with _limit.lock:
            _limit.users -= 1
            if _limit.users == 0:
                _let_any_thread_set_the_limit()
                _limit.limit.restore_original_limits()
                _let_any_thread_set_the_limit()


@contextmanager
def thread_map() -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]]:
    """Yield a parallel ``map`` with results in order, on as many threads as BLAS had; BLAS has one.

    Each thread, the calling one included, gets an equal share of the items at once. This suits many short
    rounds of work, for which a queue of single items would be too slow.
    """
    with single_blas_thread() as threads, ThreadPoolExecutor(max(threads - 1, 1)) as pool:

        def each(f: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
            edges = [len(items) * i // threads for i in range(threads + 1)]
            shares = [items[a:b] for a, b in pairwise(edges) if a < b]
            others = [pool.submit(list, map(f, share)) for share in shares[1:]]
            own = list(map(f, shares[0]))
            return chain(own, *(other.result() for other in others))

        yield each
