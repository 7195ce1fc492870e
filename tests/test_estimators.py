"""scikit-learn's contract: its own checks over every public estimator, and what its tools do with them."""

import inspect
import pickle

import numpy as np
import pytest
from public_names import public_names
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import manihash
from manihash import IMH, InductiveEmbedding, load
from manihash.base import (
    CoarseNeighbors,
    ExactNeighbors,
    KMeansBase,
    LargeBase,
    ListedNeighbors,
    RandomBase,
    ReducedBase,
    ReducedNeighbors,
)
from manihash.embeddings import (
    LLE,
    PCA,
    SNE,
    TSNE,
    DiffusionMaps,
    ElasticEmbedding,
    Isomap,
    LaplacianEigenmaps,
    RelaxedLE,
)
from manihash.rotation import ITQRotation

few = {"base": KMeansBase(6), "embedding": PCA(), "n_neighbors": 3}


def seeded(estimator):
    """The estimator with seed 0, if it draws at random: scikit-learn's checks must not fail by chance."""
    return estimator.set_params(random_state=0) if "random_state" in estimator.get_params() else estimator


SMALL = [
    seeded(estimator)
    for estimator in (
        IMH(n_bits=1, **few),
        IMH(n_bits=1, **few, rotation=ITQRotation(n_iter=2), normalize=True),
        manihash.hashers.AGH(n_bits=1, base=KMeansBase(6), n_neighbors=3),
        manihash.hashers.AGH(n_bits=2, base=KMeansBase(6), n_neighbors=3, layers=2),
        manihash.hashers.BRE(n_bits=1, n_train=20, n_anchors=4, max_iter=2),
        manihash.hashers.ITQ(n_bits=1, n_iter=2),
        manihash.hashers.LSH(n_bits=2),
        manihash.hashers.PCAH(n_bits=1),
        manihash.hashers.ProductQuantizer(n_bits=2, bits_per_field=1, max_iter=2, normalize=True),
        manihash.hashers.ProductQuantizer(n_bits=2, bits_per_field=2, rotation=False, max_iter=2),
        manihash.hashers.SH(n_bits=2),
        manihash.hashers.STH(n_bits=1, n_neighbors=3),
        manihash.hashers.SignQuantizer(n_bits=2),
        manihash.hashers.SpH(n_bits=2, max_iter=2),
        manihash.hashers.SKLSH(n_bits=1),
        manihash.hashers.KLSH(n_bits=1, n_train=10, n_summed=3),
        manihash.hashers.KLSH(n_bits=1, kernel="linear", n_train=10, n_summed=3),
        manihash.hashers.E2LSH(n_bits=1),
        manihash.hashers.E2LSH(n_bits=1, p=1),
        manihash.hashers.RMMH(n_bits=1, n_train=8),
        manihash.hashers.RMMH(n_bits=1, n_train=8, kernel="rbf"),
        manihash.hashers.MahalanobisLSH(n_bits=1),
        manihash.hashers.CGH(n_bits=1, n_triplets=50, n_neighbors=3),
        manihash.hashers.CGH(n_bits=2, n_triplets=50, n_neighbors=3, supervised=False),
        manihash.hashers.KSH(n_bits=1, n_anchors=6, n_iter=3),
        manihash.hashers.SSH(n_bits=1),
        manihash.hashers.SSH(n_bits=1, step=None),
        manihash.hashers.LDAHash(n_bits=1),
        manihash.hashers.LDAHash(n_bits=1, alpha=1.0),
        manihash.hashers.SupervisedIMH(n_bits=1, **few),
        manihash.Hybrid(IMH(n_bits=1, **few), manihash.hashers.ITQ(n_bits=1, n_iter=2)),
        manihash.Hybrid(
            manihash.hashers.LSH(n_bits=2), manihash.hashers.LSH(n_bits=3), n_bits=4, normalize=True
        ),
        manihash.hashers.BridgedHasher(manihash.hashers.LSH(n_bits=2)),
        manihash.hashers.BridgedHasher(
            manihash.Hybrid(manihash.hashers.LSH(n_bits=2), manihash.hashers.LSH(n_bits=3)), kind="ridge"
        ),
        InductiveEmbedding(n_components=1, **few),
        IMH(n_bits=1, base=ReducedBase(LargeBase(6), n_components=2), embedding=PCA(), n_neighbors=1),
        KMeansBase(3, max_iter=2),
        LargeBase(3, max_iter=2),
        ReducedBase(KMeansBase(3), n_components=2),
        ReducedNeighbors(n_components=2),
        ExactNeighbors(),
        CoarseNeighbors(cells=2, probes=1),
        ListedNeighbors(cells=2, probes=1),
        RandomBase(3),
        ITQRotation(n_iter=2),
        TSNE(perplexity=2, n_iter=5, n_components=1),
        SNE(perplexity=2, n_iter=5, n_components=1),
        ElasticEmbedding(perplexity=2, n_iter=5, n_components=1),
        LaplacianEigenmaps(n_components=1, n_neighbors=3),
        RelaxedLE(n_components=1, n_neighbors=3, coupling_neighbors=2),
        LLE(n_components=1, n_neighbors=3),
        Isomap(n_components=1, n_neighbors=3),
        DiffusionMaps(n_components=1, n_neighbors=3),
        PCA(n_components=1),
    )
]


@parametrize_with_checks(SMALL)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_the_table_has_every_public_estimator():
    public = {value.__name__ for value in public_names().values() if is_estimator(value)}
    assert public - {type(estimator).__name__ for estimator in SMALL} == ABSTRACT


def is_estimator(value):
    return inspect.isclass(value) and issubclass(value, BaseEstimator)


ABSTRACT = {"Hasher", "GraphAffinity"}  # a base class, and a part that is not fitted


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture
def hasher():
    return IMH(8, KMeansBase(40), TSNE(n_iter=20), rotation=ITQRotation(3), random_state=0)


def test_every_class_can_be_built_without_arguments():
    for value in public_names().values():
        if is_estimator(value):
            assert clone(value()).get_params() == pytest.approx(value().get_params())


def test_a_hasher_is_a_step_of_a_pipeline(digits, hasher):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), hasher, LogisticRegression()).fit(X[::2], y[::2])
    assert pipeline.score(X[1::2], y[1::2]) > 0.5


def test_a_grid_search_reaches_options_of_the_parts(digits, hasher):
    X, y = digits
    pipeline = make_pipeline(hasher, LogisticRegression())
    grid = {"imh__n_bits": [2, 8], "imh__base__size": [30], "imh__embedding__perplexity": [5.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X[:600], y[:600])
    assert search.best_params_["imh__n_bits"] == 8
    assert len(search.best_estimator_[0].base_points_) == 30


def test_nested_options_are_set_on_the_parts(hasher):
    hasher.set_params(base__size=17, embedding__perplexity=4.0, rotation__n_iter=9)
    assert (hasher.base.size, hasher.embedding.perplexity, hasher.rotation.n_iter) == (17, 4.0, 9)


def test_a_clone_is_unfitted_and_has_parts_of_its_own(digits, hasher):
    hasher.fit(digits[0])
    twin = clone(hasher)
    assert not hasattr(twin, "base_points_")
    assert twin.base is not hasher.base
    assert np.array_equal(twin.fit(digits[0]).encode(digits[0]), hasher.encode(digits[0]))


def test_fit_transform_is_fit_then_transform(digits, hasher):
    assert np.array_equal(hasher.fit_transform(digits[0]), hasher.fit(digits[0]).transform(digits[0]))


def test_a_second_fit_forgets_the_first(digits, hasher):
    X = digits[0]
    hasher.fit(X[:500, :20])
    assert np.array_equal(hasher.fit(X).encode(X), clone(hasher).fit(X).encode(X))


def test_output_columns_are_named_after_the_class(digits, hasher):
    pytest.importorskip("pandas")
    hasher.fit(digits[0])
    assert list(hasher.get_feature_names_out()) == [f"imh{i}" for i in range(8)]
    frame = hasher.set_output(transform="pandas").transform(digits[0][:5])
    assert list(frame.columns) == [f"imh{i}" for i in range(8)]
    model = InductiveEmbedding(2, **few).fit(digits[0])
    assert list(model.get_feature_names_out()) == ["inductiveembedding0", "inductiveembedding1"]


def test_feature_names_are_kept_by_a_model_file_and_checked(digits, tmp_path):
    pytest.importorskip("pandas")
    frame = load_digits(as_frame=True).data
    hasher = IMH(4, KMeansBase(20), PCA(), random_state=0).fit(frame)
    hasher.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert np.array_equal(loaded.encode(frame), hasher.encode(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.encode(frame.rename(columns={"pixel_0_0": "other"}))


def test_a_pickled_model_gives_the_same_codes(digits, hasher):
    hasher.fit(digits[0])
    assert np.array_equal(pickle.loads(pickle.dumps(hasher)).encode(digits[0]), hasher.encode(digits[0]))


def test_fitting_leaves_the_input_alone(digits, hasher):
    X = digits[0].copy()
    hasher.set_params(normalize=True).fit(X)
    hasher.encode(X)
    assert np.array_equal(X, digits[0])
