"""Tests specific to DuckDB, and to Parquet files that it searches in place."""

import subprocess
import sys

import numpy as np
import pytest
from store_databases import assert_search_matches_brute_force, repeated_codes

from manihash.files import locks
from manihash.stores import StoreError, StoreNotFoundError, create_store, open_store

pytestmark = pytest.mark.extra

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()"


def test_a_file_that_another_process_has_open_is_waited_for(tmp_path, monkeypatch):
    path = str(tmp_path / "a.duckdb")
    create_store(path, 16).close()
    command = [sys.executable, "-c", HOLD, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        monkeypatch.setattr(locks, "_WAIT_SECONDS", 0.2)
        with pytest.raises(
            TimeoutError, match="is open in another process, and a DuckDB file belongs to one"
        ):
            open_store(path)
        other.stdin.close()
        other.wait(30)
    open_store(path).close()


@pytest.mark.parametrize("name", ["a.duckdb", "a.parquet"])
def test_a_file_that_is_no_database_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"no database, but text of more than a hundred bytes " * 200)
    with pytest.raises(StoreError, match=f"{name}: DuckDB reports an error: "):
        open_store(str(tmp_path / name), 16)


def test_a_table_with_other_columns_is_refused(tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE codes (id BIGINT, code BLOB)")
    with pytest.raises(
        StoreError,
        match="has the columns id BIGINT, code BLOB: expected id BIGINT or VARCHAR, and code UBIGINT",
    ):
        open_store(str(tmp_path / "a.duckdb"))
    with pytest.raises(StoreNotFoundError, match="no table other in this DuckDB file"):
        open_store(f"duckdb:{tmp_path / 'a.duckdb'}?table=other")


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_rows_of_another_program_use_all_bits_of_their_words(tmp_path, kind):
    import duckdb

    rows = "SELECT i::BIGINT AS id, (i * 7919)::UBIGINT AS code, 'x' AS other FROM range(50) AS r(i)"
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute(f"CREATE TABLE codes AS {rows}")
        connection.execute(f"COPY ({rows}) TO '{tmp_path / 'a.parquet'}'")
    codes = (np.arange(50, dtype=">u8") * 7919).astype(">u8").view(np.uint8).reshape(50, 8)
    with open_store(str(tmp_path / f"a.{kind}")) as store:
        assert store.n_bits == 64
        np.testing.assert_array_equal(store.get(np.arange(50)), codes)
        assert_search_matches_brute_force(store, codes, np.arange(50), codes[:3], 10)


def test_a_parquet_file_that_was_replaced_by_other_codes_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    with create_store(str(path), 16) as store:
        path.unlink()
        create_store(str(path), 24).close()
        with pytest.raises(StoreError, match="codes of 24 bits instead of 16"):
            store.count()
        path.unlink()
        with pytest.raises(StoreNotFoundError, match="was removed while it was open"):
            store.add(repeated_codes(1, 16), [1])


def test_a_failed_change_is_rolled_back(tmp_path, monkeypatch):
    with create_store(str(tmp_path / "a.duckdb"), 16) as store:
        store.add(repeated_codes(3, 16), [1, 2, 3])

        def fails(codes, ids):
            store._driver.delete(np.array([1]))
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(store._driver, "add", fails)
            with pytest.raises(KeyboardInterrupt):
                store.add(repeated_codes(1, 16), [4])
        assert store.contains([1, 4]).tolist() == [True, False]
        store.add(repeated_codes(1, 16), [4])


def test_names_of_tables_and_schemas_are_quoted(tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute('CREATE SCHEMA "my schema"')
    address = f"{tmp_path / 'a.duckdb'}?table=my%20schema.odd%22%3B--"
    with create_store(address, 16) as store:
        store.add(repeated_codes(2, 16), [1, 2])
    with open_store(address) as store:
        assert store.count() == 2
