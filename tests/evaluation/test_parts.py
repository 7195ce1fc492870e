"""Codes of two parts: evaluated by their weighted distance and their first part, beside all bits."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from manihash import Hybrid, LabelTruth, evaluate, pack
from manihash.code_layout import CodeLayout
from manihash.evaluation import metrics
from manihash.evaluation.harness import evaluate_lookup, measure
from manihash.hashers import ITQ, LSH, ProductQuantizer

RNG = np.random.default_rng(0)
BITS, QUERIES = RNG.random((300, 21)) < 0.5, RNG.random((40, 21)) < 0.5
TRUTH = LabelTruth(RNG.integers(0, 4, 40), RNG.integers(0, 4, 300))


@pytest.mark.parametrize("weight", [0, 0.5, 0.3, 1, 2])
def test_the_ranking_is_by_weighted_distance_and_the_look_up_by_the_first_part(weight):
    differ = QUERIES[:, None] != BITS
    d1, d2 = differ[..., :6].sum(axis=2), differ[..., 6:].sum(axis=2)
    relevant = TRUTH.relevant(0, 40)
    options = {"layout": CodeLayout(21, 6, weight)}
    found = evaluate(pack(QUERIES), pack(BITS), TRUTH, 21, radius=1, **options)
    assert found.map == pytest.approx(metrics.average_precision(d1 + weight * d2, relevant).mean())
    precision, recall = (values.mean() for values in metrics.lookup(d1, relevant, 1))
    assert (found.precision, found.recall) == pytest.approx((precision, recall))
    assert found.f1 == pytest.approx(metrics.f1(precision, recall))
    by_block = evaluate(pack(QUERIES), pack(BITS), TRUTH, 21, radius=1, block=7, **options)
    assert (by_block.map, by_block.map_ties, by_block.precision_at_10) == pytest.approx(
        (found.map, found.map_ties, found.precision_at_10)
    )
    look_up = evaluate_lookup(pack(QUERIES), pack(BITS), TRUTH, 21, **options)
    assert look_up.map_ties == pytest.approx(found.map_ties)
    assert look_up.precision[1] == pytest.approx(precision)
    assert len(look_up.recall) == 7


def test_the_hamming_distance_of_all_bits_is_measured_beside():
    found = evaluate(pack(QUERIES), pack(BITS), TRUTH, 21, layout=CodeLayout(21, 6, 0.5)).plain
    expected = evaluate(pack(QUERIES), pack(BITS), TRUTH, 21)
    assert vars(found) == vars(expected)
    weighted = evaluate(pack(QUERIES), pack(BITS), TRUTH, 21, layout=CodeLayout(21, 6, 1))
    assert (weighted.map, weighted.precision_at_10) == (expected.map, expected.precision_at_10)
    assert weighted.plain.plain is None


def test_a_radius_beyond_the_first_part_finds_all_rows():
    found = evaluate(
        pack(QUERIES), pack(BITS), TRUTH, 21, radius=10, layout=CodeLayout(21, 6, 0.5), curves=True
    )
    assert found.recall == pytest.approx(1)
    assert len(found.curves.precision_within) == 7


def test_measure_uses_the_parts_of_a_hybrid():
    X = RNG.standard_normal((300, 20))
    hybrid = Hybrid(LSH(6), ITQ(9), weight=0.25, random_state=0)
    found = measure(hybrid, X, X[:40], TRUTH, metric=evaluate).result
    codes = hybrid.encode(X)
    expected = evaluate(codes[:40], codes, TRUTH, 15, layout=CodeLayout(15, 6, 0.25))
    assert (found.map, found.f1, found.plain.map) == (expected.map, expected.f1, expected.plain.map)


@pytest.mark.parametrize("second", [ITQ(9), ProductQuantizer(8)], ids=["signs", "fields"])
def test_a_fitted_hasher_is_evaluated_from_vectors_with_its_own_layout(second):
    X = RNG.standard_normal((340, 20))
    hasher = Hybrid(LSH(6), second, weight=0.25, random_state=0).fit(X)
    rows, queries = X[:300], X[300:]
    codes, asked = hasher.encode(rows), hasher.encode(queries)
    options = {"layout": hasher.layout_, "radius": 1, "curves": True}
    expected = evaluate(asked, codes, TRUTH, hasher.n_bits_, values=hasher.embed(queries), **options)
    found = evaluate(hasher, rows, queries, TRUTH, 1, curves=True)
    np.testing.assert_equal(vars(found.curves), vars(expected.curves))
    assert (found.map, found.f1, found.precision_at_10) == (
        expected.map,
        expected.f1,
        expected.precision_at_10,
    )
    by_codes = evaluate(hasher=hasher, X=rows, Q=queries, truth=TRUTH, symmetric=True)
    assert by_codes.map == evaluate(asked, codes, TRUTH, hasher.n_bits_, layout=hasher.layout_).map
    assert by_codes.map != evaluate(asked, codes, TRUTH, hasher.n_bits_).map


def test_the_ranking_of_evaluate_is_that_of_a_search():
    X = RNG.standard_normal((340, 20))
    hasher = LSH(64, random_state=0).fit(X)
    _, ids = hasher.index(X[:300]).search(X[300:], k=10)
    found = evaluate(hasher, X[:300], X[300:], TRUTH)
    relevant = np.take_along_axis(TRUTH.relevant(0, 40), ids, axis=1)
    assert found.precision_at_10 == pytest.approx(relevant.mean())


def test_evaluate_needs_a_fitted_hasher_and_a_truth_of_its_rows():
    with pytest.raises(NotFittedError):
        evaluate(ITQ(4), np.zeros((300, 5)), np.zeros((40, 5)), TRUTH)
    X = RNG.standard_normal((50, 5))
    with pytest.raises(ValueError, match="got 40 queries and 50 rows with a truth for 40 queries and 300"):
        evaluate(ITQ(4).fit(X), X, X[:40], TRUTH)
