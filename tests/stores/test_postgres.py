"""Tests specific to PostgreSQL with pgvector."""

import numpy as np
import pytest
from store_databases import (
    assert_search_matches_brute_force,
    assert_within_matches_brute_force,
    new_address,
    postgres_url,
    repeated_codes,
)

from manihash.stores import StoreConnectionError, StoreError, StoreNotFoundError, create_store, open_store

pytestmark = pytest.mark.extra


def executed(statement):
    import psycopg

    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_a_scan_is_exact_even_if_an_hnsw_index_exists(tmp_path):
    address, codes = new_address("postgres", tmp_path), repeated_codes(2000, 32)
    ids = np.arange(2000)
    create_store(f"{address}&index=hnsw", 32).close()
    table = address.rpartition("=")[2]
    assert executed(f"SELECT 1 FROM pg_indexes WHERE indexname = '{table}_code_hnsw'")
    with open_store(address) as store:
        store.add(codes, ids)
        assert_search_matches_brute_force(store, codes, ids, codes[:20], 50)


def test_the_hnsw_index_returns_k_results_and_radius_search_is_exact(tmp_path):
    address, codes = new_address("postgres", tmp_path), repeated_codes(500, 32)
    ids = np.arange(500)
    with create_store(f"{address}&index=hnsw", 32) as store:
        store.add(codes, ids)
        for k in (1, 100, 500):
            distances, found = store.search(codes[:5], k)
            assert distances.shape == (5, k)
            assert all(len(set(row)) == k for row in found.tolist())
            assert (np.diff(distances, axis=1) >= 0).all()
        assert_within_matches_brute_force(store, codes, ids, codes[:5], 8)


def test_no_table_is_left_behind_when_hnsw_rejects_the_code_length(tmp_path):
    address = new_address("postgres", tmp_path)
    with pytest.raises(
        StoreError, match="PostgreSQL reports an error: column cannot have more than 64000 dimensions"
    ):
        create_store(f"{address}&index=hnsw", 70_000)
    with pytest.raises(StoreNotFoundError):
        open_store(address)


def test_table_names_are_quoted(tmp_path):
    name = 'Odd "name"; DROP TABLE x; --'
    address = new_address("postgres", tmp_path).rpartition("=")[0] + "=" + name.replace(" ", "%20")
    with create_store(address, 13) as store:
        store.add(np.zeros((1, 2), np.uint8), [1])
    with open_store(address) as store:
        assert store.count() == 1
    assert (name,) in executed("SELECT tablename FROM pg_tables")


def test_a_table_can_be_in_a_schema(tmp_path):
    executed("CREATE SCHEMA IF NOT EXISTS shelf")
    address = new_address("postgres", tmp_path).replace("table=", "table=shelf.")
    create_store(address, 13).close()
    assert open_store(address).n_bits == 13


def test_a_table_with_other_columns_is_rejected(tmp_path):
    address = new_address("postgres", tmp_path)
    table = address.rpartition("=")[2]
    executed(f"CREATE TABLE {table} (id int, code text)")
    with pytest.raises(
        StoreError,
        match=f"table {table} has the columns id integer, code text: expected id bigint or text",
    ):
        open_store(address, 16)


def test_a_server_that_is_down_gives_a_connection_error():
    with pytest.raises(StoreConnectionError, match=r"PostgreSQL does not respond: .*refused") as caught:
        open_store("postgres://me:secret@127.0.0.1:1/db", 16)
    assert "secret" not in str(caught.value)


def test_an_address_that_the_server_rejects_is_not_shown():
    with pytest.raises(StoreError, match="PostgreSQL does not accept this address") as caught:
        open_store("postgres://me:secret@host/db?nonsense=1")
    assert "secret" not in str(caught.value)


def test_an_add_on_a_lost_connection_changes_nothing(tmp_path):
    address = new_address("postgres", tmp_path)
    with create_store(address, 16) as store:
        store.add(np.zeros((2, 2), np.uint8), [1, 2])
        executed("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        with pytest.raises(StoreConnectionError, match="PostgreSQL does not respond"):
            store.add(np.zeros((2, 2), np.uint8), [3, 4])
        with pytest.raises(StoreConnectionError):
            store.count()
    with open_store(address) as store:
        assert store.count() == 2


def test_the_primary_key_rejects_a_second_writer_of_an_id(tmp_path):
    address = new_address("postgres", tmp_path)
    with create_store(address, 8) as one, open_store(address) as other:
        one._driver.add(np.array([[1]], np.uint8), np.array([5]))
        with pytest.raises(StoreError, match="PostgreSQL reports an error: duplicate key value"):
            other._driver.add(np.array([[2], [3]], np.uint8), np.array([6, 5]))
        assert one.count() == 1


def test_a_read_only_user_gets_a_store_error(tmp_path):
    address = new_address("postgres", tmp_path)
    create_store(address, 8).close()
    with open_store(address) as store:
        store._driver._connection.execute("SET default_transaction_read_only = on")
        with pytest.raises(StoreError, match=r"PostgreSQL reports an error: .*read-only"):
            store.add(np.zeros((1, 1), np.uint8), [1])
