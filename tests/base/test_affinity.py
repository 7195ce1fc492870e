"""Affinities from the neighbor graph of the rows: the formula, isolated base points, clear groups."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from manihash import (
    IMH,
    SNE,
    TSNE,
    ElasticEmbedding,
    GraphAffinity,
    KMeansBase,
    LabelTruth,
    evaluate,
    load_dataset,
    recipe,
)
from manihash.base.affinity import _largest, neighbor_graph, separation
from manihash.base.graph import BaseGraph
from manihash.embeddings._descent import Schedule
from manihash.embeddings.tsne import late_exaggeration
from manihash.rows import rows_of
from manihash.rows.local import LocalRows

DIGITS = load_digits().data / 16


def rng():
    return np.random.default_rng(0)


def graph_of(X, m, k=3):
    rows = LocalRows(X)
    return BaseGraph.fit(KMeansBase(m), rows, k, None, seed=0), rows


def affinities_by_definition(graph, X, k, kept, n_steps=1):
    """P with dense matrices and exact neighbors."""
    distances = cdist(X, graph.B)
    W = np.zeros(distances.shape)
    near = np.argsort(distances, axis=1, kind="stable")[:, : graph.k]
    w = np.exp(-(np.take_along_axis(distances, near, axis=1) ** 2) / graph.sigma**2)
    np.put_along_axis(W, near, w / w.sum(axis=1, keepdims=True), axis=1)
    between = cdist(X, X)
    np.fill_diagonal(between, np.inf)
    S = np.zeros(between.shape)
    np.put_along_axis(S, np.argsort(between, axis=1, kind="stable")[:, :k], 1 / k, axis=1)
    A = W.T @ S @ W if n_steps == 1 else (S @ W).T @ (S @ W)
    np.fill_diagonal(A, 0)
    A /= A.sum(axis=1, keepdims=True)
    A[np.sort(A, axis=1)[:, -kept][:, None] > A] = 0
    return (A + A.T) / (A + A.T).sum()


@pytest.mark.parametrize("n_steps", [1, 2])
def test_affinities_follow_the_formula(n_steps):
    X = np.random.default_rng(1).normal(size=(20, 5))  # so few rows that all cells are searched
    graph, rows = graph_of(X, 5)
    P = GraphAffinity(n_neighbors=4, n_kept=5, n_steps=n_steps).matrix(graph, rows, rng()).toarray()
    np.testing.assert_allclose(P, affinities_by_definition(graph, X, 4, 5, n_steps), atol=1e-12)


def test_a_number_of_steps_other_than_one_or_two_is_refused():
    graph, rows = graph_of(np.random.default_rng(1).normal(size=(20, 5)), 8)
    with pytest.raises(ValueError, match="n_steps must be 1 or 2, got 3"):
        GraphAffinity(n_steps=3).matrix(graph, rows, rng())


def test_affinities_are_symmetric_without_a_diagonal_and_sum_to_one():
    graph, rows = graph_of(DIGITS, 100)
    P = GraphAffinity().matrix(graph, rows, rng())
    assert abs(P - P.T).max() == 0
    assert P.diagonal().max() == 0
    assert P.sum() == pytest.approx(1)
    assert np.diff(P.indptr).min() > 0


def test_nearly_all_neighbors_of_rows_are_found():
    order, S = neighbor_graph(DIGITS, 10, rng())
    exact = cdist(DIGITS[order], DIGITS[order])
    np.fill_diagonal(exact, np.inf)
    nearest = np.sort(exact, axis=1)[:, 9]
    found = np.array([exact[i, S.indices[S.indptr[i] : S.indptr[i + 1]]] for i in range(len(exact))])
    assert (found <= nearest[:, None]).mean() > 0.9


def test_a_base_point_that_no_row_uses_is_connected_to_its_nearest_base_points():
    X = DIGITS[:300]
    graph, rows = graph_of(X, 30)
    far = BaseGraph(np.vstack([graph.B, graph.B[4] + 50]), graph.k, graph.sigma)
    P = GraphAffinity().matrix(far, rows, rng())
    assert np.diff(P.indptr)[30] >= 1
    nearest = cdist(far.B[30:], far.B[:30]).argmin()
    assert P[[30], :].toarray().ravel()[nearest] > 0


@pytest.mark.parametrize("k", [1, 3])
def test_equal_rows_and_a_disconnected_graph_have_finite_affinities(k):
    X = np.repeat(np.vstack([np.eye(8), 100 + np.eye(8)]), 20, axis=0)
    graph, rows = graph_of(X + 0.01 * rng().normal(size=X.shape), 16, k)
    P = GraphAffinity(n_neighbors=3).matrix(graph, rows, rng())
    assert np.isfinite(P.data).all()
    assert P.sum() == pytest.approx(1)


def test_a_sample_of_the_rows_gives_similar_affinities():
    graph, rows = graph_of(DIGITS, 40)
    whole = GraphAffinity().matrix(graph, rows, rng()).toarray()
    part = GraphAffinity(sample=900).matrix(graph, rows, rng()).toarray()
    assert np.corrcoef(whole.ravel(), part.ravel())[0, 1] > 0.85


def test_separation_is_one_for_many_components_and_small_for_one_dense_group():
    blocks = sp.csr_array(sp.block_diag([np.ones((9, 9)) for _ in range(12)]))
    assert separation(blocks) == pytest.approx(1, abs=1e-3)
    assert separation(sp.csr_array(np.ones((108, 108)))) < 0.1
    assert late_exaggeration(blocks) == pytest.approx(1.8, abs=0.02)
    assert late_exaggeration(sp.csr_array(np.ones((108, 108)))) == pytest.approx(1.1)


@pytest.mark.parametrize(
    "embedding",
    [
        TSNE(n_iter=60, affinity=GraphAffinity()),
        TSNE(n_iter=60, affinity=GraphAffinity(), sampled=20, annealed=True, exaggeration=(4.0, "auto")),
        SNE(n_iter=60, affinity=GraphAffinity()),
        SNE(n_iter=60, affinity=GraphAffinity(), symmetric=True, sampled=20),
        ElasticEmbedding(n_iter=60, affinity=GraphAffinity()),
    ],
    ids=["tsne", "annealed", "sne", "symmetric sne", "ee"],
)
def test_points_with_a_large_affinity_are_embedded_close_to_each_other(embedding):
    hasher = IMH(8, KMeansBase(100), embedding, random_state=0).fit(DIGITS)
    graph, rows = hasher._graph, LocalRows(DIGITS)
    P = GraphAffinity().matrix(graph, rows, rng()).toarray()
    distances = cdist(hasher.base_embedding_, hasher.base_embedding_)
    strong = np.quantile(P[P > 0], 0.8) < P
    others = ~np.eye(100, dtype=bool) & (P == 0)
    assert distances[strong].mean() < 0.6 * distances[others].mean()


def test_an_annealed_descent_ends_with_a_learning_rate_near_zero():
    phases = list(Schedule(4.0, 1.5, annealed=True).in_proportion(125).phases(125))
    assert [t for iterations, *_ in phases for t in iterations] == list(range(125))
    rates = [rate for *_, rate in phases]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 1
    assert 0 < rates[-1] < 0.15
    assert {momentum for _, _, momentum, _ in phases} == {0.9}
    assert sum(len(iterations) for iterations, e, *_ in phases if e == 4.0) == 31


def test_auto_exaggeration_without_affinities_is_refused():
    with pytest.raises(ValueError, match="needs affinities from the rows"):
        TSNE(exaggeration=(4.0, "auto")).fit_transform(DIGITS[:50])


def test_graph_affinities_find_more_within_a_radius_than_those_of_the_base_points(data_folder):
    mnist = load_dataset("mnist")
    X, y = mnist.X_train[:20_000], mnist.y_train[:20_000]
    truth = LabelTruth(mnist.y_test, y)

    def scores(name):
        hasher = recipe(name, 64, random_state=0).fit(X)
        return evaluate(hasher.encode(mnist.X_test), hasher.encode(X), truth, 64)

    graph, large = scores("imh-graph"), scores("imh-large")
    assert graph.map > large.map - 0.01
    assert graph.f1 > large.f1 + 0.15


def graph_hasher():
    embedding = TSNE(n_iter=100, exaggeration=(4.0, "auto"), affinity=GraphAffinity(), annealed=True)
    return IMH(16, KMeansBase(150), embedding, random_state=0)


@pytest.mark.parametrize("k", [1, 4, 17, 40])
def test_the_largest_affinities_are_kept_and_of_equal_ones_the_first(k):
    A = rng().integers(0, 6, (600, 40)) * rng().integers(0, 2, (600, 40)) / 5  # many ties, some rows of zeros
    expected = np.zeros_like(A)
    order = np.argsort(-A, axis=1, kind="stable")[:, :k]
    np.put_along_axis(expected, order, np.take_along_axis(A, order, axis=1), axis=1)
    np.testing.assert_array_equal(_largest(sp.csr_array(A), k).toarray(), expected)


@pytest.mark.extra
def test_a_dask_array_gives_the_codes_of_the_array():
    da = pytest.importorskip("dask.array")
    X = DIGITS.astype(np.float32)
    lazy = da.from_array(X, chunks=(500, -1))
    expected = graph_hasher().fit(X).encode(X)
    np.testing.assert_array_equal(graph_hasher().fit(lazy).encode(lazy).compute(), expected)


@pytest.mark.extra
def test_a_tensor_gives_affinities_that_equal_those_of_the_array():
    torch = pytest.importorskip("torch")
    X = np.hstack([DIGITS, DIGITS**2])  # wider than the components that neighbors are searched in
    graph, rows = graph_of(X, 150)
    tensor_rows = rows_of(torch.from_numpy(X))
    expected = GraphAffinity().matrix(graph, rows, rng())
    found = GraphAffinity().matrix(graph, tensor_rows, rng())
    assert abs(found - expected).max() < 1e-9
