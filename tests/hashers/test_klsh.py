"""Kernelized LSH against its paper: hyperplanes of equal variance in the span, angles, the formula."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import EuclideanTruth
from manihash.files.model import load
from manihash.hashers.klsh import KLSH, centered, inverse_root, subsets
from manihash.hashers.lsh import LSH

BITS = 20_000


@pytest.fixture(scope="module")
def X():
    return load_digits().data


@pytest.fixture(scope="module")
def cloud():
    """Points in 4 dimensions, stretched and off the origin."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((200, 4)) * [1, 2, 4, 8] + 3


def angles(inner):
    """Angles (n, n) from inner products."""
    length = np.sqrt(np.diag(inner))
    return np.arccos(np.clip(inner / np.outer(length, length), -1, 1))


def share_of_differing_bits(bits):
    signs = 2.0 * bits - 1
    return (1 - signs @ signs.T / bits.shape[1]) / 2


def test_linear_hyperplanes_have_equal_variance_in_all_directions(cloud):
    normals = KLSH(BITS, kernel="linear", n_train=200, n_summed=50, random_state=0).fit(cloud).weights_
    covariance = normals @ normals.T / BITS
    assert np.allclose(covariance / (np.trace(covariance) / 4), np.eye(4), atol=0.05)


def test_bits_of_the_linear_kernel_differ_as_those_of_lsh_do(cloud):
    kernelized = KLSH(BITS, kernel="linear", n_train=200, n_summed=50, random_state=0).fit(cloud)
    plain = LSH(BITS, random_state=0).fit(cloud)
    Z = cloud[:40] - cloud.mean(axis=0)
    ours, lsh = (share_of_differing_bits(hasher.transform(cloud[:40])) for hasher in (kernelized, plain))
    assert np.abs(ours - angles(Z @ Z.T) / np.pi).max() < 0.03
    assert np.abs(ours - lsh).max() < 0.03


def test_bits_of_a_kernel_differ_by_the_angle_in_its_centered_space(cloud):
    hasher = KLSH(BITS, gamma=0.02, n_train=200, n_summed=50, random_state=0).fit(cloud)
    K = rbf_kernel(cloud, gamma=0.02)
    H = np.eye(200) - 1 / 200
    expected = angles(H @ K @ H)[:40, :40] / np.pi
    assert np.abs(share_of_differing_bits(hasher.transform(cloud[:40])) - expected).max() < 0.03


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_real_values_are_the_papers_sum_over_the_centered_kernel(X, kernel):
    """All rows are the sample, so e_S and K are known; centering of the query's kernel is written out."""
    train, queries = X[:60], X[60:90]
    hasher = KLSH(9, kernel=kernel, n_train=60, n_summed=7, normalize=False, random_state=3).fit(train)
    rng = np.random.default_rng(3)
    Z = train[rng.choice(60, 60, replace=False)]
    e_S = subsets(60, 7, 9, rng)
    if kernel == "rbf":
        K, k = (rbf_kernel(A, Z, gamma=hasher.gamma_) for A in (Z, queries))
    else:
        K, k = Z @ Z.T, queries @ Z.T
    W = np.linalg.pinv(centered(K), hermitian=True, rcond=1e-10)
    values, vectors = np.linalg.eigh(W)
    W = vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T @ e_S
    tilde = k - k.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    assert np.allclose(hasher.embed(queries), tilde @ W, atol=1e-6)


def test_the_inverse_root_of_a_centered_kernel_removes_the_constant(X):
    K = centered(rbf_kernel(X[:80], gamma=0.001))
    root = inverse_root(K)
    assert np.allclose(root @ K @ root, np.eye(80) - 1 / 80, atol=1e-6)
    assert np.allclose(root.sum(axis=0), 0, atol=1e-6)


def test_each_subset_has_the_given_size():
    e_S = subsets(12, 5, 300, np.random.default_rng(0))
    assert np.all(e_S.sum(axis=0) == 5)
    assert np.abs(e_S.mean(axis=1) - 5 / 12).max() < 0.15


def test_a_function_that_is_the_linear_kernel_gives_the_same_codes(X):
    named = KLSH(13, kernel="linear", random_state=0).fit(X)
    function = KLSH(13, kernel=lambda A, Z: A @ Z.T, random_state=0).fit(X)
    assert named.points_ is None
    assert function.points_.shape == (300, 64)
    assert np.mean(named.transform(X) == function.transform(X)) > 0.999


def test_any_kernel_function_works(X):
    hasher = KLSH(16, kernel=lambda A, Z: polynomial_kernel(A, Z, degree=2), random_state=0).fit(X)
    assert 0.2 < hasher.transform(X).mean() < 0.8


def test_a_model_file_without_its_kernel_function_says_how_to_set_it(X, tmp_path):
    hasher = KLSH(4, kernel=lambda A, Z: A @ Z.T, random_state=0).fit(X)
    codes, function = hasher.encode(X), hasher.kernel
    hasher.save(tmp_path / "model.mhash")
    hasher = load(tmp_path / "model.mhash")
    with pytest.raises(ValueError, match=r"set it again with set_params\(kernel="):
        hasher.encode(X)
    assert np.array_equal(hasher.set_params(kernel=function).encode(X), codes)


def test_subsets_are_limited_to_half_of_the_sample(X):
    bits = KLSH(8, n_train=20, n_summed=1000, random_state=0).fit(X).transform(X)
    assert np.all((bits.mean(axis=0) > 0) & (bits.mean(axis=0) < 1))


def test_codes_find_euclidean_neighbors_in_digits(X):
    truth = EuclideanTruth(X[:200], X[200:])
    hasher = KLSH(256, random_state=0).fit(X[200:])
    assert evaluate(hasher.encode(X[:200]), hasher.encode(X[200:]), truth, 256).map > 0.5


@pytest.mark.usefixtures("seed_of_zero")
def test_a_kernel_of_the_wrong_shape_raises_an_error(X):
    with pytest.raises(ValueError, match=r"the kernel returned an array of shape \(300, 64\)"):
        KLSH(4, kernel=lambda A, Z: A).fit(X)


@pytest.mark.parametrize("options", [{"kernel": "cubic"}, {"gamma": -1}, {"n_train": 1}, {"n_summed": 0}])
def test_options_out_of_range_raise_an_error(X, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        KLSH(4, **options).fit(X)
