"""Random rows, changes and queries: every store against HammingIndex.

MANIHASH_CASES sets the number of queries per database, and the seed of a group of them is its number.
"""

import os

import numpy as np
import pytest
from store_databases import DATABASES, WITH_FIRST, database_params, new_address, repeated_codes, scattered_ids

from manihash import HammingIndex, create_store
from manihash.code_layout import CodeLayout
from manihash.codes import pack

CASES = int(os.environ.get("MANIHASH_CASES", "60"))
QUERIES = 20  # per group: between groups the rows change


def change(rng, store, index, n_bits):
    """Delete some rows, or add some, in both."""
    if rng.random() < 0.5 and len(index) > 20:
        ids = rng.choice(index.ids, 10, replace=False)
        store.remove(ids)
        index.remove(ids)
    else:
        ids = rng.choice(10**6, 10, replace=False) + 10**7 * (1 + len(index))
        codes = pack(rng.random((10, n_bits)) < 0.5)
        store.add(codes, ids=ids)
        index.add(codes, ids)


def drawn(rng, index, n_bits):
    """Queries, random ones and codes of the index."""
    random = pack(rng.random((QUERIES, n_bits)) < 0.5)
    known = index.codes[rng.integers(len(index), size=QUERIES)]
    return np.where(rng.random((QUERIES, 1)) < 0.5, random, known)


@pytest.mark.parametrize("database", database_params(WITH_FIRST))
def test_a_store_looks_up_by_the_first_part_as_the_index_does(database, tmp_path):
    rng = np.random.default_rng(1)
    n_bits, look_up_bits = 83, 21
    codes, ids = repeated_codes(150, n_bits), scattered_ids(150)
    index = HammingIndex(codes, n_bits, ids)
    layout = CodeLayout(n_bits, look_up_bits)
    with create_store(new_address(database, tmp_path), n_bits, layout=layout) as store:
        store.add(codes, ids=ids)
        for _ in range(-(-CASES // QUERIES)):
            change(rng, store, index, n_bits)
            queries, radius = drawn(rng, index, n_bits), int(rng.integers(0, look_up_bits // 2))
            found = store.within(queries, radius, part="first")
            first = HammingIndex(layout.first(index.codes), look_up_bits, index.ids)
            for own, expected in zip(found, first.within(layout.first(queries), radius), strict=True):
                np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("database", DATABASES)
def test_a_store_answers_as_the_index_does(database, tmp_path):
    rng = np.random.default_rng(0)
    n_bits = 40 if database != "milvus" else 64
    codes, ids = repeated_codes(150, n_bits), scattered_ids(150)
    index = HammingIndex(codes, n_bits, ids)
    with create_store(new_address(database, tmp_path), n_bits=n_bits) as store:
        store.add(codes, ids=ids)
        for _ in range(-(-CASES // QUERIES)):
            change(rng, store, index, n_bits)
            queries = drawn(rng, index, n_bits)
            k, radius = int(rng.integers(1, 30)), int(rng.integers(0, n_bits // 2))
            for found, expected in zip(store.search(queries, k), index.search(queries, k), strict=True):
                np.testing.assert_array_equal(found, expected)
            for found, expected in zip(
                store.within(queries, radius), index.within(queries, radius), strict=True
            ):
                np.testing.assert_array_equal(found, expected)
        assert len(store) == len(index)
