"""Metrics: their definitions, scikit-learn's values, and the mean over all orders of ties."""

import subprocess
import sys
from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, precision_score, recall_score

from manihash.codes import hamming, pack
from manihash.evaluation import metrics
from manihash.evaluation.harness import evaluate, evaluate_lookup
from manihash.evaluation.truth import EuclideanTruth, LabelTruth

unhurried = settings(deadline=None)  # a shared machine may pause at any time


def a_block(b, n, levels, share, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, levels, (b, n)).astype(np.uint16), rng.random((b, n)) < share


blocks = st.builds(
    a_block, st.integers(1, 5), st.integers(1, 40), st.integers(1, 20), st.floats(0, 1), st.integers(0, 9999)
)


def brute_force_ap(d, relevant):
    """AP as its definition reads: rank by (distance, position), precision at each relevant rank, mean."""
    hits, precisions = 0, []
    for rank, j in enumerate(sorted(range(len(d)), key=lambda j: (d[j], j)), 1):
        if relevant[j]:
            hits += 1
            precisions.append(hits / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


def labeled(q, n, n_bits, classes, seed=0):
    """Codes that follow their labels with a few bits flipped, and the truth."""
    rng = np.random.default_rng(seed)
    centers = rng.random((classes, n_bits)) < 0.5
    y = rng.integers(0, classes, q + n)
    codes = pack(centers[y] ^ (rng.random((q + n, n_bits)) < 0.2))
    return codes[:q], codes[q:], LabelTruth(y[:q], y[q:])


# average precision


@unhurried
@given(blocks)
def test_average_precision_is_its_definition_over_the_stable_ranking(block):
    expected = [brute_force_ap(d, r) for d, r in zip(*block, strict=True)]
    np.testing.assert_allclose(metrics.average_precision(*block), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_without_ties_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    distance, relevant = rng.permutation(300)[None], rng.random((1, 300)) < 0.1
    expected = average_precision_score(relevant[0], -distance[0])
    assert metrics.average_precision(distance, relevant)[0] == pytest.approx(expected, rel=1e-12)
    assert metrics.tie_aware_average_precision(distance, relevant)[0] == pytest.approx(expected, rel=1e-12)


def test_a_tie_stays_in_database_order():
    distance = np.zeros((2, 2), int)
    relevant = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(metrics.average_precision(distance, relevant), [1, 1 / 2])
    np.testing.assert_allclose(metrics.tie_aware_average_precision(distance, relevant), [3 / 4, 3 / 4])


@pytest.mark.parametrize("seed", range(8))
def test_tie_aware_average_precision_is_the_mean_over_all_orders(seed):
    distance, relevant = a_block(1, 6, 3, 0.5, seed)
    # Every order of the whole database gives every order inside each tie equally often.
    orders = [list(order) for order in permutations(range(6))]
    mean = np.mean([brute_force_ap(distance[0, order], relevant[0, order]) for order in orders])
    assert metrics.tie_aware_average_precision(distance, relevant)[0] == pytest.approx(mean, abs=1e-12)


def test_tie_aware_average_precision_is_the_mean_over_shuffled_databases():
    distance, relevant = a_block(3, 200, 5, 0.2, 0)
    rng = np.random.default_rng(1)
    shuffles = [rng.permutation(200) for _ in range(3000)]
    stable = np.array([metrics.average_precision(distance[:, s], relevant[:, s]) for s in shuffles])
    error = stable.std(axis=0) / np.sqrt(len(shuffles))
    assert (
        abs(stable.mean(axis=0) - metrics.tie_aware_average_precision(distance, relevant)) < 5 * error
    ).all()


@unhurried
@given(blocks, st.integers(0, 2**32 - 1))
def test_tie_aware_average_precision_does_not_see_the_order_of_the_database(block, seed):
    distance, relevant = block
    order = np.random.default_rng(seed).permutation(distance.shape[1])
    np.testing.assert_array_equal(
        metrics.tie_aware_average_precision(distance, relevant),
        metrics.tie_aware_average_precision(distance[:, order], relevant[:, order]),
    )


def test_tie_aware_average_precision_keeps_its_digits_in_a_large_database():
    n = 500_000
    distance = np.zeros((1, n), int)
    relevant = np.arange(n)[None] < n // 2
    # One tie: 1/n Σ (1 + (j - 1) a) / j with a = (s - 1) / (n - 1), summed here term by term.
    j = np.arange(1, n + 1)
    expected = np.sum((1 + (j - 1) * (n // 2 - 1) / (n - 1)) / j) / n
    assert metrics.tie_aware_average_precision(distance, relevant)[0] == pytest.approx(expected, rel=1e-9)


# precision and recall


@unhurried
@given(blocks)
def test_precision_and_recall_at_n_are_those_of_the_first_n_of_the_stable_ranking(block):
    distance, relevant = block
    n = distance.shape[1]
    ranked = np.take_along_axis(relevant, np.argsort(distance, axis=1, kind="stable"), axis=1)
    precision, recall = metrics.precision_recall_at(distance, relevant)
    for N in range(1, n + 1):
        hits = ranked[:, :N].sum(axis=1)
        assert precision[N - 1] == pytest.approx(np.mean(hits / N))
        assert recall[N - 1] == pytest.approx(np.mean(hits / np.maximum(relevant.sum(axis=1), 1)))


@unhurried
@given(blocks, st.integers(0, 20))
def test_the_curve_over_radii_passes_through_every_look_up(block, radius):
    distance, relevant = block
    curve = metrics.precision_recall_within(distance, relevant, 20)
    for along, of_queries in zip(curve, metrics.lookup(distance, relevant, radius), strict=True):
        assert along[radius] == pytest.approx(of_queries.mean())


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_over_radii_is_scikit_learns_precision_recall_curve(seed):
    distance, relevant = a_block(1, 200, 12, 0.3, seed)
    expected_precision, expected_recall, thresholds = precision_recall_curve(
        relevant[0], -distance[0].astype(int)
    )
    precision, recall = metrics.precision_recall_within(distance, relevant, 16)
    np.testing.assert_allclose(precision[-thresholds], expected_precision[:-1])
    np.testing.assert_allclose(recall[-thresholds], expected_recall[:-1])


@unhurried
@given(blocks, st.integers(0, 20))
def test_look_up_is_scikit_learns_precision_and_recall(block, radius):
    for d, r, *found in zip(*block, *metrics.lookup(*block, radius), strict=True):
        expected = [score(r, d <= radius, zero_division=0) for score in (precision_score, recall_score)]
        np.testing.assert_allclose(found, expected)


def test_f1_is_of_the_two_means_and_an_empty_look_up_counts_zero():
    # Within 2: two of three retrieved are relevant, of four; one of one, of two; nothing, of one.
    distance = np.array([[0, 1, 2, 3, 4, 5], [2, 3, 3, 4, 4, 9], [3, 3, 3, 3, 3, 3]], np.uint16)
    relevant = np.array([[1, 0, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], bool)
    precision, recall = metrics.lookup(distance, relevant, 2)
    np.testing.assert_allclose(precision, [2 / 3, 1, 0])
    np.testing.assert_allclose(recall, [1 / 2, 1 / 2, 0])
    P, R = 5 / 9, 1 / 3
    assert (
        metrics.f1(precision.mean(), recall.mean())
        == pytest.approx(2 * P * R / (P + R))
        == pytest.approx(5 / 12)
    )
    assert metrics.f1(0.0, 0.0) == 0


@unhurried
@given(blocks)
def test_every_measure_is_between_zero_and_one_and_recall_ends_at_one(block):
    relevant = block[1]
    at, within = metrics.precision_recall_at(*block), metrics.precision_recall_within(*block, 20)
    aps = metrics.average_precision(*block), metrics.tie_aware_average_precision(*block)
    for values in (*at, *within, *aps):
        assert values.min() >= 0
        assert values.max() <= 1 + 1e-12
    assert at[1][-1] == pytest.approx(within[1][-1]) == pytest.approx(relevant.any(axis=1).mean())
    assert at[0][-1] == pytest.approx(within[0][-1]) == pytest.approx(relevant.mean())


def test_recall_at_k_is_the_share_of_the_true_neighbors_that_were_found():
    found = [[3, 1, 9, 4], [5, 6, 7, 8]]
    np.testing.assert_array_equal(metrics.recall_at_k(found, [[1, 3], [8, 0]]), [1, 0.5])


# a query without any relevant row


def test_a_query_without_a_relevant_row_counts_zero_and_is_counted(caplog):
    codes = pack(np.eye(4))
    both = evaluate(codes[:2], codes, LabelTruth([0, 7], [0, 0, 1, 1]), 4, curves=True)
    one = evaluate(codes[:1], codes, LabelTruth([0], [0, 0, 1, 1]), 4, curves=True)
    assert "1 of 2 queries have no relevant row" in caplog.text
    np.testing.assert_allclose(astuple(both)[:4], np.array(astuple(one)[:4]) / 2)
    assert both.curves.recall_at[-1] == 1 / 2


def test_without_any_relevant_row_every_measure_is_zero():
    codes = pack(np.eye(4))
    found = astuple(evaluate(codes, codes, LabelTruth([1] * 4, [0] * 4), 4))
    assert found == (0, 0, 0, 0, 0, 0, None, None, None)


# evaluate


def test_evaluate_is_the_mean_of_the_functions_on_a_block():
    queries, codes, truth = labeled(30, 400, 20, 4)
    found = evaluate(queries, codes, truth, 20, radius=3, curves=True)
    block = hamming(queries, codes), truth.relevant(0, 30)
    precision, recall = (values.mean() for values in metrics.lookup(*block, 3))
    assert found.map == pytest.approx(metrics.average_precision(*block).mean())
    assert found.map_ties == pytest.approx(metrics.tie_aware_average_precision(*block).mean())
    assert (found.precision, found.recall) == pytest.approx((precision, recall))
    assert found.f1 == pytest.approx(metrics.f1(precision, recall))
    np.testing.assert_allclose(found.curves.precision_at, metrics.precision_recall_at(*block)[0])
    np.testing.assert_allclose(found.curves.recall_at, metrics.precision_recall_at(*block)[1])
    np.testing.assert_allclose(found.curves.precision_within, metrics.precision_recall_within(*block, 20)[0])
    np.testing.assert_allclose(found.curves.recall_within, metrics.precision_recall_within(*block, 20)[1])


@pytest.mark.parametrize("euclidean", [False, True])
@pytest.mark.parametrize("block", [1, 7, 100])
def test_the_size_of_a_block_changes_no_digit(block, euclidean):
    queries, codes, truth = labeled(40, 300, 12, 3)
    if euclidean:
        rng = np.random.default_rng(0)
        truth = EuclideanTruth(rng.random((40, 5)), rng.random((300, 5)))
    whole = evaluate(queries, codes, truth, 12, curves=True)
    cut = evaluate(queries, codes, truth, 12, curves=True, block=block)
    assert astuple(whole)[:5] == astuple(cut)[:5]
    for a, b in zip(astuple(whole.curves), astuple(cut.curves), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_radius_beyond_the_code_retrieves_everything():
    queries, codes, truth = labeled(10, 50, 6, 2)
    assert evaluate(queries, codes, truth, 6, radius=100).recall == 1


def test_codes_equal_to_the_labels_rank_perfectly():
    y = np.random.default_rng(0).integers(0, 4, 200)
    codes = pack(np.eye(4)[y])
    found = evaluate(codes[:20], codes, LabelTruth(y[:20], y), 4, radius=0)
    assert astuple(found)[:5] == pytest.approx((1, 1, 1, 1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_bits": 17}, "2 bytes per row"),
        ({"radius": -1}, "radius must be a whole number of at least 0"),
        ({"block": 0}, "block must be a whole number of at least 1"),
        (
            {"truth": LabelTruth([0] * 3, [0] * 9)},
            "got 5 queries and 9 rows with a truth for 3 queries",
        ),
        ({"query_codes": np.zeros((5, 2), int)}, "query codes must be a 2-D array of bytes"),
    ],
)
def test_evaluate_says_what_is_wrong(change, message):
    codes = np.zeros((9, 2), np.uint8)
    right = {"query_codes": codes[:5], "codes": codes, "truth": LabelTruth([0] * 5, [0] * 9), "n_bits": 16}
    evaluate(**right)
    with pytest.raises(ValueError, match=message):
        evaluate(**right | change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.average_precision(np.zeros((2, 3)), np.zeros((2, 4), bool)), "of one shape"),
        (lambda: metrics.average_precision(np.zeros((2, 3)), np.zeros((2, 3))), "relevance of bool"),
        (lambda: metrics.average_precision(np.zeros((0, 3)), np.zeros((0, 3), bool)), "not empty"),
        (lambda: metrics.tie_aware_average_precision(np.eye(2), np.eye(2) > 0), "whole numbers"),
        (lambda: metrics.tie_aware_average_precision(-np.eye(2, dtype=int), np.eye(2) > 0), "at least 0"),
        (
            lambda: metrics.precision_recall_within(9 * np.eye(2, dtype=int), np.eye(2) > 0, 8),
            "distance of 9",
        ),
        (lambda: metrics.recall_at_k([1, 2], [[1, 2]]), "2-D"),
        (lambda: metrics.recall_at_k([[1, 2]], [[1], [2]]), "the same queries"),
    ],
)
def test_a_block_that_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_load_neither_scikit_learn_nor_faiss():
    code = (
        "import sys, manihash.evaluation.metrics, manihash.search; "
        "print({'sklearn', 'faiss'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


# look-up from counts alone, and the precision-recall curve at fixed levels


@pytest.mark.parametrize("n_bits", [5, 16, 70])
def test_a_lookup_from_counts_is_that_of_the_full_evaluation(n_bits):
    queries, codes, truth = labeled(30, 400, n_bits, 4)
    found = evaluate_lookup(queries, codes, truth, n_bits)
    whole = evaluate(queries, codes, truth, n_bits, curves=True)
    np.testing.assert_allclose(found.precision, whole.curves.precision_within, rtol=1e-12)
    np.testing.assert_allclose(found.recall, whole.curves.recall_within, rtol=1e-12)
    assert found.map_ties == pytest.approx(whole.map_ties, rel=1e-12)


@unhurried
@given(blocks, st.lists(st.floats(0.01, 1), min_size=1, max_size=5))
def test_precision_at_a_recall_is_that_of_the_first_rank_which_reaches_it(block, levels):
    precision, recall = metrics.precision_recall_at(*block)
    expected = [
        next((p for p, r in zip(precision, recall, strict=True) if r >= level - 1e-9), 0.0)
        for level in levels
    ]
    np.testing.assert_allclose(metrics.precision_at_recall(precision, recall, levels), expected)
