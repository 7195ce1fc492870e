"""Codes are those of exact arithmetic on the stored model, in any batch and with any kernels of BLAS."""

import os
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import IMH, Hybrid, InductiveEmbedding
from manihash.base import CoarseNeighbors, KMeansBase, LargeBase, ListedNeighbors, RandomBase, ReducedBase
from manihash.embeddings import PCA
from manihash.errors import BadRowsError
from manihash.hashers import AGH, ITQ, LSH

DIGITS = 60


@pytest.fixture(scope="module")
def digits():
    return np.ascontiguousarray(load_digits().data / 16, np.float32)


def fractions(values):
    return [Fraction(float(value)) for value in values]


def prepared(model, x):
    """The row x as the model prepares it, in exact arithmetic."""
    z = fractions(x)
    if model.normalize_:
        with localcontext() as context:
            context.prec = DIGITS
            squared = sum(value * value for value in z)
            length = (Decimal(squared.numerator) / Decimal(squared.denominator)).sqrt()
            z = [value / Fraction(length) for value in z] if length else z
    if model.origin_ is not None:
        z = [value - o for value, o in zip(z, fractions(model.origin_), strict=True)]
    return z


def induced(model, x):
    """The values y_j of a row, by fractions; ties between base points go to the lower index."""
    z = prepared(model, x)
    squared = [
        sum((a - Fraction(float(b))) ** 2 for a, b in zip(z, point, strict=True))
        for point in model.base_points_
    ]
    nearest = sorted(range(len(squared)), key=lambda j: (squared[j], j))[: model.n_neighbors_]
    with localcontext() as context:
        context.prec = DIGITS
        exponents = [(squared[nearest[0]] - squared[j]) / Fraction(model.bandwidth_) ** 2 for j in nearest]
        w = [(Decimal(e.numerator) / Decimal(e.denominator)).exp() for e in exponents]
        Y = getattr(model, model._base_values)
        return [
            sum(a * Decimal(float(Y[j, bit])) for a, j in zip(w, nearest, strict=True)) / sum(w)
            for bit in range(Y.shape[1])
        ]


def assert_exact(model, X):
    """Bits are those of exact arithmetic, and values agree to float64 rounding (float32 rows: to float32)."""
    Y = np.array([[float(value) for value in induced(model, x)] for x in X])
    assert np.array_equal(model.transform(X), Y > 0)
    assert np.allclose(model.embed(X), Y, rtol=1e-6, atol=1e-12 * np.abs(Y).max() + 1e-300)


def model_of(B, k=3, sigma=1.0, normalize=False, seed=0):
    """An IMH with given base points, and values at them that are far from rounding errors of each other."""
    rng = np.random.default_rng(seed)
    B = np.asarray(B)
    hasher = IMH(8, base=B, embedding=PCA(), n_neighbors=k, bandwidth=sigma, normalize=normalize)
    hasher.normalize_, hasher.origin_, hasher.finder_ = normalize, None, None
    hasher.base_points_, hasher.n_neighbors_, hasher.bandwidth_ = B, k, sigma
    hasher.base_embedding_ = rng.standard_normal((len(B), 8))
    hasher.n_bits_, hasher.n_features_in_ = 8, B.shape[1]
    return hasher


def normal(n, d, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("k", [1, 3, 12])
def test_codes_are_those_of_exact_arithmetic(k, normalize, dtype):
    assert_exact(model_of(normal(12, 5, dtype), k, normalize=normalize), normal(20, 5, dtype, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_between_base_points_go_to_the_lower_index(dtype):
    grid = np.array([(a, b) for a in range(4) for b in range(4)], dtype)
    assert_exact(model_of(grid, 3), np.array([(a / 2, b / 2) for a in range(7) for b in range(7)], dtype))
    assert_exact(model_of(grid[::-1].copy(), 5), grid + dtype(0.5))


def test_equal_base_points_are_chosen_by_index():
    B = np.repeat(normal(4, 3), 3, axis=0)
    assert_exact(model_of(B, 4), normal(10, 3, seed=2))
    assert_exact(model_of(np.ones((6, 3), np.float32), 2), normal(10, 3, seed=2))


def test_a_base_point_nearer_than_the_rounding_of_float32_is_chosen():
    B = normal(8, 4).astype(np.float64)
    B[1::2] = B[::2] + 1e-11 * normal(4, 4, np.float64, 3)
    X = normal(30, 4, seed=2)
    assert_exact(model_of(B, 1), X)
    assert_exact(model_of(B, 3), X)


@pytest.mark.parametrize("scale", [1e-42, 1e-38, 1e-30, 1e-20, 1e15])
@pytest.mark.parametrize("normalize", [False, True])
def test_very_small_and_very_large_rows_have_the_codes_of_exact_arithmetic(scale, normalize):
    X = (normal(10, 4, seed=2) * np.float32(scale)).astype(np.float32)
    B = normal(10, 4) if normalize else X[:6].astype(np.float64) * 1.5
    assert_exact(model_of(B, 3, 1.0 if normalize else scale, normalize=normalize), X)


def test_constant_and_zero_rows_have_the_codes_of_exact_arithmetic():
    X = np.array([np.full(50, value) for value in (0, 0.1, 1 / 3, 1, 7, 1e5)], np.float32)
    B = np.concatenate([np.full((3, 50), 0.1), normal(9, 50)]).astype(np.float32)
    for normalize in (False, True):
        assert_exact(model_of(B, 3, 5.0, normalize=normalize), X)


@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (np.inf, "infinity"), (1e30, "overflow")])
@pytest.mark.parametrize("n", [6, 300])
def test_a_row_that_cannot_be_computed_is_named(value, message, n):
    X = normal(n, 5)
    X[4, 2] = value
    with pytest.raises(BadRowsError, match=rf"{message}.*4"):
        model_of(normal(12, 5)).encode(X)
    far = model_of(normal(12, 5)).encode(np.where(np.isfinite(X), X, 1e30).astype(np.float64))
    assert far.shape == (n, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_bits_are_those_of_exact_arithmetic(dtype):
    X = normal(40, 6, dtype)
    for normalize in (False, True):
        hasher = LSH(5, normalize=normalize, random_state=0).fit(X)
        hasher.offset_ = hasher.offset_.copy()
        hasher.offset_[0] = float(Fraction(0))
        hasher.offset_[1] = X[7].astype(float) @ hasher.projection_[:, 1]  # row 7 lies on the border
        for x, bits in zip(X, hasher.transform(X), strict=True):
            z = prepared(hasher, x)
            exact = [
                sum(a * p for a, p in zip(z, fractions(column), strict=True)) - Fraction(float(b))
                for column, b in zip(hasher.projection_.T, hasher.offset_, strict=True)
            ]
            sure = [abs(value) > 1e-14 for value in exact]
            assert np.array_equal(bits[sure], (np.array(exact) > 0)[sure])


FITTED = {
    "imh": IMH(32, base=KMeansBase(60), embedding=PCA(), normalize=True, random_state=0),
    "k = m": IMH(16, base=RandomBase(20), embedding=PCA(), n_neighbors=20, random_state=0),
    "cells": IMH(16, LargeBase(200, CoarseNeighbors(3)), PCA(), normalize=True, random_state=0),
    "lists": IMH(16, LargeBase(200, ListedNeighbors()), PCA(), normalize=True, random_state=0),
    "reduced": IMH(16, ReducedBase(LargeBase(200), 20), PCA(), normalize=True, random_state=0),
    "reduced k-means": IMH(16, ReducedBase(KMeansBase(50), 20), PCA(), random_state=0),
    "agh": AGH(16, KMeansBase(60), random_state=0),
    "agh2": AGH(15, KMeansBase(60), layers=2, random_state=0),
    "itq": ITQ(32, normalize=True, random_state=0),
    "hybrid": Hybrid(IMH(16, KMeansBase(60), PCA()), ITQ(16), normalize=True, random_state=0),
}


@pytest.mark.cases(8)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FITTED)
def test_codes_bits_and_values_of_a_row_are_the_same_in_every_batch(digits, name, dtype):
    X = digits.astype(dtype)
    hasher = FITTED[name].fit(X)
    whole = [f(X) for f in (hasher.encode, hasher.transform, hasher.embed)]
    assert np.array_equal(np.packbits(whole[1], axis=1), whole[0])
    assert np.array_equal(whole[2] > 0, whole[1])
    for size in (1, 7, 65, 300):
        for start in (0, 400, 1797 - size):
            part = slice(start, start + size)
            for f, expected in zip((hasher.encode, hasher.transform, hasher.embed), whole, strict=True):
                assert np.array_equal(f(X[part]), expected[part]), (size, start)


@pytest.mark.parametrize("name", FITTED)
def test_float32_rows_have_the_bits_of_float64_rows(digits, name):
    hasher = FITTED[name].fit(digits)
    assert np.array_equal(hasher.transform(digits), hasher.transform(digits.astype(np.float64)))


def test_a_map_is_kept_until_the_model_changes(digits):
    hasher = IMH(8, KMeansBase(30), PCA(), random_state=0).fit(digits)
    before = hasher.encode(digits)
    kept = hasher._row_map(np.dtype(np.float32))
    assert hasher._row_map(np.dtype(np.float32)) is kept
    assert all(value is not kept for value in vars(hasher).values())
    hasher.base_embedding_ = -hasher.base_embedding_
    assert hasher._row_map(np.dtype(np.float32)) is not kept
    assert np.array_equal(hasher.encode(digits), ~before)
    assert np.array_equal(hasher.fit(digits).encode(digits), before)


def test_the_log_says_how_many_rows_were_computed_again(digits, caplog):
    hasher = FITTED["imh"].fit(digits)
    with caplog.at_level("INFO", "manihash.rows.mapping"):
        hasher.encode(np.concatenate([digits, np.zeros((3, 64), np.float32)]))
    (message,) = (record.getMessage() for record in caplog.records)
    repeated, rows = (int(word) for word in message.split() if word.isdigit())
    assert rows == 1800
    assert 3 <= repeated < 300


def test_an_embedding_in_a_subclass_replaces_the_map(digits):
    class Negated(IMH):
        def _embed(self, X):
            return -super()._embed(X)

    hasher = Negated(8, KMeansBase(30), PCA(), random_state=0).fit(digits)
    other = IMH(8, KMeansBase(30), PCA(), random_state=0).fit(digits)
    assert np.array_equal(hasher.transform(digits), 1 - other.transform(digits))


def test_coordinates_of_new_points_are_those_of_exact_arithmetic(digits):
    model = InductiveEmbedding(2, KMeansBase(40), PCA(), random_state=0).fit(digits)
    model.normalize_ = False
    exact = np.array([[float(value) for value in induced(model, x)] for x in digits[:5]])
    assert np.allclose(model.transform(digits[:5]), exact, rtol=1e-6)


SCRIPT = """
import sys
import numpy as np
from threadpoolctl import threadpool_limits
from manihash import load
folder, threads = sys.argv[1], int(sys.argv[2])
X = np.load(folder + "/X.npy")
with threadpool_limits(threads, user_api="blas"):
    for name in sys.argv[3:]:
        hasher, expected = load(f"{folder}/{name}.mhash"), np.load(f"{folder}/{name}.npy")
        for size in (1, 7, 2048, len(X)):
            count = min(len(X), 40 * size)
            found = np.concatenate([hasher.encode(X[a : a + size]) for a in range(0, count, size)])
            assert np.array_equal(found, expected[: len(found)]), (name, size)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with models, rows of many values that are hard to decide, and their codes."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((2500, 300))).astype(np.float32)
    np.save(folder / "X.npy", X)
    hashers = {
        "imh": IMH(64, base=KMeansBase(100, max_iter=2), embedding=PCA(), normalize=True, random_state=0),
        "cells": IMH(32, ReducedBase(LargeBase(200), 32), PCA(), normalize=True, random_state=0),
        "agh": AGH(32, KMeansBase(100, max_iter=2), random_state=0),
        "itq": ITQ(64, random_state=0),
    }
    for name, hasher in hashers.items():
        hasher.fit(X).save(folder / f"{name}.mhash")
        np.save(folder / f"{name}.npy", hasher.encode(X))
    return folder, list(hashers)


@pytest.mark.parametrize(("kernels", "threads"), [("Haswell", 1), ("Sandybridge", 2), ("", 2)])
def test_kernels_of_blas_threads_and_batches_do_not_change_a_bit(models, kernels, threads):
    folder, names = models
    chosen = {"OPENBLAS_CORETYPE": kernels} if kernels else {}
    command = [sys.executable, "-c", SCRIPT, str(folder), str(threads), *names]
    done = subprocess.run(command, env=os.environ | chosen, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_more_base_points_than_a_block_of_scores_holds_whole_rows():
    rng = np.random.default_rng(0)
    X, B = rng.random((2_000, 5)).astype(np.float32), rng.random((3_000, 5)).astype(np.float32)
    hasher = IMH(5, base=B, embedding=PCA(), n_neighbors=3, random_state=0).fit(X)
    assert np.array_equal(hasher.encode(X), hasher.encode(X.astype(np.float64)))
