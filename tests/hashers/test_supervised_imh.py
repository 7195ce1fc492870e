"""Supervised IMH: base points learn their labels, the embedding heeds them, and without weight it is IMH."""

from pathlib import Path

import numpy as np
import pytest
from released_code import mnist_map, released_map
from sklearn.datasets import load_digits

from manihash.base.graph import BaseGraph, mean_distance
from manihash.base.kmeans import KMeansBase
from manihash.embeddings.le import LaplacianEigenmaps
from manihash.embeddings.pca import PCA
from manihash.embeddings.tsne import TSNE
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers.imh import IMH
from manihash.hashers.supervised_imh import SupervisedIMH, base_labels
from manihash.rows.local import LocalRows

X, y = load_digits(return_X_y=True)
B = KMeansBase(60, random_state=0).fit(X).points_
TRUTH = LabelTruth(y[1::4], y[::2])


def score(hasher, labels=None):
    hasher.fit(X[::2], labels)
    return evaluate(hasher.encode(X[1::4]), hasher.encode(X[::2]), TRUTH, hasher.n_bits).map


def smoothness_and_weights(labeled):
    sigma = mean_distance(LocalRows(X), B, 5)
    return BaseGraph(B, 5, sigma).coupling(LocalRows(X)) / len(X), BaseGraph(B, 5, sigma).weight_matrix(
        X[labeled]
    )


def test_labels_of_base_points_minimize_their_objective_and_sum_to_one():
    labeled = np.arange(0, len(X), 20)
    T, W = smoothness_and_weights(labeled)
    G = np.eye(10)[y[labeled]]
    L = base_labels(W, W.__class__(G), T)

    def objective(L):
        return ((W @ L - G) ** 2).sum() + np.trace(L.T @ T @ L)

    assert L.sum(axis=1) == pytest.approx(np.ones(60), abs=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert objective(L) <= objective(L + 0.01 * rng.standard_normal(L.shape))


def test_a_tenth_of_the_labels_tell_those_of_all_rows():
    hasher = SupervisedIMH(4, base=B, embedding=PCA(), n_labels=180, random_state=0).fit(X, y)
    W = BaseGraph(B, 5, hasher.bandwidth_).weight_matrix(X)
    assert ((W @ hasher.base_labels_).argmax(axis=1) == y).mean() > 0.88


@pytest.mark.usefixtures("seed_of_zero")
def test_weights_are_those_of_induction():
    W = BaseGraph(B, 5, 20.0).weight_matrix(X[:7]).toarray()
    hasher = IMH(6, base=B, embedding=PCA(), bandwidth=20.0).fit(X)
    assert W @ hasher.base_embedding_ == pytest.approx(hasher.embed(X[:7]))


@pytest.mark.usefixtures("seed_of_zero")
def test_too_few_base_points_for_the_classes_are_reported(caplog):
    X = np.random.default_rng(0).normal(size=(300, 5))
    hasher = SupervisedIMH(4, base=KMeansBase(30), embedding=PCA(), random_state=0)
    with caplog.at_level("INFO", logger="manihash.note"):
        hasher.fit(X, np.arange(300) % 3)
        assert "classes share" not in caplog.text
        hasher.fit(X, np.arange(300) % 4)
    assert "4 classes share 30 base points" in caplog.text


def test_without_weight_on_labels_it_is_imh():
    ours = SupervisedIMH(8, base=B, embedding=LaplacianEigenmaps(n_neighbors=10), label_weight=0.0).fit(X, y)
    imh = IMH(8, base=B, embedding=LaplacianEigenmaps(n_neighbors=10)).fit(X)
    assert ours.bandwidth_ == imh.bandwidth_
    assert ours.embed(X) == pytest.approx(imh.embed(X), abs=1e-6)


def test_with_much_weight_base_points_of_one_label_are_nearest():
    hasher = SupervisedIMH(9, base=B, embedding=PCA(), label_weight=100.0, random_state=0).fit(X, y)
    L, Y = hasher.base_labels_.argmax(axis=1), hasher.base_embedding_
    D = ((Y[:, None] - Y) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    assert (L[D.argmin(axis=1)] == L).mean() > 0.9


@pytest.mark.parametrize(
    ("embedding", "gain"), [(TSNE(n_iter=300), 0.03), (PCA(), 0.01)], ids=["tsne", "pca"]
)
def test_a_few_labels_help_an_embedding_of_distances(embedding, gain):
    parts = {"base": KMeansBase(120), "embedding": embedding, "random_state": 0}
    supervised = score(SupervisedIMH(16, n_labels=200, **parts), y[::2])
    assert supervised > score(IMH(16, **parts)) + gain


@pytest.mark.usefixtures("seed_of_zero")
def test_wrong_options_are_refused():
    for params in ({"label_weight": -1}, {"n_labels": 1}, {"n_neighbors": 0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            SupervisedIMH(4, base=B, **params).fit(X, y)
    with pytest.raises(ValueError, match="n_neighbors=61 exceeds the"):
        SupervisedIMH(4, base=B, n_neighbors=61).fit(X, y)


def test_a_thousand_labels_of_mnist_add_a_tenth_to_imh(data_folder: Path):
    hasher = SupervisedIMH(32, normalize=True, random_state=0)
    assert mnist_map(hasher) > released_map("imh-tsne", 32) + 0.1
