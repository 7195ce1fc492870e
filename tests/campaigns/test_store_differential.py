"""Random rows, changes and queries: every store against brute force.

MANIHASH_CASES sets the number of queries per database, and MANIHASH_FIRST their seed.
"""

import os

import numpy as np
import pytest
from store_databases import (
    DATABASES,
    WITH_FIRST,
    assert_search_matches_brute_force,
    assert_within_matches_brute_force,
    database_params,
    near,
    new_address,
    repeated_codes,
    scattered_ids,
)

from manihash import create_store
from manihash.code_layout import CodeLayout
from manihash.codes import pack

CASES = int(os.environ.get("MANIHASH_CASES", "60"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
QUERIES = 20  # per group: between groups the rows change


def changed(rng, store, codes, ids, n_bits):
    """Delete some rows of a store, or add some; return the codes and ids that it holds then."""
    if rng.random() < 0.5 and len(ids) > 20:
        gone = rng.choice(len(ids), 10, replace=False)
        store.remove(ids[gone])
        return np.delete(codes, gone, axis=0), np.delete(ids, gone)
    added = pack(rng.random((10, n_bits)) < 0.5)
    new = rng.choice(10**6, 10, replace=False) + 10**7 * (1 + len(ids))
    store.add(added, ids=new)
    return np.concatenate([codes, added]), np.concatenate([ids, new])


def drawn(rng, codes, n_bits):
    """Queries, random ones and codes of the store."""
    random = pack(rng.random((QUERIES, n_bits)) < 0.5)
    known = codes[rng.integers(len(codes), size=QUERIES)]
    return np.where(rng.random((QUERIES, 1)) < 0.5, random, known)


@pytest.mark.parametrize("database", database_params(WITH_FIRST))
def test_a_store_looks_up_by_the_first_part_as_brute_force_does(database, tmp_path):
    rng = np.random.default_rng([1, FIRST])
    n_bits, look_up_bits = 83, 21
    codes, ids = repeated_codes(150, n_bits), scattered_ids(150)
    layout = CodeLayout(n_bits, look_up_bits)
    with create_store(new_address(database, tmp_path), n_bits, layout=layout) as store:
        store.add(codes, ids=ids)
        for _ in range(-(-CASES // QUERIES)):
            codes, ids = changed(rng, store, codes, ids, n_bits)
            queries, radius = drawn(rng, codes, n_bits), int(rng.integers(0, look_up_bits // 2))
            found = store.within(queries, radius, part="first")
            expected = near(layout.first(codes), ids, layout.first(queries), radius)
            for own, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("database", DATABASES)
def test_a_store_answers_as_brute_force_does(database, tmp_path):
    rng = np.random.default_rng([0, FIRST])
    n_bits = 40 if database != "milvus" else 64
    codes, ids = repeated_codes(150, n_bits), scattered_ids(150)
    with create_store(new_address(database, tmp_path), n_bits=n_bits) as store:
        store.add(codes, ids=ids)
        for _ in range(-(-CASES // QUERIES)):
            codes, ids = changed(rng, store, codes, ids, n_bits)
            queries = drawn(rng, codes, n_bits)
            k, radius = int(rng.integers(1, 30)), int(rng.integers(0, n_bits // 2))
            assert_search_matches_brute_force(store, codes, ids, queries, min(k, len(ids)))
            assert_within_matches_brute_force(store, codes, ids, queries, radius)
        assert len(store) == len(ids)
