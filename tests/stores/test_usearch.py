"""Tests specific to index files of usearch."""

import numpy as np
import pytest
from store_databases import assert_search_matches_brute_force, repeated_codes

from manihash.stores import StoreError, StoreNotFoundError, create_store, open_store

pytestmark = pytest.mark.extra


def test_usearch_reads_the_file_and_its_keys_are_the_ids(tmp_path):
    from usearch.index import Index

    codes = repeated_codes(20, 24)
    with create_store(str(tmp_path / "a.usearch"), 24) as store:
        store.add(codes, np.arange(20) + 5)
    index = Index.restore(str(tmp_path / "a.usearch"))
    assert (len(index), index.ndim) == (20, 24)
    np.testing.assert_array_equal(np.asarray(index.get(np.arange(5, 25, dtype=np.uint64))), codes)


def test_an_index_of_usearch_is_read(tmp_path):
    from usearch.index import Index

    codes = repeated_codes(30, 24)
    index = Index(ndim=24, dtype="b1", metric="hamming")
    index.add(np.arange(30), codes)
    index.save(str(tmp_path / "a.usearch"))
    with open_store(str(tmp_path / "a.usearch")) as store:
        assert_search_matches_brute_force(store, codes, np.arange(30), codes[:3], 10)
    Index(ndim=4).save(str(tmp_path / "b.usearch"))
    with pytest.raises(StoreError, match="is no index file of usearch with binary codes"):
        open_store(str(tmp_path / "b.usearch"))


def test_the_graph_finds_most_of_the_nearest_rows(tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (2000, 8), np.uint8)
    with create_store(f"{tmp_path / 'a.usearch'}?index=hnsw", 64) as store:
        store.add(codes, np.arange(2000))
        distances, ids = store.search(codes[:50], 1)
        assert (distances[:, 0] == 0).mean() > 0.9
        assert ids.shape == (50, 1)


def test_the_one_id_that_usearch_has_no_key_for_is_refused(tmp_path):
    lowest = np.iinfo(np.int64).min
    with create_store(str(tmp_path / "a.usearch"), 16) as store:
        store.add(repeated_codes(2, 16), [-1, lowest + 1])
        with pytest.raises(StoreError, match=f"usearch has no key for the id {lowest}"):
            store.add(repeated_codes(2, 16), [3, lowest])
        assert store.contains([-1, lowest + 1, 3]).tolist() == [True, True, False]
        assert sorted(store.search(repeated_codes(1, 16), 2)[1][0].tolist()) == [lowest + 1, -1]


def test_a_failed_write_leaves_the_old_rows(tmp_path, monkeypatch):
    from manihash.stores import usearch_file

    with create_store(str(tmp_path / "a.usearch"), 16, id_type=str) as store:
        store.add(repeated_codes(2, 16), ["a", "b"])

        def fails(*args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(usearch_file, "_write", fails)
            with pytest.raises(KeyboardInterrupt):
                store.remove(["a"])
        assert store.contains(["a", "b"]).all()


@pytest.mark.parametrize("cut", [3, 40, 200])
def test_a_damaged_file_is_refused(tmp_path, cut):
    path = tmp_path / "a.usearch"
    with create_store(str(path), 16, id_type=str) as store:
        store.add(repeated_codes(9, 16), list("abcdefghi"))
    content = path.read_bytes()
    path.write_bytes(content[:cut])
    with pytest.raises(StoreError, match="usearch"):
        open_store(str(path))
    path.write_bytes(content[:-20] + b"?" * 4 + content[-16:])
    with pytest.raises(StoreError, match="is damaged"):
        open_store(str(path))


def test_a_removed_or_replaced_file_is_noticed(tmp_path):
    path = tmp_path / "a.usearch"
    with create_store(str(path), 16) as store:
        path.unlink()
        with pytest.raises(StoreNotFoundError, match="was removed while it was open"):
            store.count()
        create_store(str(path), 24).close()
        with pytest.raises(StoreError, match="codes of 24 bits instead of 16"):
            store.count()
