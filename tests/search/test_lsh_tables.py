"""LSH with several tables agrees with brute force and with the formula."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from manihash.evaluation.metrics import lookup
from manihash.hashers.lsh import LSH
from manihash.search import HammingIndex
from manihash.search.lsh_tables import LSHTables


@pytest.fixture(scope="module")
def X():
    return load_digits().data


def brute_force(tables, X, Q):
    """Hamming distances in each table, (n_tables, q, n), from the bits of the one hasher."""
    x, q = tables.hasher.transform(X), tables.hasher.transform(Q)
    cut = (len(x), tables.n_tables, tables.n_bits), (len(q), tables.n_tables, tables.n_bits)
    return (x.reshape(cut[0])[None] != q.reshape(cut[1])[:, None]).sum(axis=3).transpose(2, 0, 1)


@pytest.mark.parametrize(
    ("n_bits", "n_tables", "radius"), [(8, 3, 0), (13, 4, 1), (16, 1, 2), (3, 5, 0), (70, 2, 9)]
)
def test_a_row_is_found_if_any_table_agrees(X, n_bits, n_tables, radius):
    tables = LSHTables(n_bits, n_tables, normalize=True, random_state=0).fit(X[50:])
    lims, ids = tables.query(X[:50], radius)
    near = (brute_force(tables, X[50:], X[:50]) <= radius).any(axis=0)
    assert lims[0] == 0
    assert lims[-1] == len(ids)
    for i, row in enumerate(near):
        assert np.array_equal(ids[lims[i] : lims[i + 1]], np.flatnonzero(row))


def test_distances_are_the_smallest_over_the_tables(X):
    tables = LSHTables(13, 4, random_state=0).fit(X[50:])
    assert np.array_equal(tables.distances(X[:50]), brute_force(tables, X[50:], X[:50]).min(axis=0))


def test_the_size_of_blocks_does_not_change_distances(X, monkeypatch):
    whole = LSHTables(5, 3, random_state=0).fit(X).distances(X[:9])
    monkeypatch.setattr("manihash.search.lsh_tables._BLOCK", 100)
    assert np.array_equal(LSHTables(5, 3, random_state=0).fit(X).distances(X[:9]), whole)


def test_one_table_is_plain_lsh(X):
    lims, ids = LSHTables(12, 1, random_state=0).fit(X).query(X[:20], 1)
    hasher = LSH(12, random_state=0).fit(X)
    expected, _, found = HammingIndex(hasher.encode(X), 12).within(hasher.encode(X[:20]), 1)
    assert np.array_equal(lims, expected)
    for start, stop in pairwise(lims):
        assert np.array_equal(ids[start:stop], np.sort(found[start:stop]))


@pytest.mark.parametrize("theta", [0.2, 0.5, 1.0])
@pytest.mark.parametrize(("n_bits", "n_tables"), [(4, 1), (8, 1), (8, 4), (8, 16), (16, 16)])
def test_neighbors_are_found_with_the_probability_of_the_formula(theta, n_bits, n_tables):
    """1 - (1 - p^r)^L with p = 1 - θ/π: pairs at the angle θ, over several draws of the tables."""
    rng = np.random.default_rng(0)
    x, side = rng.standard_normal((2, 200, 30))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    side -= (side * x).sum(axis=1, keepdims=True) * x
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    y = np.cos(theta) * x + np.sin(theta) * side
    found = []
    for seed in range(40):
        tables = LSHTables(n_bits, n_tables, center=False, random_state=seed).fit(x)
        lims, ids = tables.query(y)
        found.append(np.count_nonzero(ids == np.repeat(np.arange(200), np.diff(lims))) / 200)
    expected = 1 - (1 - (1 - theta / np.pi) ** n_bits) ** n_tables
    assert np.mean(found) == pytest.approx(expected, abs=0.03)


def test_recall_grows_with_the_tables(X):
    near = np.argsort(((X[:100, None] - X[100:]) ** 2).sum(axis=2), axis=1)[:, :10]
    relevant = np.zeros((100, len(X) - 100), bool)
    np.put_along_axis(relevant, near, True, axis=1)
    recall = []
    for n_tables in 1, 4, 16:
        tables = LSHTables(16, n_tables, random_state=0).fit(X[100:])
        recall.append(lookup(tables.distances(X[:100]), relevant, radius=0)[1].mean())
    assert recall[0] < recall[1] < recall[2]
    assert recall[2] > 3 * recall[0]


def test_query_and_distances_agree(X):
    tables = LSHTables(10, 3, random_state=0).fit(X)
    lims, _ = tables.query(X[:30], 1)
    assert np.array_equal(np.diff(lims), (tables.distances(X[:30]) <= 1).sum(axis=1))


def test_every_row_finds_itself_and_the_length_is_the_number_of_rows(X):
    tables = LSHTables(normalize=True, random_state=0).fit(X)
    lims, ids = tables.query(X[:40])
    assert all(i in ids[lims[i] : lims[i + 1]] for i in range(40))
    assert len(tables) == len(X)


def test_the_same_seed_gives_the_same_tables(X):
    one, other = (LSHTables(9, 3, random_state=7).fit(X).distances(X[:5]) for _ in range(2))
    assert np.array_equal(one, other)


def test_tables_that_are_not_fitted_are_an_error(X):
    with pytest.raises(NotFittedError, match="not fitted"):
        LSHTables().query(X)
    with pytest.raises(NotFittedError, match="not fitted"):
        LSHTables().distances(X)


@pytest.mark.parametrize("options", [{"n_bits": 0}, {"n_tables": 0}, {"n_tables": 1.5}])
def test_options_out_of_range_are_errors(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        LSHTables(**options)


@pytest.mark.usefixtures("seed_of_zero")
def test_a_negative_radius_is_an_error(X):
    with pytest.raises(ValueError, match="radius"):
        LSHTables(8, 2).fit(X).query(X[:2], -1)
