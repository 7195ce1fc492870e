"""Random maximum margin hashing: its SVMs against scikit-learn's and against their objective."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.lsh import LSH
from manihash.hashers.rmmh import RMMH, widest_margin


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def X(digits):
    return digits[0]


def rows_of_bits(n, M, bits, seed):
    """The rows that each bit samples; the first half has the label +1."""
    rng = np.random.default_rng(seed)
    return [rng.choice(n, M, replace=False) for _ in range(bits)]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_real_values_are_the_decisions_of_scikit_learns_svms(X, kernel):
    hasher = RMMH(5, n_train=32, kernel=kernel, random_state=4).fit(X)
    for bit, rows in enumerate(rows_of_bits(len(X), 32, 5, 4)):
        Z = X[rows]
        if kernel == "linear":
            svm, variance = SVC(kernel="linear", tol=1e-8), Z.var(axis=0).sum()
        else:
            svm = SVC(kernel="rbf", gamma=hasher.gamma_, tol=1e-8)
            squared = ((Z[:, None] - Z) ** 2).sum(axis=2)
            variance = 1 - np.exp(-hasher.gamma_ * squared).mean()
        svm.set_params(C=1 / variance).fit(Z, np.arange(32) < 16)
        assert np.allclose(hasher.embed(X)[:, bit], svm.decision_function(X), atol=0.02)


def test_the_svm_closes_the_duality_gap(X):
    """½ w² + C Σ max(0, 1 - y f) is at least Σ α - ½ w² for any SVM, and equal only for the best one."""
    Z = (X[:40] - X[:40].mean(axis=0)) / np.sqrt(X[:40].var(axis=0).sum())
    K = Z @ Z.T
    for C in 0.03, 1.0, 30.0:
        weights, b = widest_margin(K, C)
        y = np.where(np.arange(40) < 20, 1, -1)
        assert np.all((weights * y >= 0) & (weights * y <= C + 1e-9))
        assert weights.sum() == pytest.approx(0, abs=1e-9)
        length = weights @ K @ weights
        primal = length / 2 + C * np.maximum(0, 1 - y * (K @ weights + b)).sum()
        dual = np.abs(weights).sum() - length / 2
        assert dual <= primal + 1e-9
        assert primal - dual < 0.005 * primal


def test_a_large_penalty_separates_the_halves_of_every_bit(X):
    hasher = RMMH(20, C=1e4, random_state=0).fit(X)
    for bit, rows in enumerate(rows_of_bits(len(X), 32, 20, 0)):
        assert np.array_equal(hasher.transform(X[rows])[:, bit], np.arange(32) < 16)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_scale_of_the_rows_does_not_matter(X, kernel):
    one, other = (
        RMMH(16, kernel=kernel, random_state=0).fit(scale * X).transform(scale * X) for scale in (1, 512)
    )
    assert np.mean(one == other) > 0.999


def test_a_shift_of_the_rows_does_not_matter(X):
    one, other = (RMMH(16, random_state=0).fit(X + shift).transform(X + shift) for shift in (0, 100))
    assert np.mean(one == other) > 0.99


def test_bits_are_balanced_and_independent(X):
    bits = RMMH(64, n_train=32, normalize=True, random_state=0).fit(X).transform(X)
    assert np.abs(bits.mean(axis=0) - 0.5).mean() < 0.2
    between = np.corrcoef(bits.T)[np.triu_indices(64, 1)]
    assert np.abs(between).mean() < 0.3


def test_codes_find_digits_better_than_random_projections_do(digits):
    X, y = digits
    truth = LabelTruth(y[:300], y[300:])
    scores = {}
    for method in RMMH, LSH:
        found = []
        for seed in range(3):
            hasher = method(32, normalize=True, random_state=seed).fit(X[300:])
            found.append(evaluate(hasher.encode(X[:300]), hasher.encode(X[300:]), truth, 32).map)
        scores[method] = np.mean(found)
    assert scores[RMMH] > scores[LSH] + 0.03


def test_a_sample_larger_than_the_rows_uses_all_rows(X):
    bits = RMMH(8, n_train=1000, random_state=0).fit(X[:11]).transform(X[:11])
    assert np.all((bits.sum(axis=0) > 0) & (bits.sum(axis=0) < 11))


def test_a_row_sampled_by_several_bits_is_stored_once(X):
    hasher = RMMH(8, n_train=10, kernel="rbf", random_state=0).fit(X[:20])
    assert len(hasher.points_) == len(np.unique(hasher.points_, axis=0)) <= 20


def test_a_bit_whose_sample_is_constant_is_always_zero():
    X = np.zeros((200, 3))
    X[:3] = np.eye(3)
    bits = RMMH(64, n_train=4, random_state=0).fit(X).transform(X)
    assert np.any(bits)
    assert np.any(~bits.any(axis=0))


@pytest.mark.parametrize("options", [{"kernel": None}, {"gamma": 0}, {"n_train": 1}, {"C": 0}])
def test_options_out_of_range_raise_an_error(X, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        RMMH(4, **options).fit(X)
