"""Rows far from zero, very small rows, wide integers: the bits do not depend on the type of the rows."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from manihash import IMH, Hybrid, load
from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.errors import BadRowsError
from manihash.hashers import (
    AGH,
    BRE,
    E2LSH,
    ITQ,
    KLSH,
    KSH,
    LSH,
    PCAH,
    RMMH,
    SH,
    SKLSH,
    SSH,
    STH,
    LDAHash,
    MahalanobisLSH,
    ProductQuantizer,
    SignQuantizer,
    SpH,
    SupervisedIMH,
    rmmh,
)
from manihash.search import LSHTables

CLASSES = np.arange(300) % 5
HASHERS = [
    *(method(8, random_state=0) for method in (BRE, E2LSH, ITQ, KSH, LDAHash, LSH, MahalanobisLSH, PCAH)),
    *(method(8, random_state=0) for method in (SH, SKLSH, SSH, SignQuantizer, SpH)),
    *(method(8, kernel=name, random_state=0) for method in (KLSH, RMMH) for name in ("rbf", "linear")),
    *(ProductQuantizer(8, bits_per_field=4, rotation=turned, random_state=0) for turned in (True, False)),
    AGH(8, base=KMeansBase(40), random_state=0),
    IMH(8, base=KMeansBase(40), embedding=PCA(), random_state=0),
    SupervisedIMH(8, base=KMeansBase(40), embedding=PCA(), random_state=0),
    Hybrid(IMH(8, base=KMeansBase(40), embedding=PCA(), normalize=True), PCAH(8), random_state=0),
]
UNCENTERED = [
    LSH(8, center=False, random_state=0),
    MahalanobisLSH(8, center=False, random_state=0),
    SignQuantizer(8, center=False, random_state=0),
    STH(8, n_neighbors=5, random_state=0),
    KLSH(8, kernel=lambda X, Z: (X @ Z.T) ** 2, random_state=0),
]


def classes_of_rows(offset: float = 0.0, scale: float = 1.0) -> np.ndarray:
    """300 rows (300, 12) in five clusters, whose values are those of float32."""
    rng = np.random.default_rng(0)
    X = 2 * rng.standard_normal((5, 12))[CLASSES] + rng.standard_normal((300, 12))
    return ((X + offset) * scale).astype(np.float32)


@pytest.mark.cases(30)
@pytest.mark.parametrize("hasher", HASHERS, ids=repr)
@pytest.mark.parametrize(
    ("offset", "scale"), [(1e4, 1.0), (1e6, 1.0), (0.0, 1e-25), (1e3, 1e-28), (0.0, 1e15)]
)
def test_float32_and_float64_rows_have_the_same_bits(hasher, offset, scale):
    X = classes_of_rows(offset, scale)
    hasher.fit(X, CLASSES)
    bits = hasher.transform(X)
    assert len(np.unique(bits, axis=0)) > 4
    assert np.mean(bits != hasher.transform(X.astype(np.float64))) < 1e-3


@pytest.mark.parametrize("hasher", HASHERS, ids=repr)
def test_an_offset_does_not_change_the_number_of_distinct_codes(hasher):
    near = np.round(64 * classes_of_rows())
    far = near + np.float32(2**16)
    assert np.array_equal(near, far - np.float32(2**16))
    counts = [len(np.unique(hasher.fit(Z, CLASSES).encode(Z), axis=0)) for Z in (near, far)]
    assert counts[1] > 0.5 * counts[0]


@pytest.mark.parametrize("hasher", UNCENTERED, ids=lambda hasher: type(hasher).__name__)
def test_methods_that_depend_on_the_origin_compute_far_rows_in_float64(hasher):
    X = classes_of_rows(1e4)
    assert hasher.fit(X).in_float64_
    assert hasher.origin_ is None
    assert np.array_equal(hasher.encode(X), hasher.encode(X.astype(np.float64)))


def test_a_loaded_model_still_computes_faint_rows_in_float64(tmp_path):
    X = classes_of_rows(scale=1e-25)
    hasher = SpH(8, random_state=0).fit(X)
    hasher.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").encode(X), hasher.encode(X))
    assert not SpH(8, random_state=0).fit(X.astype(np.float64) * 1e25).in_float64_


def test_rows_whose_differences_underflow_float64_are_refused():
    with pytest.raises(BadRowsError, match="scale the vectors up"):
        LSH(8).fit(classes_of_rows().astype(np.float64) * 1e-140)


@pytest.mark.parametrize("hasher", [SpH(8, random_state=0), KSH(8, random_state=0), PCAH(8)], ids=repr)
@pytest.mark.parametrize("given", [np.int64, np.uint64, np.int32, np.longdouble])
def test_wide_types_have_the_codes_of_float64(hasher, given):
    X = np.round(1000 * classes_of_rows().astype(np.float64)) + 2**30
    expected = hasher.fit(X, CLASSES).encode(X)
    assert np.array_equal(hasher.fit(X.astype(given), CLASSES).encode(X.astype(given)), expected)
    assert len(np.unique(expected, axis=0)) > 4


def test_tables_of_lsh_find_the_same_rows_far_from_zero():
    X = np.round(16 * classes_of_rows())
    near, far = (LSHTables(6, 4, random_state=0).fit(Z) for Z in (X, X + 2**16))
    assert np.mean(near.distances(X[:9]) != far.distances(X[:9] + 2**16)) < 0.01


def test_an_svm_of_rmmh_that_does_not_converge_is_an_error(monkeypatch):
    monkeypatch.setattr(rmmh, "_MAX_ITER", 1)
    with pytest.raises(ValueError, match="did not converge in 1 iterations: lower C"):
        RMMH(4, random_state=0).fit(classes_of_rows())


@pytest.mark.parametrize(
    "hasher",
    [PCAH(40), ITQ(40, random_state=0), SH(40), AGH(40, base=KMeansBase(60), random_state=0), KLSH(40)],
    ids=repr,
)
def test_equal_eigenvalues_give_the_same_codes_on_any_number_of_threads(hasher):
    X = np.repeat(np.eye(200), 2, axis=0)
    codes = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            codes.append(hasher.set_params(random_state=0).fit(X).encode(X))
    assert np.array_equal(codes[0], codes[1])
    assert np.array_equal(codes[0], codes[2])
