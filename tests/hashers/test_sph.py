"""Spherical hashing against its paper: balanced spheres, pairs that share a quarter, its own iteration."""

import logging

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import EuclideanTruth
from manihash.hashers.sph import SpH, forces, imbalance, middle, shared


@pytest.fixture(scope="module")
def X():
    return load_digits().data


@pytest.fixture(scope="module")
def fitted(X):
    return SpH(32, normalize=True, random_state=0).fit(X)


def overlaps(bits):
    """o_ij for i < j, as shares of n/4."""
    bits = bits.astype(float)
    return (bits.T @ bits)[np.triu_indices(bits.shape[1], 1)] * 4 / len(bits)


def test_half_of_the_training_rows_lie_in_each_sphere(X, fitted):
    assert np.all(np.abs(fitted.transform(X).sum(axis=0, dtype=int) - len(X) / 2) <= 1)


def test_any_two_spheres_share_about_a_quarter_of_the_rows(X, fitted):
    pairs = overlaps(fitted.transform(X))
    assert np.abs(pairs - 1).mean() <= 0.10 + 1e-3
    assert pairs.std() <= 0.15 + 1e-3
    assert np.abs(pairs - 1).mean() == pytest.approx(fitted.overlap_error_, abs=1e-3)
    assert pairs.std() == pytest.approx(fitted.overlap_deviation_, abs=1e-3)


def test_the_centers_before_any_move_share_more_unevenly(X, fitted):
    start = SpH(32, max_iter=0, normalize=True, random_state=0).fit(X)
    assert start.n_iter_ == 0
    assert start.overlap_error_ > fitted.overlap_error_


def test_the_real_values_are_signed_distances_to_the_spheres(X, fitted):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    distance = np.linalg.norm(unit[:50, None] - fitted.centers_, axis=2)
    assert np.allclose(fitted.embed(X[:50]), fitted.radii_ - distance, atol=1e-9)


def test_centers_come_out_as_the_papers_iteration_in_the_space_of_the_rows_gives_them(X):
    """Moves are made on coefficients; here distances are taken anew in every round, pair by pair.

    The noise breaks the ties of whole numbers, which may fall to either side of a median.
    """
    rounds = 12
    X = X + np.random.default_rng(0).standard_normal(X.shape) / 1000
    start = SpH(8, max_iter=0, random_state=1).fit(X).centers_.copy()
    hasher = SpH(8, max_iter=rounds, tolerance=0, random_state=1).fit(X)
    P, n = start, len(X)
    for _ in range(rounds):
        distance = np.linalg.norm(X[:, None] - P, axis=2)
        inside = distance <= np.sort(distance, axis=0)[n // 2 - 1]
        moves = np.zeros_like(P)
        for i in range(8):
            for j in range(8):
                o = np.count_nonzero(inside[:, i] & inside[:, j])
                moves[i] += (o - n / 4) / (n / 4) / 2 * (P[i] - P[j]) if i != j else 0
        P = P + moves / 8
    assert hasher.n_iter_ == rounds
    assert np.allclose(hasher.centers_, P, atol=1e-8)


def test_forces_push_apart_what_shares_too_much_and_pull_together_what_shares_too_little():
    P = np.array([[0.0, 0.0], [1.0, 0.0]])
    apart = P + forces(P, np.array([[2.0, 1.5], [1.5, 2.0]]))
    together = P + forces(P, np.array([[2.0, 0.5], [0.5, 2.0]]))
    assert apart[1, 0] - apart[0, 0] > 1 > together[1, 0] - together[0, 0]
    assert np.allclose(apart.mean(axis=0), P.mean(axis=0))


def test_the_middle_has_half_of_the_values_below_it():
    values = np.random.default_rng(0).standard_normal((3, 10))
    assert np.all((values < middle(values)[:, None]).sum(axis=1) == 5)
    assert np.all((values[:, :9] < middle(values[:, :9])[:, None]).sum(axis=1) == 4)


def test_independent_halves_are_without_imbalance():
    values = np.array([[0, 0, 1, 1], [0, 1, 0, 1.0]])
    assert imbalance(shared(values)) == (0, 0)


def test_what_a_sample_of_rows_teaches_holds_for_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 10)).astype(np.float32)
    hasher = SpH(16, n_train=10_000, random_state=0).fit(X)
    bits = hasher.transform(X)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.02
    assert np.abs(overlaps(bits) - 1).mean() < 0.12
    assert hasher.transform(X[:1]).shape == (1, 16)


def test_a_sample_larger_than_the_rows_is_all_rows(X):
    sampled, whole = SpH(8, n_train=10**6, random_state=0).fit(X), SpH(8, n_train=None, random_state=0).fit(X)
    assert np.array_equal(sampled.transform(X), whole.transform(X))


def test_rounds_stop_at_the_limit_and_say_so(X, caplog):
    with caplog.at_level(logging.WARNING, logger="manihash"):
        hasher = SpH(8, max_iter=3, tolerance=0, deviation=0, random_state=0).fit(X)
    assert hasher.n_iter_ == 3
    assert "after 3 rounds" in caplog.text


def test_one_bit_needs_no_move(X):
    hasher = SpH(1, random_state=0).fit(X)
    assert hasher.n_iter_ == 0
    assert abs(int(hasher.transform(X).sum()) - len(X) // 2) <= 1


def test_rows_that_are_all_equal_are_an_error():
    with pytest.raises(ValueError, match="rows are all equal"):
        SpH(4, random_state=0).fit(np.full((10, 3), 0.1, np.float32))


@pytest.mark.parametrize("options", [{"n_train": 1}, {"tolerance": -1}, {"deviation": "a"}, {"max_iter": -1}])
def test_options_out_of_range_are_errors(X, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SpH(4, **options).fit(X)


def test_spheres_moved_apart_find_euclidean_neighbors_far_better_than_as_they_start(X):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    truth = EuclideanTruth(unit[:200], unit[200:])
    scores = []
    for rounds in 0, 100:
        hasher = SpH(64, max_iter=rounds, random_state=0).fit(unit[200:])
        scores.append(evaluate(hasher.encode(unit[:200]), hasher.encode(unit[200:]), truth, 64).map)
    assert scores[1] > scores[0] + 0.15
