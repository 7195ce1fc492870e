"""Tests specific to Milvus, with milvus-lite."""

import subprocess
import sys

import numpy as np
import pytest
from store_databases import new_address, shared_folder

from manihash.stores import StoreConnectionError, StoreError, StoreNotFoundError, create_store, open_store

pytestmark = pytest.mark.extra


def client_of(address):
    from pymilvus import MilvusClient

    return MilvusClient(address.removeprefix("milvus:").partition("?")[0])


def test_results_above_the_limit_of_milvus_are_complete(tmp_path):
    codes = np.zeros((40_000, 1), np.uint8)
    codes[::8] = 1
    ids = np.random.default_rng(0).permutation(40_000)
    query = np.zeros((1, 1), np.uint8)
    with create_store(new_address("milvus", tmp_path), 8) as store:
        for i in range(0, len(codes), 10_000):
            store.add(codes[i : i + 10_000], ids[i : i + 10_000])
        lims, distances, found = store.within(query, 0)
        np.testing.assert_array_equal(found, np.sort(ids[codes[:, 0] == 0]))
        assert lims.tolist() == [0, 35_000]
        assert not distances.any()
        np.testing.assert_array_equal(store.search(query, 20)[1][0], np.sort(ids[codes[:, 0] == 0])[:20])
        with pytest.raises(StoreError, match="k=20,000 exceeds the limit of Milvus, 16,384"):
            store.search(query, 20_000)


def test_too_many_rows_for_one_message_are_rejected(tmp_path):
    with create_store(new_address("milvus", tmp_path), 32_768) as store:
        with pytest.raises(StoreError, match="8,200 rows are too many for one message"):
            store.add(np.zeros((8_200, 4_096), np.uint8), range(8_200))
        assert store.count() == 0


def test_no_collection_is_left_behind_when_milvus_rejects_the_code_length(tmp_path):
    address = new_address("milvus", tmp_path)
    with pytest.raises(StoreError, match="Milvus reports an error: invalid dimension"):
        create_store(address, 80_000)
    with pytest.raises(StoreNotFoundError):
        open_store(address)


def test_a_collection_with_other_fields_is_rejected(tmp_path):
    address = new_address("milvus", tmp_path)
    create_store(new_address("milvus", tmp_path), 8).close()
    client_of(address).create_collection(address.rpartition("=")[2], dimension=4)
    with pytest.raises(
        StoreError,
        match="has the fields id INT64, vector FLOAT_VECTOR: expected id INT64 or VARCHAR",
    ):
        open_store(address)


def test_a_collection_of_another_program_uses_all_bits_of_its_bytes(tmp_path):
    from pymilvus import DataType

    address = new_address("milvus", tmp_path)
    client = client_of(address)
    schema = client.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=16)
    index = client.prepare_index_params()
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_collection(address.rpartition("=")[2], schema=schema, index_params=index)
    with open_store(address) as store:
        assert store.n_bits == 16
        store.add(np.array([[255, 255]], np.uint8), [1])
        assert store.get([1]).tolist() == [[255, 255]]


def test_a_server_that_is_down_gives_a_connection_error(capfd):
    with pytest.raises(StoreConnectionError, match="Milvus does not respond") as caught:
        open_store("milvus://me:secret@127.0.0.1:1?timeout=2", 16)
    assert "secret" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_opened_by_another_process_is_rejected(tmp_path):
    address = new_address("milvus", tmp_path)
    create_store(address, 8).close()
    code = f"from manihash.stores import open_store; open_store({address!r})"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreError: Milvus reports an error: Open local milvus failed" in other.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised inside milvus-lite
def test_a_name_that_milvus_lite_rejects_gives_a_store_error():
    with pytest.raises(StoreError, match="reports an error"):
        create_store(f"milvus:{shared_folder('milvus') / ('x' * 40)}.db", 8)
    with pytest.raises(StoreError, match="reports an error"):
        create_store(f"milvus:{shared_folder('milvus') / 'shared.db'}?table=no-such name", 8)
