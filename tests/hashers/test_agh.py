"""Anchor graph hashing against its own formulas, written out with dense matrices."""

import tracemalloc

import numpy as np
import pytest
from released_code import released_map
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from manihash.base.graph import BaseGraph
from manihash.base.kmeans import KMeansBase
from manihash.codes import pack
from manihash.compute import numpy as numpy_backend
from manihash.datasets import load_dataset
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.agh import AGH
from manihash.hashers.lsh import LSH
from manihash.rows.local import LocalRows

K = 4


@pytest.fixture(scope="module")
def digits():
    X = load_digits().data
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def anchors(digits):
    return KMeansBase(40, random_state=0).fit(digits[:400]).points_


def dense_Z(X, B, sigma):
    """Z (n, m) by definition."""
    Z = np.zeros((len(X), len(B)))
    for row, x in zip(Z, X, strict=True):
        squared = ((x - B) ** 2).sum(axis=1)
        near = np.argsort(squared, kind="stable")[:K]
        row[near] = np.exp(-squared[near] / sigma**2)
        row /= row.sum()
    return Z


def affinity(Z):
    """Â = Z Λ⁻¹ Zᵀ (n, n)."""
    return Z / Z.sum(axis=0) @ Z.T


@pytest.fixture(scope="module")
def fitted(digits, anchors):
    return AGH(8, base=anchors, n_neighbors=K).fit(digits[:400])


@pytest.fixture(scope="module")
def two_layers(digits, anchors):
    return AGH(16, base=anchors, n_neighbors=K, layers=2).fit(digits[:400])


@pytest.fixture(scope="module")
def Z(digits, anchors, fitted):
    return dense_Z(digits[:400], anchors, fitted.bandwidth_)


@pytest.fixture(scope="module")
def eigen(Z):
    """Eigenvalues (8,) and eigenvectors (n, 8) of Â by a dense solver, those near 1 left out."""
    values, vectors = np.linalg.eigh(affinity(Z))
    held = np.flatnonzero(values < 1 - 1e-3)[::-1][:8]
    return values[held], np.sqrt(400) * vectors[:, held]


def same_up_to_sign(A, B):
    return np.allclose(A, B * np.sign((A * B).sum(axis=0)), atol=1e-7)


def test_it_gives_the_eigenvectors_of_the_whole_affinity_found_by_a_dense_solver(digits, fitted, eigen):
    values, vectors = eigen
    assert np.allclose(fitted.eigenvalues_, values, atol=1e-10)
    assert same_up_to_sign(fitted.embed(digits[:400]), vectors)


def test_its_columns_are_balanced_and_uncorrelated_on_the_training_rows(digits, fitted):
    Y = fitted.embed(digits[:400])
    assert np.allclose(Y.sum(axis=0), 0, atol=1e-6)
    assert np.allclose(Y.T @ Y, 400 * np.eye(8), atol=1e-6)


def test_the_hash_function_is_the_nystrom_eigenfunction_of_its_affinity(digits, anchors, fitted, Z, eigen):
    """φ(x) = 1/σ Σ_i Â(x, x_i) y_i with Â(x, x_i) = z(x)ᵀ Λ⁻¹ z(x_i), on points never seen."""
    values, vectors = eigen
    unseen = dense_Z(digits[400:], anchors, fitted.bandwidth_)
    phi = unseen / Z.sum(axis=0) @ Z.T @ vectors / values
    assert same_up_to_sign(fitted.embed(digits[400:]), phi)


def test_the_gram_matrix_summed_over_blocks_is_that_of_all_rows_at_once(
    digits, anchors, fitted, Z, monkeypatch
):
    monkeypatch.setattr(numpy_backend, "block_rows", lambda width: 64)
    ZtZ = BaseGraph(anchors, K, fitted.bandwidth_).gram(LocalRows(digits[:400]))
    assert np.allclose(ZtZ, Z.T @ Z, atol=1e-10)
    assert np.allclose(ZtZ.sum(axis=1), Z.sum(axis=0))


@pytest.mark.usefixtures("seed_of_zero")
def test_rows_by_anchors_are_never_held(monkeypatch):
    monkeypatch.setattr(numpy_backend, "block_rows", lambda width: 256)
    monkeypatch.setattr("manihash.hashers._hasher.check_fitted", lambda *_: None)  # its sample has one size
    n, m = 20_000, 200
    X = np.random.default_rng(0).standard_normal((n, 3), np.float32)
    hasher = AGH(16, base=X[:m], n_neighbors=3, layers=2)
    tracemalloc.start()
    hasher.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * m * X.itemsize / 2


@pytest.mark.usefixtures("seed_of_zero")
def test_an_anchor_that_no_row_is_near_changes_nothing(digits, anchors, fitted):
    far = np.vstack([anchors, np.full((1, 64), 50.0)])
    hasher = AGH(8, base=far, n_neighbors=K).fit(digits[:400])
    assert np.allclose(hasher.embed(digits), fitted.embed(digits), atol=1e-7)


def test_the_thresholds_cut_the_graph_least_among_the_balanced_ones(digits, two_layers, Z):
    """A general solver of min fᵀ(I - Â)f with 1ᵀf = 0 finds the same b⁺ and b⁻."""
    L = np.eye(400) - affinity(Z)
    Y = two_layers.embed(digits[:400])[:, :8]
    for y, found in zip(Y.T, two_layers.thresholds_.T, strict=True):
        f = lambda b, y=y: np.where(y > 0, y - b[0], b[1] - y)  # noqa: E731
        best = minimize(
            lambda b, f=f: f(b) @ L @ f(b),
            [0.5, -0.5],
            constraints={"type": "eq", "fun": lambda b, f=f: f(b).mean()},
            options={"ftol": 1e-14},
        )
        assert np.allclose(found, best.x, atol=1e-3)
        assert f(found).mean() == pytest.approx(0, abs=1e-9)
        assert f(found) @ L @ f(found) <= best.fun * (1 + 1e-9)


def test_the_second_bit_says_on_which_side_of_its_halfs_threshold_a_value_lies(digits, two_layers):
    bits = two_layers.transform(digits).astype(bool)
    y = two_layers.embed(digits)[:, :8]
    above, below = two_layers.thresholds_
    assert np.array_equal(bits[:, :8], y > 0)
    assert np.array_equal(bits[:, 8:], np.where(y > 0, y > above, y < below))


def test_the_first_layer_of_two_is_the_layer_of_one(digits, fitted, two_layers):
    assert np.array_equal(two_layers.transform(digits)[:, :8], fitted.transform(digits))


@pytest.mark.usefixtures("seed_of_zero")
def test_of_an_odd_number_of_bits_the_first_layer_has_one_more(digits, anchors, two_layers):
    odd = AGH(13, base=anchors, n_neighbors=K, layers=2).fit(digits[:400])
    even = two_layers.transform(digits)
    assert np.array_equal(odd.transform(digits), even[:, [*range(7), *range(8, 14)]])


def test_pieces_of_a_graph_give_no_bits_of_their_own():
    """Two far clusters make the eigenvalue 1 twice; a bit that only tells them apart is left out."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    X[200:] += 100
    hasher = AGH(4, base=KMeansBase(20), n_neighbors=3, random_state=0).fit(X)
    assert (hasher.eigenvalues_ < 1 - 1e-3).all()
    assert np.allclose(hasher.embed(X)[:200].sum(axis=0), 0, atol=1e-6)


@pytest.mark.usefixtures("seed_of_zero")
def test_more_bits_than_anchors_give_is_an_error_that_says_how_many_there_are(digits):
    with pytest.raises(
        ValueError, match=r"30 eigenvectors are needed, but .* 20 base points has at most 19: lower n_bits"
    ):
        AGH(30, base=digits[:20]).fit(digits)
    assert AGH(30, base=digits[:20], layers=2).fit(digits).transform(digits[:3]).shape == (3, 30)


def test_three_layers_are_an_error(digits):
    with pytest.raises(ValueError, match="layers must be 1 or 2, not 3"):
        AGH(4, layers=3).fit(digits)


def mean_average_precision(hasher, X, X_query, y, y_query):
    hasher.fit(X)
    truth = LabelTruth(y_query, y)
    return evaluate(hasher.encode(X_query), hasher.encode(X), truth, hasher.n_bits).map


def test_on_digits_one_layer_beats_lsh_two_beat_one_and_one_falls_with_length():
    X, y = load_digits(return_X_y=True)
    split = X[200:], X[:200], y[200:], y[:200]
    base = KMeansBase(100)
    one = mean_average_precision(AGH(16, base, 3, normalize=True, random_state=0), *split)
    two = mean_average_precision(AGH(16, base, 3, layers=2, normalize=True, random_state=0), *split)
    longer = mean_average_precision(AGH(64, base, 3, normalize=True, random_state=0), *split)
    lsh = mean_average_precision(LSH(16, normalize=True, random_state=0), *split)
    assert one > lsh + 0.1
    assert two > one + 0.05
    assert longer < one - 0.05


def test_on_the_authors_mnist_centers_it_ranks_as_their_code_does(data_folder):
    centers = np.load(data_folder / "imh-golden" / "imh_golden.npz")["centres"]
    mnist = load_dataset("mnist")
    hasher = AGH(128, base=centers, layers=2, normalize=True).fit(mnist.X_train)
    queries, database = hasher.transform(mnist.X_test), hasher.transform(mnist.X_train)
    truth = LabelTruth(mnist.y_test, mnist.y_train)
    one_layer, two_layers = [*range(64)], [*range(128)]
    first_of_both = [*range(8), *range(64, 72)]
    for name, bits in (("agh", one_layer), ("agh2", first_of_both), ("agh2", two_layers)):
        found = evaluate(pack(queries[:, bits]), pack(database[:, bits]), truth, len(bits))
        assert found.map == pytest.approx(released_map(name, len(bits)), abs=0.002)
