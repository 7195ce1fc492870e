"""Drift: alarms at the stated rate on fresh rows, and on every kind of change."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from manihash import IMH, Hybrid, load
from manihash.base import CoarseNeighbors, KMeansBase, LargeBase, RandomBase, ReducedBase
from manihash.embeddings import PCA, TSNE
from manihash.hashers import AGH, ITQ, LSH, ProductQuantizer
from manihash.maintenance.drift import _distance_test, _sides_test, _usage_test
from manihash.maintenance.statistics import Seen, reference

OLD = Path(__file__).parents[1] / "files" / "v0.1.0"


def clusters(n, seed, classes=range(6)):
    """n rows (n, 12) of some of six clusters."""
    rng = np.random.default_rng(seed)
    centers = 3 * np.random.default_rng(99).normal(size=(6, 12))
    return centers[rng.choice(list(classes), n)] + rng.normal(size=(n, 12))


HASHERS = {
    "k-means": IMH(8, KMeansBase(60), PCA(), random_state=0),
    "few rows per center": IMH(8, KMeansBase(400), PCA(), random_state=0),
    "random base": IMH(8, RandomBase(60), PCA(), random_state=0),
    "large base": IMH(
        8, ReducedBase(LargeBase(200, neighbors=CoarseNeighbors()), 8), PCA(), normalize=True, random_state=0
    ),
    "agh": AGH(8, base=KMeansBase(60), random_state=0),
    "itq": ITQ(8, random_state=0),
    "lsh": LSH(16, random_state=0),
    "opq": ProductQuantizer(16, max_iter=5, random_state=0),
    "pq": ProductQuantizer(12, bits_per_field=4, rotation=False, max_iter=5, random_state=0),
    "hybrid": Hybrid(IMH(8, KMeansBase(60), PCA()), ITQ(4), random_state=0),
}


@pytest.fixture(scope="module", params=HASHERS)
def hasher(request):
    return HASHERS[request.param].fit(clusters(2000, 0))


@pytest.mark.parametrize("name", ["itq", "lsh", "opq", "pq"])
def test_rows_of_a_tensor_have_the_drift_of_an_array(name):
    torch = pytest.importorskip("torch")
    hasher, X = HASHERS[name].fit(clusters(2000, 0)), clusters(300, 7)
    assert hasher.drift(torch.as_tensor(X)).p_value == pytest.approx(hasher.drift(X).p_value)


def test_fresh_rows_rarely_raise_an_alarm(hasher):
    alarms = sum(hasher.drift(clusters(300, seed)).drifted for seed in range(1, 41))
    assert alarms <= 3  # at level 1 %, four or more have a probability of 0.0007


@pytest.mark.parametrize(
    "changed", [lambda X: X + 1, lambda X: 1.5 * X * np.linspace(0, 2, 12), lambda X: np.roll(X, 1, axis=1)]
)
def test_changed_rows_raise_an_alarm(hasher, changed):
    assert all(hasher.drift(changed(clusters(300, seed))).drifted for seed in range(1, 6))


@pytest.mark.parametrize(
    ("embedding", "advice"), [(TSNE(n_iter=20), "update"), (PCA(), "refit")], ids=["tsne", "pca"]
)
def test_a_new_cluster_raises_an_alarm_and_asks_for_what_the_hasher_can_do(embedding, advice):
    hasher = IMH(8, KMeansBase(60), embedding, random_state=0).fit(clusters(2000, 0, range(5)))
    found = hasher.drift(np.vstack([clusters(450, 1, range(5)), clusters(50, 1, [5])]))
    assert found.drifted
    assert found.advice == advice
    assert 0.08 < found.outside < 0.14


def test_other_proportions_of_the_same_clusters_are_named():
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(clusters(2000, 0))
    found = hasher.drift(clusters(500, 1, [0, 1, 2, 2, 2, 2]))
    assert found.drifted
    assert found.advice == "nothing"
    assert "their proportions differ" in found.reason
    centers = 3 * np.random.default_rng(99).normal(size=(6, 12))
    index = [i for i, _, _ in found.gained]
    nearest = ((hasher.base_points_[index][:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == 2) >= 0.8
    assert all(now > before for _, before, now in found.gained)
    assert all(now < before for _, before, now in found.lost)


def test_rows_that_are_all_different_ask_for_a_refit():
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(clusters(2000, 0))
    assert hasher.drift(5 * clusters(100, 1)).advice == "refit"
    assert ITQ(8, random_state=0).fit(clusters(2000, 0)).drift(5 * clusters(100, 1)).advice == "refit"


def test_the_advice_to_refit_says_if_only_a_new_fit_is_possible():
    X = clusters(2000, 0)
    cannot = "; fit a new model, because this one cannot be refitted"
    assert cannot in LSH(8, random_state=0).fit(X).drift(5 * clusters(100, 1)).reason
    assert cannot not in ITQ(8, random_state=0).fit(X).drift(5 * clusters(100, 1)).reason
    # One part that can be refitted is enough.
    both = Hybrid(LSH(8), ITQ(8), random_state=0).fit(X).drift(5 * clusters(100, 1))
    assert both.advice == "refit"
    assert cannot not in both.reason


def quantiles(values):
    """The quantiles that a model keeps of distances (n,)."""
    return reference(Seen(np.zeros(len(values), int), values, values, np.zeros(1)), len(values), 1)[
        "quantiles"
    ]


def test_the_distance_test_is_that_of_two_samples():
    rng = np.random.default_rng(0)
    a, b = 1e6 * rng.normal(3, 1, 5000) ** 2, 1e6 * rng.normal(3.05, 1, 400) ** 2
    expected = ks_2samp(a, b, method="asymp").pvalue
    assert expected * 0.9 < _distance_test(quantiles(a), 5000, b) < expected * 1.3  # the safe side


def test_equal_distances_are_no_drift():
    rng = np.random.default_rng(0)
    a, b = (10 * rng.integers(1, 4, n).astype(float) for n in (5000, 400))
    assert _distance_test(quantiles(a), 5000, b) > 0.05
    assert (
        _distance_test(quantiles(a), 5000, b + rng.integers(-1, 2, 400)) > 0.05
    )  # rounded to the other side
    assert _distance_test(quantiles(a), 5000, b + 10) < 1e-10


def test_the_sides_test_is_exact_for_rare_sides():
    rng = np.random.default_rng(0)
    draws = [(rng.binomial(2000, 0.01, 16), rng.binomial(30, 0.01, 16)) for _ in range(1000)]
    assert np.mean([_sides_test(a, 2000, b, 30) < 0.05 for a, b in draws]) < 0.06


def test_the_usage_test_has_uniform_p_values_without_drift():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(100))
    p = [_usage_test(rng.multinomial(2000, shares), rng.multinomial(300, shares)) for _ in range(400)]
    assert abs(np.mean(p) - 0.5) < 0.06
    assert np.mean(np.array(p) < 0.05) < 0.1


def test_statistics_are_saved_and_small(tmp_path):
    hasher = IMH(64, KMeansBase(200), PCA(n_components=64), random_state=0)
    rows = np.random.default_rng(0).normal(size=(2000, 70))
    hasher.fit(rows).save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert loaded.drift(rows[:500]) == hasher.drift(rows[:500])
    references = loaded.statistics_["references"]
    assert sum(np.asarray(value).nbytes for each in references for value in each.values()) < 20_000
    assert loaded.statistics_["landmarks"].dtype == np.float32  # also of rows in float64
    assert loaded.statistics_["landmarks"].shape == (44, 70)


def test_a_sample_of_many_rows_is_used():
    rows = clusters(50_000, 0).astype(np.float32)
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(rows[:40_000])
    (known,) = hasher.statistics_["references"]
    assert (known["n_rows"], known["n_sampled"]) == (40_000, 10_000 - 64)
    assert not hasher.drift(rows[40_000:]).drifted


def test_a_model_without_statistics_says_how_to_add_them():
    model = load(OLD / "imh-tsne.mhash")
    X = np.load(OLD / "expected.npz")["X"]
    with pytest.raises(ValueError, match=r"no training statistics.*hasher\.record_statistics\(X\)"):
        model.drift(X)
    before = model.lineage_
    assert model.record_statistics(X).drift(X).advice != "refit"
    assert model.lineage_ == before


def test_statistics_of_another_model_are_refused():
    hasher = HASHERS["k-means"].fit(clusters(2000, 0))
    hasher.statistics_ = HASHERS["itq"].fit(clusters(2000, 0)).statistics_
    with pytest.raises(ValueError, match="do not belong to this model"):
        hasher.drift(clusters(100, 1))


def test_invalid_input_is_named():
    hasher = ITQ(8, random_state=0).fit(clusters(2000, 0))
    with pytest.raises(ValueError, match="at least 30 rows, got 29"):
        hasher.drift(clusters(29, 1))
    with pytest.raises(ValueError, match="12 features"):
        hasher.drift(clusters(100, 1)[:, :5])
    with pytest.raises(ValueError, match="level=2 is not between 0 and 1"):
        hasher.drift(clusters(100, 1), level=2)


@pytest.mark.parametrize("equal", [0.3, 0.95])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_rows_with_ties_are_no_drift(equal, dtype):
    """Distances of equal rows must not depend on the type, the batch or the rounding of stored values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) / 3
    X[rng.random(3000) < equal] = X[0]
    for hasher in (ITQ(8, random_state=0), HASHERS["k-means"], HASHERS["hybrid"]):
        hasher.fit(X.astype(dtype))
        for rows in (X, X.astype(np.float32), X[:1000]):
            found = hasher.drift(rows)
            assert not found.drifted
            assert found.outside <= 0.02


def test_base_points_that_are_training_rows_give_no_false_alarm():
    """Every row is its own base point: fresh rows are not, and must not look different."""
    X = clusters(600, 0)
    hasher = IMH(8, X, PCA(), random_state=0).fit(X)
    alarms = sum(hasher.drift(clusters(300, seed)).drifted for seed in range(1, 31))
    assert alarms <= 2
    assert hasher.statistics_["usage"].max() < 0.05
    assert hasher.drift(clusters(300, 1) + 1).drifted


def test_the_advice_for_other_proportions_is_nothing_without_base_points_too():
    hasher = ITQ(8, random_state=0).fit(clusters(2000, 0))
    found = hasher.drift(clusters(500, 1, [0, 1, 2, 2, 2, 2]))
    assert (found.drifted, found.advice) == (True, "nothing")
