"""Tests specific to LanceDB."""

from pathlib import Path

import numpy as np
import pytest
from store_databases import assert_search_matches_brute_force, repeated_codes

from manihash.stores import StoreError, create_store, open_store

pytestmark = pytest.mark.extra


def test_the_default_table_of_a_folder_is_codes(tmp_path):
    create_store(f"lance:{tmp_path / 'db'}", 13).close()
    assert (tmp_path / "db" / "codes.lance").is_dir()
    assert open_store(str(tmp_path / "db" / "codes.lance")).n_bits == 13


def test_an_open_store_sees_rows_added_by_another(tmp_path):
    with create_store(str(tmp_path / "a.lance"), 8) as one, open_store(str(tmp_path / "a.lance")) as other:
        one.add(np.zeros((1, 1), np.uint8), [1])
        assert other.count() == 1


def test_search_is_exact_with_a_lancedb_index_and_after_many_small_adds(tmp_path):
    import lancedb

    codes = repeated_codes(700, 32)
    with create_store(str(tmp_path / "a.lance"), 32) as store:
        for i in range(0, 700, 10):
            store.add(codes[i : i + 10], np.arange(i, i + 10))
        table = lancedb.connect(tmp_path).open_table("a")
        config = lancedb.index.IvfFlat(distance_type="hamming", num_partitions=8)
        table.create_index("code", config=config)
        assert table.list_indices()
        assert_search_matches_brute_force(store, codes, np.arange(700), codes[:10], 30)


def test_a_table_with_other_columns_is_rejected(tmp_path):
    import lancedb

    lancedb.connect(tmp_path).create_table("a", [{"id": "one", "code": [0.5, 0.5]}])
    with pytest.raises(
        StoreError,
        match=r"a\.lance has the columns id .*string, code .*: expected id of int64 or string",
    ):
        open_store(str(tmp_path / "a.lance"))


def test_a_table_of_another_program_uses_all_bits_of_its_bytes(tmp_path):
    import lancedb
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("code", pa.list_(pa.uint8(), 2))])
    lancedb.connect(tmp_path).create_table("a", schema=schema)
    with open_store(str(tmp_path / "a.lance")) as store:
        assert store.n_bits == 16
        store.add(np.array([[255, 255]], np.uint8), [1])
        assert store.get([1]).tolist() == [[255, 255]]


def test_a_damaged_table_gives_a_store_error(tmp_path):
    with create_store(str(tmp_path / "a.lance"), 8) as store:
        store.add(np.zeros((5, 1), np.uint8), range(5))
    for file in (tmp_path / "a.lance").rglob("*"):
        if file.is_file():
            Path(file).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="LanceDB reports an error"):
        open_store(str(tmp_path / "a.lance"))
