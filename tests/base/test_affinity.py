"""Affinities from the neighbor graph of the rows: the formula, isolated base points, clear groups."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from manihash import IMH, LabelTruth, evaluate, load_dataset, recipe
from manihash.base import GraphAffinity, KMeansBase, LargeBase
from manihash.base.affinity import _largest, neighbor_graph, number_of_groups, share_of_rows, walked
from manihash.base.graph import BaseGraph
from manihash.embeddings import SNE, TSNE, ElasticEmbedding, _descent
from manihash.embeddings._descent import Schedule, neighbor_loss
from manihash.embeddings._perplexity import conditional_probabilities, near_probabilities
from manihash.embeddings.tsne import late_exaggeration
from manihash.rotation import ITQRotation
from manihash.rows import rows_of
from manihash.rows.local import LocalRows

DIGITS = load_digits().data / 16


def rng():
    return np.random.default_rng(0)


def graph_of(X, m, k=3):
    rows = LocalRows(X)
    return BaseGraph.fit(KMeansBase(m), rows, k, None, seed=0), rows


def affinities_by_definition(graph, X, k, kept, n_steps=1, walk=0):
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
    if walk:
        S = np.linalg.matrix_power((S + S.T) / (S + S.T).sum(axis=1, keepdims=True), walk)
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


@pytest.mark.parametrize("walk", [2, 4, 8, 16])
def test_a_walk_takes_a_power_of_the_symmetric_graph_of_the_rows(walk):
    X = np.random.default_rng(1).normal(size=(20, 5))  # fewer rows than the ends of a walk that are kept
    graph, rows = graph_of(X, 5)
    P = GraphAffinity(n_neighbors=4, n_kept=5, walk=walk).matrix(graph, rows, rng()).toarray()
    np.testing.assert_allclose(P, affinities_by_definition(graph, X, 4, 5, walk=walk), atol=1e-12)


def test_a_walk_in_parts_keeps_the_most_probable_ends(monkeypatch):
    _, S = neighbor_graph(DIGITS, 10, rng())
    whole = walked(S, 4)
    monkeypatch.setattr("manihash.base.affinity._WALK_ROWS", 100)
    assert abs(walked(S, 4) - whole).max() == 0
    assert np.diff(whole.indptr).max() <= 40
    np.testing.assert_allclose(whole.sum(axis=1), 1)


def test_a_walk_connects_more_rows_of_one_class():
    y = load_digits().target
    order, S = neighbor_graph(DIGITS, 10, rng())
    y = y[order]

    def purity(graph):
        graph = graph.tocoo()
        return graph.data[y[graph.row] == y[graph.col]].sum() / graph.data.sum()

    assert purity(walked(S, 8)) > purity(S)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"walk": 3}, "walk must be 0, 2, 4, 8, 16 or 'auto', got 3"),
        ({"walk": True}, "walk must be 0, 2, 4, 8, 16 or 'auto', got True"),
        ({"walk": "all"}, "walk must be 0, 2, 4, 8, 16 or 'auto', got 'all'"),
        ({"share": 0}, "share must be above zero, not 0"),
        ({"share": 1.5}, "share must be at most 1, got 1.5"),
        ({"n_steps": 3}, "n_steps must be 1, 2 or 'auto', got 3"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    graph, rows = graph_of(np.random.default_rng(1).normal(size=(20, 5)), 8)
    with pytest.raises(ValueError, match=message):
        GraphAffinity(**options).matrix(graph, rows, rng())


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("sampled", [None, 20], ids=["all pairs", "sampled"])
def test_a_share_mixes_the_affinities_of_rows_and_of_distances(sampled, symmetric):
    graph, rows = graph_of(DIGITS, 150)
    of_rows = GraphAffinity().matrix(graph, rows, rng())

    def preserved(share):
        """The affinities that an embedding of the base points preserves, as a dense matrix."""
        seen = []
        affinity = GraphAffinity(share=share)
        affinity.matrix(graph, rows, rng())
        options = TSNE(64, sampled=sampled, affinity=affinity, random_state=0)
        neighbor_loss(
            options, graph.B, seen.append, lambda P, s, seed: seen.append(P),
            symmetric=symmetric, affinities=of_rows,
        )  # fmt: skip
        return seen[0].toarray() if sp.issparse(seen[0]) else seen[0]

    of_points = (near_probabilities if sampled else conditional_probabilities)(graph.B, 10, 64)
    own = of_points.toarray() if sampled else of_points
    own = (own + own.T) / 300 if symmetric else own / 150
    mixed = preserved(0.25)
    np.testing.assert_allclose(mixed, 0.25 * preserved(1.0) + 0.75 * own, rtol=1e-9, atol=1e-15)
    assert mixed.sum() == pytest.approx(1)


@pytest.mark.parametrize("m", [20, 30, 31])
def test_with_twice_as_many_rows_as_base_points_auto_takes_all_from_a_clean_graph_of_the_rows(m):
    graph, rows = graph_of(rng().normal(size=(60, 5)), m)
    many = m <= 30
    by_rule = GraphAffinity(n_neighbors=5, n_steps="auto", walk="auto", share="auto")
    fixed = GraphAffinity(n_neighbors=5, n_steps=2 if many else 1, walk=8 if many else 0)
    difference = by_rule.matrix(graph, rows, rng()) - fixed.matrix(graph, rows, rng())
    assert abs(difference).max() == 0
    assert by_rule.share_ == (1.0 if many else 0.5)


def test_a_refit_mixes_affinities_by_the_same_share_as_a_fit():
    embedding = TSNE(n_iter=60, affinity=GraphAffinity(share="auto"))
    hasher = IMH(8, LargeBase(), embedding, random_state=0).fit(DIGITS[:400])
    shares = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_descent, "share_of_rows", lambda part: shares.append(share_of_rows(part)) or 0.5)
        hasher.refit(DIGITS[:400])
    assert set(shares) == {0.5}
    assert not hasattr(hasher.embedding.affinity, "share_")


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


def blocks(number):
    """A graph of this many components of nine points."""
    return sp.csr_array(sp.block_diag([np.ones((9, 9)) for _ in range(number)]))


@pytest.mark.parametrize("number", [1, 2, 12, 100])
def test_the_number_of_groups_is_that_of_the_components(number):
    assert number_of_groups(blocks(number)) == pytest.approx(number, rel=0.15)


def test_groups_that_mix_count_less_and_the_number_is_that_of_the_eigenvalues():
    joined = blocks(12) + 0.02 * np.ones((108, 108))
    scale = 1 / np.sqrt(joined.sum(axis=1))
    powers = (np.linalg.eigvalsh(scale[:, None] * joined * scale) ** 16).sum()
    assert number_of_groups(sp.csr_array(joined)) == pytest.approx(powers, rel=0.2)
    assert 1 < powers < 6


def test_late_exaggeration_is_large_for_a_few_groups_and_not_for_one_or_for_many():
    factors = [late_exaggeration(blocks(number)) for number in (1, 5, 12, 60)]
    assert factors == pytest.approx([1.1, 1.5, 2.2, 1.0], abs=0.1)


def test_an_adaptive_rotation_is_left_out_for_many_small_groups(caplog):
    caplog.set_level("INFO", "manihash")

    def rotation(groups, **options):
        centers = 20 * rng().normal(size=(groups, 8))
        X = np.repeat(centers, 600 // groups, axis=0) + rng().normal(size=(600, 8))
        embedding = TSNE(n_iter=20, affinity=GraphAffinity(n_neighbors=5))
        hasher = IMH(8, LargeBase(), embedding, rotation=ITQRotation(2, **options), random_state=0)
        return hasher.fit(X).rotation_

    assert rotation(5, adaptive=True) is not None
    assert rotation(60) is not None
    assert not [text for text in caplog.messages if "rotated" in text]
    assert rotation(60, adaptive=True) is None
    assert "codes are not rotated: the rows fall into many small groups" in caplog.text


@pytest.mark.parametrize(
    "embedding",
    [
        TSNE(n_iter=60, affinity=GraphAffinity()),
        TSNE(n_iter=60, affinity=GraphAffinity(), sampled=20, annealed=True, exaggeration=(4.0, "auto")),
        TSNE(n_iter=60, affinity=GraphAffinity(walk=4, share=0.5)),
        SNE(n_iter=60, affinity=GraphAffinity(share=0.5)),
        SNE(n_iter=60, affinity=GraphAffinity(), symmetric=True, sampled=20),
        ElasticEmbedding(n_iter=60, affinity=GraphAffinity()),
    ],
    ids=["tsne", "annealed", "mixed", "sne", "symmetric sne", "ee"],
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
