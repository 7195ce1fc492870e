"""KSH: the objective of the paper, its eigenproblem and gradient, and codes that follow the labels."""

from pathlib import Path

import numpy as np
import pytest
from released_code import mnist_map, released_map
from scipy.linalg import eigh
from scipy.optimize import approx_fprime
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers._labels import LabeledRows
from manihash.hashers.itq import ITQ
from manihash.hashers.ksh import KSH, GreedyBits, Residual, descend, whitener

X, y = load_digits(return_X_y=True)


def similarity(labels):
    return np.where(labels[:, None] == labels, 1.0, -1.0)


def greedy_on(n=150, m=30, r=6, ridge=0.0):
    K = rbf_kernel(X[:n], X[-m:], gamma=1e-3)
    return GreedyBits(K - K.mean(axis=0), LabeledRows(np.arange(n), y[:n]), r, ridge), K - K.mean(axis=0)


def test_the_objective_is_that_of_the_paper_and_falls_with_every_bit():
    hasher = KSH(16, n_anchors=100, n_labels=None, normalize=True, random_state=0).fit(X[:500], y[:500])
    H = 2.0 * hasher.transform(X[:500]) - 1
    S = similarity(y[:500])
    for k in (0, 1, 7, 16):
        objective = ((H[:, :k] @ H[:, :k].T / 16 - S) ** 2).mean()
        assert hasher.objectives_[k] == pytest.approx(objective, rel=1e-9)
    assert (np.diff(hasher.objectives_) < 0).all()


def test_products_with_the_residual_equal_those_with_the_full_matrix():
    rng = np.random.default_rng(0)
    labeled = LabeledRows(np.arange(40), y[:40])
    residual, R = Residual(labeled, 5), 5 * similarity(y[:40])
    for _ in range(3):
        h = rng.choice([-1.0, 1.0], 40)
        assert residual.gain(h) == pytest.approx(h @ R @ h)
        residual.subtract(h)
        R -= np.outer(h, h)
    B = rng.standard_normal((40, 3))
    assert residual.times(B) == pytest.approx(R @ B)


def test_the_relaxed_bit_solves_the_papers_generalized_eigenproblem():
    greedy, K = greedy_on()
    R = 6 * similarity(y[:150])
    for _ in range(3):
        a = greedy.whitener @ greedy.next_bit(n_iter=0)
        value, vector = eigh(K.T @ R @ K, K.T @ K, subset_by_index=[29, 29])
        assert a @ (K.T @ R @ K) @ a / (a @ K.T @ K @ a) == pytest.approx(value[0], rel=1e-6)
        assert abs(np.corrcoef(K @ a, K @ vector[:, 0])[0, 1]) == pytest.approx(1, abs=1e-6)
        h = np.where(K @ a > 0, 1.0, -1.0)
        R -= np.outer(h, h)


def test_whitened_coefficients_satisfy_the_constraint():
    _, K = greedy_on()
    A = whitener(K, ridge=0.3)
    C = K.T @ K
    assert A.T @ (C + 0.3 * np.trace(C) / len(C) * np.eye(len(C))) @ A == pytest.approx(
        150 * np.eye(30), abs=1e-6
    )


def test_the_gradient_of_the_smooth_objective_equals_finite_differences():
    greedy, _ = greedy_on()
    greedy.next_bit(n_iter=5)
    z = np.random.default_rng(0).standard_normal(greedy.U.shape[1]) / 3
    numeric = approx_fprime(z, lambda z: greedy._smooth(z)[0], 1e-6)
    assert greedy._smooth(z)[1]() == pytest.approx(numeric, abs=1e-5)


def test_gradient_steps_never_worsen_the_smooth_objective_or_the_true_one():
    greedy, _ = greedy_on(r=12)
    for _ in range(12):
        start = eigh(greedy.M)[1][:, -1]
        values = [greedy._smooth(descend(greedy._smooth, start, n))[0] for n in (0, 1, 2, 5, 10, 40)]
        assert (np.diff(values) <= 0).all()
        spectral = greedy.residual.gain(greedy._bits(start))
        z = greedy.next_bit(n_iter=40)
        h = greedy._bits(z)
        gained = greedy.residual.gain(h) + len(h) ** 2  # h hᵀ is already subtracted from the residual
        assert gained >= spectral - 1e-6


def test_descent_finds_the_minimum_of_a_quadratic_and_stays_there():
    A, b = np.diag([1.0, 10.0, 100.0]), np.array([1.0, 2.0, 3.0])

    def f(z):
        return z @ A @ z / 2 - b @ z, lambda: A @ z - b

    assert descend(f, np.zeros(3), 300) == pytest.approx(np.linalg.solve(A, b), abs=1e-4)
    assert descend(f, b / np.diag(A), 5000) == pytest.approx(b / np.diag(A))


def test_more_anchors_and_labels_than_rows_use_all_rows():
    hasher = KSH(3, n_anchors=500, n_labels=500, random_state=0).fit(X[:60], y[:60])
    assert hasher.points_.shape == (60, 64)
    assert hasher.n_labels_ == 60


@pytest.mark.usefixtures("seed_of_zero")
def test_invalid_options_and_equal_rows_raise_an_error():
    for params in ({"n_anchors": 0}, {"n_labels": 1}, {"gamma": 0}, {"ridge": -1}, {"n_iter": -1}):
        with pytest.raises(ValueError, match=next(iter(params))):
            KSH(4, **params).fit(X, y)
    with pytest.raises(ValueError, match="equal"):
        KSH(4).fit(np.ones((50, 3)), np.arange(50) % 2)


def test_labels_of_half_the_digits_rank_the_others_better_than_itq():
    truth = LabelTruth(y[1::4], y[::2])
    scores = []
    for hasher in (KSH(32, normalize=True, random_state=0), ITQ(32, normalize=True, random_state=0)):
        hasher.fit(X[::2], y[::2])
        scores.append(evaluate(hasher.encode(X[1::4]), hasher.encode(X[::2]), truth, 32).map)
    assert scores[0] > 0.9
    assert scores[0] > scores[1] + 0.1


def test_a_thousand_labels_of_mnist_beat_unsupervised_imh(data_folder: Path):
    hasher = KSH(32, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("imh-tsne", 32) + 0.07


@pytest.mark.cases(2)
@pytest.mark.parametrize("offset", [0, 10, 100])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_same_values_in_float32_and_float64_give_the_same_bits(offset, normalize):
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=1000)
    rows = 3 * rng.normal(size=(5, 16))[labels] + rng.normal(size=(1000, 16)) + offset
    single = rows.astype(np.float32)
    bits = [
        KSH(32, normalize=normalize, random_state=0).fit(typed, labels).transform(typed)
        for typed in (single, single.astype(np.float64))
    ]
    np.testing.assert_array_equal(*bits)
