"""STH: the graph, its smoothest vectors, balanced bits, and the SVMs that learn them."""

import logging
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from released_code import mnist_map, released_map
from scipy.linalg import eigh
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import LinearSVC

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers import sth
from manihash.hashers.lsh import LSH
from manihash.hashers.sth import STH, above_median, cosine_graph, smoothest_vectors


@pytest.fixture(scope="module")
def Z():
    X = load_digits().data[:600]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def W(Z):
    return cosine_graph(Z, 10)


def test_the_graph_is_that_of_scikit_learns_cosine_neighbors(Z, W):
    nearest = NearestNeighbors(n_neighbors=10, metric="cosine").fit(Z).kneighbors_graph(mode="distance")
    nearest.data = 1 - nearest.data
    assert np.allclose(W.toarray(), nearest.maximum(nearest.T).toarray(), atol=1e-12)


def test_the_graph_has_no_self_loops_even_among_equal_rows():
    Z = np.repeat(np.eye(3), 8, axis=0)
    W = cosine_graph(Z, 4).toarray()
    assert (np.diag(W) == 0).all()
    assert np.array_equal(W, W.T)
    assert ((W > 0).sum(axis=1) >= 4).all()


def test_negative_cosines_have_zero_weight():
    Z = np.array([[1.0, 0], [0.6, 0.8], [-1, 0]])
    assert np.allclose(cosine_graph(Z, 2).toarray(), [[0, 0.6, 0], [0.6, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("dense_points", [0, 10**6], ids=["sparse", "dense"])
def test_the_vectors_solve_the_generalized_eigenproblem(W, dense_points, monkeypatch):
    monkeypatch.setattr(sth, "_DENSE_POINTS", dense_points)
    Y = smoothest_vectors(W, 12, np.random.default_rng(0))
    D = np.diag(W.sum(axis=0))
    L = D - W.toarray()
    values, vectors = eigh(L, D)
    assert values[0] == pytest.approx(0, abs=1e-10)
    assert values[1] > 1e-3  # connected, so only the first is trivial
    assert np.allclose(L @ Y, D @ Y * values[1:13], atol=1e-7)
    assert np.allclose(np.abs(np.diag(Y.T @ D @ vectors[:, 1:13])), 1, atol=1e-6)
    assert np.allclose(Y.T @ D @ np.ones(len(L)), 0, atol=1e-8)


@pytest.mark.parametrize("dense_points", [0, 10**6], ids=["sparse", "dense"])
def test_the_first_bit_separates_two_connected_components(W, dense_points, monkeypatch):
    monkeypatch.setattr(sth, "_DENSE_POINTS", dense_points)
    two = sp.block_diag([W, W], format="csr")
    first = above_median(smoothest_vectors(two, 3, np.random.default_rng(0)))[:, 0]
    assert len(set(first[:600])) == len(set(first[600:])) == 1
    assert first[0] != first[-1]


def test_the_bits_to_learn_are_balanced(W):
    Y = smoothest_vectors(W, 20, np.random.default_rng(0))
    bits = above_median(Y)
    assert (bits.sum(axis=0) == 300).all()
    assert np.array_equal(bits, np.median(Y, axis=0) < Y)


def test_bits_are_balanced_among_equal_values_too():
    Y = np.array([[1.0, 0], [1, 0], [1, 0], [1, 3], [2, 0]])
    assert np.array_equal(above_median(Y), np.array([[0, 0], [0, 0], [0, 0], [1, 1], [1, 1]], bool))


def test_each_bit_is_the_optimum_of_its_svm_found_by_another_solver(Z):
    hasher = STH(6, n_neighbors=10, random_state=0).fit(Z)
    order = np.random.default_rng(0).choice(600, 600, replace=False)
    bits = above_median(smoothest_vectors(cosine_graph(Z[order], 10), 6, np.random.default_rng(1)))
    primal = [
        LinearSVC(C=1, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-8)
        .fit(Z[order], b)
        .coef_[0]
        for b in bits.T
    ]
    assert np.allclose(hasher.projection_, np.array(primal).T, atol=1e-2)
    for w, b in zip(hasher.projection_.T, 2 * bits.T - 1, strict=True):
        slack = np.maximum(0, 1 - b * (Z[order] @ w))
        gradient = w - 2 * (slack * b) @ Z[order]
        assert np.linalg.norm(gradient) < 1e-2 * np.linalg.norm(w)
    assert (hasher.transform(Z[order]) == bits).mean() > 0.85


def test_the_training_codes_are_nearly_balanced(Z):
    ones = STH(8, n_neighbors=10, random_state=0).fit(Z).transform(Z).mean(axis=0)
    assert (np.abs(ones - 0.5) < 0.1).all()


def test_codes_do_not_depend_on_the_length_of_rows():
    X = load_digits().data[:400]
    plain = STH(13, random_state=0).fit(X)
    assert np.array_equal(plain.transform(X), plain.transform(8 * X))
    unit = STH(13, normalize=True, random_state=0).fit(X)
    assert np.allclose(plain.projection_, unit.projection_)


def test_rows_of_zeros_have_finite_embeddings():
    X = load_digits().data[:100].copy()
    X[:40] = 0
    assert np.isfinite(STH(4, n_neighbors=5, random_state=0).fit(X).embed(X)).all()


def test_progress_is_reported_for_each_svm(caplog):
    caplog.set_level(logging.DEBUG, "manihash.progress")
    STH(3, n_train=100, random_state=0).fit(load_digits().data)
    done = [record.done for record in caplog.records if record.stage == "STH, linear SVMs"]
    assert done == [0, 1, 2, 3]


@pytest.mark.usefixtures("seed_of_zero")
def test_too_few_rows_raise_an_error_with_a_remedy():
    X = load_digits().data
    with pytest.raises(ValueError, match=r"n_neighbors=25 exceeds the 19 other rows.*lower n_neighbors"):
        STH(4).fit(X[:20])
    with pytest.raises(ValueError, match=r"n_bits=40 exceeds the 39 eigenvectors.*lower n_bits"):
        STH(40, n_train=40).fit(X)
    with pytest.raises(ValueError, match="C must be above zero"):
        STH(4, C=0).fit(X)


def test_it_ranks_digits_better_than_random_projections():
    X, y = load_digits(return_X_y=True)
    truth = LabelTruth(y[:300], y[300:])

    def score(hasher):
        hasher.fit(X[300:])
        return evaluate(hasher.encode(X[:300]), hasher.encode(X[300:]), truth, 16).map

    lsh = np.mean([score(LSH(16, normalize=True, random_state=s)) for s in range(3)])
    assert score(STH(16, random_state=0)) > lsh + 0.1


def test_mnist_is_ranked_as_well_as_by_the_released_code(data_folder: Path):
    hasher = STH(16, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("sth", 16) - 0.03
