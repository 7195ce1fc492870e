"""fit and encode warn if codes cannot tell rows apart, and only then."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import IMH, Hasher, Hybrid, load, recipe
from manihash.base import KMeansBase
from manihash.embeddings import TSNE
from manihash.hashers import ITQ, CollapsedCodesWarning


def topics(n=3000, seed=0):
    """Rows of 150 topics in 15 groups of similar topics: (n, 48)."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(15, 48))[np.arange(150) % 15] + 0.5 * rng.normal(size=(150, 48))
    return (centers[rng.integers(0, 150, n)] + 0.1 * rng.normal(size=(n, 48))).astype(np.float32)


def coarse(**options):
    """IMH with fewer base points than topics."""
    return IMH(32, base=KMeansBase(60), embedding=TSNE(n_iter=150), random_state=0, **options)


class Constant(Hasher):
    """All codes are equal."""

    def __init__(self, n_bits=8, normalize=False, random_state=None):
        self.n_bits, self.normalize, self.random_state = n_bits, normalize, random_state

    def _fit(self, rows, y, rng):
        self.width_ = rows.width

    def _embed(self, X):
        return np.zeros((len(X), self.n_bits))


@pytest.fixture
def no_collapse():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedCodesWarning)
        yield


def test_fit_warns_if_topics_share_their_codes():
    with pytest.warns(CollapsedCodesWarning) as caught:
        coarse().fit(topics())
    (warning,) = caught
    assert "of the first ten answers lie in another group" in str(warning.message)
    assert "The 60 base points are too few" in str(warning.message)
    assert "recipe('imh-hybrid')" in str(warning.message)
    assert warning.filename == __file__


def test_fit_warns_if_all_codes_are_equal():
    X = np.random.default_rng(0).normal(size=(1500, 5))
    with pytest.warns(
        CollapsedCodesWarning, match=r"1,500 distinct rows of a sample have 1 codes.*chance: 50 %"
    ):
        Constant().fit(X)


def test_encode_warns_about_a_model_from_a_file(tmp_path):
    X = topics()
    with pytest.warns(CollapsedCodesWarning):
        coarse().fit(X).save(tmp_path / "model.mhash")
    model = load(tmp_path / "model.mhash")
    with pytest.warns(CollapsedCodesWarning) as caught:
        codes = model.encode(X)
    assert caught[0].filename == __file__
    with pytest.warns(CollapsedCodesWarning):
        blocks = list(model.encode_blocks(X, start=100))
    np.testing.assert_array_equal(np.concatenate(blocks), codes[100:])


@pytest.mark.usefixtures("no_collapse")
def test_codes_that_tell_topics_apart_give_no_warning():
    X = topics()
    for hasher in (Hybrid(coarse(), ITQ(32), random_state=0), ITQ(32, random_state=0)):
        hasher.fit(X).encode(X)


@pytest.mark.usefixtures("no_collapse")
@pytest.mark.parametrize(
    ("name", "n_bits", "options"),
    [
        ("imh-tsne", 16, {"embedding__n_iter": 250}),
        ("imh-tsne-rotated", 64, {"embedding__n_iter": 250}),
        ("imh-graph", 16, {}),
        ("imh-hybrid", 64, {}),
        ("lsh", 16, {}),
    ],
)
def test_digits_give_no_warning(name, n_bits, options):
    X = load_digits().data
    list(recipe(name, n_bits, 0, **options).fit(X).encode_blocks(X))


@pytest.mark.parametrize(("n", "group", "noise"), [(20000, 1, 1.5), (5000, 10, 0.5)])
def test_the_default_base_set_is_too_coarse_for_300_topics(n, group, noise):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(300 // group, 384)).repeat(group, axis=0)
    centers = (centers + 0.5 * rng.normal(size=centers.shape)).astype(np.float32)
    X = centers[rng.integers(0, 300, n)] + np.float32(noise) * rng.standard_normal((n, 384), np.float32)
    with pytest.warns(CollapsedCodesWarning, match="400 base points"):
        recipe("imh-tsne", 64, 0, embedding__n_iter=300).fit(X)


@pytest.mark.usefixtures("no_collapse")
def test_rows_that_repeat_are_no_collapse():
    X = np.random.default_rng(0).normal(size=(40, 8)).repeat(100, axis=0)
    Constant().fit(X).encode(X)


@pytest.mark.usefixtures("no_collapse")
def test_few_rows_are_not_judged():
    X = np.random.default_rng(0).normal(size=(999, 5))
    model = Constant().fit(X)
    model.encode(X)
    list(model.encode_blocks(X))


@pytest.mark.extra
def test_rows_of_dask_are_judged():
    da = pytest.importorskip("dask.array")
    X = da.from_array(topics(), chunks=(500, 48))
    with pytest.warns(CollapsedCodesWarning):
        coarse().fit(X)
