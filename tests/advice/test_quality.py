"""Quality of codes agrees with the evaluation harness and with counting by hand."""

import numpy as np
import pytest

from manihash import EuclideanTruth, LabelTruth, evaluate, pack
from manihash.advice.quality import Truths, mean_quality, quality_of_codes, quality_of_ranking
from manihash.code_layout import CodeLayout
from manihash.codes import hamming
from manihash.evaluation import NeighborTruth

BITS = 24


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=440)
    X = rng.normal(size=(5, 12))[y] + rng.normal(size=(440, 12))
    codes = pack(X @ rng.normal(size=(12, BITS)) > 0)
    Q, D = X[:40], X[40:]
    truths = Truths(
        LabelTruth(y[:40], y[40:]), NeighborTruth(Q, D, 10), NeighborTruth(Q, D, 100), EuclideanTruth(Q, D)
    )
    return codes[:40], codes[40:], truths


@pytest.mark.parametrize("layout", [CodeLayout(BITS), CodeLayout(BITS, 8, 0.5)])
def test_ranking_and_look_up_are_those_of_evaluate(case, layout):
    queries, codes, truths = case
    found = quality_of_codes(queries, codes, truths, layout).whole
    options = {"layout": layout}
    expected = evaluate(queries, codes, truths.relevant, BITS, 3, neighbors=truths.ten, **options)
    assert found.map == pytest.approx(expected.map_ties)
    assert found.precision_at_10 == pytest.approx(expected.precision_at_10)
    assert found.recall_at_10 == pytest.approx(expected.recall_at_10)
    assert found.lookup.relevant_precision[3] == pytest.approx(expected.precision)
    assert found.lookup.relevant_recall[3] == pytest.approx(expected.recall)
    nearest = evaluate(queries, codes, truths.nearest, BITS, **options)
    assert found.nearest_map == pytest.approx(nearest.map_ties)
    assert found.nearest_precision_at_10 == pytest.approx(nearest.precision_at_10)


def test_reranking_finds_the_neighbors_in_a_shortlist_of_ten_times_as_many(case):
    queries, codes, truths = case
    found = quality_of_codes(queries, codes, truths, CodeLayout(BITS)).whole
    near = truths.ten.relevant(0, 40)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):  # ties in random order
        order = np.argsort(hamming(queries, codes) + rng.random((40, 400)), axis=1)[:, :100]
        shares.append(np.take_along_axis(near, order, axis=1).sum(axis=1).mean() / 10)
    assert found.recall_at_10_reranked == pytest.approx(np.mean(shares), abs=0.01)


def test_a_ranking_by_real_distances_has_the_same_quality_as_its_codes(case):
    queries, codes, truths = case
    # Small random numbers break the ties, so means over many of them are the expectations.
    expected = quality_of_codes(queries, codes, truths, CodeLayout(BITS)).whole
    rng = np.random.default_rng(0)
    found = [
        quality_of_ranking(
            lambda start, stop: hamming(queries[start:stop], codes) + rng.random((stop - start, 400)), truths
        ).whole
        for _ in range(100)
    ]
    for name in (
        "map",
        "precision_at_10",
        "recall_at_10",
        "recall_at_10_reranked",
        "recall_at_100",
        "nearest_map",
    ):
        mean = np.mean([getattr(each, name) for each in found])
        assert mean == pytest.approx(getattr(expected, name), abs=0.005), name


def test_look_up_counts_rows_and_empty_answers(case):
    queries, codes, truths = case
    lookup = quality_of_codes(queries, codes, truths, CodeLayout(BITS)).whole.lookup
    inside = hamming(queries, codes) <= 4
    assert lookup.returned[4] == pytest.approx(inside.sum(axis=1).mean())
    assert lookup.empty[4] == pytest.approx((~inside.any(axis=1)).mean())
    near = truths.ten.relevant(0, 40)
    assert lookup.recall[4] == pytest.approx(((inside & near).sum(axis=1) / near.sum(axis=1)).mean())


def test_groups_of_queries_have_the_mean_of_all_queries(case):
    queries, codes, truths = case
    found = quality_of_codes(queries, codes, truths, CodeLayout(BITS))
    assert len(found.groups) == 10
    mean = mean_quality(found.groups)
    assert mean.map == pytest.approx(found.whole.map)
    assert mean.lookup.returned == pytest.approx(found.whole.lookup.returned)
    assert mean.copies is None


def test_ties_of_a_ranking_by_real_distances_are_in_random_order(case):
    queries, codes, truths = case
    expected = quality_of_codes(queries, codes, truths, CodeLayout(BITS)).whole
    found = quality_of_ranking(lambda a, b: hamming(queries[a:b], codes).astype(float), truths).whole
    for name in ("precision_at_10", "recall_at_10", "recall_at_10_reranked", "recall_at_100"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=0.02), name


def test_neighbors_of_several_numbers_are_those_of_each():
    rng = np.random.default_rng(0)
    Q, X = (
        rng.integers(4, size=(5, 3)).astype(float),
        rng.integers(4, size=(60, 3)).astype(float),
    )  # with ties
    for k, truth in zip((3, 10), NeighborTruth.of_each(Q, X, (3, 10)), strict=True):
        alone = NeighborTruth(Q, X, k)
        assert (truth.relevant(0, 5) == alone.relevant(0, 5)).all()
        assert (truth.counts == alone.counts).all()
