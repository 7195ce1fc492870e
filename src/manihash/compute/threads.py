"""How many threads BLAS may use: one, while blocks of rows are spread over threads of our own.

On several threads BLAS adds in another order, and small products wait for each other.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain, pairwise
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of numpy and that of scipy, which is a library of its own and must be loaded to be seen."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """How many threads BLAS would use now: what the machine has, or what the user allowed."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


def _free_the_limit() -> None:
    """Let any thread set the limit: a newer threadpoolctl heeds the first that did, no other."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class _Limit:
    """How many calls are inside ``single_blas_thread``: the first sets the limit, the last lifts it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.limit: Any = None
        self.threads = 1


_limit = _Limit()


@contextmanager
def single_blas_thread() -> Iterator[int]:
    """BLAS on one thread; gives the number it had, for workers of our own. Safe from several threads."""
    with _limit.lock:
        if _limit.users == 0:
            _limit.threads = blas_threads()
            _free_the_limit()
            _limit.limit = _blas().limit(limits=1)
        _limit.users += 1
    try:
        yield _limit.threads
    finally:
        with _limit.lock:
            _limit.users -= 1
            if _limit.users == 0:
                _free_the_limit()
                _limit.limit.restore_original_limits()
                _free_the_limit()


@contextmanager
def thread_map() -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]]:
    """``map`` on as many threads as BLAS had, this one among them, with BLAS on one; results in order.

    Each thread takes its share of the items at once: for work in many short rounds, which would be over
    before a queue had handed them out one by one.
    """
    with single_blas_thread() as threads, ThreadPoolExecutor(max(threads - 1, 1)) as pool:

        def each(f: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
            edges = [len(items) * i // threads for i in range(threads + 1)]
            shares = [items[a:b] for a, b in pairwise(edges) if a < b]
            others = [pool.submit(list, map(f, share)) for share in shares[1:]]
            own = list(map(f, shares[0]))
            return chain(own, *(other.result() for other in others))

        yield each
