"""Product quantizers: FAISS as an independent implementation, the same codes everywhere, and bad input."""

import copy
import os
import subprocess
import sys
import tracemalloc
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from manihash import load, unpack
from manihash.datasets import load_dataset
from manihash.errors import BadRowsError
from manihash.hashers import ITQ, CollapsedCodesWarning, ProductQuantizer
from manihash.hashers._codebooks import (
    codes_of_fields,
    fields_of_codes,
    learn_rotation,
    rotation_to_columns,
    start_rotation,
)

DIGITS = np.ascontiguousarray(load_digits().data / 16, np.float32)
QUANTIZERS = {
    "opq": ProductQuantizer(32, max_iter=5),
    "opq-unit-length": ProductQuantizer(24, max_iter=5, normalize=True),
    "opq-four-bits": ProductQuantizer(36, bits_per_field=4, max_iter=5),
    "pq": ProductQuantizer(32, rotation=False, max_iter=5),
    "pq-filled-up": ProductQuantizer(24, rotation=False, max_iter=5, normalize=True),
    "pq-four-bits": ProductQuantizer(20, bits_per_field=4, rotation=False, max_iter=5),
}
every = pytest.mark.parametrize("name", QUANTIZERS)


def fit(name, X):
    return clone(QUANTIZERS[name]).set_params(random_state=0).fit(X[:1200])


@cache
def _fitted(name, dtype):
    return fit(name, DIGITS.astype(dtype))


def fitted(name, dtype=np.float32):
    """A copy of a quantizer that is fitted once."""
    return copy.deepcopy(_fitted(name, dtype))


def relative_error(quantizer, X, mean):
    """Σ |x - x̂|² / Σ |x - mean|², where what the components leave out is part of the error."""
    Z = quantizer.embed(X)
    lost = np.square(X - mean).sum() - np.square(Z).sum()
    return (lost + np.square(Z - quantizer.reconstruct(quantizer.encode(X))).sum()) / np.square(
        X - mean
    ).sum()


def faiss_quantizer(faiss, quantizer):
    """FAISS's product quantizer with the codebooks of ours."""
    f, c, w = quantizer.codebooks_.shape
    theirs = faiss.ProductQuantizer(f * w, f, (c - 1).bit_length())
    faiss.copy_array_to_vector(quantizer.codebooks_.ravel(), theirs.centroids)
    return theirs


@every
def test_distances_and_codes_are_those_of_faiss_with_the_same_codebooks(name):
    faiss = pytest.importorskip("faiss")
    quantizer = fitted(name)
    theirs = faiss_quantizer(faiss, quantizer)
    Z, codes = quantizer.embed(DIGITS), quantizer.encode(DIGITS)
    if quantizer.bits_per_field == 8:
        assert (theirs.compute_codes(Z) != codes).mean() < 1e-3
        np.testing.assert_allclose(theirs.decode(codes), quantizer.reconstruct(codes))
    f, c, w = quantizer.codebooks_.shape
    index = faiss.IndexPQ(f * w, f, (c - 1).bit_length())
    index.pq, index.is_trained = theirs, True
    index.add(quantizer.reconstruct(codes))
    expected, ids = index.search(Z[:20], len(DIGITS))
    found = np.take_along_axis(quantizer.distances(DIGITS[:20], codes), ids, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@every
def test_distances_are_sums_of_table_entries(name):
    quantizer = fitted(name)
    codes = quantizer.encode(DIGITS[:300])
    Z = quantizer.embed(DIGITS[:7]).astype(np.float64)
    exact = np.square(Z[:, None] - quantizer.reconstruct(codes)).sum(axis=2)
    np.testing.assert_allclose(quantizer.distances(DIGITS[:7], codes), exact, rtol=1e-5, atol=1e-6)
    tables = quantizer.tables(DIGITS[:7])
    assert tables.shape == (7, *quantizer.codebooks_.shape[:2])
    assert np.array_equal(quantizer.tables(DIGITS[3:4]), tables[3:4])


def test_plain_quantization_loses_no_more_than_that_of_faiss():
    faiss = pytest.importorskip("faiss")
    ours = ProductQuantizer(64, bits_per_field=4, rotation=False, random_state=0).fit(DIGITS)
    theirs = faiss.ProductQuantizer(64, 16, 4)
    theirs.train(DIGITS)
    lost = np.square(DIGITS - theirs.decode(theirs.compute_codes(DIGITS))).sum()
    found = np.square(ours.embed(DIGITS) - ours.reconstruct(ours.encode(DIGITS))).sum()
    assert found < 1.02 * lost


def test_a_rotation_loses_no_more_than_that_of_faiss():
    faiss = pytest.importorskip("faiss")
    X = np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32) * np.geomspace(1, 0.05, 32)
    X = np.ascontiguousarray(X @ np.linalg.qr(np.random.default_rng(1).normal(size=(32, 32)))[0], np.float32)
    mean = X.mean(axis=0)
    rotation = faiss.OPQMatrix(32, 8)
    rotation.train(X - mean)
    T = rotation.apply(X - mean)
    theirs = faiss.ProductQuantizer(32, 8, 4)
    theirs.train(T)
    lost = np.square(T - theirs.decode(theirs.compute_codes(T))).sum() / np.square(X - mean).sum()
    ours = ProductQuantizer(32, bits_per_field=4, random_state=0).fit(X)
    plain = ProductQuantizer(32, bits_per_field=4, rotation=False, random_state=0).fit(X)
    assert relative_error(ours, X, mean) < 1.02 * lost
    assert relative_error(ours, X, mean) < 0.9 * relative_error(plain, X, mean)


def test_a_rotation_keeps_groups_of_neighboring_columns_together():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(4, 16, 8)) * np.array([4, 3, 2, 1])[:, None, None]  # 16 centers for 8 columns
    X = np.hstack([group[rng.integers(16, size=3000)] for group in centers])
    X = (X + rng.normal(scale=0.3, size=X.shape)).astype(np.float32)
    ours = ProductQuantizer(16, bits_per_field=4, random_state=0).fit(X)
    plain = ProductQuantizer(16, bits_per_field=4, rotation=False, random_state=0).fit(X)
    assert relative_error(ours, X, X.mean(axis=0)) < 1.02 * relative_error(plain, X, X.mean(axis=0))


@pytest.mark.parametrize("name", ["photo-sift1m", "mnist"])
def test_a_rotation_loses_less_than_the_columns_of_images(data_folder, name):
    X = np.ascontiguousarray(load_dataset(name).X_train[:4000], np.float32)
    errors = [
        relative_error(ProductQuantizer(64, rotation=on, random_state=0).fit(X), X, X.mean(axis=0))
        for on in (True, False)
    ]
    assert errors[0] < errors[1]


def test_a_rotation_to_groups_of_very_many_columns_takes_little_memory():
    P = np.linalg.qr(np.random.default_rng(0).normal(size=(40_000, 16)))[0].T  # squares of groups: 800 MB
    Z = np.random.default_rng(1).normal(size=(50, 16))
    tracemalloc.start()
    R = rotation_to_columns(Z, P, 4)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    np.testing.assert_allclose(R.T @ R, np.eye(16), atol=1e-12)


def test_the_directions_are_orthonormal_and_the_rows_centered():
    quantizer = fitted("opq")
    P = quantizer.projection_
    np.testing.assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-5)
    np.testing.assert_allclose(quantizer.embed(DIGITS[:1200]).mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(quantizer.embed(DIGITS), DIGITS @ P - quantizer.offset_, atol=1e-4)


def test_without_a_rotation_the_coordinates_are_the_columns():
    quantizer = fit("pq-filled-up", DIGITS + 1)
    unit = (DIGITS + 1) / np.linalg.norm(DIGITS + 1, axis=1, keepdims=True)
    unit = unit if quantizer.origin_ is None else unit - quantizer.origin_
    Z = quantizer.embed(DIGITS + 1)
    assert Z.shape[1] == 66
    np.testing.assert_allclose(Z[:, :64] + quantizer.offset_[:64], unit, atol=1e-6)
    assert not Z[:, 64:].any()


def test_columns_of_large_variance_are_spread_over_the_fields():
    Z = np.random.default_rng(0).normal(size=(500, 8)) * [8, 7, 6, 5, 1e-3, 1e-3, 1e-3, 0]
    columns = start_rotation(Z, 4).argmax(axis=0).reshape(4, 2)
    assert sorted(columns[:, 0]) == [0, 1, 2, 3]
    assert sorted(columns.ravel()) == list(range(8))


def test_more_rounds_lose_less():
    Z = (np.random.default_rng(0).normal(size=(2000, 16)) * np.geomspace(1, 0.1, 16)).astype(np.float32)

    def lost(rounds):
        R, books = learn_rotation(Z, np.eye(16), 4, 16, rounds, np.random.default_rng(0))
        np.testing.assert_allclose(R.T @ R, np.eye(16), atol=1e-12)
        T = (Z @ R).reshape(len(Z), 4, 1, 4)
        return np.square(T - books).sum(axis=3).min(axis=2).sum()

    assert lost(20) < lost(5) < lost(1)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_fields_are_groups_of_bits_in_the_order_of_packbits(bits):
    numbers = np.random.default_rng(0).integers(2**bits, size=(50, 5))
    codes = codes_of_fields(numbers, bits)
    assert np.array_equal(fields_of_codes(codes, 5, bits), numbers)
    text = ["".join(f"{number:0{bits}b}" for number in row) for row in numbers]
    assert ["".join(map(str, row)) for row in unpack(codes, 5 * bits)] == text


@every
def test_transform_gives_the_bits_of_the_codes(name):
    quantizer = fitted(name)
    codes, bits = quantizer.encode(DIGITS), quantizer.transform(DIGITS)
    assert np.array_equal(unpack(codes, quantizer.n_bits_), bits)
    assert quantizer.get_feature_names_out().shape == (quantizer.n_bits_,)


def exact_numbers(quantizer, x):
    """The nearest centers of a row that is not scaled, by fractions; ties go to the lower number."""
    z = [Fraction(float(value)) for value in x]
    b = [Fraction(float(value)) for value in quantizer.offset_]
    if quantizer.projection_ is None:
        z = [*z, *[Fraction(0)] * (len(b) - len(z))]
    else:
        columns = quantizer.projection_.T
        z = [sum(a * Fraction(float(p)) for a, p in zip(z, column, strict=True)) for column in columns]
    z = [a - c for a, c in zip(z, b, strict=True)]
    w = quantizer.codebooks_.shape[2]
    return [
        min(
            range(len(book)),
            key=lambda i: (
                sum((z[j * w + k] - Fraction(float(book[i, k]))) ** 2 for k in range(w)),
                i,
            ),
        )
        for j, book in enumerate(quantizer.codebooks_)
    ]


@pytest.mark.parametrize("rotation", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_those_of_exact_arithmetic(rotation, dtype):
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(dtype)
    quantizer = ProductQuantizer(8, bits_per_field=4, rotation=rotation, random_state=0).fit(X)
    book = quantizer.codebooks_
    book[:, 1::2] = book[:, ::2] + np.float32(1e-7)  # float32 cannot tell them apart
    expected = [exact_numbers(quantizer, x) for x in X[:30]]
    assert np.array_equal(fields_of_codes(quantizer.encode(X[:30]), 2, 4), expected)


def test_ties_go_to_the_lower_number():
    X = np.random.default_rng(0).integers(4, size=(300, 4)).astype(np.float32)
    quantizer = ProductQuantizer(8, bits_per_field=4, rotation=False, random_state=0).fit(X)
    quantizer.offset_ = np.zeros(4)
    grid = np.array([(a, b) for a in range(4) for b in range(4)], np.float32)
    quantizer.codebooks_ = np.stack([grid, grid[::-1]])
    rows = np.stack(np.meshgrid(*[np.arange(7) / 2] * 4), axis=-1).reshape(-1, 4).astype(np.float32)
    expected = [exact_numbers(quantizer, x) for x in rows]
    for size in (1, 40, len(rows)):
        assert np.array_equal(fields_of_codes(quantizer.encode(rows[:size]), 2, 4), expected[:size])


def test_the_first_of_equal_centers_is_chosen_without_computing_all_rows_again():
    quantizer = fitted("pq")
    quantizer.codebooks_[:, 128:] = quantizer.codebooks_[:, :128]
    assert fields_of_codes(quantizer.encode(DIGITS), 4, 8).max() < 128
    assert quantizer._row_map(np.dtype(np.float32)).repeated < 0.1 * len(DIGITS)


ENCODED = """
import sys, numpy as np, manihash
for name in sys.argv[1:]:
    np.save(name + ".npy", manihash.load(name + ".mhash").encode(np.load("rows.npy")))
"""


@pytest.mark.parametrize("kernel", ["Haswell", "Sandybridge", None])
def test_other_kernels_of_blas_give_the_same_codes(kernel, tmp_path):
    rows = np.concatenate([DIGITS, (DIGITS[1:] + DIGITS[:-1]) / 2])
    np.save(tmp_path / "rows.npy", rows)
    expected = {}
    for name in QUANTIZERS:
        quantizer = fitted(name)
        quantizer.save(tmp_path / f"{name}.mhash")
        expected[name] = quantizer.encode(rows)
    environment = os.environ | ({"OPENBLAS_CORETYPE": kernel} if kernel else {"OPENBLAS_NUM_THREADS": "2"})
    command = [sys.executable, "-c", ENCODED, *QUANTIZERS]
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    for name, codes in expected.items():
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), codes), name


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_and_coordinates_do_not_depend_on_the_batch(name, dtype):
    X = DIGITS.astype(dtype)
    quantizer = fitted(name, dtype)
    codes, Z = quantizer.encode(X), quantizer.embed(X)
    for size in range(1, 21):
        some = slice(100, 100 + size)
        assert np.array_equal(quantizer.encode(X[some]), codes[some])
        assert np.array_equal(quantizer.embed(X[some]), Z[some])


@every
def test_tensors_and_dask_arrays_have_the_same_codes(name):
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    quantizer = fitted(name)
    codes, bits = quantizer.encode(DIGITS), quantizer.transform(DIGITS)
    tensor = torch.as_tensor(DIGITS)
    assert np.array_equal(np.asarray(quantizer.encode(tensor)), codes)
    assert np.array_equal(np.asarray(quantizer.transform(tensor)), bits)
    np.testing.assert_allclose(np.asarray(quantizer.embed(tensor)), quantizer.embed(DIGITS), atol=1e-6)
    chunks = da.from_array(DIGITS, chunks=(500, 64))
    assert np.array_equal(quantizer.encode(chunks).compute(), codes)
    assert quantizer.embed(chunks).compute().shape == quantizer.embed(DIGITS).shape
    for rows in (torch.as_tensor(DIGITS[:1200]), da.from_array(DIGITS[:1200], chunks=(500, 64))):
        again = clone(quantizer).fit(rows)
        assert np.array_equal(again.encode(DIGITS), codes)


@every
def test_a_block_on_a_device_is_mapped_like_rows_of_the_cpu(name):
    torch = pytest.importorskip("torch")
    quantizer = fitted(name)
    rows = quantizer._rows_to_map(DIGITS.astype(np.float64)).take(np.arange(len(DIGITS)))
    block = torch.as_tensor(rows)
    assert np.array_equal(np.asarray(quantizer._map_tensor(block, "codes")), quantizer.encode(DIGITS))
    assert np.array_equal(np.asarray(quantizer._map_tensor(block, "bits")), quantizer.transform(DIGITS))


def test_the_seed_decides_and_the_number_of_threads_does_not():
    from threadpoolctl import threadpool_limits

    X = np.random.default_rng(0).normal(size=(5000, 24)).astype(np.float32)
    books = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            quantizer = ProductQuantizer(16, max_iter=3, random_state=0).fit(X)
        books.append(quantizer.codebooks_)
    assert np.array_equal(*books)
    other = ProductQuantizer(16, max_iter=3, random_state=1).fit(X)
    assert not np.array_equal(books[0], other.codebooks_)


@every
def test_a_loaded_quantizer_gives_the_same_codes(name, tmp_path):
    quantizer = fitted(name)
    quantizer.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    codes = loaded.encode(DIGITS)
    assert np.array_equal(codes, quantizer.encode(DIGITS))
    assert np.array_equal(loaded.distances(DIGITS[:3], codes), quantizer.distances(DIGITS[:3], codes))


@pytest.mark.parametrize("rotation", [True, False])
def test_drift_is_reported_for_other_rows_only(rotation):
    X = np.random.default_rng(0).normal(size=(6000, 16))
    quantizer = ProductQuantizer(16, rotation=rotation, max_iter=5, random_state=0).fit(X[:2000])
    alarms = [quantizer.drift(X[start : start + 200]).drifted for start in range(2000, 6000, 200)]
    assert sum(alarms) <= 1
    assert quantizer.drift(X[2000:2500] * 1.3).drifted
    assert quantizer.drift(X[2000:2500] + 0.5).drifted


def test_a_quantizer_is_neither_updated_nor_refitted():
    quantizer = fitted("opq")
    with pytest.raises(ValueError, match="cannot be updated"):
        quantizer.update(DIGITS)
    with pytest.raises(ValueError, match="cannot be refitted"):
        quantizer.refit(DIGITS)


def test_good_codes_give_no_warning_and_equal_codes_do():
    X = np.random.default_rng(0).normal(size=(3000, 32))
    X[:, 0] += 20 * np.random.default_rng(1).integers(8, size=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ProductQuantizer(32, random_state=0).fit(X).encode(X)
    poor = ProductQuantizer(2, bits_per_field=1, rotation=False, max_iter=1, random_state=0)
    with pytest.warns(CollapsedCodesWarning):
        poor.fit(X[:, ::-1]).encode(X[:, ::-1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bits": 12}, "n_bits=12 is not a multiple of bits_per_field=8: use n_bits=8 or 16"),
        ({"n_bits": 4}, "n_bits=4 is not a multiple of bits_per_field=8: use n_bits=8$"),
        ({"bits_per_field": 3}, "bits_per_field must be 8, 4, 2 or 1, not 3"),
        ({"rotation": "yes"}, "rotation must be true or false"),
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        ProductQuantizer(**options).fit(DIGITS)


def test_rows_that_cannot_be_quantized_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"256 centers.*n_samples = 100.*bits_per_field=4, which needs 16"):
        ProductQuantizer(16).fit(DIGITS[:100])
    with pytest.raises(ValueError, match=r"16 centers.*n_samples = 10.*another method"):
        ProductQuantizer(16, bits_per_field=4).fit(DIGITS[:10])
    with pytest.raises(ValueError, match=r"8 fields.*n_features = 5. Use at most n_bits=40"):
        ProductQuantizer(64).fit(DIGITS[:, :5])
    for rotation in (True, False):
        with pytest.raises(ValueError, match="all equal"):
            ProductQuantizer(16, rotation=rotation).fit(np.ones((300, 8)))
    bad = DIGITS.copy()
    bad[7, 3] = np.nan
    with pytest.raises(BadRowsError, match=r"NaN.*7"):
        ProductQuantizer(16).fit(bad)
    with pytest.raises(BadRowsError, match=r"NaN.*7"):
        fitted("opq").encode(bad)


def test_fields_of_constant_columns_are_named():
    X = np.random.default_rng(0).normal(size=(500, 16))
    X[:, :4] = 3
    with pytest.warns(UserWarning, match="all columns of 1 of 4 fields are constant"):
        quantizer = ProductQuantizer(16, bits_per_field=4, rotation=False, random_state=0).fit(X)
    assert not fields_of_codes(quantizer.encode(X), 4, 4)[:, 0].any()
    ProductQuantizer(16, bits_per_field=4, random_state=0).fit(X)  # components have no constant field


def test_codes_of_another_length_are_refused():
    quantizer = fitted("opq")
    with pytest.raises(ValueError, match="codes"):
        quantizer.reconstruct(np.zeros((3, 5), np.uint8))
    with pytest.raises(ValueError, match="codes"):
        quantizer.distances(DIGITS[:2], np.zeros((3, 5), np.uint8))


def test_euclidean_neighbors_are_found_better_than_by_signs():
    X = DIGITS
    squared = np.square(X[:200, None] - X).sum(axis=2)
    nearest = np.argsort(squared, axis=1)[:, 1:11]

    def recall(distances):
        found = np.argsort(distances, axis=1, kind="stable")[:, :11]
        return np.mean([len(set(a) & set(b)) / 10 for a, b in zip(nearest, found, strict=True)])

    quantizer = ProductQuantizer(32, random_state=0).fit(X)
    bits = ITQ(32, random_state=0).fit(X).transform(X).astype(int)
    hamming = (bits[:200, None] != bits).sum(axis=2)
    assert recall(quantizer.distances(X[:200], quantizer.encode(X))) > recall(hamming) + 0.1


@pytest.mark.parametrize("scale", [1e-25, 1e17])
def test_distances_that_float32_cannot_hold_are_refused(scale):
    X = (np.random.default_rng(0).normal(size=(1500, 12)) * scale).astype(np.float32)
    quantizer = ProductQuantizer(16, max_iter=3, random_state=0).fit(X)
    codes = quantizer.encode(X)
    assert len(np.unique(codes, axis=0)) > 1000
    with pytest.raises(ValueError, match="scale the vectors"):
        quantizer.distances(X[:2], codes)


@pytest.mark.parametrize("rotation", [True, False])
@pytest.mark.parametrize("scale", [1e-50, 1e-35, 1e38, 1e100])
def test_rows_whose_centers_float32_cannot_hold_are_refused(scale, rotation):
    X = np.random.default_rng(0).normal(size=(300, 12)) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"coordinates of about .* scale the vectors"):
            ProductQuantizer(16, rotation=rotation, max_iter=3).fit(X)


def test_few_rows_are_computed_again_if_most_rows_of_a_field_are_equal():
    X = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    X[20:, :4] = 0.1
    quantizer = ProductQuantizer(16, rotation=False, max_iter=5, random_state=0).fit(X)
    quantizer.encode(X)
    assert quantizer._row_map(np.dtype(np.float32)).repeated < 0.1 * len(X)


@pytest.mark.parametrize("rotation", [True, False])
def test_float32_decides_rows_that_have_few_different_values(rotation):
    """Without one center for all that differ only by rounding, float32 decides none of these rows."""
    rng = np.random.default_rng(0)
    X = np.eye(8, dtype=np.float32)[rng.integers(0, 8, (3000, 6))].reshape(3000, 48)
    quantizer = ProductQuantizer(48, rotation=rotation, max_iter=4, random_state=0).fit(X)
    codes = quantizer.encode(X)
    assert quantizer._row_map(np.dtype(np.float32)).repeated < 0.01 * len(X)
    for book in quantizer.codebooks_.astype(np.float64):
        distinct = np.unique(book, axis=0)
        apart = np.sqrt(np.square(distinct[:, None] - distinct).sum(axis=2))
        assert np.sort(apart, axis=1)[:, 1].min() > 1e-4
    assert len(np.unique(codes, axis=0)) == len(np.unique(X, axis=0))
    np.testing.assert_allclose(quantizer.reconstruct(codes), quantizer.embed(X), atol=1e-5)
