"""Ground truth: relevant rows by labels and by Euclidean distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from manihash.evaluation.harness import evaluate_scan
from manihash.evaluation.metrics import recall_at_k
from manihash.evaluation.truth import (
    EuclideanScan,
    EuclideanTruth,
    LabelTruth,
    nearest_euclidean,
    query_block,
)


def test_rows_of_the_same_label_are_relevant_whatever_labels_are():
    truth = LabelTruth(["cat", "dog", "cow"], ["dog", "cat", "dog"])
    np.testing.assert_array_equal(truth.relevant(0, 2), [[False, True, False], [True, False, True]])
    np.testing.assert_array_equal(truth.counts, [1, 2, 0])
    assert truth.shape == (3, 3)


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 6),
    st.floats(0.01, 1),
    st.sampled_from("fd"),
    st.integers(0, 99),
)
def test_the_nearest_fraction_is_relevant(q, n, d, fraction, dtype, seed):
    rng = np.random.default_rng(seed)
    # Small whole numbers: distances are exact, and many are tied.
    Q, X = (rng.integers(0, 4, (rows, d)).astype(dtype) for rows in (q, n))
    truth = EuclideanTruth(Q, X, fraction=fraction)
    distance = ((Q[:, None] - X) ** 2).sum(axis=2)
    kth = np.sort(distance, axis=1)[:, max(1, round(fraction * n)) - 1]
    np.testing.assert_array_equal(truth.relevant(0, q), distance <= kth[:, None])
    np.testing.assert_array_equal(truth.counts, truth.relevant(0, q).sum(axis=1))


@pytest.mark.parametrize("d", [3, 300])
def test_exactly_k_rows_are_relevant_in_any_block_of_queries(d):
    rng = np.random.default_rng(0)
    Q, X = rng.normal(size=(50, d)), rng.normal(size=(5000, d))
    truth = EuclideanTruth(Q, X, k=37)
    whole = truth.relevant(0, 50)
    assert (whole.sum(axis=1) == 37).all()
    assert (truth.counts == 37).all()
    for start, stop in [(0, 1), (3, 20), (15, 17), (49, 50)]:
        np.testing.assert_array_equal(truth.relevant(start, stop), whole[start:stop])


def test_queries_asked_for_across_blocks_are_the_same_queries(monkeypatch):
    monkeypatch.setattr("manihash.evaluation.truth.query_block", lambda n: 16)
    rng = np.random.default_rng(0)
    scan = EuclideanScan(rng.normal(size=(50, 9)), rng.normal(size=(700, 9)))
    whole = scan.keys(0, 50)
    for start, stop in [(0, 16), (5, 33), (16, 48), (47, 50)]:
        np.testing.assert_array_equal(scan.keys(start, stop), whole[start:stop])
    np.testing.assert_array_equal(np.concatenate([keys for _, keys in scan.blocks("test")]), whole)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_the_nearest_rows_are_in_order_and_ties_in_order_of_id(dtype):
    rng = np.random.default_rng(0)
    Q, X = rng.integers(0, 3, (20, 4)).astype(dtype), rng.integers(0, 3, (6000, 4)).astype(dtype)
    distance = ((Q[:, None].astype(int) - X.astype(int)) ** 2).sum(axis=2)
    expected = np.argsort(distance, axis=1, kind="stable")
    np.testing.assert_array_equal(nearest_euclidean(Q, X, 50), expected[:, :50])
    np.testing.assert_array_equal(nearest_euclidean(Q, X[:7], 7), np.argsort(distance[:, :7], kind="stable"))


def test_the_scan_of_the_vectors_ranks_by_euclidean_distance():
    rng = np.random.default_rng(0)
    Q, X = rng.normal(size=(25, 6)), rng.normal(size=(300, 6))
    truth = LabelTruth(rng.integers(0, 3, 25), rng.integers(0, 3, 300))
    distance = ((Q[:, None] - X) ** 2).sum(axis=2)
    expected = np.mean(
        [average_precision_score(r, -d) for r, d in zip(truth.relevant(0, 25), distance, strict=True)]
    )
    assert evaluate_scan(Q, X, truth).map == pytest.approx(expected, rel=1e-9)
    assert evaluate_scan(Q, X, EuclideanTruth(Q, X)).map == pytest.approx(1)


def test_a_block_of_queries_holds_a_bounded_number_of_pairs():
    assert [query_block(n) for n in (1, 69_000, 1_000_000, 10**9)] == [1024, 243, 16, 16]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: EuclideanTruth(np.ones((2, 3)), np.ones((5, 4))),
            "queries have 3 columns and the database 4",
        ),
        (lambda: EuclideanTruth(np.ones((2, 3)), np.ones((5, 3)), k=6), "k=6 exceeds the 5 rows"),
        (lambda: EuclideanTruth(np.ones((2, 3)), np.ones((5, 3)), k=0), "k must be a whole number"),
        (lambda: EuclideanTruth(np.ones((2, 3)), np.ones((5, 3)), fraction=2), "0.02 is the nearest 2 %"),
        (lambda: EuclideanTruth(np.ones((2, 3)), np.ones((0, 3))), "X must be .* at least one row"),
        (lambda: nearest_euclidean(np.ones(3), np.ones((5, 3)), 1), "Q must be a 2-D array"),
        (lambda: nearest_euclidean(np.ones((1, 1)), [[0], [np.nan]], 1), "NaN.* row is 1"),
        (lambda: LabelTruth([], [1]), "y_query must be 1-D with at least one label"),
        (lambda: LabelTruth([1], [np.nan]), "y_database has rows without a label"),
    ],
)
def test_a_truth_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_published_neighbors_of_bigann_are_found(data_folder):
    bigann = np.load(data_folder / "bigann10k" / "bigann10k.npz")
    found = nearest_euclidean(bigann["query"], bigann["base"], 100)
    assert recall_at_k(found, bigann["gt"]).mean() > 0.999  # they cut ties in another order
    assert (EuclideanTruth(bigann["query"], bigann["base"], k=100).counts >= 100).all()


@pytest.mark.parametrize("given", [np.float32, np.float64, np.int64, np.longdouble])
@pytest.mark.parametrize(("offset", "scale"), [(1e3, 1.0), (1e6, 1.0), (0.0, 1e-25), (0.0, 1e15)])
def test_the_nearest_rows_are_found_far_from_zero_and_at_any_scale(given, offset, scale):
    rng = np.random.default_rng(0)
    scale = 1000.0 if given is np.int64 else scale
    X = (scale * (rng.standard_normal((2000, 16)) + offset)).astype(given)
    Q = X[::100]
    distance = np.square(Q[:, None].astype(np.float64) - X.astype(np.float64)).sum(axis=2)
    found = np.take_along_axis(distance, nearest_euclidean(Q, X, 10), axis=1)
    np.testing.assert_allclose(found, np.sort(distance, axis=1)[:, :10], rtol=1e-6)
    relevant = EuclideanTruth(Q, X, k=10).relevant(0, 20)
    assert np.array_equal(relevant, distance <= np.sort(distance, axis=1)[:, 9:10])


@pytest.mark.parametrize(
    ("query", "database"),
    [
        (np.array([1, -1, 2]), np.array([-1, 1, 2, 2, -1])),
        (np.array([1.0, -1, 2]), np.array([-1, 1, 2, 2, -1])),
        (["1", None, "2"], np.array([-1, 1, 2, 2, -1])),
        ([1, -1, "2"], [None, 1.0, "2", 2, -1]),
    ],
)
def test_minus_one_and_none_are_no_class(query, database):
    truth = LabelTruth(query, database)
    np.testing.assert_array_equal(truth.counts, [1, 0, 2])
    np.testing.assert_array_equal(truth.relevant(0, 3).sum(axis=1), truth.counts)
    assert truth.relevant(0, 1)[0, 1]
