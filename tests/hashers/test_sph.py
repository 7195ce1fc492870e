"""Spherical hashing against its paper: balanced spheres, overlaps of a quarter, the iteration."""

import logging

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import EuclideanTruth
from manihash.hashers.sph import SpH, forces, imbalance, middles, overlaps


@pytest.fixture(scope="module")
def X():
    return load_digits().data


@pytest.fixture(scope="module")
def fitted(X):
    return SpH(32, normalize=True, random_state=0).fit(X)


def overlaps_of_bits(bits):
    """o_ij for i < j, as shares of n/4."""
    bits = bits.astype(float)
    return (bits.T @ bits)[np.triu_indices(bits.shape[1], 1)] * 4 / len(bits)


def test_half_of_the_training_rows_lie_in_each_sphere(X, fitted):
    assert np.all(np.abs(fitted.transform(X).sum(axis=0, dtype=int) - len(X) / 2) <= 1)


def test_any_two_spheres_share_about_a_quarter_of_the_rows(X, fitted):
    pairs = overlaps_of_bits(fitted.transform(X))
    assert np.abs(pairs - 1).mean() <= 0.10 + 1e-3
    assert pairs.std() <= 0.15 + 1e-3
    assert np.abs(pairs - 1).mean() == pytest.approx(fitted.overlap_error_, abs=1e-3)
    assert pairs.std() == pytest.approx(fitted.overlap_deviation_, abs=1e-3)


def test_the_initial_centers_have_less_even_overlaps(X, fitted):
    start = SpH(32, max_iter=0, normalize=True, random_state=0).fit(X)
    assert start.n_iter_ == 0
    assert start.overlap_error_ > fitted.overlap_error_


def test_the_real_values_are_signed_distances_to_the_spheres(X, fitted):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    distance = np.linalg.norm(unit[:50, None] - fitted.centers_, axis=2)
    assert np.allclose(fitted.embed(X[:50]), fitted.radii_ - distance, atol=1e-9)


def test_the_centers_equal_those_of_the_iteration_of_the_paper(X):
    """The method moves coefficients; this test computes all distances again in every iteration.

    The noise breaks ties between integers, which could be on either side of a median.
    """
    n_iter = 12
    X = X + np.random.default_rng(0).standard_normal(X.shape) / 1000
    start = SpH(8, max_iter=0, random_state=1).fit(X).centers_.copy()
    hasher = SpH(8, max_iter=n_iter, tolerance=0, random_state=1).fit(X)
    P, n = start, len(X)
    for _ in range(n_iter):
        distance = np.linalg.norm(X[:, None] - P, axis=2)
        inside = distance <= np.sort(distance, axis=0)[n // 2 - 1]
        moves = np.zeros_like(P)
        for i in range(8):
            for j in range(8):
                o = np.count_nonzero(inside[:, i] & inside[:, j])
                moves[i] += (o - n / 4) / (n / 4) / 2 * (P[i] - P[j]) if i != j else 0
        P = P + moves / 8
    assert hasher.n_iter_ == n_iter
    assert np.allclose(hasher.centers_, P, atol=1e-8)


def test_forces_separate_large_overlaps_and_attract_small_ones():
    P = np.array([[0.0, 0.0], [1.0, 0.0]])
    apart = P + forces(P, np.array([[2.0, 1.5], [1.5, 2.0]]))
    together = P + forces(P, np.array([[2.0, 0.5], [0.5, 2.0]]))
    assert apart[1, 0] - apart[0, 0] > 1 > together[1, 0] - together[0, 0]
    assert np.allclose(apart.mean(axis=0), P.mean(axis=0))


def test_half_of_the_values_are_below_the_middle():
    values = np.random.default_rng(0).standard_normal((3, 10))
    assert np.all((values < middles(values)[:, None]).sum(axis=1) == 5)
    assert np.all((values[:, :9] < middles(values[:, :9])[:, None]).sum(axis=1) == 4)


def test_independent_halves_have_no_imbalance():
    values = np.array([[0, 0, 1, 1], [0, 1, 0, 1.0]])
    assert imbalance(overlaps(values)) == (0, 0)


def test_spheres_learned_from_a_sample_are_balanced_on_the_other_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 10)).astype(np.float32)
    hasher = SpH(16, n_train=10_000, random_state=0).fit(X)
    bits = hasher.transform(X)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.02
    assert np.abs(overlaps_of_bits(bits) - 1).mean() < 0.12
    assert hasher.transform(X[:1]).shape == (1, 16)


def test_a_sample_larger_than_the_rows_uses_all_rows(X):
    sampled, whole = SpH(8, n_train=10**6, random_state=0).fit(X), SpH(8, n_train=None, random_state=0).fit(X)
    assert np.array_equal(sampled.transform(X), whole.transform(X))


def test_iterations_stop_at_the_limit_with_a_warning(X, caplog):
    with caplog.at_level(logging.WARNING, logger="manihash"):
        hasher = SpH(8, max_iter=3, tolerance=0, deviation=0, random_state=0).fit(X)
    assert hasher.n_iter_ == 3
    assert "after 3 iterations" in caplog.text


def test_one_bit_needs_no_iteration(X):
    hasher = SpH(1, random_state=0).fit(X)
    assert hasher.n_iter_ == 0
    assert abs(int(hasher.transform(X).sum()) - len(X) // 2) <= 1


def test_equal_rows_raise_an_error():
    with pytest.raises(ValueError, match="rows are all equal"):
        SpH(4, random_state=0).fit(np.full((10, 3), 0.1, np.float32))


@pytest.mark.parametrize("options", [{"n_train": 1}, {"tolerance": -1}, {"deviation": "a"}, {"max_iter": -1}])
def test_options_out_of_range_raise_an_error(X, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SpH(4, **options).fit(X)


def test_the_final_spheres_find_euclidean_neighbors_much_better_than_the_initial_ones(X):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    truth = EuclideanTruth(unit[:200], unit[200:])
    scores = []
    for n_iter in 0, 100:
        hasher = SpH(64, max_iter=n_iter, random_state=0).fit(unit[200:])
        scores.append(evaluate(hasher.encode(unit[:200]), hasher.encode(unit[200:]), truth, 64).map)
    assert scores[1] > scores[0] + 0.15
