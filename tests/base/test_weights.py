"""Weights, bandwidth and coupling against the paper's formulas written out."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash.base.graph import BaseGraph, affinity, mean_distance, normalized_weights, weights
from manihash.compute import numpy as numpy_backend
from manihash.rows.local import LocalRows


@pytest.fixture(scope="module")
def problem():
    """X (n, d), B (m, d), k, sigma and the dense W_XB (n, m), by definition."""
    X = load_digits().data
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    B, k, sigma = X[::60], 4, 0.7
    W = np.zeros((len(X), len(B)))
    for i, x in enumerate(X):
        squared = ((x - B) ** 2).sum(axis=1)
        for j in np.argsort(squared, kind="stable")[:k]:
            W[i, j] = np.exp(-squared[j] / sigma**2)
    return X, B, k, sigma, W


def dense(w, index, m):
    W = np.zeros((len(w), m))
    np.put_along_axis(W, index, w, axis=1)
    return W


def test_weights_are_those_of_the_definition(problem):
    X, B, k, sigma, W = problem
    squared, index = numpy_backend.k_nearest(X, B, k)
    assert np.allclose(dense(weights(squared, sigma), index, len(B)), W, atol=1e-12)
    W_bar = W / W.sum(axis=1, keepdims=True)
    assert np.allclose(dense(normalized_weights(squared, sigma), index, len(B)), W_bar, atol=1e-12)


def test_the_bandwidth_is_the_mean_distance_to_the_kth_base_point():
    X, B = np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [2.0], [10.0]])
    assert mean_distance(LocalRows(X), B, 1) == pytest.approx((0 + 1 + 3) / 3)
    assert mean_distance(LocalRows(X), B, 2) == pytest.approx((2 + 1 + 5) / 3)
    assert mean_distance(LocalRows(X), B, 3) == pytest.approx((10 + 9 + 5) / 3)


def test_the_bandwidth_agrees_with_a_naive_computation_on_real_data(problem):
    X, B, k, _, _ = problem
    distances = np.sqrt(((X[:, None] - B) ** 2).sum(axis=2))
    assert mean_distance(LocalRows(X), B, k) == pytest.approx(np.sort(distances, axis=1)[:, k - 1].mean())


def test_rows_that_lie_on_their_base_points_have_no_bandwidth():
    X = np.array([[1.0, 2.0]] * 5)
    with pytest.raises(ValueError, match=r"bandwidth would be 0.*give"):
        mean_distance(LocalRows(X), X[:2], 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [1e-200, 1e-30, 1e-3, 1.0, 1e30, 1e200])
def test_normalized_weights_sum_to_one_however_far_the_point(sigma, dtype):
    squared = np.array([[0, 1, 4], [1e4, 1e4 + 1, 2e4], [1e9, 1e10, 1e11], [0, 0, 0]], dtype)
    w = normalized_weights(squared, sigma)
    assert w.dtype == dtype
    assert np.allclose(w.sum(axis=1), 1)
    assert (np.diff(w, axis=1) <= 0).all()
    assert np.allclose(w[3], 1 / 3)


def test_a_bandwidth_that_is_tiny_leaves_the_nearest_and_one_that_is_huge_the_mean():
    squared = np.array([[1.0, 2.0, 3.0]])
    assert np.array_equal(normalized_weights(squared, 1e-200), [[1, 0, 0]])
    assert np.allclose(normalized_weights(squared, 1e200), 1 / 3)


def test_the_coupling_is_the_dense_formula(problem):
    X, B, k, sigma, W = problem
    W_bar = W / W.sum(axis=1, keepdims=True)
    T = np.diag(W.sum(axis=0)) - W_bar.T @ W
    assert np.allclose(BaseGraph(B, k, sigma).coupling(LocalRows(X)), T, atol=1e-10)


def test_the_coupling_is_symmetric_positive_and_its_rows_sum_to_zero(problem):
    X, B, k, sigma, _ = problem
    T = BaseGraph(B, k, sigma).coupling(LocalRows(X))
    assert np.array_equal(T, T.T)
    assert np.allclose(T.sum(axis=1), 0, atol=1e-10)
    assert np.linalg.eigvalsh(T).min() > -1e-10
    assert np.abs(T).max() > 1


def test_the_coupling_is_the_papers_cost_between_data_and_base_set(problem):
    """Σ_ij w_ij |y_i - y_j|² = trace(Yᵀ T Y) where y_i is induced: then Σ_j w_ij (y_i - y_j) = 0."""
    X, B, k, sigma, W = problem
    Y_B = np.random.default_rng(0).standard_normal((len(B), 3))
    Y_X = W @ Y_B / W.sum(axis=1, keepdims=True)
    cost = (W * ((Y_X[:, None] - Y_B) ** 2).sum(axis=2)).sum()
    T = BaseGraph(B, k, sigma).coupling(LocalRows(X))
    assert np.trace(Y_B.T @ T @ Y_B) == pytest.approx(cost, rel=1e-10)


def test_the_coupling_of_a_far_row_is_zero_and_not_nan(problem):
    X, B, k, _, _ = problem
    T = BaseGraph(B, k, 0.01).coupling(LocalRows(X[:5] + 1e4))
    assert np.array_equal(T, np.zeros_like(T))


@pytest.mark.parametrize("rows_in_a_block", [64, 500, 10_000])
def test_blocks_change_the_coupling_and_the_bandwidth_by_rounding_only(problem, monkeypatch, rows_in_a_block):
    X, B, k, sigma, _ = problem
    T, width = BaseGraph(B, k, sigma).coupling(LocalRows(X)), mean_distance(LocalRows(X), B, k)
    monkeypatch.setattr(numpy_backend, "block_rows", lambda width: rows_in_a_block)
    assert np.allclose(BaseGraph(B, k, sigma).coupling(LocalRows(X)), T, rtol=1e-12, atol=1e-12)
    assert mean_distance(LocalRows(X), B, k) == pytest.approx(width, rel=1e-13)


def test_the_order_of_the_rows_changes_the_coupling_by_rounding_only(problem):
    X, B, k, sigma, _ = problem
    assert np.allclose(
        BaseGraph(B, k, sigma).coupling(LocalRows(X[::-1])),
        BaseGraph(B, k, sigma).coupling(LocalRows(X)),
        atol=1e-10,
    )


def test_the_affinity_counts_a_point_among_its_own_neighbors(problem):
    B = problem[1]
    k, m = 6, len(B)
    squared = ((B[:, None] - B) ** 2).sum(axis=2)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    assert np.array_equal(order[:, 0], np.arange(m))
    sigma = np.sqrt(np.take_along_axis(squared, order[:, -1:], axis=1)).mean()
    W = np.zeros((m, m))
    for i in range(m):
        for j in order[i]:
            W[i, j] = np.exp(-squared[i, j] / sigma**2)
    assert np.allclose(affinity(B, k), np.maximum(W, W.T), atol=1e-7)
    assert np.allclose(np.diag(affinity(B, k)), 1)
