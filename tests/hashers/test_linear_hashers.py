"""LSH, PCAH, ITQ, SH and sign quantization against their papers and independent implementations."""

import numpy as np
import pytest
import sklearn.decomposition
from scipy.linalg import eigh
from sklearn.datasets import load_digits

from manihash import recipe
from manihash.hashers import ITQ, LSH, PCAH, SH, SignQuantizer
from manihash.hashers._linear import moments
from manihash.hashers.sh import smoothest_modes
from manihash.rotation import ITQRotation
from manihash.rows.local import LocalRows


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def centered(digits):
    return digits - digits.mean(axis=0)


def test_moments_are_those_of_numpy_even_far_from_the_origin(digits):
    X = (digits + 5000).astype(np.float32)
    found = moments(LocalRows(X))
    assert np.allclose(found.mean, X.astype(np.float64).mean(axis=0))
    assert np.allclose(found.covariance, np.cov(X.astype(np.float64).T, bias=True), atol=1e-3)


def test_lsh_bits_differ_with_probability_angle_over_pi(centered):
    bits = 4000
    signs = LSH(bits, center=False, random_state=0).fit(centered).transform(centered[:40]).astype(int)
    unit = centered[:40] / np.linalg.norm(centered[:40], axis=1, keepdims=True)
    expected = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    found = (signs[:, None] != signs).mean(axis=2)
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / bits)


def test_lsh_centers_by_default(digits, centered):
    shifted = LSH(32, random_state=0).fit(digits)
    plain = LSH(32, center=False, random_state=0).fit(centered)
    assert np.mean(shifted.transform(digits) != plain.transform(centered)) < 1e-4


@pytest.mark.usefixtures("seed_of_zero")
def test_pcah_embeds_as_scikit_learns_pca_up_to_sign(digits):
    ours = PCAH(20).fit(digits).embed(digits)
    theirs = sklearn.decomposition.PCA(20).fit_transform(digits)
    signs = np.sign((ours * theirs).sum(axis=0))
    assert np.allclose(ours * signs, theirs, atol=1e-8)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("method", [PCAH, ITQ])
def test_more_bits_than_columns_raise_an_error_with_alternatives(digits, method):
    with pytest.raises(ValueError, match=r"n_bits=65 exceeds the 64 columns of X: lower n_bits"):
        method(65).fit(digits)


def test_the_error_of_itq_never_increases(centered):
    errors = ITQRotation(60, random_state=0).fit(centered[:, :32]).errors_
    assert np.all(np.diff(errors) <= 1e-9 * errors[0])
    assert errors[-1] < 0.99 * errors[0]


@pytest.mark.usefixtures("seed_of_zero")
def test_the_rotation_of_itq_is_orthogonal_and_keeps_the_principal_space(digits):
    itq = ITQ(24, random_state=0).fit(digits)
    pcah = PCAH(24).fit(digits)
    assert np.allclose(itq.projection_.T @ itq.projection_, np.eye(24), atol=1e-6)
    inside = pcah.projection_ @ (pcah.projection_.T @ itq.projection_)
    assert np.allclose(inside, itq.projection_, atol=1e-6)


def test_itq_quantizes_as_well_as_faiss(digits):
    faiss = pytest.importorskip("faiss")
    X = digits.astype(np.float32)
    theirs = faiss.ITQTransform(64, 32, True)
    theirs.itq.max_train_per_dim = 1000
    theirs.train(X)
    Z = theirs.apply(X)
    ours = ITQ(32, random_state=0).fit(X).embed(X)

    def error(Y):
        """Quantization error of coordinates scaled alike: FAISS scales rows before the rotation."""
        return np.mean((np.where(Y > 0, 1, -1) - Y / np.abs(Y).mean()) ** 2)

    assert error(ours) <= 1.02 * error(Z)


def test_sh_uses_the_smoothest_modes_over_all_components():
    component, mode = smoothest_modes(np.array([4.0, 1.9, 0.9]), 6)
    assert list(zip(component, mode, strict=True)) == [(0, 1), (0, 2), (1, 1), (0, 3), (0, 4), (1, 2)]


def test_sh_skips_components_of_zero_length():
    component, _ = smoothest_modes(np.array([0.0, 2.0]), 3)
    assert set(component) == {1}


@pytest.mark.usefixtures("seed_of_zero")
def test_the_eigenfunctions_of_sh_are_those_of_a_graph_of_uniform_points():
    """The exact relaxation on uniform points of a line: its eigenvectors are the analytical cosines."""
    x = np.linspace(0, 1, 400)
    W = np.exp(-((x[:, None] - x) ** 2) / 0.02**2)
    vectors = eigh(np.diag(W.sum(axis=1)) - W, subset_by_index=[1, 4])[1]
    Y = SH(4).fit(x[:, None]).embed(x[:, None])
    for j in range(4):
        assert abs(np.corrcoef(vectors[:, j], Y[:, j])[0, 1]) > 0.98


@pytest.mark.usefixtures("seed_of_zero")
def test_sh_equals_its_formula_written_out(digits):
    X = digits[:300]
    pc = PCAH(16).fit(X).embed(X)
    lengths = np.ptp(pc, axis=0)
    component, mode = smoothest_modes(lengths, 16)
    omega = np.pi * mode / lengths[component]
    expected = np.sin(np.pi / 2 + omega * (pc - pc.min(axis=0))[:, component])
    found = SH(16).fit(X).embed(X)
    assert np.allclose(found, expected, atol=1e-8)


@pytest.mark.usefixtures("seed_of_zero")
def test_sh_gives_more_bits_than_dimensions(digits):
    assert SH(200).fit(digits).encode(digits).shape == (len(digits), 25)


@pytest.mark.usefixtures("seed_of_zero")
def test_sign_quantization_of_as_many_bits_as_dimensions_is_the_sign_of_each_coordinate(digits):
    bits = SignQuantizer(64).fit(digits).transform(digits)
    assert np.array_equal(bits, digits > digits.mean(axis=0))
    assert np.array_equal(SignQuantizer(64, center=False).fit(digits).transform(digits), digits > 0)


def test_signs_at_the_median_have_as_many_ones_as_zeros_and_a_prefix_takes_the_first_columns():
    X = np.random.default_rng(0).exponential(size=(501, 12))
    bits = SignQuantizer(12, center="median").fit(X).transform(X)
    assert np.array_equal(bits, np.median(X, axis=0) < X)
    assert (bits.sum(axis=0) == 250).all()
    first = SignQuantizer(5, center="median", prefix=True).fit(X)
    assert np.array_equal(first.transform(X), bits[:, :5])
    assert first.rotation_ is None
    with pytest.raises(
        ValueError, match="n_bits=13 exceeds the 12 columns of X: lower n_bits, or use prefix"
    ):
        SignQuantizer(13, prefix=True).fit(X)
    with pytest.raises(ValueError, match="center"):
        SignQuantizer(5, center="mode").fit(X)


@pytest.mark.parametrize("r", [13, 100])
def test_sign_quantization_to_another_length_takes_orthonormal_directions(digits, r):
    R = SignQuantizer(r, random_state=0).fit(digits).rotation_
    assert R.shape == (64, r)
    first = R[:, : min(r, 64)]
    assert np.allclose(first.T @ first, np.eye(first.shape[1]), atol=1e-10)


@pytest.mark.parametrize("name", ["itq", "pcah", "sh", "sign"])
def test_sparse_rows_of_many_columns_are_hashed_without_a_square_matrix(name):
    sp = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    topic = rng.integers(4, size=240)
    columns = 5_000 * topic[:, None] + rng.integers(200, size=(240, 60))
    X = sp.csr_array(
        (np.ones(columns.size, np.float32), columns.ravel(), np.arange(0, columns.size + 1, 60)),
        shape=(240, 100_000),
    )
    hasher = recipe(name, n_bits=8, random_state=0).fit(X)
    bits = hasher.transform(X)
    far = (bits[:, None] != bits[None]).sum(axis=2)
    same = topic[:, None] == topic
    assert far[same].mean() < (0.95 if name == "sign" else 0.7) * far[~same].mean()
    assert np.array_equal(hasher.transform(X[:3].toarray()), bits[:3])


@pytest.mark.parametrize("name", ["itq", "pcah", "sh"])
def test_directions_of_wide_rows_are_those_of_the_covariance(monkeypatch, name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30)) * 1.5 ** -np.arange(30)
    exact = recipe(name, n_bits=6, random_state=0).fit(X)
    monkeypatch.setattr("manihash.hashers._linear._WIDE", 20)
    monkeypatch.setattr("manihash.base.principal._EXACT_WIDTH", 20)
    wide = recipe(name, n_bits=6, random_state=0).fit(X)
    if name != "sh":
        assert np.allclose(wide.variances_, exact.variances_, rtol=1e-6)
    if name != "itq":  # the rotation starts from another random state
        assert np.allclose(np.abs(np.sum(wide.projection_ * exact.projection_, axis=0)), 1)


def test_methods_that_need_the_covariance_refuse_too_many_columns():
    sp = pytest.importorskip("scipy.sparse")
    X = sp.random_array((10, 100_000), density=1e-4, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"covariance of 100,000 columns would take 75 GiB.*TruncatedSVD"):
        recipe("mahalanobis-lsh", n_bits=8).fit(X)
    with pytest.raises(ValueError, match="use at most 100,000 bits"):
        recipe("sign", n_bits=100_001).fit(X)


def test_a_subclass_with_values_of_its_own_is_encoded_by_them():
    class Opposite(LSH):
        def _embed(self, X):
            return -super()._embed(X)

    class Again(Opposite):
        """Values and map of its base class."""

    X = np.random.default_rng(0).normal(size=(300, 6))
    expected = 1 - LSH(16, random_state=0).fit(X).transform(X)
    for kind in (Opposite, Again):
        np.testing.assert_array_equal(kind(16, random_state=0).fit(X).transform(X), expected)
