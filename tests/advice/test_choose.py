"""choose recommends what was measured best, without and with labels, and refuses invalid input."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manihash import choose
from manihash.advice import candidates, reasons
from manihash.advice import choose as choosing
from manihash.advice.candidates import Candidate, Measured, combined
from manihash.advice.choose import Stage
from manihash.advice.quality import CopiesFound, LookUpByRadius, Quality
from manihash.advice.reasons import knee_of
from manihash.advice.relevance import LARGE, SMALL, resolution_for
from manihash.advice.sample import draw_sample
from manihash.advice.scores import SHOWN, WEIGHTS, Purpose, error_of


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-graph",))
    monkeypatch.setattr(candidates, "OTHER", ("itq", "sign", "sign-prefix"))
    monkeypatch.setattr(candidates, "LABELED", ("ldahash",))
    monkeypatch.setattr(candidates, "LOOK_UP", ())
    monkeypatch.setattr(candidates, "RANKED", ())
    monkeypatch.setattr(choosing, "_SPLITS", ((2_500, 1),))


def clustered(n=700, columns=32, classes=6):
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=n)
    return (3 * rng.normal(size=(classes, columns))[y] + rng.normal(size=(n, columns))).astype(np.float32), y


@pytest.fixture(scope="module")
def labeled():
    """A choice with labels, of few candidates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "MANIFOLD", ("imh-graph",))
        patch.setattr(candidates, "OTHER", ("itq", "sign", "sign-prefix"))
        patch.setattr(candidates, "LABELED", ("ldahash",))
        patch.setattr(candidates, "RANKED", ())
        return choose(*clustered()[:1], 16, "ranking", clustered()[1])


def test_the_recommendation_is_the_best_candidate_of_at_most_n_bits(labeled):
    allowed = [row for row in labeled.table if row["n_bits"] <= 16 and row["final"] and row["score"]]
    best = max(allowed, key=lambda row: row["score"])
    assert labeled.n_bits <= 16
    assert best["score"] - labeled.best["score"] <= max(2 * best["error"], SHOWN)
    assert labeled.best["score"] == pytest.approx(labeled.best["map"])
    assert labeled.best["behind"] == 0
    assert "70 held-out queries" in labeled.sample
    assert labeled.build().n_bits == labeled.n_bits


def test_the_first_sentence_names_the_recommendation_and_its_interval(labeled):
    first = labeled.reasons[0]
    assert f"{labeled.recipe} with {labeled.n_bits} bits" in first
    best, vectors = labeled.best, next(row for row in labeled.table if row["recipe"] == "vectors")
    assert f"MAP is {best['score']:.3f} ± {best['error']:.3f} (± one standard error) on the sample" in first
    assert re.search(f"(which|; a scan of the vectors) has {vectors['score']:.3f}.$", first)


def test_the_first_sentence_says_that_codes_beat_a_scan_of_the_vectors():
    X, y = clustered()
    noise = 12 * np.random.default_rng(1).normal(size=(len(X), 8))  # columns that say nothing about the class
    choice = choose(np.hstack([X, noise]), 16, "ranking", y)
    vectors = next(row for row in choice.table if row["recipe"] == "vectors")
    assert choice.best["score"] > vectors["score"]
    scan = f"more than that of a scan of the vectors, which has {vectors['score']:.3f}."
    assert choice.reasons[0].endswith(scan)


def test_the_table_says_who_saw_labels_and_has_the_vectors_and_all_columns(labeled):
    rows = {(row["recipe"], row["n_bits"]): row for row in labeled.table}
    assert rows["ldahash", 16]["uses_labels"]
    assert not rows["itq", 16]["uses_labels"]
    assert rows["vectors", 32 * 32]["bytes_per_row"] == 128
    assert {("sign-zero", 32), ("sign-median", 32)} <= rows.keys()
    text = " ".join(labeled.reasons)
    assert "Signs of all 32 columns (4 bytes per row)" in text
    assert "Signs of the first 16 columns" in text


def test_the_curve_of_bytes_has_a_knee(labeled):
    assert [point["n_bits"] for point in labeled.curve] == sorted(p["n_bits"] for p in labeled.curve)
    assert labeled.knee in [point["n_bits"] for point in labeled.curve]
    points = [{"n_bits": bits, "score": s} for bits, s in ((16, 0.4), (32, 0.7), (64, 0.72), (128, 0.73))]
    assert knee_of(points) == 32
    assert knee_of(points[:2]) is None
    growing = [{"n_bits": bits, "score": s} for bits, s in ((16, 0.1), (32, 0.2), (64, 0.4), (128, 0.9))]
    assert knee_of(growing) == 128


def scored(name, n_bits, score):
    """A candidate with one score for all goals of a ranking."""
    quality = Quality(None, *(score,) * 6)
    return Measured(Candidate(name, n_bits), quality, (quality,) * 3, n_bits // 8)


@pytest.mark.parametrize(
    ("recommended", "last", "sentence"),
    [
        (
            64,
            {64: 0.72},
            "8 bytes per row are recommended: with 4 bytes the score is 0.020 lower on a few rows; "
            "with 16 bytes, more than the 64 bits allowed, the score is the same on a few rows. All scores",
        ),
        (
            32,
            {32: 0.71, 64: 0.712},
            "4 bytes per row are recommended: with 1 byte the score is 0.300 lower on a few rows; "
            "with 8 bytes the score is 0.020 higher on a few rows and 0.002 higher on the sample. All scores",
        ),
        (
            8,
            {8: 0.4},
            "1 byte per row is recommended: with 4 bytes the score is 0.300 higher on a few rows. All scores",
        ),
    ],
)
def test_the_sentence_on_bytes_is_about_the_recommended_length(recommended, last, sentence):
    curve = [
        {"n_bits": bits, "bytes_per_row": bits // 8, "score": score}
        for bits, score in ((8, 0.4), (32, 0.7), (64, 0.72), (128, 0.72))
    ]
    measures = [scored("itq", bits, score) for bits, score in last.items()]
    purpose = Purpose("ranking", 1, True)
    findings = reasons.Findings(measures[0], measures, measures, purpose, purpose, None, None, 64)
    text = reasons._bytes_text(findings, curve)
    assert text.startswith(sentence)
    assert text.endswith("0.400 with 1, 0.700 with 4, 0.720 with 8, 0.720 with 16.")
    assert not reasons._bytes_text(findings, [{**curve[0], "n_bits": recommended}])


@pytest.mark.parametrize("goal", ["first", "group", "ranking", "auto"])
def test_without_labels_the_first_sentence_names_no_measure_that_needs_them(goal):
    choice = choose(clustered(400)[0], 16, goal)
    first = choice.reasons[0]
    score = f"its score for the goal is {choice.best['score']:.3f} ± {choice.best['error']:.3f}"
    assert f"{score} (estimated without labels: " in first
    assert not re.search("precision|MAP|F1", first)
    assert "does not include the error of the estimate" in first
    assert "By your own categories" in str(choice)


@pytest.mark.parametrize("goal", ["neighbors", "duplicates"])
def test_scores_that_need_no_labels_are_not_called_estimates(goal):
    text = str(choose(clustered(400)[0], 16, goal))
    assert "estimated" not in text
    assert "The score needs no labels: " in text


@pytest.mark.parametrize(
    ("goal", "has_radius"), [("group", True), ("duplicates", True), ("neighbors", False)]
)
def test_the_first_sentence_has_the_radius_of_a_look_up(goal, has_radius):
    choice = choose(clustered(400)[0], 16, goal)
    assert (f" and look-ups within radius {choice.radius}: " in choice.reasons[0]) == has_radius


def test_the_f1_within_the_radius_is_said_only_if_it_is_not_the_score():
    purpose = Purpose("group", 20, True)
    found = measured([1, 5, 20, 80, 90], [0.1, 0.3, 0.6, 0.9, 1])
    assert reasons._score_text(found, purpose) == ""
    between = reasons._score_text(found, replace(purpose, budget=10))
    assert between.endswith("within radius 1 alone it is 0.300.")


@pytest.mark.parametrize(
    ("prefix", "other", "said"),
    [
        (0.60, 0.30, "the first columns matter most, as in Matryoshka embeddings"),
        (0.31, 0.30, "the first columns are hardly better than others"),
        (0.01, 0.01, "do not serve this goal"),
    ],
)
def test_signs_are_praised_only_for_what_they_are_worth(prefix, other, said):
    scores = {"sign-prefix": prefix, "sign": other, "itq": 0.62}
    found = [
        Measured(Candidate(name, 16), Quality(None, s, s, s, s, s, s), (Quality(None, s, s, s, s, s, s),) * 3)
        for name, s in scores.items()
    ]
    few = Purpose("ranking", 1, True)
    assert said in reasons._signs_text(reasons.Findings(found[2], found, found, few, few, None, None, 16))


def test_signs_of_all_columns_are_not_called_the_first_columns():
    few = Purpose("ranking", 1, True)
    scores = {"sign-zero": 0.5, "sign-median": 0.9, "sign-prefix": 0.9, "sign": 0.3, "itq": 0.6}
    found = [scored(name, 16, score) for name, score in scores.items()]
    text = reasons._signs_text(reasons.Findings(found[1], found, found, few, few, None, None, 16))
    assert "first" not in text
    assert "Signs of 16 random directions have 0.300; after ITQ's rotation they have 0.600." in text


def test_first_columns_that_do_not_serve_the_goal_are_not_praised():
    few = Purpose("ranking", 1, True)
    found = [scored("sign-zero", 64, 0.5), scored("sign-prefix", 16, 0.003), scored("sign", 16, 0.0)]
    text = reasons._signs_text(reasons.Findings(found[0], found, found, few, few, None, None, 16))
    assert "have 0.003, and signs of as many random directions 0.000: the first columns are hardly" in text


def test_a_better_candidate_that_is_not_recommended_is_named_with_the_reason():
    purpose = Purpose("ranking", 1, True)
    best, slow, other = scored("itq", 16, 0.6), scored("imh-graph", 16, 0.9), scored("sign", 16, 0.5)
    last, refused = [best, slow, other], [(slow, "a fit of all rows would take about 900 s")]
    texts = reasons._others(reasons.Findings(best, last, last, purpose, purpose, None, None, 16, refused))
    assert texts[0] == "imh-graph with 16 bits has 0.900, but a fit of all rows would take about 900 s."
    assert texts[1].startswith("The next best is sign with 16 bits, with 0.500: 0.100 ±")


def test_a_score_within_the_error_of_a_scan_is_not_called_more():
    purpose, noise = Purpose("ranking", 1, True), np.random.default_rng(0).normal(size=10) / 50

    def of(scores):
        groups = tuple(Quality(None, s, s, s, s, s, s) for s in scores.tolist())
        return Measured(Candidate("pq", 8), Quality(None, *(float(scores.mean()),) * 6), groups)

    best, vectors = of(0.6 + noise), of(np.full(10, 0.6 + noise.mean() - 0.001))
    assert reasons._scan_text(best, vectors, purpose).startswith("; a scan of the vectors has 0.6")
    assert reasons._scan_text(of(0.7 + noise), vectors, purpose).startswith(", more than that of a scan")


def test_the_difference_to_another_candidate_is_that_of_the_scores():
    """Without labels scores are geometric means: the mean over groups of queries is another one."""
    rng = np.random.default_rng(0)

    def of(name):
        parts = rng.uniform(0.01, 0.9, size=(10, 2))
        groups = tuple(Quality(None, a, 0.5, 0.5, 0.5, 0.5, 0.5, b, 0.5) for a, b in parts.tolist())
        a, b = parts.mean(axis=0).tolist()
        return Measured(Candidate(name, 8), Quality(None, a, 0.5, 0.5, 0.5, 0.5, 0.5, b, 0.5), groups)

    purpose, one, two = Purpose("ranking", 1, False), of("pq"), of("opq")
    difference = purpose.group_scores(one) - purpose.group_scores(two)
    assert difference.mean() == pytest.approx(purpose.score(one) - purpose.score(two))


def test_the_sentence_on_signs_compares_codes_of_the_whole_length():
    few = Purpose("ranking", 1, True)
    found = [
        Measured(
            Candidate(name, bits), Quality(None, s, s, s, s, s, s), (Quality(None, s, s, s, s, s, s),) * 3
        )
        for name, bits, s in (("sign-prefix", 16, 0.5), ("sign", 16, 0.3), ("itq", 16, 0.6), ("itq", 8, 0.2))
    ]
    text = reasons._signs_text(reasons.Findings(found[2], found, found, few, few, None, None, 16))
    assert "after ITQ's rotation they have 0.600" in text


def test_digits_without_labels_are_given_to_a_manifold_method(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-graph",))
    choice = choose(load_digits().data[:1000], 32, "group")
    assert choice.recipe == "imh-graph"
    assert choice.relevance == "clusters and neighbors"


def test_a_product_quantizer_can_be_the_winner_and_has_no_radius(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ())
    monkeypatch.setattr(candidates, "OTHER", ("sign",))
    monkeypatch.setattr(candidates, "RANKED", ("opq",))
    X = np.random.default_rng(0).normal(size=(800, 8)) @ np.random.default_rng(1).normal(size=(8, 24))
    choice = choose(X, 16, "neighbors")
    assert choice.recipe == "opq"
    assert choice.radius is None
    assert "opq with 16 bits" in choice.reasons[0]
    assert choice.build().fit(X).encode(X).shape == (800, 2)
    assert choose(X, 16, "group").recipe == "sign"


def test_too_short_codes_are_named_first(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ())
    monkeypatch.setattr(candidates, "OTHER", ("sign",))
    X = np.random.default_rng(0).normal(size=(600, 40))
    choice = choose(X, 8, "neighbors")
    assert choice.reasons[0].startswith(("Use longer codes", "Use the vectors themselves"))
    assert f"sign with {choice.n_bits} bits" in choice.reasons[0]


def test_methods_that_learn_from_labels_are_judged_on_other_rows_and_on_new_classes(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ())
    monkeypatch.setattr(candidates, "OTHER", ("sign",))
    X, y = clustered(1200, 24, 10)
    choice = choose(X, 16, "first", y.astype(str))
    assert choice.recipe == "ldahash"
    assert choice.uses_labels
    text = " ".join(choice.reasons)
    assert re.search(r"saw those of 54\d rows", text)
    assert "On classes whose labels it has not seen, ldahash has" in text
    assert choice.build().fit(X, y).n_bits_ == choice.n_bits


def test_labels_for_learning_and_for_judging_are_of_different_rows():
    X, y = clustered(1600)
    some = np.where(np.arange(1600) % 4 == 0, -1, y)
    sample = draw_sample(X, some, 1600, np.random.default_rng(0))
    assert (sample.y_query >= 0).all()
    assert (sample.y[sample.taught] >= 0).all()
    shown = np.array([label is not None for label in sample.lesson])
    assert (shown == sample.taught).all()
    assert len(sample.database) == (~sample.taught).sum()
    hidden = sample.without_classes(np.random.default_rng(0))
    seen = {label for label in hidden.lesson if label is not None}
    assert not seen & set(hidden.y_query)
    assert len(hidden.database) == len(sample.database)


def test_another_split_has_other_queries_of_the_same_rows():
    X, y = clustered(400)
    one = draw_sample(X, y, 400, np.random.default_rng(0))
    two = one.split_again(np.random.default_rng(1))
    rows = [{row.tobytes() for row in np.concatenate([each.X, each.Q])} for each in (one, two)]
    assert rows[0] == rows[1]
    assert {row.tobytes() for row in one.Q} != {row.tobytes() for row in two.Q}


def test_the_same_seed_gives_the_same_table():
    X, y = clustered(400)
    one, two = (
        {(row["recipe"], row["n_bits"], row["score"], row.get("map")) for row in each.table}
        for each in (choose(X, 8, "auto", y) for _ in range(2))
    )
    assert len(one ^ two) <= 4  # times decide which of two equal recipes is measured at other lengths


def test_copies_are_found_within_the_radius_of_the_goal_duplicates():
    choice = choose(clustered(400)[0], 32, "duplicates")
    assert choice.best["copies_found"] > 0.9


def test_more_rows_than_the_sample_are_drawn_at_random():
    X, y = clustered(1000)
    sample = draw_sample(X, y, 300, np.random.default_rng(0))
    assert (sample.X.shape, sample.Q.shape, sample.n_rows) == ((270, 32), (30, 32), 1000)
    row_of = {row.tobytes(): i for i, row in enumerate(X)}
    drawn = [row_of[row.tobytes()] for row in np.concatenate([sample.X, sample.Q])]
    assert len(set(drawn)) == 300
    assert (y[drawn] == np.concatenate([sample.y, sample.y_query])).all()
    assert "a random 300 of 1,000 rows" in sample.text
    part = sample.part(100, 10, np.random.default_rng(0))
    assert (len(part.X), len(part.Q), len(part.y), len(part.taught)) == (100, 10, 100, 100)


def measured(returned, recall, name="itq", n_bits=4, seconds=1.0):
    """A candidate with a given look-up; the other values do not matter."""
    lookup = LookUpByRadius(*(np.array(each, float) for each in (returned, [0] * 5, recall, recall, recall)))
    quality = Quality(lookup, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    return Measured(Candidate(name, n_bits), quality, (quality,) * 10, 1, seconds, n_rows=100)


def test_the_radius_is_the_largest_whose_rows_stay_within_the_budget():
    found = measured([1, 5, 20, 80, 90], [0.1, 0.3, 0.6, 0.9, 1])
    assert Purpose("neighbors", 20, False).radius(found) == 2
    assert Purpose("neighbors", 19, False).radius(found) == 1
    assert Purpose("neighbors", 0.5, False).radius(found) == 0
    assert Purpose("neighbors", 100, False).radius(found) == 4
    assert Purpose("group", 100, False).radius(found) == 2  # answered from tables
    assert Purpose("group", 20, False).score(found) == pytest.approx(0.6)


def test_the_score_of_a_look_up_does_not_jump_between_two_radii():
    found = measured([1, 5, 20, 80, 90], [0.1, 0.3, 0.6, 0.9, 1])  # precision = recall, so F1 is the same
    scores = [Purpose("group", budget, True).score(found) for budget in (5, 10, 12.5, 20)]
    assert scores == pytest.approx([0.3, 0.4, 0.45, 0.6])
    assert Purpose("group", 100, True).score(found) == pytest.approx(0.6)  # radius 2 at most, from tables


def test_a_look_up_that_returns_more_rows_than_a_given_limit_scores_less():
    found = measured([100] * 5, [1] * 5)  # all of them are relevant
    assert Purpose("group", 10, True).score(found) == 1.0
    assert Purpose("group", 10, True, is_limit=True).score(found) == pytest.approx(0.1)


def test_a_score_without_labels_is_the_weighted_geometric_mean_of_the_stand_ins():
    quality = Quality(None, 0.4, 0.9, 0.5, 0.5, 0.5, 0.5, 0.9, 0.6)
    found = Measured(Candidate("pq", 8), quality)
    assert Purpose("ranking", 1, False).score(found) == pytest.approx(0.4**0.5 * 0.9**0.25 * 0.5**0.25)
    assert Purpose("first", 1, False).score(found) == pytest.approx(0.9**0.5 * 0.6**0.5)
    known = replace(found, quality=replace(quality, nearest_map=None, nearest_precision_at_10=None))
    assert Purpose("auto", 1, True).score(known) == pytest.approx(0.6)


def test_a_difference_within_its_error_counts_for_nothing():
    steady = np.linspace(0.50, 0.59, 10)
    noise = np.random.default_rng(0).normal(size=10) / 50

    def of(scores):
        groups = tuple(Quality(None, s, s, 0.5, 0.5, 0.5, 0.5) for s in scores.tolist())
        whole = Quality(None, float(scores.mean()), 0.5, 0.5, 0.5, 0.5, 0.5)
        return Measured(Candidate("pq", 8), whole, groups)

    purpose = Purpose("ranking", 1, True)
    assert purpose.is_better(of(steady + 0.01), of(steady))  # small, but the same for all queries
    noisy = steady + noise - noise.mean() + 0.1 * error_of(noise)
    assert not purpose.is_better(of(noisy), of(steady))


def winner(found, limit=None):
    X, y = clustered(400)
    rng = np.random.default_rng(0)
    stage = Stage.of(draw_sample(X, y, 400, rng), "group", 10, rng, 0, LARGE)
    return choosing._winner(found, replace(stage, purpose=Purpose("group", 10, True)), limit, 8).candidate


def test_between_equals_the_shorter_and_then_the_faster_is_taken():
    slow, fast = (measured([100] * 5, [1] * 5, name, 8, s) for name, s in (("sph", 2.0), ("itq", 1.0)))
    short = measured([100] * 5, [1] * 5, "sph", 4, 9.0)
    worse = measured([100] * 5, [0.99] * 5, "sign", 2, 0.1)
    assert winner([slow, fast, worse]) == Candidate("itq", 8)
    assert winner([slow, fast, short, worse]) == Candidate("sph", 4)


def test_a_smaller_base_set_is_recommended_only_if_the_larger_one_is_left_out():
    small, large = (
        measured([100] * 5, [share] * 5, name)
        for name, share in (("imh-graph-small", 0.9), ("imh-graph", 0.8))
    )
    assert winner([small, large]).recipe == "imh-graph"
    assert winner([small]).recipe == "imh-graph-small"
    assert winner([small, replace(large, fit_seconds=1000.0)], 60).recipe == "imh-graph-small"
    with pytest.raises(ValueError, match="raise max_fit_seconds"):
        winner([large], 0.1)


def test_several_splits_are_combined():
    one, two = measured([2] * 5, [1] * 5), measured([4] * 5, [0.5] * 5)
    both = combined([one, two])
    assert both.quality.lookup.returned[0] == 3
    assert len(both.groups) == 20
    failed = Measured(Candidate("itq", 4), reason="no")
    assert combined([failed, failed]).reason == "no"


def test_finalists_are_the_best_and_the_best_manifold_method():
    names = ("pq", "opq", "itq", "sign", "sph", "imh-graph")
    scores = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    found = [
        Measured(Candidate(name, 8), Quality(None, s, s, s, s, s, s))
        for name, s in zip(names, scores, strict=True)
    ]
    going_on = choosing._finalists(found, Purpose("ranking", 1, True), 8, None)
    assert [candidate.recipe for candidate in going_on] == ["pq", "opq", "itq", "sign", "imh-graph"]


def test_a_look_up_is_also_measured_at_half_of_the_length():
    purpose = Purpose("group", 10, True)
    found = [measured([100] * 5, [share] * 5, name, 32) for name, share in (("itq", 0.9), ("sph", 0.3))]
    assert choosing._halvings(32) == 2
    assert choosing._halvings(15) == 0
    assert choosing._halves(found, purpose, 32, 32) == [Candidate("itq", 16)]
    short = [measured([100] * 5, [1] * 5, name, 16) for name in ("itq", "sph", "sign")]
    going_on = choosing._finalists([*found, *short], purpose, 32, None)
    assert going_on == [
        Candidate("itq", 32),
        Candidate("sph", 32),
        Candidate("itq", 16),
        Candidate("sph", 16),
    ]


def test_a_look_up_of_a_large_group_gets_a_short_code():
    X, y = clustered(900, 32, 3)
    choice = choose(X, 64, "group", y)
    lengths = {row["n_bits"] for row in choice.table if row["final"]}
    assert 8 in lengths
    assert choice.n_bits <= 16
    assert choice.n_bits in {point["n_bits"] for point in choice.curve}
    text = str(choice)
    assert "the mean number of rows with one label." in text
    f1 = f"within radius {choice.radius} alone it is {choice.best['f1']:.3f}"
    assert (f1 in text) == (f"{choice.best['f1']:.3f}" != f"{choice.best['score']:.3f}")


def test_the_weights_of_each_goal_without_labels_sum_to_one():
    assert all(sum(weights) == pytest.approx(1) for weights in WEIGHTS.values())


def test_without_labels_a_shorter_code_must_not_return_more_rows_than_allowed():
    found = [measured([rows] * 5, [1] * 5, name, 32) for name, rows in (("itq", 90), ("sph", 900))]
    purpose = Purpose("group", 100, False)
    assert choosing._halves(found, purpose, 32, 32) == [Candidate("itq", 16)]
    short = [measured([rows] * 5, [1] * 5, name, 16) for name, rows in (("itq", 99), ("sph", 101))]
    assert Candidate("sph", 16) not in choosing._finalists([*found, *short], purpose, 32, None)
    assert Candidate("sph", 16) in choosing._finalists(
        [*found, *short], Purpose("group", 100, True), 32, None
    )


def test_small_communities_stand_for_relevant_rows_of_first_answers_and_of_many_groups():
    rng = np.random.default_rng(0)
    many, few = (draw_sample(clustered(1200, 32, n)[0], None, 1200, rng) for n in (60, 3))
    assert resolution_for("first", few, rng) == SMALL
    assert resolution_for("group", many, rng) == SMALL
    assert resolution_for("group", few, rng) == LARGE
    assert resolution_for("ranking", many, rng) == LARGE
    labeled = draw_sample(*clustered(1200, 32, 60), 1200, rng)
    assert resolution_for("first", labeled, rng) == LARGE


def test_candidates_give_no_warnings_about_their_codes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(clustered(1600)[0], 8, "ranking")


def test_candidates_give_no_warnings_about_the_sample(monkeypatch):
    monkeypatch.setattr(candidates, "MANIFOLD", ("imh-tsne-rotated",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(np.repeat(clustered(60)[0], 10, axis=0), 8, "ranking")  # fewer distinct rows than base points


def test_the_old_name_of_a_goal_is_an_alias():
    X, _ = clustered(300)
    assert choose(X, 8, "lookup").goal == "group"


def test_the_steps_name_what_runs_and_what_is_left():
    X, y = clustered(400)
    options = {"sample": 400, "max_candidates": None, "max_fit_seconds": None}
    steps = list(choosing.choosing(X, 8, "ranking", y, 0, **options))
    assert steps[:2] == ["sample", "relevant rows of the sample"]
    assert any(step.startswith("itq, 8 bits, 360 rows (step ") for step in steps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"goal": "rankings"}, "unknown goal 'rankings' .did you mean 'ranking'"),
        ({"X": np.zeros((50, 4))}, "got 50 rows: choose needs at least 200"),
        ({"X": np.full((300, 4), 0.5)}, "the 300 rows of the sample are all equal"),
        ({"X": np.zeros(300)}, "X has 1 dimensions"),
        ({"X": np.ones((300, 4), complex)}, "X holds values of type complex128: give real numbers"),
        ({"X": np.full((300, 4), "1")}, "X holds values of type <U1: give real numbers"),
        ({"labels": [1, 2, 3]}, r"got labels of shape \(3,\) for 300 rows"),
        ({"labels": ["a"] * 299 + ["b"]}, "all labels of the sample .* are 'a'.*at least two classes"),
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


def test_copies_of_one_radius_score_by_the_rows_that_are_returned():
    quality = replace(
        measured([1] * 5, [1] * 5).quality, copies=CopiesFound(np.full(5, 0.8), np.full(5, 20.0))
    )
    found = Measured(Candidate("itq", 4), quality)
    assert Purpose("duplicates", 10, True).score(found) == pytest.approx(0.4)


def test_copies_are_looked_up_within_a_radius_that_returns_ten_of_all_rows():
    """The sample is a hundredth of the rows: 5 other rows within radius 1 in it are 500 of all rows."""
    copies = CopiesFound(np.array([0.8, 0.9, 1, 1, 1]), np.array([0.85, 5.9, 20, 80, 90]))
    found = Measured(Candidate("itq", 4), replace(measured([1] * 5, [1] * 5).quality, copies=copies))
    assert Purpose("duplicates", 10, False).radius(found) == 1
    purpose = Purpose("duplicates", 10, False, share=0.01)
    assert purpose.radius(found) == 0
    assert purpose.for_a_copy(copies)[:2] == pytest.approx([5.8, 500.9])
    assert purpose.score(found) == pytest.approx(0.8)


def test_max_candidates_limits_the_rows_of_a_look_up_of_copies():
    X = np.repeat(clustered(60)[0], 8, axis=0)
    choice = choose(X, 16, "duplicates", max_candidates=3)
    assert choice.radius == 0
    assert choice.best["score"] == pytest.approx(3 / 8, abs=0.05)
    text = str(choice)
    assert "share of planted copies found among at most 3 rows is 0.3" in text
    assert "A copy gets 8 rows, more than the 3 allowed" in text


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_matrix, pd.DataFrame])
def test_a_sample_of_a_sparse_matrix_or_a_table_is_that_of_the_array(kind):
    X = np.random.default_rng(0).normal(size=(300, 4))
    found, expected = (draw_sample(rows, None, 200, np.random.default_rng(1)) for rows in (kind(X), X))
    assert np.array_equal(found.X, expected.X)
    assert np.array_equal(found.Q, expected.Q)
