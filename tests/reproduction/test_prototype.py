"""The prototype algorithm and its theorem, on scikit-learn's digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash.base import KMeansBase
from manihash.base.graph import mean_distance, weights
from manihash.compute.numpy import squared_distances
from manihash.embeddings import PCA
from manihash.rows.local import LocalRows
from reproduction.paper.theory.prototype import (
    corollary_size,
    k_center,
    overall_weights,
    prototype,
    theorem_bound,
)


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def query(digits):
    """Weights alpha (n,) of one digit to all others, and the others' embedding Y (n, 8)."""
    x, X = digits[:1], digits[1:]
    squared = squared_distances(x, X)[0]
    alpha = weights(squared, float(np.sqrt(np.partition(squared, 30)[30])))
    return alpha / alpha.sum(), PCA(8).fit_transform(X)


def cover(Y, m):
    """Clusters (n,) of the greedy cover of Y by m balls, and its radius, which is at least ε_m(Y)."""
    centers, radii = k_center(Y, m)
    return squared_distances(Y, Y[centers]).argmin(axis=1), float(radii[-1])


def errors(alpha, Y, clusters, times):
    rng = np.random.default_rng(0)
    y = alpha @ Y
    draws = [prototype(alpha, Y, clusters, rng) for _ in range(times)]
    return np.array([np.linalg.norm(draw.estimate - y) for draw in draws]), draws


def test_the_estimate_is_unbiased(query):
    alpha, Y = query
    _, draws = errors(alpha, Y, cover(Y, 10)[0], 2000)
    estimates = np.array([draw.estimate for draw in draws])
    standard_error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(axis=0) - alpha @ Y) < 5 * standard_error)
    assert standard_error.max() < 0.01 * np.abs(Y).max()


@pytest.mark.parametrize("m", [5, 20, 80])
def test_it_uses_at_most_twice_as_many_points_as_clusters(query, m):
    alpha, Y = query
    _, draws = errors(alpha, Y, cover(Y, m)[0], 5)
    assert all(0 < draw.n_used <= 2 * m for draw in draws)


@pytest.mark.parametrize("m", [5, 20, 80])
def test_the_error_keeps_the_bound_of_the_theorem(query, m):
    """One-sided: the greedy radius is at least the entropy number, so the bound checked is the weaker one."""
    alpha, Y = query
    clusters, radius = cover(Y, m)
    found, _ = errors(alpha, Y, clusters, 400)
    for t in np.quantile(found, [0.05, 0.25, 0.5, 0.75, 0.95]):
        assert np.mean(found >= t) < theorem_bound(radius, 2 * m, t)
    assert np.mean(found**2) <= radius**2 / m  # the variance bound that the theorem follows from


@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_the_corollary_gives_a_size_that_suffices(query, delta):
    alpha, Y = query
    t = 0.1
    sizes = range(4, 400, 2)
    radii = k_center(Y, 200)[1]
    n_used = next(n for n in sizes if n >= corollary_size(float(radii[n // 2 - 1]), delta, t))
    found, _ = errors(alpha, Y, cover(Y, n_used // 2)[0], 400)
    assert np.mean(found < t) >= 1 - delta


def test_more_clusters_give_a_smaller_error(query):
    alpha, Y = query
    few, many = (errors(alpha, Y, cover(Y, m)[0], 200)[0].mean() for m in (5, 80))
    assert many < few / 2


def test_the_greedy_radius_covers_all_points_and_falls(query):
    _, Y = query
    centers, radii = k_center(Y, 30)
    farthest = np.sqrt(squared_distances(Y, Y[centers]).min(axis=1).max())
    assert farthest == pytest.approx(radii[-1], rel=1e-6)
    assert np.all(np.diff(radii) <= 0)


def test_centers_carry_the_largest_overall_weight_of_their_cluster(digits):
    """The paper's reason to take the k-means centers; true of every cluster here, with sigma by the rule."""
    rows = LocalRows(digits)
    base = KMeansBase(40, max_iter=100, random_state=0).fit(digits)
    sigma = mean_distance(rows, base.points_, 5)
    labels = squared_distances(digits, base.points_).argmin(axis=1)
    heaviest = 0
    for j, center in enumerate(base.points_):
        members = digits[labels == j]
        own = overall_weights(center[None], members, sigma)[0]
        heaviest += own >= overall_weights(members, members, sigma).max()
    assert heaviest == len(base.points_)
