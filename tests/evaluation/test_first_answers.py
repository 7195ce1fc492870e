"""Precision@10 and recall@10 are the means over all orders of ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import hamming, pack
from manihash.evaluation import LabelTruth, NeighborTruth, evaluate, evaluate_lookup, evaluate_scan
from manihash.evaluation.first_answers import expected_hits, expected_hits_ranked
from manihash.evaluation.metrics import histograms, precision_recall_at

RNG = np.random.default_rng(0)


def mean_over_orders(distance, relevant, k, orders=4000):
    """Hits among the first k rows, ranked by distance with ties in random order, mean over many orders."""
    rng = np.random.default_rng(1)
    return np.mean(
        [relevant[np.lexsort((rng.random(len(distance)), distance))[:k]].sum() for _ in range(orders)]
    )


@pytest.mark.parametrize("k", [1, 4, 10])
@pytest.mark.parametrize("levels", [1, 3, 12])
def test_expected_hits_are_the_mean_over_random_orders_of_ties(k, levels):
    distance, relevant = RNG.integers(0, levels, (3, 40)), RNG.random((3, 40)) < 0.4
    expected = [mean_over_orders(d, r, k) for d, r in zip(distance, relevant, strict=True)]
    found = expected_hits(*histograms(distance, relevant, levels), k)
    np.testing.assert_allclose(found, expected, atol=0.1)
    np.testing.assert_allclose(expected_hits_ranked(distance / 7, relevant, k), found)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(0, 999))
def test_without_ties_the_first_answers_are_those_of_the_ranking(k, seed):
    rng = np.random.default_rng(seed)
    distance, relevant = rng.permuted(np.tile(np.arange(30), (2, 1)), axis=1), rng.random((2, 30)) < 0.5
    precision = precision_recall_at(distance, relevant)[0][k - 1]
    assert expected_hits_ranked(distance, relevant, k).mean() / k == pytest.approx(precision)


def test_neighbors_include_rows_as_far_as_the_last_one():
    X = RNG.integers(0, 3, (60, 3)).astype(float)
    Q = RNG.integers(0, 3, (20, 3)).astype(float)
    truth = NeighborTruth(Q, X, k=5)
    far = np.square(Q[:, None] - X).sum(axis=2)
    expected = far <= np.sort(far, axis=1)[:, 4:5]
    np.testing.assert_array_equal(truth.relevant(0, 20), expected)
    np.testing.assert_array_equal(truth.relevant(7, 9), expected[7:9])
    np.testing.assert_array_equal(truth.counts, expected.sum(axis=1))


@pytest.mark.parametrize("n_bits", [3, 12, 40])
def test_evaluate_measures_the_first_ten_answers(n_bits):
    X, y = RNG.standard_normal((400, 40)), RNG.integers(0, 4, 400)
    codes, (Q, X) = pack(X[:, :n_bits] > 0), (X[:50], X[50:])
    truth, neighbors = LabelTruth(y[:50], y[50:]), NeighborTruth(Q, X)
    distance = hamming(codes[:50], codes[50:])
    expected = [
        expected_hits_ranked(distance.astype(float), truth.relevant(0, 50), 10).mean() / 10,
        expected_hits_ranked(distance.astype(float), neighbors.relevant(0, 50), 10).mean() / 10,
    ]
    for measured in (
        evaluate(codes[:50], codes[50:], truth, n_bits, neighbors=neighbors, block=7),
        evaluate_lookup(codes[:50], codes[50:], truth, n_bits, neighbors),
    ):
        assert [measured.precision_at_10, measured.recall_at_10] == pytest.approx(expected)
    assert evaluate(codes[:50], codes[50:], truth, n_bits).recall_at_10 is None


def test_the_scan_finds_all_true_neighbors_among_duplicates():
    X = RNG.integers(0, 2, (300, 4)).astype(np.float32)
    truth = LabelTruth(np.zeros(9, int), np.zeros(300, int))
    found = evaluate_scan(X[:9], X, truth, neighbors=NeighborTruth(X[:9], X))
    assert (found.map, found.precision_at_10, found.recall_at_10) == (1, 1, 1)


def test_fewer_than_ten_rows_are_all_answers():
    codes, truth = np.arange(4, dtype=np.uint8)[:, None], LabelTruth([1], [1, 2, 1, 1])
    found = evaluate(codes[:1], codes, truth, 8, neighbors=NeighborTruth([[0.0]], [[1.0], [2], [3], [4]]))
    assert (found.precision_at_10, found.recall_at_10) == (0.75, 1)


def test_neighbors_of_other_queries_are_refused():
    codes, truth = np.arange(4, dtype=np.uint8)[:, None], LabelTruth([1], [1, 2, 1, 1])
    with pytest.raises(ValueError, match="got 1 queries and 4 rows with neighbors of 2 queries and 3 rows"):
        evaluate(codes[:1], codes, truth, 8, neighbors=NeighborTruth(np.eye(2), np.ones((3, 2))))
