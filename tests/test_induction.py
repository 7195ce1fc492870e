"""Induction: new points as weighted means of embedded base points, by any embedding."""

import numpy as np
import pytest
import sklearn.manifold
from sklearn.datasets import load_digits

from manihash import InductiveEmbedding
from manihash.base import KMeansBase, RandomBase
from manihash.base.graph import BaseGraph
from manihash.embeddings import PCA, TSNE


class Columns:
    """A foreign embedding without get_params: the first columns of its input."""

    def __init__(self, columns):
        self.columns = columns

    def fit_transform(self, X):
        return X[:, : self.columns]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture
def graph(digits):
    return BaseGraph(digits[::40], k=5, sigma=20.0)


@pytest.fixture
def Y_B(graph):
    return np.random.default_rng(0).standard_normal((len(graph.B), 6))


def test_a_point_with_one_neighbor_takes_its_embedding(digits, graph, Y_B):
    one = BaseGraph(graph.B, 1, graph.sigma)
    nearest = ((digits[:, None] - graph.B) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(one.induce(digits, Y_B), Y_B[nearest])


def test_a_base_point_far_from_all_others_takes_its_own_embedding(graph, Y_B):
    B = np.concatenate([graph.B, graph.B[:1] + 1e4])
    Y_B = np.concatenate([Y_B, [[9.0, 8, 7, 6, 5, 4]]])
    assert np.allclose(BaseGraph(B, 5, 20.0).induce(B[-1:], Y_B), Y_B[-1])


def test_a_point_far_from_every_base_point_takes_its_nearest_and_is_no_nan(graph, Y_B):
    far = graph.B[:1] * 1e6 + 1e9
    nearest = ((far - graph.B) ** 2).sum(axis=1).argmin()
    assert np.allclose(graph.induce(far, Y_B), Y_B[nearest])


def test_the_induced_point_is_the_formula_written_out(digits, graph, Y_B):
    for x in digits[:20]:
        squared = ((x - graph.B) ** 2).sum(axis=1)
        near = np.argsort(squared, kind="stable")[:5]
        w = np.exp(-squared[near] / 20.0**2)
        assert np.allclose(graph.induce(x[None], Y_B)[0], w @ Y_B[near] / w.sum())


def test_the_induced_point_minimizes_the_papers_cost(digits, graph, Y_B):
    """C(y) = Σ_j w(x, c_j) |y - y_j|² over the neighbors: any step away from the induced point raises it."""
    rng = np.random.default_rng(0)
    for x in digits[:10]:
        squared = ((x - graph.B) ** 2).sum(axis=1)
        near = np.argsort(squared, kind="stable")[:5]
        w, Y = np.exp(-squared[near] / 20.0**2), Y_B[near]
        y = graph.induce(x[None], Y_B)[0]
        cost = w @ ((y - Y) ** 2).sum(axis=1)
        for _ in range(20):
            other = y + 0.01 * rng.standard_normal(6)
            assert w @ ((other - Y) ** 2).sum(axis=1) > cost


def test_induced_points_lie_within_the_base_sets_embedding(digits, graph, Y_B):
    induced, embedded = graph.induce(digits, Y_B), Y_B
    assert (induced.min(axis=0) >= embedded.min(axis=0) - 1e-12).all()
    assert (induced.max(axis=0) <= embedded.max(axis=0) + 1e-12).all()


def test_an_orthogonal_map_of_the_base_embedding_is_one_of_the_induced(digits, graph, Y_B):
    R = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    turned = graph.induce(digits, Y_B @ R + 3)
    assert np.allclose(turned, graph.induce(digits, Y_B) @ R + 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("r", [2, 50])
def test_transform_of_a_row_is_the_same_whatever_the_batch(digits, r, dtype):
    X = digits.astype(dtype)
    model = InductiveEmbedding(r, KMeansBase(80), TSNE(n_iter=50), random_state=0).fit(X)
    whole = model.transform(X)
    rng = np.random.default_rng(0)
    for size in range(1, 21):
        i = int(rng.integers(0, len(X) - size))
        assert np.array_equal(model.transform(X[i : i + size]), whole[i : i + size])
    picked = rng.choice(len(X), 100)
    assert np.array_equal(model.transform(X[picked]), whole[picked])


def test_a_seed_repeats_the_model_and_another_gives_another(digits):
    def embed(seed):
        return InductiveEmbedding(3, KMeansBase(40), TSNE(n_iter=30), random_state=seed).fit_transform(digits)

    assert np.array_equal(embed(0), embed(0))
    assert not np.array_equal(embed(0), embed(1))
    assert np.array_equal(embed(np.random.default_rng(7)), embed(np.random.default_rng(7)))
    assert np.array_equal(embed(np.random.RandomState(7)), embed(np.random.RandomState(7)))


def test_the_users_parts_are_left_as_they_were(digits):
    base, embedding = KMeansBase(40), TSNE(n_components=3, n_iter=20)
    model = InductiveEmbedding(5, base, embedding, random_state=0).fit(digits)
    assert model.base is base
    assert model.embedding is embedding
    assert not hasattr(base, "points_")
    assert not hasattr(embedding, "embedding_")
    assert embedding.n_components == 3
    assert base.random_state is embedding.random_state is None


def test_a_part_with_a_seed_of_its_own_keeps_it(digits):
    model = InductiveEmbedding(2, RandomBase(40, random_state=3), PCA(), random_state=0).fit(digits)
    assert np.array_equal(model.base_points_, RandomBase(40, random_state=3).fit(digits).points_)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize("given", [np.float64, np.float32, np.float16, np.uint8, ">f8", list])
def test_an_array_is_used_as_base_set_unchanged(digits, given):
    B = digits[:50]
    base = B.tolist() if given is list else B.astype(given)
    model = InductiveEmbedding(3, base, PCA()).fit(digits)
    assert np.array_equal(model.base_points_, B)
    assert np.allclose(model.transform(digits), InductiveEmbedding(3, B, PCA()).fit(digits).transform(digits))


@pytest.mark.usefixtures("seed_of_zero")
def test_a_base_in_half_precision_does_not_overflow(digits):
    base = (digits[:50] * 20).astype(np.float16)
    model = InductiveEmbedding(3, base, PCA()).fit(digits.astype(np.float32) * 20)
    assert 0 < model.bandwidth_ < 5000


def test_the_base_embedding_is_centered_and_the_bandwidth_kept(digits):
    model = InductiveEmbedding(3, KMeansBase(30), Columns(3), bandwidth=12.5, random_state=0).fit(digits)
    assert np.allclose(model.base_embedding_.mean(axis=0), 0)
    assert model.bandwidth_ == 12.5


@pytest.mark.parametrize(
    "embedding",
    [
        sklearn.manifold.Isomap(n_neighbors=8),
        sklearn.manifold.SpectralEmbedding(n_neighbors=8),
        sklearn.manifold.MDS(max_iter=5, n_init=1),
        Columns(4),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_any_object_with_fit_transform_is_an_embedding(digits, embedding):
    model = InductiveEmbedding(4, KMeansBase(60), embedding, random_state=0).fit(digits)
    Y = model.transform(digits[:10])
    assert Y.shape == (10, 4)
    assert np.array_equal(
        Y, InductiveEmbedding(4, KMeansBase(60), embedding, random_state=0).fit(digits).transform(digits)[:10]
    )


@pytest.mark.usefixtures("seed_of_zero")
def test_a_foreign_embedding_of_the_wrong_width_is_an_error(digits):
    with pytest.raises(ValueError, match=r"Columns returned .* of shape \(40, 3\), expected \(40, 4\)"):
        InductiveEmbedding(4, KMeansBase(40), Columns(3)).fit(digits)


@pytest.mark.usefixtures("seed_of_zero")
def test_a_foreign_embedding_with_nan_is_an_error(digits):
    class Nothing:
        def fit_transform(self, X):
            return np.full((len(X), 2), np.nan)

    with pytest.raises(ValueError, match="Nothing returned NaN"):
        InductiveEmbedding(2, KMeansBase(40), Nothing()).fit(digits)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"embedding": TSNE}, r"not a class: give TSNE\(\)"),
        ({"base": KMeansBase}, r"not a class: give KMeansBase\(\)"),
        ({"embedding": "tsne"}, "must have fit_transform"),
        ({"base": "kmeans"}, "base must be KMeansBase"),
        ({"base": 400}, "base must be KMeansBase"),
        ({"base": np.ones((30, 5))}, "array of points of width 64"),
        ({"base": np.ones((30, 64)) * 1j}, "base must be"),
        ({"base": np.full((30, 64), np.nan)}, "base contains NaN"),
        ({"base": np.ones((1, 64))}, "1 distinct point"),
        ({"n_neighbors": 31}, "n_neighbors=31 exceeds the 30 neighbors"),
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"bandwidth": 0}, "bandwidth must be"),
        ({"bandwidth": -1.0}, "bandwidth must be"),
        ({"bandwidth": "wide"}, "bandwidth must be"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": 30}, "at most 29"),
        ({"n_components": 2.5}, "n_components must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": "seed"}, "random_state must be"),
    ],
)
def test_an_invalid_part_or_option_is_named_in_the_error(digits, parts, message):
    options = {"n_components": 2, "base": RandomBase(30), "embedding": PCA(), "random_state": 0, **parts}
    with pytest.raises(ValueError, match=message):
        InductiveEmbedding(**options).fit(digits)


def test_new_points_are_placed_near_points_of_their_class(digits):
    """Trained on one half of the digits, the other half has its nearest neighbor of its own class."""
    y = load_digits().target
    model = InductiveEmbedding(2, KMeansBase(200), TSNE(learning_rate=100), random_state=0).fit(digits[::2])
    known, new = model.transform(digits[::2]), model.transform(digits[1::2])
    nearest = ((new[:, None] - known) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(y[::2][nearest] == y[1::2]) > 0.9


@pytest.mark.parametrize("base", [KMeansBase(20), "array"])
def test_rows_far_from_zero_keep_their_neighbors_in_float32(base):
    """Sensor readings such as 1000 ± 1: the expanded square would lose every digit of a distance."""
    X = (np.random.default_rng(0).standard_normal((500, 8)) + 1000).astype(np.float32)
    base = X[:20] if isinstance(base, str) else base
    single, double = (
        InductiveEmbedding(2, base=base, embedding=PCA(), random_state=0).fit(rows)
        for rows in (X, X.astype(np.float64))
    )
    assert single.origin_ is not None
    assert np.array_equal(single.origin_, double.origin_)
    assert np.allclose(single.transform(X), double.transform(X.astype(np.float64)), atol=1e-3)


def test_a_changed_parameter_does_not_change_a_fitted_embedding():
    X = np.random.default_rng(0).standard_normal((200, 5))
    model = InductiveEmbedding(2, base=KMeansBase(20), embedding=PCA(), random_state=0).fit(X)
    before = model.transform(X)
    assert np.array_equal(model.set_params(n_neighbors=1).transform(X), before)
