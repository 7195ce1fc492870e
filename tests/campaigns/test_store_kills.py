"""Stores whose writers are killed, and stores that several threads change: acknowledged rows are kept.

MANIHASH_KILLS sets the number of kills, and MANIHASH_ROUNDS that of the rounds with threads, for each
database; the seed of a case is its number.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from store_databases import DATABASES, database_params, new_address

from manihash import HammingIndex
from manihash.stores import create_store, open_store

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")
tasks = pytest.importorskip("store_tasks")

KILLS = int(os.environ.get("MANIHASH_KILLS", "2"))
ROUNDS = int(os.environ.get("MANIHASH_ROUNDS", "2"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
N_BITS = tasks.N_BITS


def states(log):
    """The ids that were acknowledged, and those after the last change, which may have been killed."""
    ids, last = set(), None
    for line in log.read_text().splitlines():
        word, *rest = line.split()
        if word == "begin":
            last = (rest[0], set(map(int, rest[1:])))
        elif word == "end" and last is not None:
            ids, last = changed(ids, last), None
    return ids, ids if last is None else changed(ids, last)


def changed(ids, change):
    """The ids after a change."""
    return ids | change[1] if change[0] == "add" else ids - change[1]


def held(store, possible):
    """Which of the possible ids a store has."""
    whole = len(store)
    if not whole:
        return set()
    found = store.search(np.zeros((1, N_BITS // 8), np.uint8), whole)[1][0]
    assert len(found) == whole
    assert set(found.tolist()) <= possible
    return set(found.tolist())


# A file of milvus-lite or of embedded ClickHouse can be opened by one process only: none could check it.
SEVERAL_PROCESSES = ["faiss", "lance", "postgres", "sqlite", "duckdb", "parquet", "usearch"]


@pytest.mark.parametrize("database", database_params(SEVERAL_PROCESSES))
def test_changes_that_were_acknowledged_survive_a_kill(database, tmp_path):
    address, log = new_address(database, tmp_path), tmp_path / "log"
    create_store(address, N_BITS).close()
    log.write_text("")
    before, rng = set(), np.random.default_rng(FIRST)
    for seed in range(FIRST, FIRST + KILLS):
        log.write_text("")
        process = killed_command.CONTEXT.Process(
            target=tasks.change_often, args=(address, str(log), seed, 10**6 * (seed + 1))
        )
        process.start()
        while not log.stat().st_size and process.is_alive():
            time.sleep(0.01)
        process.join(float(rng.random()) * 0.5)
        assert process.is_alive(), f"the writer ended with {process.exitcode}"
        process.kill()
        process.join()
        done, after = (before | ids for ids in states(log))
        with open_store(address) as store:
            with store._driver.writing():  # a server may still complete the last change of the killed writer
                ids = held(store, done | after)
            assert ids in (done, after), (seed, len(ids), len(done), len(after))
            if ids:
                some = np.array(sorted(ids))
                np.testing.assert_array_equal(store.get(some), tasks.codes_of(some))
            if len(ids) > 200:  # a store of moderate size
                store.remove(some[:-50])
                ids = set(some[-50:].tolist())
        before = ids


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_threads_that_share_a_store_lose_no_row(database, tmp_path, seed):
    address = new_address(database, tmp_path)
    kept = [set() for _ in range(3)]

    def write(thread, store):
        rng = np.random.default_rng([seed, thread])
        start = 10_000 * thread
        for _ in range(6):
            n = int(rng.integers(1, 9))
            ids = np.arange(start, start + n)
            start += n
            store.add(tasks.codes_of(ids), ids)
            kept[thread].update(ids.tolist())
            gone = rng.permutation(sorted(kept[thread]))[: int(rng.integers(0, 3))]
            if len(gone):
                store.remove(gone)
                kept[thread].difference_update(gone.tolist())
            some = rng.permutation(sorted(kept[thread]))[:3]
            if len(some):  # its own rows are there at once
                np.testing.assert_array_equal(store.get(some), tasks.codes_of(some))
            store.search(tasks.codes_of([1]), 3)

    with create_store(address, N_BITS) as shared, open_store(address) as other:
        with ThreadPoolExecutor(3) as pool:
            writers = [pool.submit(write, t, shared if t < 2 else other) for t in range(3)]
            for writer in writers:
                writer.result(120)
        ids = np.array(sorted(set.union(*kept)))
        index = HammingIndex(tasks.codes_of(ids), N_BITS, ids)
        queries = tasks.codes_of(range(5))
        for store in (shared, other):
            assert len(store) == len(ids)
            for a, b in zip(store.search(queries, 10), index.search(queries, 10), strict=True):
                np.testing.assert_array_equal(a, b)
