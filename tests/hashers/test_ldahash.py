"""LDAHash: moments and error rates against every pair, projections against scikit-learn's LDA."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from released_code import mnist_map, released_map
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers._labels import LabeledRows
from manihash.hashers.itq import ITQ
from manihash.hashers.ldahash import LDAHash, best_threshold, dif_directions, pair_moments

X, y = load_digits(return_X_y=True)


def pairs_of(labels):
    pairs = np.array(list(combinations(range(len(labels)), 2)))
    return pairs, labels[pairs[:, 0]] == labels[pairs[:, 1]]


def error_rate(t, values, labels):
    """False negative + false positive rate of a threshold, pair by pair."""
    (i, j), like = pairs_of(labels)[0].T, pairs_of(labels)[1]
    separated = (values[i] > t) != (values[j] > t)
    return separated[like].mean() + (~separated[~like]).mean()


def test_moments_are_means_over_all_pairs():
    Z, labels = X[:60, 10:20], y[:60]
    pairs, like = pairs_of(labels)
    D = Z[pairs[:, 0]] - Z[pairs[:, 1]]
    found = pair_moments(Z, LabeledRows(np.arange(60), labels))
    assert found[0] == pytest.approx(D[like].T @ D[like] / like.sum())
    assert found[1] == pytest.approx(D[~like].T @ D[~like] / (~like).sum())


@pytest.mark.parametrize("seed", range(10))
def test_the_threshold_has_the_smallest_error_rate(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=25)
    values = np.round(rng.standard_normal(25) + labels, 1)  # some coincide
    t, rate = best_threshold(values, labels)
    assert rate == pytest.approx(error_rate(t, values, labels))
    assert rate == pytest.approx(min(error_rate(s, values, labels) for s in np.linspace(-4, 6, 401)))


def test_equal_values_are_not_separated():
    assert best_threshold(np.full(6, 2.5), np.array([0, 0, 1, 1, 2, 2])) == (2.5, 1.0)


@pytest.mark.usefixtures("seed_of_zero")
def test_the_directions_span_the_space_of_linear_discriminant_analysis():
    n = min(np.bincount(y))
    balanced = np.concatenate([np.flatnonzero(y == c)[:n] for c in range(10)])
    Z, labels = X[balanced] + np.random.default_rng(0).normal(0, 0.5, (10 * n, 64)), y[balanced]
    ours = LDAHash(9, ridge=0, n_labels=None).fit(Z, labels).projection_
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(Z, labels).scalings_[:, :9]
    assert np.abs(subspace_angles(ours, theirs)).max() < 1e-4
    for a, b in zip(ours.T, theirs.T, strict=True):
        assert abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) == pytest.approx(1, abs=1e-6)


def test_bits_beyond_the_number_of_classes_are_rotations_of_one_subspace():
    hasher = LDAHash(25, ridge=1.0, n_labels=None, random_state=0).fit(X, y)
    like, unlike = pair_moments(X, LabeledRows(np.arange(len(X)), y))
    I = np.trace(like) / 64 * np.eye(64)
    first, second = hasher.projection_[:, :9], hasher.projection_[:, 9:18]
    assert np.abs(subspace_angles(first, second)).max() < 1e-6
    for E in (first, second):
        assert E.T @ (like + I) @ E == pytest.approx(np.eye(9), abs=1e-8)
    assert np.trace(first.T @ unlike @ first) == pytest.approx(np.trace(second.T @ unlike @ second))
    assert len(np.unique(hasher.transform(X), axis=1).T) == 25


def test_dif_directions_minimize_the_trace_among_orthogonal_directions():
    like, unlike = pair_moments(X, LabeledRows(np.arange(len(X)), y))
    P = dif_directions(like, unlike, 3.0, 6)
    M = 3.0 * like - unlike
    assert pytest.approx(np.eye(6), abs=1e-9) == P.T @ P
    assert np.trace(P.T @ M @ P) == pytest.approx(np.linalg.eigvalsh(M)[:6].sum())


def test_error_rates_are_those_of_the_codes():
    hasher = LDAHash(12, n_labels=None, random_state=0).fit(X[:300], y[:300])
    bits = hasher.transform(X[:300])
    for j in (0, 5, 11):
        assert hasher.error_rates_[j] == pytest.approx(error_rate(0.5, bits[:, j], y[:300]), rel=1e-9)
    assert (hasher.error_rates_ < 1).all()


def test_two_classes_give_equal_bits():
    hasher = LDAHash(3, random_state=0).fit(X[y < 2], y[y < 2])
    bits = hasher.transform(X[y < 2])
    assert (bits == bits[:, :1]).all()
    assert abs(np.corrcoef(bits[:, 0], y[y < 2])[0, 1]) > 0.98


@pytest.mark.usefixtures("seed_of_zero")
def test_unusable_input_raises_an_error():
    with pytest.raises(ValueError, match="no two of the 50 labeled rows"):
        LDAHash(4).fit(X[:50], np.arange(50))
    with pytest.raises(ValueError, match="all equal"):
        LDAHash(4).fit(np.ones((20, 3)), np.arange(20) % 2)
    with pytest.raises(ValueError, match=r"n_bits=80 exceeds the 64 columns"):
        LDAHash(80, alpha=1.0).fit(X, y)
    for params in ({"alpha": 0}, {"ridge": -1}, {"n_labels": 1}):
        with pytest.raises(ValueError, match=next(iter(params))):
            LDAHash(4, **params).fit(X, y)


def test_digits_are_ranked_better_with_labels_than_without():
    truth = LabelTruth(y[1::4], y[::2])
    scores = []
    for hasher in (LDAHash(32, normalize=True, random_state=0), ITQ(32, normalize=True, random_state=0)):
        hasher.fit(X[::2], y[::2])
        scores.append(evaluate(hasher.encode(X[1::4]), hasher.encode(X[::2]), truth, 32).map)
    assert scores[0] > scores[1] + 0.1


def test_a_thousand_labels_of_mnist_add_a_tenth_to_itq(data_folder: Path):
    hasher = LDAHash(32, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("itq", 32) + 0.1
