"""Bad input: each kind gives a message that says what came, what was wanted and what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from manihash import IMH, InductiveEmbedding
from manihash.base import KMeansBase, RandomBase
from manihash.embeddings import LLE, PCA, TSNE, DiffusionMaps, Isomap, LaplacianEigenmaps, RelaxedLE
from manihash.rotation import ITQRotation

X = load_digits().data[:300]


def hasher(**options):
    return IMH(**{"n_bits": 4, "base": KMeansBase(20), "embedding": PCA(), "random_state": 0, **options})


def with_value(value, row=123):
    bad = X.copy()
    bad[row, 5] = value
    return bad


FIT = {
    "NaN": (with_value(np.nan), "contains NaN: the first such row is 123. Remove these rows"),
    "infinity": (with_value(np.inf), "contains infinity.*row is 123"),
    "minus infinity": (with_value(-np.inf), "contains infinity.*row is 123"),
    "NaN in float32": (with_value(np.nan).astype(np.float32), "contains NaN.*row is 123"),
    "no rows": (X[:0], r"0 sample\(s\).*Give at least two rows to fit"),
    "no columns": (X[:, :0], r"0 feature\(s\)"),
    "nothing": (np.array([]), "Expected 2D array.*[Rr]eshape"),
    "one row": (X[:1], r"1 sample\(s\).*minimum of 2 is required.*Give at least two rows"),
    "one vector": (X[0], r"one row per vector, got 1D array of shape \(64,\). Reshape your data: X\[:1\]"),
    "a cube": (np.zeros((5, 4, 3)), "dim 3"),
    "a number": (3.0, "Expected 2D array, got scalar"),
    "complex numbers": (X + 1j, "Complex data not supported.*Give real numbers"),
    "text": (X.astype(str), "X holds text: give one vector of numbers per row"),
    "words": ([["a", "b"], ["c", "d"]], "X holds text: give one vector of numbers per row"),
    "texts": (["a text", "another text"], "X holds text: give one vector of numbers per row"),
    "a column of text": (np.array([["a", 1], ["b", 2]], object), "could not convert.*leave out columns"),
    "dates": (np.zeros((30, 3), "M8[s]"), r"datetime64\[s\]: give real numbers"),
    "durations": (np.zeros((30, 3), "m8[s]"), r"timedelta64\[s\]: give real numbers"),
    "rows of unequal length": ([[1, 2], [3]], "inhomogeneous|sequence"),
    "fewer rows than base points": (
        X[:10],
        "20 points needs at least 20 rows, got n_samples = 10: give more rows, or a smaller base",
    ),
    "huge values in float32": (np.full((30, 2), 1e20, np.float32), "overflow float32.*scale.*float64"),
}


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(("rows", "message"), FIT.values(), ids=FIT.keys())
def test_fit_names_what_is_wrong_with_the_rows(rows, message):
    for model in (hasher(), InductiveEmbedding(4, KMeansBase(20), PCA())):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            model.fit(rows)


ENCODE = {
    "NaN": (with_value(np.nan), "contains NaN: the first such row is 123"),
    "infinity": (with_value(np.inf), "contains infinity.*row is 123"),
    "no rows": (X[:0], r"0 sample\(s\).*Give at least one row"),
    "too narrow": (X[:, :10], "10 features, but IMH is expecting 64 features.*Give vectors of the width"),
    "too wide": (np.hstack([X, X]), "128 features, but IMH is expecting 64"),
    "one vector": (X[0], r"got 1D array of shape \(64,\). Reshape your data: X\[:1\] or X\[0\]\[None\]"),
    "a list of numbers": (X[0].tolist(), r"got 1D array of shape \(64,\). Reshape your data"),
    "complex numbers": (X + 1j, "Complex data not supported"),
    "text": (X.astype(str), "X holds text"),
    "dates": (np.zeros((30, 64), "M8[s]"), "give real numbers"),
}


@pytest.mark.parametrize(("rows", "message"), ENCODE.values(), ids=ENCODE.keys())
def test_encode_names_what_is_wrong_with_the_rows(rows, message):
    model = hasher().fit(X)
    for method in (model.encode, model.transform, model.embed):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            method(rows)


def test_objects_that_are_no_numbers_are_refused_as_scikit_learn_does():
    with pytest.raises(TypeError, match="must be a string or a real number, not 'dict'"):
        hasher().fit(np.array([[{}, 1], [2, 3]], object))


def test_sparse_points_are_refused_in_words_where_all_are_needed_at_once():
    with pytest.raises(TypeError, match=r"(?i)sparse.*dense"):
        PCA().fit(sp.csr_array(X))


OPTIONS = {
    "no bits": ({"n_bits": 0}, "n_bits must be a whole number of at least 1, not 0"),
    "negative bits": ({"n_bits": -8}, "n_bits must be a whole number"),
    "half a bit": ({"n_bits": 1.5}, "n_bits must be a whole number"),
    "bits in words": ({"n_bits": "64"}, "n_bits must be a whole number"),
    "bits as a bool": ({"n_bits": True}, "n_bits must be a whole number"),
    "as many bits as base points": ({"n_bits": 20}, "20 dimensions.*at most 19: lower n_bits.*larger base"),
    "more bits than columns": (
        {"n_bits": 70, "base": KMeansBase(100)},
        "70 dimensions.*64 dimensions, which gives at most 64: lower n_bits",
    ),
    "more neighbors than base points": (
        {"n_neighbors": 21},
        "n_neighbors=21 exceeds the 20 neighbors available in the base set: lower n_neighbors",
    ),
    "no neighbors": ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1, not 0"),
    "an empty base": ({"base": KMeansBase(0)}, "size must be a whole number"),
    "no rounds": ({"base": KMeansBase(20, max_iter=0)}, "max_iter must be a whole number"),
    "a base of one": ({"base": KMeansBase(1), "n_neighbors": 1}, "1 distinct point.*needs two.*too small"),
    "no bandwidth": ({"bandwidth": 0.0}, "bandwidth must be above zero"),
    "bandwidth NaN": ({"bandwidth": float("nan")}, "bandwidth must be a finite number above zero, not nan"),
    "a negative seed": ({"random_state": -1}, "random_state must be None, a whole number"),
    "a seed in words": ({"random_state": "x"}, "random_state must be None, a whole number"),
    "no rotation rounds": ({"rotation": ITQRotation(0)}, "n_iter must be a whole number"),
    "perplexity above the base": ({"embedding": TSNE(perplexity=20)}, "20 is not between 1 and 19"),
    "no degrees of freedom": ({"embedding": TSNE(perplexity=5, dof=0)}, "dof must be above zero"),
    "no iterations": ({"embedding": TSNE(perplexity=5, n_iter=0)}, "n_iter must be a whole number"),
    "a negative lambda": ({"embedding": RelaxedLE(lam=-1, n_neighbors=5)}, "lam must be"),
    "a graph wider than the base": ({"embedding": LaplacianEigenmaps(n_neighbors=21)}, "=21 exceeds"),
    "LLE wider than the base": ({"embedding": LLE(n_neighbors=20)}, "n_neighbors=20 exceeds"),
    "Isomap wider than the base": ({"embedding": Isomap(n_neighbors=20)}, "n_neighbors=20 exceeds"),
    "diffusion wider than the base": ({"embedding": DiffusionMaps(n_neighbors=20)}, "n_neighbors=20 exceeds"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), OPTIONS.values(), ids=OPTIONS.keys())
def test_fit_names_an_option_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        hasher(**options).fit(X)


def test_an_unfitted_hasher_says_so():
    for method in ("encode", "transform", "embed"):
        with pytest.raises(ValueError, match=r"IMH instance is not fitted yet\. Call 'fit'"):
            getattr(hasher(), method)(X)
    with pytest.raises(ValueError, match="not fitted yet"):
        InductiveEmbedding().transform(X)


def test_a_graph_in_too_many_pieces_says_how_many_bits_it_gives():
    """Eigenvectors of eigenvalue zero, one a piece, are dropped: few are left."""
    pieces = np.repeat(np.arange(10.0) * 1e3, 2)[:, None] + np.tile([0, 1e-3], 10)[:, None]
    with pytest.raises(
        ValueError, match=r"15 dimensions.*neighbor graph of 20 points, which gives at most 10"
    ):
        LaplacianEigenmaps(15, n_neighbors=2).fit(pieces)


def test_valid_though_unusual_input_is_accepted():
    model = hasher(n_bits=13).fit(X)
    assert model.encode(X[:1]).shape == (1, 2)
    assert model.encode(np.zeros((1, 64))).shape == (1, 2)
    assert model.encode(X.tolist()).shape == (300, 2)
    assert np.array_equal(model.encode(np.asfortranarray(X)), model.encode(X))
    assert np.array_equal(model.encode(X.astype(">f8")), model.encode(X))
    assert np.array_equal(model.encode(X.astype(object)), model.encode(X))
    assert np.array_equal(model.encode(X[::-1][::-1]), model.encode(X))
    constant = X.copy()
    constant[:, 3] = 7
    assert hasher().fit(constant).encode(constant).shape == (300, 1)


PARTS = {
    "pca": PCA(),
    "tsne": TSNE(perplexity=3, n_iter=10),
    "le": LaplacianEigenmaps(n_neighbors=4),
    "relaxed": RelaxedLE(n_neighbors=4),
    "dm": DiffusionMaps(n_neighbors=3),
    "isomap": Isomap(n_neighbors=3),
    "lle": LLE(n_neighbors=3),
}


CHOICES = {
    "d": st.integers(1, 12),
    "dtype": st.sampled_from(["f4", "f8", "f2", "u1", "i8", "?", ">f4"]),
    "scale": st.sampled_from([1.0, 1e-6, 1e4]),
    "part": st.sampled_from(sorted(PARTS)),
    "base": st.sampled_from([KMeansBase, RandomBase]),
    "rotation": st.booleans(),
    "normalize": st.booleans(),
    "seed": st.integers(0, 2**32 - 1),
}
ANY = {
    "n": st.integers(1, 60),
    "m": st.integers(1, 14),
    "n_bits": st.integers(0, 9),
    "k": st.integers(0, 6),
    "distinct": st.integers(1, 60),
}
LIKELY = {
    "n": st.integers(30, 60),
    "m": st.integers(8, 14),
    "n_bits": st.integers(1, 7),
    "k": st.integers(1, 5),
    "distinct": st.integers(25, 60),
}


@settings(max_examples=80, deadline=None)
@given(**CHOICES, **ANY)
def test_fit_and_encode_of_anything_either_work_or_raise_value_error(**drawn):
    fit_and_encode(**drawn)


@settings(max_examples=80, deadline=None)
@given(**CHOICES, **LIKELY)
def test_fit_and_encode_of_what_is_likely_valid_either_work_or_raise_value_error(**drawn):
    fit_and_encode(**drawn)


def fit_and_encode(n, d, m, n_bits, k, dtype, scale, distinct, part, base, rotation, normalize, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((distinct, d)) * (scale if dtype in ("f4", "f8", ">f4") else 10)
    rows = values[rng.integers(0, distinct, n)].astype(np.int64 if dtype == "u1" else "f8").astype(dtype)
    options = {
        "n_bits": n_bits,
        "base": base(m),
        "embedding": PARTS[part],
        "n_neighbors": k,
        "rotation": ITQRotation(3) if rotation else None,
        "normalize": normalize,
        "random_state": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = IMH(**options).fit(rows)
        except ValueError as error:
            said = str(error)
        else:
            said = ""
            codes = model.encode(rows)
            assert codes.shape == (n, -(-n_bits // 8))
            assert np.isfinite(model.embed(rows)).all()
            assert np.array_equal(IMH(**options).fit(rows).encode(rows), codes)
            assert np.array_equal(model.encode(rows[-1:]), codes[-1:])
    if said:
        assert len(said) > 20
    else:
        assert n >= 2
        assert 1 <= n_bits < m
        assert 1 <= k <= m <= n


@settings(max_examples=60, deadline=None)
@given(
    scale=st.sampled_from([1e-100, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e100]),
    dtype=st.sampled_from([np.float32, np.float64]),
    bandwidth=st.sampled_from([None, 1e-200, 1e-20, 1.0, 1e20, 1e200]),
    seed=st.integers(0, 100),
)
def test_no_scale_of_rows_or_bandwidth_gives_nan(scale, dtype, bandwidth, seed):
    with np.errstate(over="ignore", under="ignore"):
        rows = (np.random.default_rng(seed).standard_normal((40, 5)) * scale).astype(dtype)
    model = IMH(3, RandomBase(10), PCA(), n_neighbors=3, bandwidth=bandwidth, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(rows)
        except ValueError:
            representable = 1e-15 <= scale <= 1e15 or (dtype == np.float64)
            assert not representable
            return
    assert np.isfinite(model.embed(rows)).all()
