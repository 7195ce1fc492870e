"""choose recommends what was measured best, without and with labels, and refuses invalid input."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import choose
from manihash.advice import candidates
from manihash.advice.candidates import Candidate, Measured
from manihash.advice.choose import recommend
from manihash.advice.quality import LookUpByRadius, Quality
from manihash.advice.relevance import relevance_of
from manihash.advice.sample import draw_sample
from manihash.advice.scores import Purpose


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-graph",))
    monkeypatch.setattr(candidates, "OTHER", ("itq", "sign"))
    monkeypatch.setattr(candidates, "PEERS", {})


def clustered(n=700, columns=32):
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=n)
    return (3 * rng.normal(size=(6, columns))[y] + rng.normal(size=(n, columns))).astype(np.float32), y


def test_the_recommendation_is_the_best_candidate_of_at_most_n_bits():
    X, y = clustered()
    choice = choose(X, 16, "ranking", y)
    allowed = [row for row in choice.table if row["n_bits"] <= 16]
    best = max(row["score"] for row in allowed)
    assert choice.n_bits <= 16
    assert choice.best["score"] >= 0.99 * best
    assert choice.best["score"] == choice.best["map"]
    assert {row["n_bits"] for row in choice.table} == {8, 16, 32}
    hasher = choice.build().fit(X)
    assert hasher.n_bits_ == choice.n_bits
    assert "70 held-out queries" in choice.sample


def test_digits_without_labels_are_given_to_a_manifold_method_and_noise_is_not(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-hybrid",))
    X = load_digits().data[:1000]
    assert choose(X, 64, "ranking").recipe == "imh-hybrid"
    noise = np.random.default_rng(0).normal(size=(700, 64)).astype(np.float32)
    choice = choose(noise, 64, "ranking")
    assert choice.recipe in ("itq", "sign", "imh-hybrid")  # its quantizer ranks
    assert choice.relevance == "clusters and neighbors"


def test_the_same_seed_gives_the_same_table():
    X, y = clustered(400)
    times = {"fit_seconds", "fit_all_seconds", "encode_us_per_row", "search_us_per_query"}
    one, two = (
        [{k: v for k, v in row.items() if k not in times} for row in choose(X, 8, "auto", y).table]
        for _ in range(2)
    )
    assert one == two


def test_copies_are_found_within_the_radius_of_the_goal_duplicates():
    choice = choose(clustered(400)[0], 32, "duplicates")
    assert choice.best["copies_found"] > 0.9


def test_a_quantizer_of_faiss_is_named_if_it_serves_the_goal_better(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(candidates, "PEERS", {"faiss-pq": "pq"})
    monkeypatch.setattr(candidates, "MANIFOLD", ())
    X = np.random.default_rng(0).normal(size=(800, 8)) @ np.random.default_rng(1).normal(size=(8, 24))
    choice = choose(X, 16, "neighbors")
    assert choice.peer == "faiss-pq"
    assert choice.recipe in ("itq", "sign", "imh-hybrid")  # its quantizer ranks
    assert choice.reasons[0].startswith("Use ")
    assert any("FAISS PQ with 2 bytes per row is better" in text for text in choice.reasons)
    rows = [row for row in choice.table if row["recipe"] == "faiss-pq"]
    assert {row["bytes_per_row"] for row in rows} == {1, 2, 4}
    assert "radius" not in rows[0]
    assert choose(X, 16, "lookup").peer is None


def test_more_rows_than_the_sample_are_drawn_at_random():
    X, y = clustered(1000)
    sample = draw_sample(X, y, 300, np.random.default_rng(0))
    assert (sample.X.shape, sample.Q.shape, sample.n_rows) == ((270, 32), (30, 32), 1000)
    row_of = {row.tobytes(): i for i, row in enumerate(X)}
    drawn = [row_of[row.tobytes()] for row in np.concatenate([sample.X, sample.Q])]
    assert len(set(drawn)) == 300
    assert (y[drawn] == np.concatenate([sample.y, sample.y_query])).all()
    assert "a random 300 of 1,000 rows" in sample.text


def test_rows_without_a_label_are_no_queries():
    X, y = clustered(400)
    some = np.where(np.arange(400) % 2, y, -1)
    assert (draw_sample(X, some, 400, np.random.default_rng(0)).y_query >= 0).all()


def measured(returned, recall):
    """A candidate of four bits with a given look-up; the other values do not matter."""
    lookup = LookUpByRadius(*(np.array(each, float) for each in (returned, [0] * 5, recall, recall, recall)))
    return Measured(Candidate("itq", 4), Quality(lookup, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5))


def test_the_radius_is_the_largest_whose_rows_stay_within_the_budget():
    found = measured([1, 5, 20, 80, 90], [0.1, 0.3, 0.6, 0.9, 1])
    assert Purpose("neighbors", 20, False).radius(found) == 2
    assert Purpose("neighbors", 19, False).radius(found) == 1
    assert Purpose("neighbors", 0.5, False).radius(found) == 0
    assert Purpose("neighbors", 100, False).radius(found) == 4
    assert Purpose("lookup", 100, False).radius(found) == 2  # answered from tables
    assert Purpose("lookup", 20, False).score(found) == pytest.approx(0.6)


def test_the_score_of_a_look_up_does_not_jump_between_two_radii():
    found = measured([1, 5, 20, 80, 90], [0.1, 0.3, 0.6, 0.9, 1])  # precision = recall, so F1 is the same
    scores = [Purpose("lookup", budget, True).score(found) for budget in (5, 10, 12.5, 20)]
    assert scores == pytest.approx([0.3, 0.4, 0.45, 0.6])
    assert Purpose("lookup", 100, True).score(found) == pytest.approx(0.6)  # radius 2 at most, from tables


def test_a_look_up_that_returns_more_rows_than_a_given_limit_scores_less():
    found = measured([100] * 5, [1] * 5)  # all of them are relevant
    assert Purpose("lookup", 10, True).score(found) == 1.0
    assert Purpose("lookup", 10, True, is_limit=True).score(found) == pytest.approx(0.1)


def recommended(found):
    """The recommendation among measured candidates of four bits, for 400 rows with labels."""
    X, y = clustered(400)
    rng = np.random.default_rng(0)
    sample = draw_sample(X, y, 400, rng)
    return recommend(found, Purpose("lookup", 10, True), 4, sample, relevance_of(sample, rng), None, 0)


def test_a_smaller_base_set_is_recommended_only_if_the_larger_one_is_left_out():
    small, large = (
        replace(measured([100] * 5, [share] * 5), candidate=Candidate(name, 4))
        for name, share in (("imh-graph-small", 0.9), ("imh-graph", 0.8))
    )
    assert recommended([small, large]).recipe == "imh-graph"
    assert recommended([small]).recipe == "imh-graph-small"


def test_between_equal_scores_better_first_answers_decide():
    whole = measured([100] * 5, [1] * 5)
    found = [
        replace(
            whole, candidate=Candidate(name, 4), quality=replace(whole.quality, recall_at_10_rescored=recall)
        )
        for name, recall in (("sign", 0.3), ("itq", 0.6), ("sph", 0.4))
    ]
    choice = recommended(found)
    assert choice.recipe == "itq"
    assert any(
        "more than the 11 rows allowed, but radius 0 is the smallest" in text for text in choice.reasons
    )


def test_a_look_up_without_labels_is_scored_by_both_stand_ins():
    X, _ = clustered(400)
    choice = choose(X, 16, "lookup")
    row = choice.best
    assert {"f1", "nearest_f1"} <= set(row)
    lookup = LookUpByRadius(*(np.full(5, value) for value in (10, 0, 0.5, 0.4, 0.4, 0.9, 0.9)))
    found = Measured(Candidate("itq", 4), Quality(lookup, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5))
    assert Purpose("lookup", 10, False).score(found) == pytest.approx(0.6)


def test_a_recipe_that_is_too_slow_is_not_recommended(monkeypatch):
    X, y = clustered(400)
    real, best = candidates.measure, choose(X, 16, "ranking", y).recipe

    def slow_best(candidate, *arguments):
        found = real(candidate, *arguments)
        seconds = 1000.0 if candidate.recipe == best else 0.1
        return Measured(found.candidate, found.quality, found.bytes_per_row, seconds)

    monkeypatch.setattr("manihash.advice.choose.measure", slow_best)
    assert choose(X, 16, "ranking", y).recipe == best
    choice = choose(X, 16, "ranking", y, max_fit_seconds=60)
    assert choice.recipe != best
    left_out = [row["reason"] for row in choice.table if row["recipe"] == best and "reason" in row]
    assert len(left_out) == 2
    assert "would take about" in left_out[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"goal": "rankings"}, "unknown goal 'rankings' .did you mean 'ranking'"),
        ({"X": np.zeros((50, 4))}, "got 50 rows: choose needs at least 200"),
        ({"X": np.zeros(300)}, "X has 1 dimensions"),
        ({"labels": [1, 2, 3]}, r"got labels of shape \(3,\) for 300 rows"),
        ({"labels": np.arange(300)}, "only 0 of the 300 rows of the sample share their label"),
        ({"n_bits": 0}, "n_bits must be a whole number of at least 2"),
        ({"sample": 10}, "sample must be a whole number of at least 200"),
        ({"max_fit_seconds": -1}, "max_fit_seconds must be a finite number above zero"),
        ({"max_candidates": 0}, "max_candidates must be a whole number"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    X = np.random.default_rng(0).normal(size=(300, 4))
    with pytest.raises(ValueError, match=message):
        choose(**{"X": X} | arguments)


def test_a_row_with_nan_is_named():
    X, _ = clustered(300)
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN: the first such row is 7"):
        choose(X, 8)


@pytest.mark.parametrize("scale", [1e39, 1e100])
def test_values_beyond_the_range_of_float32_leave_out_what_needs_it(scale):
    X = np.random.default_rng(0).normal(size=(400, 8)) * scale
    choice = choose(X, n_bits=8, random_state=0)
    assert choice.recipe in {row["recipe"] for row in choice.table}
