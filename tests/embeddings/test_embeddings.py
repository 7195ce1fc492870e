"""Embeddings of a base set against their definitions and independent implementations."""

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.manifold
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from manihash.base.graph import BaseGraph
from manihash.compute.numpy import squared_distances
from manihash.compute.threads import thread_map
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
    _descent,
)
from manihash.embeddings._descent import ExactLoss, rotated
from manihash.embeddings._perplexity import conditional_probabilities
from manihash.embeddings.diffusion import random_walk
from manihash.embeddings.ee import ElasticEnergy
from manihash.embeddings.le import laplacian
from manihash.embeddings.sne import GaussianDivergence, RowGaussianDivergence
from manihash.embeddings.tsne import StudentDivergence
from manihash.rows.local import LocalRows

EXACT = [LLE, PCA, DiffusionMaps, Isomap, LaplacianEigenmaps, RelaxedLE]
ITERATIVE = [TSNE, SNE, ElasticEmbedding]


@pytest.fixture(scope="module")
def points():
    """Base points of digits: real, distinct, few."""
    return KMeans(120, n_init=1, max_iter=5, random_state=0).fit(load_digits().data / 16).cluster_centers_


def squared(Y):
    return ((Y[:, None] - Y) ** 2).sum(axis=2)


def joint(m=12, seed=0):
    P = np.random.default_rng(seed).random((m, m))
    np.fill_diagonal(P, 0)
    return P / P.sum()


def symmetric_joint(m=12):
    P = joint(m)
    return (P + P.T) / 2


def neighbors_kept(X, Y, k=10):
    """The share of each point's k nearest that are among its k nearest in the embedding."""
    near = [NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False) for Z in (X, Y)]
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(*near, strict=True)])


OBJECTIVES = [
    *(
        pytest.param(lambda dof=dof: StudentDivergence(symmetric_joint(), dof), id=f"t-SNE dof {dof}")
        for dof in (0.5, 1.0, 2.0, 7.0)
    ),
    pytest.param(lambda: GaussianDivergence(symmetric_joint()), id="symmetric SNE"),
    pytest.param(lambda: RowGaussianDivergence(joint_rows()), id="SNE"),
    pytest.param(lambda: ElasticEnergy(symmetric_joint(), 3.0), id="elastic embedding"),
]


def joint_rows(m=12):
    """Conditional probabilities divided by m: what the asymmetric SNE takes."""
    P = joint(m)
    return P / P.sum(axis=1, keepdims=True) / m


@pytest.mark.parametrize("make", OBJECTIVES)
def test_the_gradient_is_that_of_the_loss(make):
    loss = ExactLoss(make(), 12)
    Y = np.random.default_rng(1).standard_normal((12, 3))
    gradient = loss.gradient(Y, 1.0)
    step, numeric = 1e-6, np.empty_like(Y)
    for place in np.ndindex(*Y.shape):
        up, down = Y.copy(), Y.copy()
        up[place] += step
        down[place] -= step
        numeric[place] = (loss.value(up) - loss.value(down)) / (2 * step)
    assert np.allclose(gradient, numeric, rtol=1e-5, atol=1e-8)
    assert np.abs(gradient).max() > 1e-3


def test_the_losses_are_those_of_the_papers():
    Y = np.random.default_rng(1).standard_normal((12, 3))
    off, E = ~np.eye(12, dtype=bool), squared(Y)
    P, K = symmetric_joint(), 1 / (1 + E)
    Q = K / K[off].sum()
    expected = (P[off] * np.log(P[off] / Q[off])).sum()
    assert ExactLoss(StudentDivergence(P, 1.0), 12).value(Y) == pytest.approx(expected)
    K = np.exp(-E)
    Q = K / K[off].sum()
    expected = (P[off] * np.log(P[off] / Q[off])).sum()
    assert ExactLoss(GaussianDivergence(P), 12).value(Y) == pytest.approx(expected)
    elastic = (P[off] * E[off]).sum() + 3 / 144 * K[off].sum()
    assert ExactLoss(ElasticEnergy(P, 3.0), 12).value(Y) == pytest.approx(elastic)
    P = joint_rows()
    q = np.where(off, K, 0)
    q /= q.sum(axis=1, keepdims=True)
    divergences = [
        sum(12 * P[i, j] * np.log(12 * P[i, j] / q[i, j]) for j in range(12) if j != i) for i in range(12)
    ]
    assert ExactLoss(RowGaussianDivergence(P), 12).value(Y) == pytest.approx(np.mean(divergences))


@pytest.mark.parametrize("make", OBJECTIVES)
def test_exaggeration_multiplies_the_attraction_alone(make):
    Y = np.random.default_rng(1).standard_normal((12, 3))
    one, two, four = (ExactLoss(make(), 12).gradient(Y, exaggeration) for exaggeration in (1.0, 2.0, 4.0))
    assert np.allclose(four - one, 3 * (two - one))
    K = 1 / (1 + squared(Y))
    pull = ExactLoss(StudentDivergence(symmetric_joint(), 1.0), 12)
    S = 4 * symmetric_joint() * K
    assert np.allclose(pull.gradient(Y, 2.0) - pull.gradient(Y, 1.0), S.sum(axis=1)[:, None] * Y - S @ Y)


@pytest.mark.parametrize("make", [StudentDivergence, ElasticEnergy, lambda P, _: RowGaussianDivergence(P)])
def test_chunks_and_threads_do_not_change_a_gradient(make, monkeypatch):
    m = 520
    P = symmetric_joint(m)
    Y = np.random.default_rng(1).standard_normal((m, 3))
    whole = ExactLoss(make(P, 2.0), m)
    with threadpool_limits(2, user_api="blas"), thread_map() as each:
        assert np.array_equal(whole.gradient(Y, 1.0, each), whole.gradient(Y, 1.0))
    wanted = whole.gradient(Y, 1.0)
    monkeypatch.setattr(_descent, "_CHUNK_NUMBERS", 10_000)
    smaller = ExactLoss(make(P, 2.0), m)
    assert len(smaller.parts) > 2 * len(whole.parts)
    assert np.allclose(smaller.gradient(Y, 1.0), wanted)


@pytest.mark.parametrize("perplexity", [1.5, 10.0, 50.0, 118.0])
def test_probabilities_reach_their_perplexity(points, perplexity):
    P = conditional_probabilities(points, perplexity, dims=64)
    assert np.allclose(P.sum(axis=1), 1)
    assert np.array_equal(np.diag(P), np.zeros(len(P)))
    entropy = -np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0).sum(axis=1)
    assert np.allclose(np.exp(entropy), perplexity, rtol=1e-6)


def test_probabilities_are_gaussian_in_the_distance(points):
    """log p(j | i) is linear in |b_i - b_j|², with one slope for each i."""
    P, E = conditional_probabilities(points, 15.0, dims=64), squared(points)
    for i in (0, 40, 119):
        j = np.flatnonzero(P[i] > 1e-12)
        assert len(j) > 10
        slopes = np.diff(np.log(P[i, j])) / np.diff(E[i, j])
        assert np.allclose(slopes, slopes[0], rtol=1e-6)


def test_probabilities_of_repeated_points_are_finite():
    P = conditional_probabilities(np.repeat(np.eye(4), 5, axis=0), 3.0, dims=4)
    assert np.isfinite(P).all()
    assert np.allclose(P.sum(axis=1), 1)


def test_t_sne_in_two_dimensions_does_as_well_as_scikit_learns(points):
    """The same divergence (scikit-learn has 1 degree of freedom in 2-D), and as many neighbors kept."""
    ours = TSNE(2, perplexity=15, learning_rate=100, random_state=0)
    Y = ours.fit_transform(points)
    theirs = sklearn.manifold.TSNE(
        2, perplexity=15, method="exact", init="random", max_iter=1000, random_state=0
    ).fit(points)
    P = conditional_probabilities(points, 15, dims=64)
    divergence = ExactLoss(StudentDivergence((P + P.T) / (2 * len(P)), 1.0), len(P))
    assert divergence.value(theirs.embedding_.astype(float)) == pytest.approx(theirs.kl_divergence_, rel=1e-2)
    assert ours.loss_ == pytest.approx(theirs.kl_divergence_, rel=0.15)
    assert neighbors_kept(points, Y) > neighbors_kept(points, theirs.embedding_) - 0.05


@pytest.mark.parametrize("method", ITERATIVE)
def test_the_descent_lowers_the_loss_and_reports_it(points, method):
    first = method(8, n_iter=1, random_state=0).fit(points).loss_
    model = method(8, random_state=0)
    Y = model.fit_transform(points)
    assert model.loss_ < 0.9 * first
    assert np.allclose(Y.mean(axis=0), 0, atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_seed_repeats_the_embedding(points, method, dtype):
    B = points.astype(dtype)
    Y = method(4, n_iter=60, random_state=0).fit_transform(B)
    assert Y.dtype == dtype
    assert np.array_equal(Y, method(4, n_iter=60, random_state=0).fit_transform(B))
    assert not np.array_equal(Y, method(4, n_iter=60, random_state=1).fit_transform(B))


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_loss_of_sne_is_finite_for_clusters_far_apart(points, symmetric):
    far = np.concatenate([points, points + 1000]).astype(np.float32)
    assert np.isfinite(SNE(2, perplexity=3, symmetric=symmetric, random_state=0).fit(far).loss_)


def test_turning_keeps_distances_and_makes_signs_less_correlated():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 12))
    Z = rotated(Y, 50, np.random.default_rng(1))
    correlation = [((np.sign(A).T @ np.sign(A)) ** 2).sum() for A in (Y, Z)]
    assert np.allclose(squared_distances(Y, Y), squared_distances(Z, Z))
    assert correlation[1] < correlation[0]


def test_no_rotations_leave_the_coordinates_as_they_are():
    Y = np.random.default_rng(0).standard_normal((30, 4))
    assert rotated(Y, 0, np.random.default_rng(1)) is Y


def test_a_descent_that_diverges_says_what_to_lower(points):
    with (
        pytest.raises(ValueError, match=r"diverged: lower its learning_rate \(it is 1e\+200\)"),
        np.errstate(all="ignore"),
    ):
        TSNE(2, learning_rate=1e200, random_state=0).fit(points)


@pytest.mark.parametrize("r", [2, 20])
def test_t_sne_keeps_more_neighbors_than_pca_of_as_many_dimensions(points, r):
    kept = neighbors_kept(points, TSNE(r, random_state=0).fit_transform(points))
    assert kept > (neighbors_kept(points, PCA(r).fit_transform(points)) if r == 2 else 0.5)
    assert kept > 4 * 10 / len(points)


@pytest.mark.parametrize("method", [SNE, ElasticEmbedding])
def test_the_other_descents_keep_neighbors_far_above_chance(points, method):
    assert neighbors_kept(points, method(8, random_state=0).fit_transform(points)) > 4 * 10 / len(points)


@pytest.mark.parametrize("method", [LaplacianEigenmaps, LLE, Isomap, DiffusionMaps])
def test_the_exact_methods_keep_neighbors_above_chance(points, method):
    assert neighbors_kept(points, method(8).fit_transform(points)) > 2 * 10 / len(points)


def test_laplacian_eigenmaps_is_relaxed_le_without_coupling(points):
    alone = LaplacianEigenmaps(10).fit_transform(points)
    assert np.array_equal(alone, RelaxedLE(10, lam=0).fit_transform(points))
    T = BaseGraph(points, 5, 1.0).coupling(LocalRows(load_digits().data / 16))
    assert np.array_equal(alone, RelaxedLE(10, lam=0).fit_transform(points, coupling=T))
    assert not np.allclose(alone, RelaxedLE(10).fit_transform(points, coupling=T))


@pytest.mark.parametrize("lam", [0.0, 2.0])
def test_relaxed_le_solves_its_eigenproblem(points, lam):
    T = BaseGraph(points, 5, 1.0).coupling(LocalRows(load_digits().data / 16))
    M, m, r = laplacian(points, 20)[0] + lam * T, len(points), 12
    Y = RelaxedLE(r, lam=lam, n_neighbors=20).fit_transform(points, coupling=T)
    values = (Y * (M @ Y)).sum(axis=0) / m
    assert np.allclose(M @ Y, Y * values, atol=1e-8)
    assert np.allclose(Y.T @ Y, m * np.eye(r), atol=1e-8)
    assert np.allclose(Y.mean(axis=0), 0, atol=1e-8)
    assert (np.diff(values) >= -1e-12).all()
    spectrum = np.linalg.eigvalsh(M)
    assert np.allclose(values, spectrum[spectrum > 1e-3][:r])


def test_the_laplacian_is_symmetric_positive_and_its_rows_sum_to_zero(points):
    M, degrees = laplacian(points, 20)
    assert np.all(degrees > 0)
    assert np.array_equal(M, M.T)
    assert np.allclose(M.sum(axis=1), 0, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > -1e-10


def test_normalized_laplacian_eigenmaps_solve_the_generalized_eigenproblem(points):
    M, degrees = laplacian(points, 20)
    Y = LaplacianEigenmaps(6, normalized=True).fit_transform(points)
    values = (Y * (M @ Y)).sum(axis=0) / (Y * degrees[:, None] * Y).sum(axis=0)
    assert np.allclose(M @ Y, degrees[:, None] * Y * values, atol=1e-8)
    assert np.allclose(Y.T @ (degrees[:, None] * Y), len(points) * np.eye(6), atol=1e-6)
    assert np.allclose(degrees @ Y, 0, atol=1e-6)
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_diffusion_coordinates_are_right_eigenvectors_of_the_walk(points, alpha):
    k = 15
    distance = np.sqrt(squared(points))
    sigma = np.sort(distance, axis=1)[:, k].mean()
    K = np.exp(-((distance / sigma) ** 2))
    q = K.sum(axis=1) ** alpha
    K = K / np.outer(q, q)
    P = K / K.sum(axis=1, keepdims=True)
    values, psi = random_walk(points, k, alpha)
    assert values[0] == pytest.approx(1)
    assert np.ptp(psi[:, 0]) < 1e-8
    assert np.allclose(P @ psi[:, :10], psi[:, :10] * values[:10], atol=1e-8)
    for t in (1.0, 3.0):
        Y = DiffusionMaps(5, n_neighbors=k, alpha=alpha, t=t).fit_transform(points)
        assert np.allclose(P @ Y, Y * values[1:6], atol=1e-8)
        assert np.allclose(Y, psi[:, 1:6] * values[1:6] ** t)


def test_pca_is_scikit_learns_up_to_signs(points):
    theirs = sklearn.decomposition.PCA(10).fit_transform(points)
    ours = PCA(10).fit_transform(points)
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-9)
    assert np.allclose(np.abs((ours * theirs).sum(axis=0)), (theirs**2).sum(axis=0))


def test_lle_and_isomap_are_scikit_learns_up_to_signs(points):
    theirs = sklearn.manifold.LocallyLinearEmbedding(
        n_neighbors=12, n_components=6, eigen_solver="dense"
    ).fit_transform(points)
    ours = LLE(6, n_neighbors=12).fit_transform(points)
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-7)
    theirs = sklearn.manifold.Isomap(n_neighbors=12, n_components=6, eigen_solver="dense").fit_transform(
        points
    )
    ours = Isomap(6, n_neighbors=12).fit_transform(points)
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-7)


def test_isomap_of_a_graph_in_pieces_joins_them_without_a_warning(recwarn):
    rng = np.random.default_rng(0)
    pieces = np.concatenate([rng.standard_normal((30, 3)), 100 + rng.standard_normal((30, 3))])
    Y = Isomap(2, n_neighbors=5).fit_transform(pieces)
    assert np.isfinite(Y).all()
    assert abs(Y[:30, 0].mean() - Y[30:, 0].mean()) > 50
    assert not [w for w in recwarn if "connected components" in str(w.message)]


@pytest.mark.parametrize("method", [LLE, Isomap, DiffusionMaps, LaplacianEigenmaps])
def test_the_largest_entry_of_a_coordinate_is_positive(points, method):
    Y = method(6).fit_transform(points)
    assert (Y[np.abs(Y).argmax(axis=0), np.arange(6)] > 0).all()


@pytest.mark.parametrize("method", EXACT)
def test_the_order_of_the_points_does_not_matter_to_the_exact_methods(points, method):
    order = np.random.default_rng(0).permutation(len(points))
    Y, shuffled = method(3).fit_transform(points), method(3).fit_transform(points[order])
    assert np.allclose(np.abs(shuffled), np.abs(Y[order]), atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("method", [*EXACT, *ITERATIVE])
def test_more_dimensions_than_points_are_an_error_that_says_what_to_do(points, method):
    with pytest.raises(
        ValueError, match=r"120 dimensions.* at most 119: lower n_bits.*use a larger base set"
    ):
        method(120).fit(points)


def test_too_many_dimensions_are_an_error_that_names_the_largest_number(points):
    for method in (PCA, LLE):
        with pytest.raises(ValueError, match="at most 64"):
            method(65).fit(points)
    with pytest.raises(
        ValueError, match=r"119 dimensions.*distances along their graph.*at most (\d+)"
    ) as error:
        Isomap(119).fit(points)
    most = int(str(error.value).split("at most ")[1].split(":")[0])
    assert np.isfinite(Isomap(most).fit_transform(points)).all()


@pytest.mark.parametrize("perplexity", [0.5, 120, np.nan, "many", None])
def test_an_invalid_perplexity_is_an_error(points, perplexity):
    for method in ITERATIVE:
        with pytest.raises(ValueError, match="perplexity"):
            method(2, perplexity=perplexity).fit(points)
