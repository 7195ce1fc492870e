"""Drift: alarms at the stated rate on fresh rows, and on every kind of change."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from manihash import (
    AGH,
    IMH,
    ITQ,
    LSH,
    PCA,
    CoarseNeighbors,
    Hybrid,
    KMeansBase,
    LargeBase,
    ProductQuantizer,
    RandomBase,
    ReducedBase,
    load,
)
from manihash.living.drift import _distance_test, _usage_test
from manihash.living.statistics import Observed, summary

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


def test_a_new_cluster_raises_an_alarm_and_asks_for_an_update():
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(clusters(2000, 0, range(5)))
    found = hasher.drift(np.vstack([clusters(450, 1, range(5)), clusters(50, 1, [5])]))
    assert found.drifted
    assert found.advice == "update"
    assert 0.08 < found.outside < 0.14


def test_other_proportions_of_the_same_clusters_are_named():
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(clusters(2000, 0))
    found = hasher.drift(clusters(500, 1, [0, 1, 2, 2, 2, 2]))
    assert found.drifted
    assert found.advice == "nothing"
    assert "only their proportions differ" in found.reason
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


def test_the_distance_test_is_that_of_two_samples():
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 1, 5000) ** 2, rng.normal(3.05, 1, 400) ** 2
    seen = Observed(a, np.zeros((5000, 1), int), np.zeros((5000, 1)), np.zeros(1), 1)
    assert _distance_test(summary(seen, 5000), b) == pytest.approx(
        ks_2samp(a, b, method="asymp").pvalue, rel=0.2
    )


def test_equal_distances_are_no_drift():
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 4, 5000).astype(float), rng.integers(1, 4, 400).astype(float)
    seen = Observed(a, np.zeros((5000, 1), int), np.zeros((5000, 1)), np.zeros(1), 1)
    assert _distance_test(summary(seen, 5000), b) > 0.05


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
    assert sum(np.asarray(value).nbytes for value in loaded.statistics_.values()) < 3000


def test_a_sample_of_many_rows_is_used():
    rows = clusters(50_000, 0).astype(np.float32)
    hasher = IMH(8, KMeansBase(60), PCA(), random_state=0).fit(rows[:40_000])
    assert (hasher.statistics_["n_rows"], hasher.statistics_["n_sampled"]) == (40_000, 10_000)
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
