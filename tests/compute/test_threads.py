"""BLAS is limited to one thread inside ``single_blas_thread``, and only there."""

import threading

import pytest
import scipy.linalg  # noqa: F401  its BLAS is loaded before threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

from manihash.compute.threads import single_blas_thread


def blas_thread_counts():
    """The threads of the BLAS of numpy and scipy, not of the BLAS that FAISS brings along."""
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return [library["num_threads"] for library in blas if "faiss" not in library["filepath"]]


def test_single_blas_thread_nests_and_restores_the_threads():
    with threadpool_limits(2, user_api="blas"):
        before = blas_thread_counts()
        with single_blas_thread() as outer, single_blas_thread() as inner:
            assert set(blas_thread_counts()) == {1}
            assert outer == inner == max(before)
        assert blas_thread_counts() == before


def test_an_error_inside_single_blas_thread_restores_the_threads():
    with threadpool_limits(2, user_api="blas"):
        before = blas_thread_counts()
        with pytest.raises(KeyError), single_blas_thread():
            raise KeyError
        assert blas_thread_counts() == before


def test_concurrent_users_of_single_blas_thread_restore_the_threads_when_the_last_leaves():
    inside, leave = threading.Barrier(3), threading.Event()
    seen = []

    def first_out():
        with single_blas_thread():
            inside.wait(10)

    def last_out():
        with single_blas_thread():
            inside.wait(10)
            leave.wait(10)
            seen.append(set(blas_thread_counts()))

    with threadpool_limits(2, user_api="blas"):
        before = blas_thread_counts()
        threads = [threading.Thread(target=f) for f in (first_out, last_out)]
        for thread in threads:
            thread.start()
        inside.wait(10)
        threads[0].join(10)
        leave.set()
        threads[1].join(10)
        assert seen == [{1}]
        assert blas_thread_counts() == before
