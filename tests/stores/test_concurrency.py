"""Several handles, threads and processes that change one store."""

import importlib
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from store_databases import DATABASES, database_params, new_address, repeated_codes

from manihash.files import locks
from manihash.stores import (
    StoreError,
    StoreNotFoundError,
    create_store,
    export_codes,
    faiss_file,
    open_store,
)

N = 60
FILES = {"faiss": "a.faiss", "sqlite": "a.db", "lance": "a.lance", "usearch": "a.usearch"}
FILES |= {"duckdb": "a.duckdb", "parquet": "a.parquet"}


@pytest.fixture(params=DATABASES)
def address(request, tmp_path):
    return new_address(request.param, tmp_path)


def test_rows_added_by_two_handles_are_all_kept(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as one, open_store(address) as other:
        one.add(codes[:20], np.arange(20))
        other.add(codes[20:], np.arange(20, N))
        one.remove([5])
        assert one.count() == other.count() == N - 1
        ids = np.delete(np.arange(N), 5)
        np.testing.assert_array_equal(one.get(ids), codes[ids])
        np.testing.assert_array_equal(other.get(ids), codes[ids])
    with open_store(address) as store:
        np.testing.assert_array_equal(store.get(ids), codes[ids])


def test_an_id_added_by_another_handle_is_refused(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as one, open_store(address) as other:
        one.add(codes[:2], [1, 2])
        with pytest.raises(StoreError, match="id 2 is already in"):
            other.add(codes[:1], [2])
        assert other.add_missing(codes[:3], [1, 2, 3]) == 1
        assert one.count() == 3


def test_a_handle_searches_the_rows_of_another(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as one, open_store(address) as other:
        one.add(codes[:30], np.arange(30))
        assert other.search(codes[:1], N)[1].shape == (1, 30)
        one.add(codes[30:], np.arange(30, N))
        assert other.search(codes[:1], N)[1].shape == (1, N)


def _export(address, start, failed):
    """Add rows start to start + N in batches of 7, and open the store for each."""
    codes = repeated_codes(3 * N, 16)[start : start + N]
    ids = np.arange(start, start + N)
    try:
        for i in range(0, N, 7):
            with open_store(address, 16) as store:
                store.add_missing(codes[i : i + 7], ids[i : i + 7])
    except Exception as error:
        failed.put(repr(error))
        raise


@pytest.mark.parametrize("database", database_params(FILES))
@pytest.mark.parametrize("starts", [[0, N], [0, N // 2], [0, 0]])
def test_processes_that_write_to_one_store_keep_all_rows_once(tmp_path, database, starts):
    address, spawn = str(tmp_path / FILES[database]), multiprocessing.get_context("spawn")
    failed = spawn.SimpleQueue()
    writers = [spawn.Process(target=_export, args=(address, start, failed)) for start in starts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert failed.empty(), failed.get()
    assert [writer.exitcode for writer in writers] == [0, 0]
    expected = np.unique(np.concatenate([np.arange(start, start + N) for start in starts]))
    with open_store(address) as store:
        assert store.count() == len(expected)
        np.testing.assert_array_equal(store.get(expected), repeated_codes(3 * N, 16)[expected])


@pytest.mark.parametrize("database", database_params(["faiss", "usearch"]))
def test_rows_that_another_handle_writes_right_after_a_change_are_kept(tmp_path, monkeypatch, database):
    """The lock is that of the file, so it is free as soon as the file is replaced."""
    address, codes = str(tmp_path / FILES[database]), repeated_codes(N, 16)
    module = importlib.import_module(f"manihash.stores.{database}_file")
    write = module._write

    def and_another(*args):
        version = write(*args)
        monkeypatch.undo()
        other.add(codes[20:40], np.arange(20, 40))
        return version

    with create_store(address, 16) as one, open_store(address) as other:
        monkeypatch.setattr(module, "_write", and_another)
        one.add(codes[:20], np.arange(20))
        one.add(codes[40:], np.arange(40, N))
        for store in (one, other):
            np.testing.assert_array_equal(store.get(np.arange(N)), codes)


@pytest.mark.parametrize("part", ["_read_header", "_read_ids", "_mapped"])
def test_a_file_that_is_replaced_while_it_is_read_is_read_as_one_version(tmp_path, monkeypatch, part):
    address, codes = str(tmp_path / "a.faiss"), repeated_codes(N, 16)
    read = getattr(faiss_file, part)

    def and_replace(*args):
        monkeypatch.undo()
        one.remove(np.arange(1, 20))
        return read(*args)

    with create_store(address, 16) as one:
        one.add(codes[:20], np.arange(20))
        monkeypatch.setattr(faiss_file, part, and_replace)
        with open_store(address) as other:
            np.testing.assert_array_equal(other.get([0]), codes[:1])
            assert other.count() == 1


@pytest.mark.usefixtures("threads_switch_often")
@pytest.mark.parametrize("database", database_params(["faiss", "usearch"]))
def test_threads_that_share_a_store_see_whole_versions_of_another_handle(tmp_path, database):
    address, codes = str(tmp_path / FILES[database]), repeated_codes(N, 16)
    ended = threading.Event()

    def read(store):
        while not ended.is_set():
            np.testing.assert_array_equal(store.get(np.arange(10)), codes[:10])
            assert store.search(codes[:1], 10)[1].shape == (1, 10)

    with create_store(address, 16) as one, open_store(address) as shared, ThreadPoolExecutor(3) as pool:
        one.add(codes[:10], np.arange(10))
        readers = [pool.submit(read, shared) for _ in range(3)]
        try:
            for i in range(10, N):
                one.add(codes[i : i + 1], [i])
        finally:
            ended.set()
        for reader in readers:
            reader.result(60)


def test_a_removed_file_is_not_created_again_by_a_handle(tmp_path):
    path = tmp_path / "a.faiss"
    with create_store(str(path), 16) as store:
        path.unlink()
        with pytest.raises(StoreNotFoundError, match="was removed while it was open"):
            store.add(repeated_codes(1, 16), [1])
    assert not path.exists()


def test_a_file_replaced_by_codes_of_another_length_is_refused(tmp_path):
    path = tmp_path / "a.faiss"
    with create_store(str(path), 16) as store:
        path.unlink()
        create_store(str(path), 24).close()
        with pytest.raises(StoreError, match="codes of 24 bits instead of 16"):
            store.count()


def test_a_locked_file_gives_an_error_after_the_wait(tmp_path, monkeypatch):
    path = tmp_path / "a.faiss"
    with create_store(str(path), 16) as store, locks.locked(path):
        monkeypatch.setattr(locks, "_WAIT_SECONDS", 0.05)
        with pytest.raises(TimeoutError, match="is being written by another process: try again"):
            store.add(repeated_codes(1, 16), [1])
    with open_store(str(path)) as store:
        export_codes(repeated_codes(3, 16), store)
        assert store.count() == 3
