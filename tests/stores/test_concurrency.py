"""Several handles, threads and processes that change one store."""

import multiprocessing

import numpy as np
import pytest
from store_databases import DATABASES, database_params, new_address, repeated_codes

from manihash.files import locks
from manihash.stores import StoreError, StoreNotFoundError, create_store, export_codes, open_store

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
