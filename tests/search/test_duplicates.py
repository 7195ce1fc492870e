"""Groups of near-duplicates agree with a search through all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import hamming, pack
from manihash.search import dedup

RNG = np.random.default_rng(0)


def brute_force_groups(codes, radius, ids):
    near = hamming(codes, codes) <= radius
    left, groups = set(range(len(codes))), []
    while left:
        group, waiting = set(), [left.pop()]
        while waiting:
            i = waiting.pop()
            group.add(i)
            found = {j for j in np.flatnonzero(near[i]).tolist() if j in left}
            left -= found
            waiting += found
        groups.append(sorted(ids[i] for i in group))
    return sorted(groups)


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 90), st.integers(0, 9), st.booleans(), st.integers(0, 99))
def test_groups_are_the_chains_of_near_rows(n_bits, n, radius, with_ids, seed):
    rng = np.random.default_rng(seed)
    bits = rng.random((n, n_bits)) < 0.5
    bits = bits[rng.integers(0, max(1, n // 3), n)] ^ (rng.random((n, n_bits)) < 1 / n_bits)
    ids = rng.permutation(1000)[:n] - 300 if with_ids else None
    row_ids = np.arange(n) if ids is None else ids
    found = dedup(pack(bits), n_bits, radius, ids)
    expected = brute_force_groups(pack(bits), radius, row_ids.tolist())
    assert [group.tolist() for group in found] == [group for group in expected if len(group) > 1]
    assert len(found) == sum(len(group) > 1 for group in expected)
    first = {i: group[0] for group in expected for i in group}
    assert found.first.tolist() == [first[i] for i in row_ids.tolist()]
    assert found.extra.tolist() == sorted(i for group in expected for i in group[1:])


@pytest.mark.parametrize("memory", [2**10, 2**31])
def test_a_long_chain_is_one_group(memory):
    bits = np.tril(np.ones((64, 64), bool))[RNG.permutation(64)]
    assert [len(group) for group in dedup(pack(bits), 64, 1, memory=memory)] == [64]
    assert len(dedup(pack(bits), 64, 0)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": -1}, "radius must be a whole number of at least 0"),
        ({"n_bits": 3}, "bits set beyond the first 3"),
        ({"codes": np.empty((0, 1), np.uint8)}, "codes are empty"),
        ({"ids": [1, 1]}, "ids must be distinct"),
    ],
)
def test_invalid_arguments_of_dedup_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        dedup(**{"codes": np.full((2, 1), 255, np.uint8), "n_bits": 8} | arguments)
