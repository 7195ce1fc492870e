"""Every store with its real database: the same methods, results of brute force, and the same errors."""

import numpy as np
import pytest
from store_databases import (
    DATABASES,
    assert_search_matches_brute_force,
    assert_within_matches_brute_force,
    new_address,
    repeated_codes,
    scattered_ids,
)

from manihash.stores import StoreError, StoreNotFoundError, create_store, open_store


@pytest.fixture(params=DATABASES)
def address(request, tmp_path):
    return new_address(request.param, tmp_path)


@pytest.mark.parametrize("n_bits", [1, 13, 64, 257])
def test_results_agree_with_brute_force_ties_by_id(address, n_bits):
    codes, ids = repeated_codes(300, n_bits), scattered_ids(300)
    queries = np.concatenate([codes[:4], repeated_codes(20, n_bits, seed=5)[:4]])
    with create_store(address, n_bits) as store:
        store.add(codes[:200], ids[:200])
        store.add(codes[200:], ids[200:])
        for k in (1, 7, 120, 300):
            assert_search_matches_brute_force(store, codes, ids, queries, k)
        for radius in (0, 1, n_bits // 2, n_bits + 3):
            assert_within_matches_brute_force(store, codes, ids, queries, radius)


def test_a_reopened_store_has_its_rows_and_n_bits(address):
    codes, ids = repeated_codes(50, 13), scattered_ids(50)
    with create_store(address, 13) as store:
        store.add(codes, ids)
    with open_store(address) as store:
        assert (store.n_bits, store.count(), len(store)) == (13, 50, 50)
        np.testing.assert_array_equal(store.get(ids), codes)
        np.testing.assert_array_equal(store.get(ids[[7, 3]]), codes[[7, 3]])
        assert_search_matches_brute_force(store, codes, ids, codes[:3], 10)


def test_random_adds_and_deletes_agree_with_a_dictionary(address):
    rng = np.random.default_rng(3)
    codes, model = repeated_codes(200, 24), {}
    queries = codes[:3]
    with create_store(address, 24) as store:
        for _ in range(25):
            if model and rng.random() < 0.4:
                deleted = rng.choice(list(model), rng.integers(1, len(model) + 1), replace=False)
                store.remove(deleted)
                model = {i: code for i, code in model.items() if i not in deleted}
            else:
                free = np.setdiff1d(np.arange(200), list(model))
                new = rng.choice(free, rng.integers(1, 1 + len(free) // 3), replace=False)
                store.add(codes[new], new)
                model |= {int(i): codes[i] for i in new}
            assert store.count() == len(model)
            if model:
                stored = np.array(list(model))
                assert_search_matches_brute_force(store, codes[stored], stored, queries, min(9, len(stored)))
                assert_within_matches_brute_force(store, codes[stored], stored, queries, 5)


def test_a_deleted_id_can_be_added_again_with_another_code(address):
    with create_store(address, 8) as store:
        store.add(np.array([[1], [2]], np.uint8), [10, 20])
        store.remove([10])
        store.add(np.array([[7]], np.uint8), [10])
        np.testing.assert_array_equal(store.get([20, 10]), [[2], [7]])


def test_an_empty_store_returns_empty_results(address, caplog):
    queries = np.zeros((2, 2), np.uint8)
    with create_store(address, 13) as store:
        distances, ids = store.search(queries, 5)
        assert distances.shape == ids.shape == (2, 0)
        lims, distances, ids = store.within(queries, 13)
        assert (lims.tolist(), len(distances), len(ids)) == ([0, 0, 0], 0, 0)
        assert store.contains([1]).tolist() == [False]
        store.add(np.empty((0, 2), np.uint8), [])
        store.remove([])
        assert store.count() == 0
    assert "k=5 exceeds the 0 codes of the store" in caplog.text


def test_no_queries_give_empty_results(address):
    with create_store(address, 16) as store:
        store.add(np.zeros((3, 2), np.uint8), [1, 2, 3])
        assert store.search(np.empty((0, 2), np.uint8), 2)[0].shape == (0, 2)
        assert store.within(np.empty((0, 2), np.uint8), 2)[0].tolist() == [0]


def test_a_k_above_the_number_of_rows_returns_all_rows_with_a_warning(address, caplog):
    with create_store(address, 8) as store:
        store.add(np.array([[1], [3]], np.uint8), [5, 4])
        distances, ids = store.search(np.array([[1]], np.uint8), 9)
    assert (distances.tolist(), ids.tolist()) == ([[0, 1]], [[5, 4]])
    assert "k=9 exceeds the 2 codes of the store: all 2 are returned" in caplog.text


def test_existing_ids_are_rejected_and_nothing_is_added(address):
    codes = repeated_codes(10, 16)
    with create_store(address, 16) as store:
        store.add(codes[:4], [1, 2, 3, 4])
        with pytest.raises(StoreError, match=r"ids 2, 3, 4 are already in .*: remove these rows first"):
            store.add(codes[4:], [9, 4, 3, 2, 8, 7])
        with pytest.raises(StoreError, match=r"id 4 is already in .*: remove these rows first"):
            store.add(codes[:1], [4])
        with pytest.raises(ValueError, match="ids must be distinct, but 6 occurs 2 times"):
            store.add(codes[:3], [6, 5, 6])
        assert store.count() == 4
        assert not store.contains([9, 8, 7, 6, 5]).any()


def test_unknown_ids_are_rejected_and_nothing_is_deleted(address):
    with create_store(address, 16) as store:
        store.add(repeated_codes(4, 16), [1, 2, 3, 4])
        with pytest.raises(StoreError, match=r"ids 5, 6, 7 and 1 more are not in"):
            store.remove([4, 5, 6, 7, 8, 1])
        with pytest.raises(StoreError, match="id 77 is not in"):
            store.get([1, 77])
        assert store.contains([4, 77, 1]).tolist() == [True, False, True]
        assert store.count() == 4


@pytest.mark.parametrize(
    ("codes", "ids", "message"),
    [
        (np.zeros((2, 3), np.uint8), [1, 2], "3 bytes per row, but codes of 13 bits have 2"),
        (np.full((2, 2), 255, np.uint8), [1, 2], "bits set beyond the first 13"),
        (np.zeros((2, 2)), [1, 2], "2-D array of bytes"),
        (np.zeros((2, 2), np.uint8), [1], "ids must be 2 integers"),
        (np.zeros((2, 2), np.uint8), [1.5, 2.5], "ids must be 2 integers"),
        (np.zeros((2, 2), np.uint8), [2**63, 2**64 - 1], "fit into a signed 64-bit integer"),
    ],
)
def test_invalid_rows_are_rejected_and_nothing_is_added(address, codes, ids, message):
    with create_store(address, 13) as store:
        with pytest.raises(ValueError, match=message):
            store.add(codes, np.array(ids))
        assert store.count() == 0


def test_invalid_queries_are_rejected(address):
    with create_store(address, 13) as store:
        store.add(np.zeros((1, 2), np.uint8), [1])
        query = np.zeros((1, 2), np.uint8)
        with pytest.raises(ValueError, match="k must be a whole number of at least 1, not 0"):
            store.search(query, 0)
        with pytest.raises(ValueError, match="radius must be a whole number of at least 0, not -1"):
            store.within(query, -1)
        with pytest.raises(ValueError, match="queries have 3 bytes per row, but codes of 13 bits have 2"):
            store.search(np.zeros((1, 3), np.uint8), 1)
        with pytest.raises(ValueError, match="queries must be a 2-D array of bytes"):
            store.within(query[0], 1)


def test_a_store_with_codes_of_another_length_is_rejected(address):
    create_store(address, 13).close()
    with pytest.raises(StoreError, match="holds codes of 13 bits, got codes of 16 bits"):
        open_store(address, 16)
    with open_store(address, 13) as store:
        assert store.n_bits == 13


def test_a_missing_store_is_created_only_if_n_bits_is_given(address):
    with pytest.raises(StoreNotFoundError, match="create it"):
        open_store(address)
    with open_store(address, 13) as store:
        assert (store.n_bits, store.count()) == (13, 0)


def test_an_existing_store_is_not_created_again(address):
    with create_store(address, 16) as store:
        store.add(np.zeros((1, 2), np.uint8), [1])
    with pytest.raises(StoreError, match="already"):
        create_store(address, 16)
    with open_store(address) as store:
        assert store.count() == 1
