"""Groups of near-duplicates agree with a search through all pairs."""

import numpy as np
import pytest
from brute_force_groups import brute_force_groups
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import hamming, pack
from manihash.search import dedup

pytestmark = pytest.mark.usefixtures("tiny_memory")

RNG = np.random.default_rng(0)


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


@pytest.mark.parametrize("with_ids", [False, True])
def test_the_most_central_row_has_the_smallest_sum_of_distances(monkeypatch, with_ids):
    monkeypatch.setattr("manihash.search.duplicates.groups._VALUES", 2000)  # less than the largest group
    bits = (RNG.random((30, 40)) < 0.5)[RNG.integers(0, 30, 900)] ^ (RNG.random((900, 40)) < 0.01)
    codes, ids = pack(bits), RNG.permutation(5000)[:900] if with_ids else None
    found = dedup(codes, 40, 2, ids)
    row_of = np.arange(900) if ids is None else {i: row for row, i in enumerate(ids.tolist())}
    central = set()
    for group in found:
        rows = [row_of[i] for i in group.tolist()]
        central.add(group[hamming(codes[rows], codes[rows]).sum(axis=1).argmin()])
    alone = set((np.arange(900) if ids is None else ids).tolist()) - set(found.ids.tolist())
    assert found.keep("central", codes=codes, ids=ids).tolist() == sorted(alone | central)
    assert found.keep().tolist() == sorted(alone | {group[0] for group in found})
    assert len(found.keep()) == 900 - len(found.extra)


def test_the_most_central_vector_has_the_largest_sum_of_cosines():
    X = RNG.normal(size=(5, 8))[RNG.integers(0, 5, 200)] + 0.1 * RNG.normal(size=(200, 8))
    found = dedup(pack(X > 0), 8, 1)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    central = {group[(unit[group] @ unit[group].T).sum(axis=1).argmax()] for group in found}
    kept = found.keep("central", vectors=X)
    assert central <= set(kept.tolist())
    assert len(kept) == len(found.keep())


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        ("last", {}, "by must be"),
        ("central", {}, "needs codes or vectors"),
        ("central", {"codes": np.zeros((3, 1), np.uint8)}, "got 3 rows, expected the 2 rows"),
    ],
)
def test_invalid_arguments_of_keep_are_refused(by, options, message):
    with pytest.raises(ValueError, match=message):
        dedup(np.zeros((2, 1), np.uint8), 8).keep(by, **options)


@pytest.mark.parametrize("ids", [["b", "a", "c"], [7, 8, 9], [2, 1, 0], [-1, 0, 1]])
def test_the_most_central_row_needs_the_ids_of_the_rows(ids):
    codes = np.array([[0], [1], [255]], np.uint8)
    found = dedup(codes, 8, 1, ids=ids)
    with pytest.raises(ValueError, match="give ids=, one id per row"):
        found.keep("central", codes=codes)
    assert len(found.keep("central", codes=codes, ids=ids)) == 2
