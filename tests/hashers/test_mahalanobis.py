"""LSH under a Mahalanobis metric: LSH of the transformed rows, and whitening by default."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.lsh import LSH
from manihash.hashers.mahalanobis import MahalanobisLSH, metric_root, whitening

BITS = 20_000


@pytest.fixture(scope="module")
def X():
    return load_digits().data


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, 6)) @ rng.standard_normal((6, 6)) + 5


@pytest.fixture(scope="module")
def G():
    return np.random.default_rng(1).standard_normal((6, 6))


def angle(a, b):
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return np.arccos(np.clip(cosine, -1, 1))


def test_codes_are_those_of_lsh_after_the_root_of_the_metric(cloud, G):
    A = G.T @ G
    transformed = cloud @ metric_root(A, 6).T
    ours = MahalanobisLSH(64, metric=A, random_state=0).fit(cloud).transform(cloud)
    assert np.array_equal(ours, LSH(64, random_state=0).fit(transformed).transform(transformed))


def test_the_identity_is_plain_lsh(X):
    ours = MahalanobisLSH(64, metric=np.eye(64), random_state=0).fit(X)
    assert np.array_equal(ours.encode(X), LSH(64, random_state=0).fit(X).encode(X))


def test_without_centering_the_mean_is_not_subtracted(cloud, G):
    transformed = cloud @ metric_root(G.T @ G, 6).T
    ours = MahalanobisLSH(64, metric=G.T @ G, center=False, random_state=0).fit(cloud).transform(cloud)
    assert np.array_equal(ours, LSH(64, center=False, random_state=0).fit(transformed).transform(transformed))


def test_bits_differ_by_the_angle_under_any_factor_of_the_metric(cloud, G):
    hasher = MahalanobisLSH(BITS, metric=G.T @ G, random_state=0).fit(cloud)
    transformed = (cloud - cloud.mean(axis=0)) @ G.T
    bits = hasher.transform(cloud[:80])
    share = (bits[:40] != bits[40:]).mean(axis=1)
    assert np.abs(share - angle(transformed[:40], transformed[40:80]) / np.pi).max() < 0.015


def test_by_default_the_metric_is_the_inverse_covariance(cloud):
    hasher = MahalanobisLSH(BITS, regularization=0, random_state=0).fit(cloud)
    Y = hasher.embed(cloud[:30])
    Z = cloud[:30] - cloud.mean(axis=0)
    inner = Z @ np.linalg.inv(np.cov(cloud.T, bias=True)) @ Z.T
    assert np.abs(Y @ Y.T / BITS - inner).max() < 0.05 * inner.max()


def test_whitened_rows_have_the_identity_for_covariance(cloud):
    G = whitening(np.cov(cloud.T, bias=True), 0)
    assert np.allclose(np.cov(G @ cloud.T, bias=True), np.eye(6), atol=1e-9)


def test_regularization_adds_its_share_of_the_mean_variance(cloud):
    S = np.cov(cloud.T, bias=True)
    G = whitening(S, 0.3)
    assert np.allclose(np.linalg.inv(G @ G), S + 0.3 * np.trace(S) / 6 * np.eye(6))


def test_strong_regularization_gives_plain_lsh(cloud):
    ours = MahalanobisLSH(64, regularization=1e9, random_state=0).fit(cloud)
    assert np.mean(ours.transform(cloud) == LSH(64, random_state=0).fit(cloud).transform(cloud)) > 0.9999


def test_constant_columns_give_finite_values_without_regularization(X):
    """Some pixels of the digits are always 0: the covariance has no inverse."""
    hasher = MahalanobisLSH(16, regularization=0, random_state=0).fit(X)
    assert np.isfinite(hasher.embed(X)).all()
    assert np.abs(hasher.embed(X)).max() < 1e4


def test_a_metric_of_rank_one_gives_the_sign_along_its_direction(cloud):
    u = np.array([1.0, 2, 3, 0, 0, -1])
    bits = MahalanobisLSH(9, metric=np.outer(u, u), random_state=0).fit(cloud).transform(cloud)
    side = (cloud - cloud.mean(axis=0)) @ u > 0
    assert all(np.array_equal(bit, side) or np.array_equal(bit, ~side) for bit in bits.T.astype(bool))


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (np.eye(5), r"\(6, 6\) and finite numbers for rows of 6 columns, got \(5, 5\)"),
        (np.full((6, 6), np.nan), "finite"),
        (np.arange(36.0).reshape(6, 6), "symmetric"),
        (np.zeros((6, 6)), "not zero"),
        (np.diag([1, 1, 1, 1, 1, -1.0]), "negative eigenvalue -1"),
    ],
)
def test_an_invalid_metric_raises_an_error(cloud, metric, message):
    with pytest.raises(ValueError, match=message):
        MahalanobisLSH(4, metric=metric).fit(cloud)


def test_a_negative_regularization_raises_an_error(cloud):
    with pytest.raises(ValueError, match="regularization"):
        MahalanobisLSH(4, regularization=-1).fit(cloud)


def test_a_metric_learned_from_labels_ranks_digits_better(X):
    y = load_digits().target
    truth = LabelTruth(y[:300], y[300:])
    P = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(X[300:800], y[300:800]).scalings_[:, :9]
    scores = []
    for hasher in MahalanobisLSH(64, metric=P @ P.T, random_state=0), LSH(64, random_state=0):
        hasher.fit(X[300:])
        scores.append(evaluate(hasher.encode(X[:300]), hasher.encode(X[300:]), truth, 64).map)
    assert scores[0] > scores[1] + 0.1
