"""Export: in batches, resumable, and never overwriting other codes."""

import json
import logging

import numpy as np
import pytest
from command import invoke
from store_databases import (
    DATABASES,
    NAMES,
    REWRITTEN,
    database_params,
    new_address,
    postgres_url,
    repeated_codes,
    scattered_ids,
)

from manihash.stores import (
    StoreConnectionError,
    StoreError,
    create_store,
    export_codes,
    mask_password,
    open_store,
)
from manihash.stores.export import put_codes

N = 1000
BATCHED = database_params([name for name in NAMES if name not in REWRITTEN])


@pytest.fixture(params=DATABASES)
def address(request, tmp_path):
    return new_address(request.param, tmp_path)


@pytest.fixture(params=BATCHED)
def batched_address(request, tmp_path):
    return new_address(request.param, tmp_path)


@pytest.fixture
def at_row():
    """Call a function once, when an export has written a given number of rows."""
    log, handlers = logging.getLogger("manihash.progress"), []

    def arrange(at, what):
        class Handler(logging.Handler):
            def emit(self, record):
                if vars(record)["done"] == at:
                    log.removeHandler(self)
                    what()

        handlers.append(Handler())
        log.addHandler(handlers[-1])
        log.setLevel(logging.DEBUG)

    yield arrange
    for handler in handlers:
        log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


def interrupt():
    raise KeyboardInterrupt


def contains(store, codes, ids):
    return store.count() == len(ids) and np.array_equal(store.get(ids), codes)


@pytest.mark.parametrize("batch", [1, 300, 5000])
def test_all_rows_are_exported_for_any_batch_size(address, batch):
    n = 20 if batch == 1 else N
    codes, ids = repeated_codes(n, 13), scattered_ids(n)
    with create_store(address, 13) as store:
        done = export_codes(codes, store, ids, batch)
        assert (done.rows, done.added, done.count) == (n, n, n)
        assert contains(store, codes, ids)


def test_without_ids_the_id_of_a_code_is_its_row_number(address):
    codes = repeated_codes(50, 16)
    with create_store(address, 16) as store:
        export_codes(codes, store)
        np.testing.assert_array_equal(store.get(np.arange(50)), codes)


def test_the_same_export_again_adds_nothing(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as store:
        export_codes(codes, store, batch=300)
        done = export_codes(codes, store, batch=170)
        assert (done.rows, done.added, done.count) == (N, 0, N)


def test_an_interrupted_export_is_resumed(batched_address, at_row):
    codes, ids = repeated_codes(N, 16), scattered_ids(N)
    with create_store(batched_address, 16) as store:
        at_row(600, interrupt)
        with pytest.raises(
            KeyboardInterrupt, match="600 of 1,000 rows are in the store; run the same export"
        ):
            export_codes(codes, store, ids, 300)
    with open_store(batched_address) as store:
        assert store.count() == 600
        assert export_codes(codes, store, ids, 300).added == 400
        assert contains(store, codes, ids)


def test_an_interrupted_export_to_a_file_adds_nothing(tmp_path, at_row):
    with create_store(str(tmp_path / "a.faiss"), 16) as store:
        at_row(0, interrupt)
        with pytest.raises(KeyboardInterrupt):
            export_codes(repeated_codes(N, 16), store)
        assert store.count() == 0


def test_a_partially_written_batch_is_completed(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as store:
        there = np.concatenate([np.arange(300), np.arange(310, 450, 7)])
        store.add(codes[there], there)
        assert export_codes(codes, store, batch=100).added == N - len(there)
        assert contains(store, codes, np.arange(N))


def test_deleted_rows_are_exported_again(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as store:
        export_codes(codes, store, batch=100)
        store.remove([3, 150, 999])
        assert export_codes(codes, store, batch=100).added == 3
        assert contains(store, codes, np.arange(N))


def test_deleted_rows_are_exported_again_beside_rows_of_others(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as store:
        export_codes(codes, store, batch=100)
        store.add(codes[:600], np.arange(5000, 5600))
        gone = [3, *range(100, 350)]
        store.remove(gone)
        done = export_codes(codes, store, batch=100)
        assert (done.rows, done.added, done.count) == (N, len(gone), N + 600)
        np.testing.assert_array_equal(store.get(np.arange(N)), codes)


def test_rows_of_others_are_kept(address):
    codes, ids = repeated_codes(N, 16), np.arange(N)
    with create_store(address, 16) as store:
        store.add(codes[:5], [-1, -2, -3, 5000, 5001])
        done = export_codes(codes, store, ids, batch=300)
        assert (done.added, done.count) == (N, N + 5)
        np.testing.assert_array_equal(store.get(ids), codes)


def test_different_codes_under_the_same_ids_are_not_overwritten(address):
    codes = repeated_codes(N, 16)
    with create_store(address, 16) as store:
        store.add(codes[:10] ^ 1, np.arange(10))
        with pytest.raises(StoreError, match=r"ids 0, 1, 2 and 7 more are in .* with a different code"):
            export_codes(codes, store, batch=100)
        assert store.count() == 10
        np.testing.assert_array_equal(store.get(np.arange(10)), codes[:10] ^ 1)


def test_a_concurrent_writer_does_not_disturb_an_export(batched_address, at_row):
    codes = repeated_codes(N, 16)
    with create_store(batched_address, 16) as store, open_store(batched_address) as other:
        at_row(600, lambda: other.add(codes[:1], [-7]))
        done = export_codes(codes, store, batch=300)
        assert (done.added, done.count) == (N, N + 1)


def test_rows_removed_during_an_export_are_an_error(batched_address, at_row):
    codes = repeated_codes(N, 16)
    with create_store(batched_address, 16) as store, open_store(batched_address) as other:
        at_row(600, lambda: other.remove([3, 5]))
        with pytest.raises(StoreError, match=r"2 of 1,000 rows are not in .*: somebody else is removing"):
            export_codes(codes, store, batch=300)
        assert export_codes(codes, store, batch=300).added == 2


@pytest.mark.extra
def test_no_row_is_lost_when_the_connection_to_postgres_is_lost(tmp_path, at_row):
    import psycopg

    def cut():
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            )

    address, codes = new_address("postgres", tmp_path), repeated_codes(N, 16)
    with create_store(address, 16) as store:
        at_row(600, cut)
        with pytest.raises(
            StoreConnectionError, match=r"does not respond: .*; 600 of 1,000 rows are in the store"
        ):
            export_codes(codes, store, batch=300)
    with open_store(address) as store:
        assert store.count() == 600
        assert export_codes(codes, store, batch=300).added == 400
        assert contains(store, codes, np.arange(N))


@pytest.mark.extra
def test_no_row_is_lost_when_the_milvus_server_is_killed(tmp_path, at_row):
    import psutil
    from milvus_lite.server_manager import server_manager_instance

    file, codes = tmp_path / "own.db", repeated_codes(N, 16)

    def kill():
        for process in psutil.Process().children():
            if str(file) in process.cmdline():
                process.kill()
                process.wait()

    with create_store(f"milvus:{file}?timeout=5", 16) as store:
        at_row(600, kill)
        with pytest.raises(
            StoreConnectionError, match=r"Milvus does not respond: .*; 600 of 1,000 rows are in the store"
        ):
            export_codes(codes, store, batch=300)
    server_manager_instance.release_server(str(file))
    with open_store(f"milvus:{file}") as store:
        assert export_codes(codes, store, batch=300).rows == N
        assert contains(store, codes, np.arange(N))


def run(*arguments, code=0):
    result = invoke(["export", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def codes_file(tmp_path):
    np.save(tmp_path / "codes.npy", repeated_codes(N, 13))
    return tmp_path / "codes.npy"


def test_the_command_exports_codes_and_reports_the_counts(address, codes_file):
    output = json.loads(run(codes_file, "--to", address, "--bits", 13, "--batch", 400, "--json").stdout)
    assert output.pop("seconds") > 0
    counts = {"bits": 13, "rows": N, "added": N, "count": N}
    assert output == {"codes": str(codes_file), "store": mask_password(address), **counts}
    shown = " ".join(run(codes_file, "--to", address).stdout.split())  # a long path breaks lines
    assert "0 of 1,000 codes of 13 bits" in shown
    assert "1,000 were in the store already" in shown
    with open_store(address) as store:
        np.testing.assert_array_equal(store.get(np.arange(N)), np.load(codes_file))


def test_the_command_reads_ids_from_a_file(tmp_path, codes_file):
    ids = scattered_ids(N)
    np.save(tmp_path / "ids.npy", ids)
    run(codes_file, "--to", tmp_path / "a.faiss", "--bits", 13, "--ids", tmp_path / "ids.npy")
    with open_store(str(tmp_path / "a.faiss")) as store:
        np.testing.assert_array_equal(store.get(ids), np.load(codes_file))


def test_the_command_uses_all_bits_of_the_bytes_without_a_length(tmp_path, codes_file):
    run(codes_file, "--to", tmp_path / "a.faiss")
    assert open_store(str(tmp_path / "a.faiss")).n_bits == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bits", "64"], "2 bytes per row, but codes of 64 bits have 8"),
        (["--bits", "10"], "bits set beyond the first 10"),
        (["--bits", "0"], "codes of 0 bits"),
        (["--batch", "0"], "--batch must be a whole number of at least 1"),
        (["--ids", "twice.npy"], "ids must be distinct, but 1 occurs 1000 times"),
        (
            ["--ids", "few.npy"],
            "ids must be 1000 integers or strings, one per code, got an array of shape (3,)",
        ),
        (
            ["--ids", "half.npy"],
            "one per code, got an array of shape (1000,) and type float64",
        ),
    ],
)
def test_invalid_input_is_rejected_before_a_store_is_created(
    tmp_path, codes_file, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    np.save("twice.npy", np.ones(N, np.int64))
    np.save("few.npy", np.arange(3))
    np.save("half.npy", np.arange(N) + 0.5)
    assert message in run(codes_file, "--to", "a.faiss", *arguments, code=2).stderr
    assert not (tmp_path / "a.faiss").exists()


def test_a_store_with_codes_of_another_length_is_rejected(tmp_path, codes_file):
    create_store(str(tmp_path / "a.faiss"), 64).close()
    assert (
        "2 bytes per row, but codes of 64 bits"
        in run(codes_file, "--to", tmp_path / "a.faiss", code=2).stderr
    )
    output = run(codes_file, "--to", tmp_path / "a.faiss", "--bits", 13, code=2).stderr
    assert "holds codes of 64 bits, got codes of 13 bits" in output


@pytest.mark.extra
def test_the_error_for_a_server_that_is_down_does_not_contain_the_password(codes_file):
    for url in ("postgres://me:secret@127.0.0.1:1/db", "milvus://me:secret@127.0.0.1:1?timeout=2"):
        result = run(codes_file, "--to", url, code=2)
        assert "does not respond" in result.stderr
        assert "secret" not in result.output
        assert "Traceback" not in result.output


def test_codes_are_put_under_old_and_new_ids(address):
    codes = repeated_codes(30, 16)
    with create_store(address, 16) as store:
        store.add(codes[:20], np.arange(20))
        put_codes(store, codes[10:] ^ 1, np.arange(10, 30))
        assert store.count() == 30
        np.testing.assert_array_equal(store.get(np.arange(30)), np.concatenate([codes[:10], codes[10:] ^ 1]))


@pytest.mark.parametrize("database", ["faiss", pytest.param("postgres", marks=pytest.mark.extra)])
def test_put_codes_that_is_interrupted_leaves_the_old_rows(tmp_path, database, monkeypatch):
    codes = repeated_codes(30, 16)
    with create_store(new_address(database, tmp_path), 16) as store:
        store.add(codes, np.arange(30))
        name = "_replace" if database == "faiss" else "add"
        with monkeypatch.context() as patch:
            patch.setattr(type(store._driver), name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                put_codes(store, codes ^ 1, np.arange(30))
        np.testing.assert_array_equal(store.get(np.arange(30)), codes)


def interrupted(*args):
    raise KeyboardInterrupt
