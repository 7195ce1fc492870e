"""The Nyström eigenfunction against its own formula and beside induction."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash.base.graph import BaseGraph
from manihash.compute.numpy import squared_distances
from reproduction.paper.theory.nystrom import nystrom


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def phi(digits):
    return nystrom(digits[:200], 6, sigma=0.6)


def test_on_a_base_point_it_gives_the_embedding_of_that_point(digits, phi):
    assert np.allclose(phi(digits[:200]), np.sqrt(200) * phi.V, atol=1e-8)


def test_it_equals_the_sum_of_the_paper_written_out(digits, phi):
    B, x, sigma = digits[:200], digits[700], 0.6
    w = lambda a, b: np.exp(-((a - b) ** 2).sum() / sigma**2)  # noqa: E731
    mean = lambda a: np.mean([w(a, c) for c in B])  # noqa: E731
    K = np.array([w(x, c) / (200 * np.sqrt(mean(x) * mean(c))) for c in B])
    expected = np.sqrt(200) * sum(K[j] * phi.V[j] for j in range(200)) / phi.eigenvalues
    assert np.allclose(phi(x[None])[0], expected, rtol=1e-8)


def test_the_trivial_eigenvector_is_left_out(digits, phi):
    degree = np.sqrt(np.exp(-squared_distances(phi.B, phi.B) / 0.36).mean(axis=1))
    assert np.all(np.abs(phi.V.T @ degree) < 1e-8)
    assert np.all(phi.eigenvalues < 1)
    assert np.all(np.diff(phi.eigenvalues) <= 0)


def test_induction_places_new_points_close_to_where_the_eigenfunction_does(digits, phi):
    """Both are weighted means of the base embedding; up to a scale for each coordinate they agree."""
    X = digits[200:800]
    induced = BaseGraph(phi.B, 5, 0.3).induce(X, np.sqrt(200) * phi.V)
    correlation = [np.corrcoef(a, b)[0, 1] for a, b in zip(induced.T, phi(X).T, strict=True)]
    assert min(correlation) > 0.9
