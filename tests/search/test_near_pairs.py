"""Near pairs of codes are those of a comparison of all pairs, each found once, by every way to find them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from similar_codes import similar_codes

from manihash.codes import hamming, words
from manihash.search.duplicates import near_pairs as module
from manihash.search.duplicates.near_pairs import Scheme, choose_scheme, near_pairs
from manihash.search.duplicates.self_join import UnionFind

WAYS = {
    "blocks": {"_VALUES_BITS": 0, "_LONG": 10**9},
    "flips": {"_LONG": 10**9, "_LOOK_UP": 0},
    "tables": {"_LONG": 4, "_SCAN": 1, "_LOOK_UP": 1},
    "tables of short runs": {"_LONG": 4, "_SCAN": 1, "_LOOK_UP": 1, "_SHORT": 2, "_SQUARE": 7, "_BLOCK": 11},
}


@pytest.mark.parametrize("way", WAYS)
@given(st.integers(1, 300), st.integers(1, 150), st.integers(0, 6), st.integers(0, 999))
def test_each_near_pair_is_found_once(way, n_bits, n, radius, seed):
    codes = similar_codes(np.random.default_rng(seed), n, n_bits)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(module, name, value)
        found = [np.stack(pairs, axis=1) for pairs in near_pairs(words(codes), radius)]
    pairs = np.sort(np.concatenate([np.empty((0, 2), np.int64), *found]), axis=1)
    expected = np.argwhere(np.triu(hamming(codes, codes) <= radius, 1))
    assert sorted(pairs.tolist()) == expected.tolist()


def test_hashes_that_are_equal_by_chance_change_nothing(monkeypatch):
    codes = similar_codes(np.random.default_rng(0), 300, 40)
    monkeypatch.setattr(module, "hashed", lambda records, key: np.zeros(len(records), np.uint64))
    scheme = Scheme(module._chunks(np.arange(40), 4, 1), 2, 0, 0)
    found = [np.stack(p, 1) for t in scheme.tables() for p in module.table_pairs(words(codes), t, 2)]
    expected = np.argwhere(np.triu(hamming(codes, codes) <= 2, 1))
    assert sorted(np.sort(np.concatenate(found), axis=1).tolist()) == expected.tolist()


@pytest.mark.parametrize("n", [10**6, 10**8, 10**9])
@pytest.mark.parametrize("radius", [1, 2, 3])
def test_the_scheme_for_many_random_codes_compares_few_pairs(n, radius):
    sample = np.random.default_rng(0).integers(2**64, size=(2**14, 1), dtype=np.uint64)
    scheme = choose_scheme(sample, n, radius, one_part=False)
    assert len(scheme.chunks) > radius
    assert scheme.compared < 100 * n
    assert len(scheme.tables()) <= 35


def test_bits_that_do_not_vary_are_shared_by_all_chunks():
    sample = np.arange(2**12, dtype=np.uint64)[:, None]  # 12 of 64 bits vary
    chunks = choose_scheme(sample, 10**9, 2, one_part=False).chunks
    varying = [int(np.bitwise_count(bits[0] & np.uint64(2**12 - 1))) for bits in chunks]
    assert max(varying) - min(varying) <= 1


@given(st.integers(1, 200), st.integers(0, 300), st.integers(0, 99))
def test_groups_of_nodes_are_connected_components(n, n_edges, seed):
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    a, b = np.random.default_rng(seed).integers(0, n, (2, n_edges))
    groups = UnionFind(n)
    groups.join(a[: n_edges // 2], b[: n_edges // 2])
    groups.join(a[n_edges // 2 :], b[n_edges // 2 :])
    graph = coo_array((np.ones(n_edges), (a, b)), shape=(n, n))
    component = connected_components(graph, directed=False)[1]
    lowest = [np.flatnonzero(component == c)[0] for c in component]
    assert groups.labels().tolist() == lowest


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_long_chains_of_nodes_need_few_rounds(order):
    n = 300_000
    nodes = {"ascending": np.arange(n), "descending": np.arange(n)[::-1]}.get(order)
    nodes = np.random.default_rng(0).permutation(n) if nodes is None else nodes
    groups = UnionFind(n)
    groups.join(nodes[1:], nodes[:-1])
    assert not groups.labels().any()
