"""Verified duplicates agree with a comparison of all pairs of vectors."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash import dedup, verified_duplicates
from manihash.codes import pack
from manihash.hashers import ITQ
from manihash.search.duplicates import vector_pairs, verified

pytestmark = pytest.mark.usefixtures("tiny_memory")


def all_pairs(X, threshold, *, by_cosine):
    """Pairs of positions of duplicate rows, by comparing every pair in float64."""
    X = np.asarray(X, np.float64)
    lengths = np.linalg.norm(X, axis=1)
    if by_cosine:
        scale = np.where(lengths > 0, lengths, np.inf)
        near = (X @ X.T) / np.outer(scale, scale) >= threshold
    else:
        near = np.linalg.norm(X[:, None] - X[None], axis=2) <= threshold
    return np.argwhere(np.triu(near, 1))


def copies(n=400, columns=24, planted=60, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns)).astype(np.float32)
    X[n - planted :] = X[:planted] + noise * rng.normal(size=(planted, columns))
    return X


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 99), st.booleans(), st.integers(2, 60), st.booleans())
def test_with_the_whole_radius_all_pairs_are_found(seed, by_cosine, n, with_ids):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)
    threshold = 0.9 if by_cosine else 0.5
    ids = rng.permutation(1000)[:n] if with_ids else np.arange(n)
    given = {"cosine": threshold} if by_cosine else {"distance": threshold}
    found = verified_duplicates(pack(X > 0), 3, X, radius=3, ids=ids if with_ids else None, **given)
    expected = np.sort(ids[all_pairs(X, threshold, by_cosine=by_cosine)], axis=1)
    assert sorted(found.pairs.tolist()) == sorted(expected.tolist())
    assert found.candidates == n * (n - 1) // 2
    near = {tuple(pair) for pair in expected.tolist()}
    for group in found:
        assert all((group[0], row) in near for row in group[1:].tolist())
    kept = set(ids.tolist()) - set(found.extra.tolist())
    assert not [pair for pair in near if set(pair) <= kept]  # no two kept rows are duplicates


def test_the_radius_is_chosen_so_that_nearly_all_copies_are_found():
    X = copies(1500, planted=150)
    codes = ITQ(n_bits=24, random_state=0).fit(X).encode(X)
    found = verified_duplicates(codes, 24, X, cosine=0.98)
    expected = all_pairs(X, 0.98, by_cosine=True)
    assert len(expected) >= 150
    assert len(found.pairs) >= 0.97 * len(expected)
    assert found.candidates < 0.1 * 1500 * 1499 / 2
    chosen = next(step for step in found.curve if step.radius == found.radius)
    assert chosen.found >= 0.99
    assert 2 * chosen.candidates <= 10 * 1500  # larger than the sample needs, because few rows are cheap
    assert found.sample_duplicates >= 150
    assert f"1,000 random rows have {found.sample_duplicates} duplicates" in found.reason
    # With so many duplicates in 1,000 of 1,500 rows the estimate of the candidates is close.
    assert chosen.candidates == pytest.approx(found.candidates, rel=0.1)


def test_without_duplicates_the_radius_has_few_candidates():
    X = np.random.default_rng(0).normal(size=(600, 24))
    codes = ITQ(n_bits=24, random_state=0).fit(X).encode(X)
    found = verified_duplicates(codes, 24, X, cosine=0.999)
    assert len(found) == 0
    assert found.largest_chain == 1
    assert 2 * found.candidates <= 10 * 600
    assert np.isnan(found.curve[0].found)


@pytest.mark.parametrize("planted", [0, 3])
def test_the_radius_follows_the_threshold_if_duplicates_are_few(planted):
    """Rows of 64 columns have no near neighbors, so that even large radii have few candidates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 64))
    X[1200 - planted :] = X[:planted] + 0.15 * rng.normal(size=(planted, 64))  # cosine 0.98 to 0.99
    codes = pack(X @ np.linalg.qr(rng.normal(size=(64, 64)))[0] > 0)
    found = verified_duplicates(codes, 64, X, cosine=0.98)
    assert len(found.pairs) == len(all_pairs(X, 0.98, by_cosine=True)) >= 0.6 * planted
    assert found.radius <= 12  # of 64: two rows of cosine 0.98 differ in 4 bits on average
    assert found.candidates <= 2 * planted + 40
    assert found.reason.startswith(f"1,000 random rows have {found.sample_duplicates} duplicate")


def test_the_radius_does_not_grow_where_a_search_would_take_long(monkeypatch):
    X = copies(1000, planted=100)
    codes = ITQ(n_bits=24, random_state=0).fit(X).encode(X)
    far = verified_duplicates(codes, 24, X, cosine=0.98)
    monkeypatch.setattr(verified, "_CHEAP", 0.0)
    monkeypatch.setattr(verified, "_PER_PRODUCT", 0.0)
    near = verified_duplicates(codes, 24, X, cosine=0.98)
    assert near.radius <= far.radius
    assert all(step.found < 0.99 for step in near.curve[: near.radius])
    assert near.curve[near.radius].found >= 0.99


def test_a_given_radius_has_no_reason():
    found = verified_duplicates(np.zeros((3, 1), np.uint8), 8, np.eye(3), cosine=0.9, radius=1)
    assert (found.curve, found.sample_duplicates, found.reason) == ((), None, "")


def test_the_sample_keeps_to_the_memory():
    X = copies(20_000, columns=16, planted=100)
    codes = pack(X > 0)
    verified_duplicates(codes[:100], 16, X[:100], cosine=0.98)
    tracemalloc.start()
    try:
        verified_duplicates(codes, 16, X, cosine=0.98, memory="4M")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * 2**20  # with the result


def test_a_chain_is_reported_and_not_followed():
    angle = np.deg2rad(10 * np.arange(5))  # neighbors have cosine 0.985, rows two apart 0.94
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    codes = np.zeros((5, 1), np.uint8)
    found = verified_duplicates(codes, 8, X, cosine=0.98)
    assert [group.tolist() for group in found] == [[0, 1], [2, 3]]
    assert found.largest_chain == 5
    assert [group.tolist() for group in dedup(codes, 8)] == [[0, 1, 2, 3, 4]]


@pytest.mark.parametrize("memory", [4000, 2**31])
def test_vectors_of_any_type_on_disk_give_the_same_pairs(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(vector_pairs, "_VALUES", 100)
    X = (20 * copies()).astype(np.int16)
    np.save(tmp_path / "X.npy", X)
    codes = ITQ(n_bits=24, random_state=0).fit(X).encode(X)
    X_on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = verified_duplicates(codes, 24, X_on_disk, cosine=0.98, radius=24, memory=memory)
    assert found.pairs.tolist() == all_pairs(X, 0.98, by_cosine=True).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either cosine or distance"),
        ({"cosine": 0.9, "distance": 1}, "give either cosine or distance"),
        ({"cosine": 1.5}, "cosine must be above 0 and at most 1"),
        ({"distance": -1}, "distance must be a finite number"),
        ({"cosine": 0.9, "vectors": np.ones((3, 2))}, "got 4 codes and vectors of shape"),
        ({"cosine": 0.9, "vectors": np.full((4, 2), np.nan)}, "vectors to compare contains NaN"),
        ({"cosine": 0.9, "radius": -1}, "radius must be a whole number"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        verified_duplicates(
            **{"codes": np.zeros((4, 1), np.uint8), "n_bits": 8, "vectors": np.ones((4, 2))} | arguments
        )


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(verified, "_MOST_PAIRS", 3)
    X = np.ones((4, 2)) + np.arange(4)[:, None]
    with pytest.raises(ValueError, match="use a stricter threshold"):
        verified_duplicates(np.zeros((4, 1), np.uint8), 8, X, cosine=0.9)


@pytest.mark.parametrize("with_ids", [False, True])
def test_copies_with_equal_vectors_are_one_row_to_compare(with_ids):
    rng = np.random.default_rng(0)
    X = copies(300, planted=40)[rng.permutation(300)].repeat(20, axis=0)[rng.permutation(6000)]
    X[7] = X[11] = 0  # rows of zeros have no duplicate by cosine
    codes = ITQ(n_bits=24, random_state=0).fit(X).encode(X)
    ids = rng.permutation(6000) if with_ids else None
    row_ids = np.arange(6000) if ids is None else ids
    found = verified_duplicates(codes, 24, X, cosine=0.98, radius=24, ids=ids)
    assert found.candidates < 20 * 6000 + 300 * 300
    near = np.zeros((6000, 6000), bool)
    near[tuple(all_pairs(X, 0.98, by_cosine=True).T)] = True
    near |= near.T
    kept, expected = [], row_ids.copy()
    for row in np.argsort(row_ids):
        keepers = [k for k in kept if near[row, k]]
        expected[row] = row_ids[keepers[0] if keepers else row]
        kept += [] if keepers else [row]
    assert found.first.tolist() == expected.tolist()
    assert 7 not in found.ids or with_ids
    assert (np.diff(found.pairs, axis=1) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1e-24, 1.0, 1e7, 1e30, 1e200])
@pytest.mark.parametrize("by_cosine", [True, False])
def test_vectors_of_any_size_are_compared_exactly(scale, by_cosine, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    X[60:] = X[:60] + 0.02 * rng.normal(size=(60, 6))
    scale = 1e30 if dtype == np.float32 and scale > 1e30 else scale
    scale = 1e-36 if dtype == np.float32 and scale < 1e-36 else scale
    rows = (X * scale).astype(dtype)
    unit = np.asarray(rows, np.float64) / scale
    given = {"cosine": 0.999} if by_cosine else {"distance": 0.05 * scale}
    expected = all_pairs(unit, 0.999 if by_cosine else 0.05, by_cosine=by_cosine)
    found = verified_duplicates(pack(X > 0), 6, rows, radius=6, **given)
    assert sorted(found.pairs.tolist()) == expected.tolist()
    # The radius is chosen with the same comparison.
    chosen = verified_duplicates(pack(X > 0), 6, rows, **given)
    assert np.nanmax([step.found for step in chosen.curve], initial=0) in (0, 1)


@pytest.mark.parametrize("offset", [1e4, 1e7, 1e8, 1e12])
def test_vectors_far_from_zero_are_compared_exactly(offset):
    rng = np.random.default_rng(0)
    X = np.round(64 * rng.normal(size=(300, 5))) / 64 + offset
    X[150:] = X[:150]
    X[150:, 0] += rng.choice([0.25, 0.5], 150)
    expected = all_pairs(X - offset, 0.25, by_cosine=False)
    assert len(expected) > 30
    codes = pack(X - offset > 0)
    found = verified_duplicates(codes, 5, X, distance=0.25, radius=5)
    assert sorted(found.pairs.tolist()) == expected.tolist()
    assert np.array_equal(found.values, np.linalg.norm((X[found.pairs[:, 0]] - X[found.pairs[:, 1]]), axis=1))
    assert verified_duplicates(codes, 5, X, distance=0.25).curve[-1].found == 1


def test_sizes_may_differ_between_rows():
    X = np.array([[1e200, 0], [1e200, 1], [1e-200, 0], [1e-200, 1e-203], [0, 0], [3, 4], [3, 4]])
    codes = np.zeros((7, 1), np.uint8)
    by_cosine = verified_duplicates(codes, 2, X, cosine=0.999, radius=0).pairs.tolist()
    assert by_cosine == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3], [5, 6]]
    near = verified_duplicates(codes, 2, X, distance=1e-202, radius=0)
    assert near.pairs.tolist() == [[2, 3], [5, 6]]
    assert verified_duplicates(codes, 2, X, distance=0, radius=0).pairs.tolist() == [[5, 6]]


@pytest.mark.parametrize("vectors", [np.ones((3, 2)) * 1j, np.array([["a", "b"]] * 3)])
def test_vectors_that_are_not_real_numbers_are_refused(vectors):
    with pytest.raises(ValueError, match="give real numbers"):
        verified_duplicates(np.zeros((3, 1), np.uint8), 2, vectors, cosine=0.9)


@pytest.mark.parametrize("memory", ["2G", 2**12])
def test_sparse_vectors_are_compared_as_arrays_are(memory):
    X = np.random.default_rng(0).normal(size=(60, 5)) * (np.arange(60)[:, None] % 7 > 0)
    X[30:40] = X[:10]
    X += 0  # no -0.0, which a sparse matrix does not keep
    codes = pack(X > 0)
    for threshold in ({"cosine": 0.9}, {"distance": 0.5}):
        expected = verified_duplicates(codes, 5, X, memory=memory, **threshold)
        found = verified_duplicates(codes, 5, sp.csc_array(X), memory=memory, **threshold)
        assert found.pairs.tolist() == expected.pairs.tolist() != []
        assert found.values.tolist() == expected.values.tolist()


@pytest.mark.extra
def test_tensors_are_compared_as_arrays_are():
    torch = pytest.importorskip("torch")
    X = np.array([[1.0, 2], [3, 4], [1, 2.001]])
    found = verified_duplicates(pack(X > 2), 2, torch.as_tensor(X), distance=0.01)
    assert found.pairs.tolist() == [[0, 2]]


def test_vectors_without_columns_are_refused():
    with pytest.raises(ValueError, match="of at least one number"):
        verified_duplicates(np.zeros((3, 1), np.uint8), 2, np.empty((3, 0)), cosine=0.9)
