"""Queries beside changes, several writers, interrupted changes and forked processes."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from manihash.codes import pack
from manihash.search import HammingIndex
from manihash.search import hamming_index as index_module
from manihash.search.routes import BucketTable, MultiIndex

N_BITS = 24
ROWS, GROUP = 400, 15


pytestmark = pytest.mark.usefixtures("threads_switch_often")


def codes_of(value, n=1):
    """n equal codes that show an integer."""
    bits = [int(bit) for bit in f"{value:0{N_BITS}b}"]
    return pack(np.array([bits] * n))


def while_reading(index, change, read, readers=3):
    """Call ``read`` on several threads until ``change`` returns; raise the first error of a reader."""
    done = threading.Event()

    def loop():
        while not done.is_set():
            read(index)

    with ThreadPoolExecutor(readers) as pool:
        reading = [pool.submit(loop) for _ in range(readers)]
        try:
            change(index)
        finally:
            done.set()
        for future in reading:
            future.result()


def add_and_remove(index):
    """Add, update and remove GROUP rows at a time, for a second."""
    stop = time.monotonic() + 1
    while time.monotonic() < stop:
        ids = index.add(codes_of(7, GROUP))
        index.update(codes_of(9, GROUP), ids)
        index.remove(ids)


def count_all(index):
    assert index.count(codes_of(0), N_BITS)[0] in (ROWS, ROWS + GROUP)


def read_all(index):
    zero, sizes = codes_of(0), (ROWS, ROWS + GROUP)
    _, found = index.search(zero, 2 * ROWS)
    assert found.shape[1] == len(np.unique(found)) in sizes
    lims, _, found = index.within(zero, N_BITS)
    assert lims[1] == len(np.unique(found)) in sizes
    assert {len(index.ids), len(index.codes), len(index), index.stats().rows} <= set(sizes)
    assert repr(index)


@pytest.mark.parametrize("read", [count_all, read_all])
def test_a_reader_beside_a_writer_sees_all_rows_of_a_change_or_none(read):
    while_reading(HammingIndex(codes_of(1, ROWS), N_BITS), add_and_remove, read, readers=2)


def test_a_reader_beside_an_update_always_finds_the_row():
    def update(index):
        for value in range(300):
            index.update(codes_of(value, 2), [0, 1])

    def both_rows_have_one_code(index):
        distances, ids = index.search(codes_of(0), 2, filter=[0, 1])
        assert ids.tolist() == [[0, 1]]
        assert distances[0, 0] == distances[0, 1]

    while_reading(HammingIndex(codes_of(0, 30), N_BITS), update, both_rows_have_one_code)


def test_a_reader_sees_a_row_as_soon_as_add_has_returned():
    index, written = HammingIndex(codes_of(0, 9), N_BITS), [8]

    def add(index):
        for _ in range(400):
            written[0] = int(index.add(codes_of(3))[0])

    def last_row_is_found(index):
        last = written[0]
        assert index.within(codes_of(3 if last > 8 else 0), 0)[2].max() >= last

    while_reading(index, add, last_row_is_found)


def test_changes_of_several_threads_are_all_kept():
    index = HammingIndex(codes_of(0, 10), N_BITS)
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda value: index.add(codes_of(value, 2)), range(1, 201)))
    ids = np.concatenate(added)
    assert len(np.unique(ids)) == 400
    assert len(index) == 410
    for value, pair in enumerate(added, 1):
        assert index.bucket(codes_of(value)[0]).tolist() == pair.tolist()


class InterruptedRows(dict):
    """Rows of a log whose next change is interrupted, as by Ctrl-C."""

    def __setitem__(self, key, value):
        raise KeyboardInterrupt


def test_an_interrupted_change_leaves_the_index_as_it_was(monkeypatch):
    monkeypatch.setattr(index_module, "_RECENT", 16)
    index = HammingIndex(codes_of(0, 10), N_BITS)
    index.add(codes_of(5))
    log = index._snapshot.log
    log.rows = InterruptedRows(log.rows)
    with pytest.raises(KeyboardInterrupt):
        index.add(codes_of(6, 3))
    assert len(index) == 11
    assert index.add(codes_of(7)).tolist() == [11]
    assert index.ids.tolist() == list(range(12))
    assert index.bucket(codes_of(6)[0]).tolist() == []
    assert index.bucket(codes_of(5)[0]).tolist() == [10]


def _count_in_child(index, found):
    index.add(codes_of(2))
    found.put(int(index.count(codes_of(0), N_BITS)[0]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_can_query_and_change_the_index_while_a_lock_is_held():
    fork = multiprocessing.get_context("fork")
    index = HammingIndex(codes_of(0, 10), N_BITS)
    index.remove([0])
    index.add(codes_of(1))
    snapshot = index._snapshot
    finder = index._ranking.of(snapshot.base.buckets).finder
    locks = (index._writing, snapshot._lock, snapshot.base._lock, finder._multi_index._lock)
    for lock in locks:
        lock.__enter__()
    found = fork.Queue()
    child = fork.Process(target=_count_in_child, args=(index, found))
    child.start()
    for lock in locks:
        lock.__exit__()
    child.join(30)
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert found.get(timeout=10) == 11


def test_the_size_of_tables_is_known_while_another_thread_adds_some():
    tables = MultiIndex(codes_of(0, 4))
    table = BucketTable(np.zeros(3, np.uint32), np.zeros(4, np.uint32))
    size = table.offsets.nbytes + table.order.nbytes

    def add(tables):
        for start in range(2000):
            tables._tables[start, 1] = table

    def read(tables):
        assert tables.nbytes % size == 0

    while_reading(tables, add, read)
    assert tables.nbytes == 2000 * size
