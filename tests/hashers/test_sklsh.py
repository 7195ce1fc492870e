"""SKLSH against its paper: the probability of different bits, its bounds, and scikit-learn's features."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import EuclideanTruth
from manihash.hashers.sklsh import SKLSH

DISTANCES = np.array([0.05, 0.3, 0.7, 1.0, 1.5, 2.5, 6.0])


@pytest.fixture(scope="module")
def X():
    return load_digits().data


def differ_probability(squared, gamma):
    """The paper's h_K(x - y) = 8/π² Σ_m (1 - κ(mx, my)) / (4m² - 1); the terms without κ sum to 4/π²."""
    m = np.arange(1, 2_000)[:, None]
    return 4 / np.pi**2 - 8 / np.pi**2 * (np.exp(-gamma * m**2 * squared) / (4 * m**2 - 1)).sum(axis=0)


def bounds(kernel):
    """The paper's 4/π² (1 - κ) <= h <= min(½ √(1 - κ), 4/π² (1 - 2κ/3))."""
    upper = np.minimum(np.sqrt(1 - kernel) / 2, 4 / np.pi**2 * (1 - 2 * kernel / 3))
    return 4 / np.pi**2 * (1 - kernel), upper


@pytest.fixture(scope="module")
def shares():
    """How often bits of points at the distances above differ, by 20,000 bits at γ = 0.4."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((len(DISTANCES), 5))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = rng.standard_normal((len(DISTANCES), 5))
    hasher = SKLSH(20_000, gamma=0.4, random_state=1).fit(x)
    return (hasher.transform(x) != hasher.transform(x + directions * DISTANCES[:, None])).mean(axis=1)


def test_bits_differ_with_the_probability_of_the_paper(shares):
    assert np.abs(shares - differ_probability(DISTANCES**2, 0.4)).max() < 0.015


def test_the_probability_lies_within_the_bounds_of_the_paper(shares):
    low, high = bounds(np.exp(-0.4 * DISTANCES**2))
    exact = differ_probability(DISTANCES**2, 0.4)
    assert np.all(low <= exact)
    assert np.all(exact <= high)
    assert np.all(low - 0.015 <= shares)
    assert np.all(shares <= high + 0.015)


def test_bits_of_distant_points_differ_with_probability_four_over_pi_squared(shares):
    assert shares[-1] == pytest.approx(4 / np.pi**2, abs=0.015)


def test_real_values_minus_thresholds_are_scikit_learns_fourier_features(X):
    sampler = RBFSampler(gamma=0.003, n_components=40, random_state=0).fit(X)
    hasher = SKLSH(40, gamma=0.003, random_state=0).fit(X)
    hasher.projection_, hasher.phases_ = sampler.random_weights_, sampler.random_offset_
    features = (hasher.embed(X) - hasher.thresholds_) * np.sqrt(2 / 40)
    assert np.allclose(features, sampler.transform(X), atol=1e-9)


def test_products_of_features_approximate_the_kernel(X):
    hasher = SKLSH(20_000, random_state=0).fit(X)
    features = hasher.embed(X[:30]) - hasher.thresholds_
    kernel = np.exp(-hasher.gamma_ * cdist(X[:30], X[:30], "sqeuclidean"))
    assert np.abs(2 * features @ features.T / 20_000 - kernel).max() < 0.05


def test_the_default_gamma_follows_from_the_distance_to_the_50th_nearest(X):
    few = X[:400]
    sigma = np.sort(cdist(few, few), axis=1)[:, 50].mean()
    assert SKLSH(8, random_state=0).fit(few).gamma_ == pytest.approx(1 / (2 * sigma**2))


def test_the_default_gamma_of_a_sample_is_close_to_that_of_all_rows():
    X = np.random.default_rng(0).standard_normal((8_000, 4))
    found = SKLSH(8, random_state=0).fit(X).gamma_
    sigma = np.sort(cdist(X[:500], X), axis=1)[:, 8_000 // 40].mean()
    assert found == pytest.approx(1 / (2 * sigma**2), rel=0.1)


def test_passing_the_default_gamma_explicitly_gives_the_same_codes(X):
    found = SKLSH(16, random_state=0).fit(X)
    given = SKLSH(16, gamma=found.gamma_, random_state=0).fit(X)
    assert np.array_equal(given.encode(X), found.encode(X))


def test_codes_find_euclidean_neighbors_in_digits(X):
    truth = EuclideanTruth(X[:200], X[200:])
    hasher = SKLSH(256, random_state=0).fit(X[200:])
    assert evaluate(hasher.encode(X[:200]), hasher.encode(X[200:]), truth, 256).map > 0.35


@pytest.mark.parametrize("gamma", [0, -1, np.nan, "a"])
def test_a_gamma_out_of_range_raises_an_error(X, gamma):
    with pytest.raises(ValueError, match="gamma"):
        SKLSH(4, gamma=gamma).fit(X)
