"""p-stable LSH against its paper: the probability of equal bins, and of equal parities of bins."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import cauchy, norm
from sklearn.datasets import load_digits

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import EuclideanTruth
from manihash.hashers.e2lsh import E2LSH, distance_to_border

WIDTH = 3.0
DISTANCES = np.array([0.1, 0.5, 1.0, 2.0, 3.0, 6.0, 15.0])


@pytest.fixture(scope="module")
def X():
    return load_digits().data


@pytest.fixture(scope="module", params=[1, 2])
def sampled(request):
    """p, a model of 20,000 bits, and points x, y at the distances above."""
    p, rng = request.param, np.random.default_rng(0)
    step = rng.standard_normal((len(DISTANCES), 5))
    step *= (DISTANCES / np.linalg.norm(step, ord=p, axis=1))[:, None]
    x = rng.standard_normal((len(DISTANCES), 5))
    return p, E2LSH(20_000, p, WIDTH, random_state=1).fit(x), x, x + step


def same_bin(c, w, p):
    """p(c), the paper's closed forms."""
    s = w / c
    if p == 1:
        return 2 * np.arctan(s) / np.pi - np.log(1 + s**2) / (np.pi * s)
    return 1 - 2 * norm.cdf(-s) - 2 / (np.sqrt(2 * np.pi) * s) * (1 - np.exp(-(s**2) / 2))


def parity_differs(c, w, p):
    """½ - 4/π² Σ_{m odd} E cos(π m aᵀ(x - y) / w) / m², the Fourier series of a distance to even numbers."""
    m = np.arange(1, 4001, 2)[:, None]
    u = np.pi * m * c / w
    characteristic = np.exp(-u) if p == 1 else np.exp(-(u**2) / 2)
    return 0.5 - 4 / np.pi**2 * (characteristic / m**2).sum(axis=0)


@pytest.mark.parametrize("p", [1, 2])
def test_the_closed_form_is_the_integral_that_defines_it(p):
    density = (cauchy if p == 1 else norm).pdf
    for c in DISTANCES:
        # p(c) = ∫_0^w 1/c f(t/c) (1 - t/w) dt, f the density of |a|
        integral = quad(lambda t, c=c: 2 / c * density(t / c) * (1 - t / WIDTH), 0, WIDTH, limit=200)[0]
        assert same_bin(c, WIDTH, p) == pytest.approx(integral, abs=1e-7)


def test_bins_agree_with_the_probability_of_the_paper(sampled):
    p, hasher, x, y = sampled
    share = (hasher.bins(x) == hasher.bins(y)).mean(axis=1)
    assert np.abs(share - same_bin(DISTANCES, WIDTH, p)).max() < 0.015


def test_bits_differ_with_the_probability_of_their_parities(sampled):
    p, hasher, x, y = sampled
    share = (hasher.transform(x) != hasher.transform(y)).mean(axis=1)
    assert np.abs(share - parity_differs(DISTANCES, WIDTH, p)).max() < 0.015


def test_parities_keep_the_order_of_distances(sampled):
    p = sampled[0]
    c = np.linspace(0.05, 4, 200)
    assert np.all(np.diff(parity_differs(c, WIDTH, p)) > 0)
    assert np.all(parity_differs(c, WIDTH, p) <= 1 - same_bin(c, WIDTH, p) + 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2])
def test_a_bit_is_one_where_its_bin_is_even(X, p, dtype):
    hasher = E2LSH(50, p, random_state=0).fit(X)
    bins = hasher.bins(X.astype(dtype))
    assert bins.dtype == dtype
    assert np.array_equal(bins, np.floor(bins))
    assert np.array_equal(hasher.transform(X.astype(dtype)), bins % 2 == 0)


def test_the_real_value_is_the_distance_to_the_nearest_border_of_a_bin():
    scaled = np.array([0.5, 0.1, 0.9, 1.5, 1.2, -0.3, -1.2, 7.25, 0, 1, -3])
    assert np.allclose(distance_to_border(scaled), [0.5, 0.1, 0.1, -0.5, -0.2, -0.3, 0.2, -0.25, 0, 0, 0])
    fine = np.linspace(-5, 5, 100_001)
    assert np.abs(np.diff(distance_to_border(fine))).max() < 1.001e-4


@pytest.mark.parametrize(("p", "metric"), [(1, "cityblock"), (2, "euclidean")])
def test_the_width_is_four_times_the_distance_to_the_50th_nearest(X, p, metric):
    few = X[:400]
    expected = 4 * np.sort(cdist(few, few, metric), axis=1)[:, 50].mean()
    hasher = E2LSH(8, p, random_state=0).fit(few)
    assert hasher.width_ == pytest.approx(expected)
    assert np.all((hasher.offset_ >= 0) & (hasher.offset_ < hasher.width_))
    given = E2LSH(8, p, hasher.width_, random_state=0).fit(few)
    assert np.array_equal(given.encode(X), hasher.encode(X))


def test_codes_find_euclidean_neighbors_in_digits(X):
    truth = EuclideanTruth(X[:200], X[200:])
    hasher = E2LSH(256, random_state=0).fit(X[200:])
    assert evaluate(hasher.encode(X[:200]), hasher.encode(X[200:]), truth, 256).map > 0.35


@pytest.mark.parametrize("options", [{"p": 3}, {"p": "a"}, {"width": 0}, {"width": -1.0}])
def test_options_out_of_range_raise_an_error(X, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        E2LSH(4, **options).fit(X)
