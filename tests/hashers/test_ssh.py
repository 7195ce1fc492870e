"""SSH: fitness at its maximum, the sequential form against the matrices of its paper, labels that help."""

from pathlib import Path

import numpy as np
import pytest
from released_code import mnist_map, released_map
from sklearn.datasets import load_digits

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers._labels import LabeledRows
from manihash.hashers.itq import ITQ
from manihash.hashers.pcah import PCAH
from manihash.hashers.ssh import SSH, sequential

X, y = load_digits(return_X_y=True)
X = X / np.linalg.norm(X, axis=1, keepdims=True)


def similarity(labels):
    return np.where(labels[:, None] == labels, 1.0, -1.0)


def fitness_matrix(eta):
    """X_l S X_lᵀ and eta X Xᵀ, each over its largest eigenvalue, with every row labeled."""
    Z = X - X.mean(axis=0)
    pairs, variance = Z.T @ similarity(y) @ Z, Z.T @ Z
    return pairs / np.linalg.norm(pairs, 2) + eta * variance / np.linalg.norm(variance, 2)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("eta", [0.0, 0.3])
def test_no_orthogonal_directions_have_a_larger_fitness(eta):
    W = SSH(7, eta=eta, step=None, n_labels=None).fit(X, y).projection_
    M = fitness_matrix(eta)
    assert pytest.approx(np.eye(7), abs=1e-9) == W.T @ W
    assert np.trace(W.T @ M @ W) == pytest.approx(np.linalg.eigvalsh(M)[-7:].sum())
    rng = np.random.default_rng(0)
    for _ in range(50):
        Q = np.linalg.qr(W + 0.1 * rng.standard_normal(W.shape))[0]
        assert np.trace(Q.T @ M @ Q) <= np.trace(W.T @ M @ W)


@pytest.mark.usefixtures("seed_of_zero")
def test_with_a_large_weight_on_variance_the_directions_are_the_principal_ones():
    W = SSH(5, eta=1e9, step=None).fit(X, y).projection_
    P = PCAH(5).fit(X).projection_
    assert np.abs((W * P).sum(axis=0)) == pytest.approx(np.ones(5), abs=1e-5)


@pytest.mark.parametrize("step", [0.3, 1.0, 4.0])
def test_the_sequential_form_equals_explicit_updates_of_the_pair_matrix(step):
    n = 120
    Z, labels = X[:n] - X[:n].mean(axis=0), y[:n]
    variance = 0.1 * Z.T @ Z / n
    W = sequential(Z, LabeledRows(np.arange(n), labels), variance, step, 9)
    S = similarity(labels)
    for w in W.T:
        M = Z.T @ S @ Z + variance
        assert w @ M @ w == pytest.approx(np.linalg.eigvalsh(M)[-1], rel=1e-9)
        h = np.where(Z @ w > 0, 1.0, -1.0)
        S -= step * np.where(np.outer(h, h) * S < 0, np.outer(h, h), 0)
        leave = np.eye(len(w)) - np.outer(w, w)
        variance = leave @ variance @ leave


def test_the_real_values_have_zero_mean():
    hasher = SSH(6, random_state=0).fit(X, y)
    assert hasher.embed(X).mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-12)


@pytest.mark.usefixtures("seed_of_zero")
def test_only_the_sequential_form_gives_more_bits_than_columns():
    assert SSH(80, n_labels=100).fit(X, y).transform(X).shape == (1797, 80)
    with pytest.raises(ValueError, match=r"n_bits=80 exceeds the 64 columns"):
        SSH(80, step=None).fit(X, y)


def test_invalid_options_raise_an_error():
    for params in ({"eta": -0.1}, {"step": 0}, {"n_labels": 1}):
        with pytest.raises(ValueError, match=next(iter(params))):
            SSH(4, **params).fit(X, y)


def score(hasher):
    hasher.fit(X[::2], y[::2])
    truth = LabelTruth(y[1::4], y[::2])
    return evaluate(hasher.encode(X[1::4]), hasher.encode(X[::2]), truth, 32).map


def test_digits_are_ranked_better_with_labels_than_without():
    assert score(SSH(32, random_state=0)) > score(ITQ(32, random_state=0)) + 0.02


@pytest.mark.usefixtures("seed_of_zero")
def test_equal_rows_have_one_code():
    assert len(np.unique(SSH(3).fit(np.ones((20, 3)), np.arange(20) % 2).encode(np.ones((20, 3))))) == 1


def test_a_thousand_labels_of_mnist_add_a_tenth_to_itq(data_folder: Path):
    hasher = SSH(32, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("itq", 32) + 0.1
