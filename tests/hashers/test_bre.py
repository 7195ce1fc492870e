"""BRE: each weight at its exact optimum, an objective that never increases, codes that keep distances."""

import logging
from pathlib import Path

import numpy as np
import pytest
from released_code import mnist_map, released_map
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.bre import BRE, Descent, best_weight, random_pairs
from manihash.hashers.lsh import LSH


def centered_digits(n):
    X = load_digits().data[:n]
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return X - X.mean(axis=0)


def descent_on(Z, r=8, s=6, fraction=0.2, seed=0):
    rng = np.random.default_rng(seed)
    anchors = np.stack([rng.choice(len(Z), s, replace=False) for _ in range(r)])
    pairs = random_pairs(len(Z), fraction, rng)
    return Descent(Z @ Z.T, anchors, rng.standard_normal((r, s)), pairs, pairs.distances(Z))


def objective_of(descent):
    """The paper's objective from the weights alone."""
    bits = np.array([w @ descent.K[a] > 0 for w, a in zip(descent.W, descent.anchors, strict=True)])
    hamming = (bits[:, descent.pairs.i] != bits[:, descent.pairs.j]).mean(axis=0)
    return ((descent.d - hamming) ** 2).sum()


def brute_force(weight, values, kernel, pairs, cost):
    """The smallest cost over all intervals between thresholds, by exhaustive search."""
    moves = kernel != 0
    t = np.sort(weight - values[moves] / kernel[moves])
    candidates = [weight, t[0] - 1, t[-1] + 1, *((t[1:] + t[:-1]) / 2)[np.diff(t) > 1e-6]]
    return min(cost_at(w, weight, values, kernel, pairs, cost) for w in candidates)


def cost_at(new, weight, values, kernel, pairs, cost):
    bits = values + (new - weight) * kernel > 0
    return sum(c for i, j, c in zip(pairs.i, pairs.j, cost, strict=True) if bits[i] != bits[j])


@pytest.mark.parametrize("seed", range(20))
def test_a_weight_is_set_to_the_best_of_all_intervals(seed):
    rng = np.random.default_rng(seed)
    n = 30
    pairs = random_pairs(n, 0.3, rng)
    values, kernel, cost = rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(len(pairs))
    kernel[rng.choice(n, seed % 4, replace=False)] = 0
    values[:3], kernel[:3] = values[3], kernel[3]  # equal points: thresholds that coincide
    weight = rng.standard_normal()
    problem = weight, values, kernel, pairs, cost
    assert cost_at(best_weight(*problem), *problem) == pytest.approx(brute_force(*problem), abs=1e-9)


def test_an_optimal_weight_does_not_change():
    rng = np.random.default_rng(0)
    pairs = random_pairs(20, 0.5, rng)
    values, kernel = rng.standard_normal((2, 20))
    assert best_weight(0.7, values, np.zeros(20), pairs, np.ones(len(pairs))) == 0.7
    at_best = best_weight(0.7, values, kernel, pairs, cost := rng.standard_normal(len(pairs)))
    values = values + (at_best - 0.7) * kernel
    assert best_weight(at_best, values, kernel, pairs, cost) == at_best


def test_the_objective_never_increases_and_is_that_of_the_paper():
    descent = descent_on(centered_digits(150))
    assert descent.objective() == pytest.approx(objective_of(descent))
    before = descent.objective()
    for p in 3 * list(range(len(descent.W))):
        descent.optimize_bit(p)
        assert descent.objective() <= before + 1e-9
        before = descent.objective()
    assert descent.objective() == pytest.approx(objective_of(descent))


def test_at_the_end_no_single_weight_can_lower_the_objective():
    descent = descent_on(centered_digits(100), r=4, s=4)
    least = descent.run(tol=0, max_iter=100)[-1]
    rng = np.random.default_rng(1)
    for _ in range(300):
        p, q = rng.integers(4, size=2)
        kept = descent.W[p, q]
        descent.W[p, q] = kept + rng.standard_cauchy()
        assert objective_of(descent) >= least - 1e-9
        descent.W[p, q] = kept


def test_no_point_is_paired_with_itself_and_no_pair_is_duplicated():
    pairs = random_pairs(40, 0.1, np.random.default_rng(0))
    assert (pairs.i < pairs.j).all()
    assert len(set(zip(pairs.i, pairs.j, strict=True))) == len(pairs) <= 160
    assert (np.bincount(np.concatenate([pairs.i, pairs.j]), minlength=40) >= 4).all()


def test_the_codes_have_the_objective_that_training_ended_with():
    X = load_digits().data[:200]
    hasher = BRE(16, pair_fraction=1.0, normalize=True, random_state=0).fit(X)
    d = pdist(X / np.linalg.norm(X, axis=1, keepdims=True), "sqeuclidean")
    hamming = pdist(hasher.transform(X), "hamming")
    assert ((d / d.max() - hamming) ** 2).sum() == pytest.approx(hasher.objectives_[-1], rel=1e-6)
    assert (np.diff(hasher.objectives_) <= 1e-9).all()


def test_codes_do_not_depend_on_the_scale_of_the_rows():
    X = load_digits().data[:300]
    first, second = (BRE(13, random_state=0).fit(scale * X).transform(scale * X) for scale in (1, 1024))
    assert np.array_equal(first, second)


def test_progress_is_reported_for_each_iteration(caplog):
    caplog.set_level(logging.DEBUG, "manihash.progress")
    hasher = BRE(5, n_train=100, random_state=0).fit(load_digits().data)
    stages = {record.stage: record.done for record in caplog.records if record.stage.startswith("BRE")}
    assert stages == {f"BRE, iteration {i}": 5 for i in range(1, hasher.n_iter_ + 1)}


def test_iterations_stop_at_max_iter():
    assert BRE(8, n_train=200, max_iter=2, tol=0, random_state=0).fit(load_digits().data).n_iter_ == 2


@pytest.mark.usefixtures("seed_of_zero")
def test_equal_rows_and_invalid_options_raise_an_error():
    with pytest.raises(ValueError, match=r"equal.*give rows that differ"):
        BRE(4).fit(np.ones((30, 5)))
    X = load_digits().data[:50]
    for params in (
        {"pair_fraction": 1.5},
        {"pair_fraction": 0},
        {"n_anchors": 0},
        {"n_train": 1},
        {"tol": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(params))):
            BRE(4, **params).fit(X)


def test_it_ranks_digits_better_than_random_projections():
    X, y = load_digits(return_X_y=True)
    truth = LabelTruth(y[:300], y[300:])

    def score(hasher):
        hasher.fit(X[300:])
        return evaluate(hasher.encode(X[:300]), hasher.encode(X[300:]), truth, 32).map

    bre = np.mean([score(BRE(32, n_train=400, normalize=True, random_state=s)) for s in range(3)])
    lsh = np.mean([score(LSH(32, normalize=True, random_state=s)) for s in range(3)])
    assert bre > lsh + 0.02


def test_mnist_is_ranked_as_well_as_by_the_released_code(data_folder: Path):
    hasher = BRE(32, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("bre", 32) - 0.04
