"""Embeddings of thousands of points: what is sampled or sparse agrees with what is exact, on few of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from manihash.base import KMeansBase
from manihash.base.graph import BaseGraph, affinity
from manihash.embeddings import (
    LLE,
    SNE,
    TSNE,
    DiffusionMaps,
    ElasticEmbedding,
    Isomap,
    LaplacianEigenmaps,
    RelaxedLE,
    _descent,
)
from manihash.embeddings._descent import ExactLoss, SampledLoss
from manihash.embeddings._perplexity import conditional_probabilities, near_probabilities
from manihash.embeddings.ee import ElasticEnergy, ElasticKernel
from manihash.embeddings.sne import (
    GaussianDivergence,
    GaussianKernel,
    RowGaussianDivergence,
    RowGaussianKernel,
    RowSampledLoss,
)
from manihash.embeddings.tsne import StudentDivergence, StudentKernel
from manihash.hashers import SupervisedIMH
from manihash.rows.local import LocalRows

SPECTRAL = [
    LaplacianEigenmaps(6),
    LaplacianEigenmaps(6, normalized=True),
    RelaxedLE(6),
    DiffusionMaps(6),
    LLE(6),
    Isomap(6),
]


@pytest.fixture(scope="module")
def points():
    return load_digits().data[:300] / 16


def make_many(monkeypatch):
    for module in (
        "base.graph",
        *(f"embeddings.{name}" for name in ("_descent", "diffusion", "isomap", "lle")),
    ):
        monkeypatch.setattr(f"manihash.{module}.MANY", 100)


@pytest.fixture
def many(monkeypatch):
    """Fewer points than the tests have are already many."""
    make_many(monkeypatch)


def joint(m, seed=0):
    """Symmetric probabilities that are not zero for any pair."""
    P = np.random.default_rng(seed).random((m, m))
    np.fill_diagonal(P, 0)
    return (P + P.T) / (2 * P.sum())


LOSSES = [
    pytest.param(
        lambda P, dof=dof: (StudentDivergence(P, dof), SampledLoss, StudentKernel(dof)), id=f"t-SNE {dof}"
    )
    for dof in (0.5, 1.0, 3.0)
] + [
    pytest.param(lambda P: (ElasticEnergy(P, 5.0), SampledLoss, ElasticKernel(5.0, len(P))), id="EE"),
    pytest.param(lambda P: (GaussianDivergence(P), SampledLoss, GaussianKernel()), id="symmetric SNE"),
    pytest.param(lambda P: (RowGaussianDivergence(P), RowSampledLoss, RowGaussianKernel()), id="SNE"),
]


@pytest.mark.parametrize("make", LOSSES)
def test_with_all_points_sampled_and_all_pairs_near_the_sampled_loss_is_exact(make):
    m = 150
    P = joint(m)
    objective, sampled, kernel = make(P)
    if isinstance(kernel, RowGaussianKernel):
        P = P / P.sum(axis=1, keepdims=True) / m
        objective = RowGaussianDivergence(P)
    exact, loss = ExactLoss(objective, m), sampled(kernel, sp.csr_array(P), m, 0)
    Y = np.random.default_rng(1).standard_normal((m, 3))
    assert loss.value(Y) == pytest.approx(exact.value(Y), rel=1e-9)
    for exaggeration in (1.0, 4.0):
        found, wanted = loss.gradient(Y, exaggeration), exact.gradient(Y, exaggeration)
        # SNE counts a point that is near to one drawn twice in its share
        off = 0.06 if isinstance(kernel, RowGaussianKernel) else 1e-9
        assert np.allclose(found, wanted, atol=off * np.abs(wanted).max())


@pytest.mark.parametrize("make", LOSSES[1:5])
def test_the_mean_of_many_sampled_gradients_is_the_exact_one(make):
    m = 150
    P = joint(m)
    objective, sampled, kernel = make(P)
    loss = sampled(kernel, sp.csr_array(P), 40, 0)
    Y = np.random.default_rng(1).standard_normal((m, 3)) / 2
    wanted = ExactLoss(objective, m).gradient(Y, 1.0)
    mean = np.mean([loss.gradient(Y, 1.0) for _ in range(200)], axis=0)
    assert np.abs(mean - wanted).max() < 0.1 * np.abs(wanted).max()


def test_near_probabilities_are_the_largest_of_all_and_reach_the_perplexity(points):
    near, every = near_probabilities(points, 10.0, 64), conditional_probabilities(points, 10.0, 64)
    assert (np.diff(near.indptr) == 30).all()
    assert near.diagonal().max() == 0
    P = near.toarray()
    assert np.allclose(P.sum(axis=1), 1)
    entropy = -np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0).sum(axis=1)
    assert np.allclose(np.exp(entropy), 10, rtol=1e-6)
    assert np.abs(P - every).sum(axis=1).mean() < 0.1


def test_repeated_points_are_not_their_own_neighbors():
    P = near_probabilities(np.repeat(np.eye(8), 6, axis=0), 3.0, 20)
    assert P.diagonal().max() == 0
    assert np.isfinite(P.data).all()


@pytest.mark.parametrize("method", [TSNE, SNE, ElasticEmbedding])
def test_a_sampled_descent_comes_near_the_loss_of_the_exact_one(points, many, method):
    sampled = method(8, n_iter=150, sampled=150, random_state=0).fit(points)
    start = method(8, n_iter=1, sampled=150, random_state=0).fit(points)
    exact = method(8, n_iter=150, sampled=None, random_state=0).fit(points)
    assert sampled.loss_ < exact.loss_ + 0.25 * (start.loss_ - exact.loss_)


def test_threads_do_not_change_a_bit_of_a_sampled_descent(points, many, monkeypatch):
    monkeypatch.setattr(_descent, "_CHUNK", 70)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(TSNE(8, n_iter=20, sampled=50, random_state=0).fit_transform(points[:, 10:30]))
    assert np.array_equal(*found)


def test_late_exaggeration_draws_neighbors_closer(points):
    plain, late = (
        TSNE(2, n_iter=300, exaggeration=given, n_rotations=0, random_state=0).fit(points)
        for given in (4.0, (4.0, 3.0))
    )
    assert late.loss_ > plain.loss_
    assert np.ptp(late.embedding_) < np.ptp(plain.embedding_)


@pytest.mark.parametrize("given", [0, (4.0, -1.0), "much"])
def test_an_invalid_exaggeration_is_an_error(points, given):
    with pytest.raises(ValueError, match="exaggeration"):
        TSNE(2, exaggeration=given).fit(points)


@pytest.mark.parametrize("method", SPECTRAL, ids=lambda method: repr(method))
def test_sparse_solvers_give_the_coordinates_of_the_dense_ones(points, method, monkeypatch):
    dense = method.fit_transform(points).copy()
    make_many(monkeypatch)
    found = method.fit_transform(points)
    # For LLE, scikit-learn factorizes a singular matrix; how precise that is depends on the version of scipy.
    tolerance = 1e-3 if isinstance(method, LLE) else 1e-5
    assert np.allclose(found, dense, atol=tolerance * np.abs(dense).max())


def test_the_sparse_coupling_and_graph_are_the_dense_ones(points, monkeypatch):
    rows = LocalRows(load_digits().data / 16)
    T, W = BaseGraph(points, 5, 1.0).coupling(rows), affinity(points, 20)
    monkeypatch.setattr("manihash.base.graph.MANY", 100)
    monkeypatch.setattr("manihash.base.graph.MANY", 100)
    sparse_T, sparse_W = BaseGraph(points, 5, 1.0).coupling(rows), affinity(points, 20)
    assert sp.issparse(sparse_T)
    assert sp.issparse(sparse_W)
    assert np.allclose(sparse_T.toarray(), T, atol=1e-12)
    assert np.array_equal(sparse_W.toarray(), W)


def test_a_graph_in_many_pieces_has_no_more_dimensions_than_it_has(monkeypatch):
    monkeypatch.setattr("manihash.base.graph.MANY", 30)
    monkeypatch.setattr("manihash.base.graph.MANY", 30)
    pieces = np.repeat(np.arange(20.0) * 100, 5)[:, None] + np.random.default_rng(0).random((100, 2))
    with pytest.raises(ValueError, match=r"90 dimensions.*at most 80"):
        LaplacianEigenmaps(90, n_neighbors=5).fit(pieces)


def test_supervised_imh_learns_the_same_labels_from_a_sparse_coupling(monkeypatch):
    X, y = load_digits(return_X_y=True)
    hasher = SupervisedIMH(8, KMeansBase(150), TSNE(n_iter=20), random_state=0)
    dense = hasher.fit(X, y).base_labels_
    monkeypatch.setattr("manihash.base.graph.MANY", 100)
    monkeypatch.setattr("manihash.base.graph.MANY", 100)
    assert np.allclose(hasher.fit(X, y).base_labels_, dense, atol=1e-4)


@pytest.mark.parametrize("method", [TSNE, SNE, ElasticEmbedding])
def test_neighbors_too_far_for_a_probability_leave_the_loss_finite(method, many):
    """Clusters of a few points, far apart: most of the 30 nearest of a point have the probability 0."""
    rng = np.random.default_rng(0)
    X = np.repeat(1e3 * rng.standard_normal((30, 8)), 5, axis=0) + rng.standard_normal((150, 8))
    assert (near_probabilities(X, 3.0, 64).astype(np.float32).data == 0).any()
    assert np.isfinite(method(4, perplexity=3.0, n_iter=20, random_state=0).fit(X.astype(np.float32)).loss_)
