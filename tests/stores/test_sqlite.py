"""Tests specific to SQLite: with sqlite-vec and without any library."""

import sqlite3

import numpy as np
import pytest
from store_databases import (
    assert_search_matches_brute_force,
    assert_within_matches_brute_force,
    repeated_codes,
    scattered_ids,
)

from manihash.code_layout import CodeLayout
from manihash.stores import StoreError, create_store, open_store, sqlite_file


@pytest.fixture
def plain(monkeypatch):
    """Neither apsw nor sqlite-vec, as in a core installation."""
    monkeypatch.setattr(sqlite_file, "find_spec", lambda name: None)


def test_the_module_of_python_alone_finds_the_same_rows(plain, tmp_path):
    codes, ids = repeated_codes(300, 29), scattered_ids(300)
    with create_store(str(tmp_path / "a.db"), 29) as store:
        assert "hamming(" in store._driver._distance("code", 29)
        store.add(codes, ids)
        store.remove(ids[:50])
        for radius in (0, 1, 2, 9, 29):
            assert_within_matches_brute_force(store, codes[50:], ids[50:], codes[:5], radius)
        assert_search_matches_brute_force(store, codes[50:], ids[50:], codes[:5], 40)


@pytest.mark.extra
def test_a_file_of_one_library_is_read_with_the_other(tmp_path, monkeypatch):
    pytest.importorskip("apsw")
    codes = repeated_codes(100, 40)
    with create_store(str(tmp_path / "a.db"), 40, layout=CodeLayout(40, 8)) as store:
        assert "vec_distance_hamming" in store._driver._distance("code", 40)
        store.add(codes, np.arange(100))
        found = store.within(codes[:4], 1, part="first")
    monkeypatch.setattr(sqlite_file, "find_spec", lambda name: None)
    with open_store(str(tmp_path / "a.db")) as store:
        for own, other in zip(store.within(codes[:4], 1, part="first"), found, strict=True):
            np.testing.assert_array_equal(own, other)


def test_a_look_up_within_a_small_radius_uses_the_index_of_buckets(plain, tmp_path, monkeypatch):
    statements = []
    with create_store(str(tmp_path / "a.db"), 64, layout=CodeLayout(64, 16)) as store:
        store.add(repeated_codes(1000, 64), np.arange(1000))
        monkeypatch.setattr(type(store._driver), "_matches", lambda self, *asked: statements.append(asked))
        store._driver.within_first(np.zeros((1, 2), np.uint8), 2)
        ((statement, parameters),) = statements
        plan = store._driver._connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    assert any("INDEX codes_buckets (first=?)" in str(step) for step in plan), plan


def test_a_file_of_milvus_lite_is_named(tmp_path):
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("CREATE TABLE collection_meta (id INTEGER)")
    with pytest.raises(
        StoreError, match=r"old\.db is a file of milvus-lite: its address is milvus:.*old\.db"
    ):
        open_store(str(tmp_path / "old.db"), 16)


@pytest.mark.extra
def test_a_file_that_milvus_lite_has_written_is_named(tmp_path):
    pytest.importorskip("milvus_lite")
    create_store(f"milvus:{tmp_path / 'old.db'}", 16).close()
    with pytest.raises(StoreError, match="is a file of milvus-lite: its address is milvus:"):
        open_store(str(tmp_path / "old.db"), 16)


def test_a_table_of_another_program_uses_all_bits_of_its_bytes(tmp_path):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE photos (id TEXT PRIMARY KEY, code BLOB, taken TEXT)")
        connection.execute("INSERT INTO photos VALUES ('a', x'ff00', '2026')")
    with open_store(f"{tmp_path / 'a.db'}?table=photos") as store:
        assert (store.n_bits, store.id_type) == (16, str)
        assert store.search(np.array([[255, 1]], np.uint8), 1)[0].tolist() == [[1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "id REAL, code BLOB",
            "has the columns id REAL, code BLOB: expected id INTEGER or TEXT, and code BLOB",
        ),
        ("id INTEGER, code TEXT", "expected id INTEGER or TEXT, and code BLOB"),
        ("id INTEGER, code BLOB", "has no rows, and no record of n_bits: use another table"),
    ],
)
def test_a_table_with_other_columns_is_refused(tmp_path, columns, message):
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute(f"CREATE TABLE codes ({columns})")
    with pytest.raises(StoreError, match=message):
        open_store(str(tmp_path / "a.db"))


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "a.db").write_bytes(b"no database, but text of more than a hundred bytes " * 20)
    with pytest.raises(StoreError, match=r"a\.db: SQLite reports an error: .*not a database"):
        open_store(str(tmp_path / "a.db"), 16)


def test_a_table_name_is_quoted(tmp_path):
    address = f"{tmp_path / 'a.db'}?table=odd%20%22name%22%3B--"
    with create_store(address, 16) as store:
        store.add(repeated_codes(3, 16), [1, 2, 3])
    with open_store(address) as store:
        assert store.count() == 3


def test_a_file_locked_for_long_gives_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "_WAIT_MILLISECONDS", 50)
    address = str(tmp_path / "a.db")
    with (
        create_store(address, 16) as store,
        open_store(address) as other,
        other._driver.writing(),
        pytest.raises(TimeoutError, match="is being written by another process: try again"),
    ):
        store.add(repeated_codes(1, 16), [1])
