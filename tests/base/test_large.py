"""Large base sets: k-means through cells, its memory, and models made of these parts."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from manihash import IMH, InductiveEmbedding, load, load_dataset, recipe
from manihash.base import CoarseNeighbors, ExactNeighbors, KMeansBase, LargeBase, ListedNeighbors, ReducedBase
from manihash.base.cell_search import ListedSearch
from manihash.compute import numpy as numpy_backend
from manihash.embeddings import PCA, TSNE
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.hashers import AGH
from manihash.rotation import ITQRotation
from manihash.rows.local import LocalRows


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32) / 16


def test_k_means_through_cells_comes_near_plain_k_means(digits):
    ours = LargeBase(250, random_state=0).fit(digits)
    plain = KMeansBase(250, random_state=0).fit(digits)
    assert ours.inertia_ < 1.05 * plain.inertia_
    assert len(ours.points_) == 250


def test_with_every_cell_probed_it_reaches_a_fixed_point_of_plain_k_means(digits):
    base = LargeBase(40, probes=100, max_iter=100, random_state=0).fit(digits)
    nearest = numpy_backend.k_nearest(digits, base.points_, 1)[1][:, 0]
    means = np.array([digits[nearest == j].mean(axis=0) for j in range(40)])
    assert np.allclose(means, base.points_, atol=1e-5)


@pytest.mark.parametrize("neighbors", [None, ListedNeighbors(), ExactNeighbors()], ids=repr)
def test_up_to_its_size_a_large_base_holds_every_row_once(digits, neighbors, recwarn):
    twice = np.vstack([digits, digits[:100]])
    base = LargeBase(len(twice), neighbors=neighbors, random_state=0).fit(twice)
    assert sorted(map(bytes, base.points_)) == sorted(set(map(bytes, digits)))
    assert (base.n_iter_, base.inertia_, len(recwarn)) == (0, 0, 0)


def test_above_its_size_a_large_base_has_size_centers(digits):
    assert len(LargeBase(50, random_state=0).fit(digits).points_) == 50
    assert len(LargeBase(len(digits) - 1, random_state=0).fit(digits).points_) == len(digits) - 1


def test_training_rows_that_are_base_points_have_their_own_values_nearest(digits):
    hasher = IMH(16, ReducedBase(LargeBase(), 20), PCA(), random_state=0).fit(digits)
    squared, _ = hasher.finder_.k_nearest(digits, hasher.base_points_, 2)
    assert (squared[:, 0] < 1e-4 * squared[:, 1]).mean() > 0.99


def test_a_seed_and_the_number_of_threads_do_not_change_a_bit(digits):
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(small_large(random_state=3).fit(digits).encode(digits))
    assert np.array_equal(*found)


def test_rows_that_do_not_fit_into_memory_are_sampled_and_the_size_is_logged_once(
    digits, monkeypatch, caplog
):
    monkeypatch.setattr("manihash.base.large.CACHE_BYTES", 1000)
    monkeypatch.setattr("manihash.base.kmeans._ALL_ROWS", 1000)
    caplog.set_level("INFO", "manihash")
    for sample in (256, None, 10):
        assert len(LargeBase(100, sample=sample, random_state=0).fit(digits).points_) == 100
    said = "k-means uses 600 of 1,797 rows, as many as fit into memory"
    assert caplog.messages == [said] * 3
    monkeypatch.undo()
    caplog.clear()
    monkeypatch.setattr("manihash.base.kmeans._ALL_ROWS", 1000)
    LargeBase(100, sample=10, random_state=0).fit(digits)
    assert caplog.messages == ["k-means uses 1,000 of 1,797 rows, 10 per center (sample=None uses all rows)"]


def peak_of(work):
    """The most bytes held at once by some work, on one thread."""
    with threadpool_limits(1, user_api="blas"):
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


class Drawn:
    """Rows that are drawn when they are read: as those of a file, they take no memory until then."""

    def __init__(self, n, d):
        self.shape, self.dtype = (n, d), np.dtype(np.uint8)

    def __getitem__(self, part):
        start, stop, _ = part.indices(self.shape[0])
        return np.random.default_rng(start).integers(0, 256, (stop - start, self.shape[1]), np.uint8)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    ("n", "sample", "neighbors"),
    [
        pytest.param(65_000, 1000, None, id="the components of all rows just fit"),
        pytest.param(65_000, 500, None, id="they fit, and a sample is looked at"),
        pytest.param(100_000, 1000, None, id="a sample of them must be cut to fit"),
        pytest.param(4_000_000, 20, ListedNeighbors(), id="n numbers alone would not fit"),
    ],
)
def test_the_memory_of_a_fit_stays_near_the_cache_limit(n, sample, neighbors, monkeypatch):
    bytes_held = 2**24
    for place in ("rows.local", "base.reduced", "base.large"):
        monkeypatch.setattr(f"manihash.{place}.CACHE_BYTES", bytes_held)
    monkeypatch.setattr("manihash.base.kmeans._ALL_ROWS", 2**13)
    monkeypatch.setattr("manihash.base.reduced._PCA_ROWS", 500)
    monkeypatch.setattr("manihash.base.listed._LIST_ROWS", 1000)
    monkeypatch.setattr("manihash.base.neighbors.RECALL_ROWS", 200)
    monkeypatch.setattr("manihash.base.listed.RECALL_ROWS", 200)
    monkeypatch.setattr("manihash.compute.numpy.block_rows", lambda width: 256)
    base = ReducedBase(LargeBase(100, neighbors, max_iter=1, sample=sample), 64)
    rows = LocalRows(Drawn(n, 64))
    peak = peak_of(lambda: base.fit_rows(rows).finder(rows, 5, np.random.default_rng(0)))
    assert peak < 1.3 * bytes_held


def test_wide_sparse_rows_are_never_dense_all_at_once(monkeypatch):
    monkeypatch.setattr("manihash.compute.numpy.block_rows", lambda width: 64)
    monkeypatch.setattr("manihash.rows.local.CACHE_BYTES", 2**20)
    rng = np.random.default_rng(0)
    n, d = 1000, 20_000
    X = sp.csr_array((np.ones(8 * n), (np.repeat(np.arange(n), 8), rng.integers(0, d, 8 * n))), shape=(n, d))
    hasher = IMH(8, ReducedBase(LargeBase(20, max_iter=1), 8), PCA(), rotation=ITQRotation(2), random_state=0)
    assert peak_of(lambda: hasher.fit(X)) < 0.6 * n * d * 8


def small_large(neighbors=None, **options):
    base = ReducedBase(LargeBase(200, neighbors=neighbors), n_components=20)
    return IMH(16, base, TSNE(n_iter=60), rotation=ITQRotation(5), normalize=True, **options)


@pytest.mark.parametrize("neighbors", [None, ListedNeighbors(), ExactNeighbors()], ids=repr)
def test_a_model_comes_back_from_its_file_with_its_codes_and_recall(digits, tmp_path, neighbors):
    hasher = small_large(neighbors, random_state=0).fit(digits)
    hasher.save(tmp_path / "m.mhash")
    loaded = load(tmp_path / "m.mhash")
    assert np.array_equal(loaded.encode(digits), hasher.encode(digits))
    assert loaded.neighbor_recall_ == hasher.neighbor_recall_
    assert (hasher.neighbor_recall_ == 1) == isinstance(neighbors, ExactNeighbors)
    assert hasher.neighbor_recall_ > 0.8
    assert hasher.base_points_.shape == (200, 20)


def test_lists_are_made_once_for_rows_of_each_type(digits, monkeypatch):
    hasher, made = small_large(ListedNeighbors(), random_state=0).fit(digits), []
    gather = ListedSearch.__init__
    monkeypatch.setattr(ListedSearch, "__init__", lambda *given: (made.append(1), gather(*given))[1])
    with threadpool_limits(1, user_api="blas"):
        for _ in range(2):
            for rows in (digits, digits.astype(np.float64), np.tile(digits, (12, 1)).astype(np.float64)):
                hasher.encode(rows)
    assert len(made) == 2


def test_the_parts_serve_other_methods_too(digits):
    base = ReducedBase(LargeBase(200, neighbors=ListedNeighbors()), n_components=20)
    Y = InductiveEmbedding(2, base, PCA(), random_state=0).fit_transform(digits)
    assert np.isfinite(Y).all()
    codes = AGH(8, base, random_state=0).fit(digits).encode(digits)
    assert len(np.unique(codes)) > 50


def mean_average_precision(name, X, y, new, new_y):
    hasher = recipe(name, 32, random_state=0).fit(X)
    return evaluate(hasher.encode(new), hasher.encode(X), LabelTruth(new_y, y), 32).map


def test_the_recipes_rank_rows_of_many_clusters_better_than_400_base_points():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(600), 12))
    X = (rng.standard_normal((600, 16))[y] + 0.3 * rng.standard_normal((len(y), 16))).astype(np.float32)
    given = X[200:], y[200:], X[:200], y[:200]
    few = max(mean_average_precision(name, *given) for name in ("imh-tsne", "imh-tsne-rotated"))
    for name in ("imh-large", "imh-large-fast"):
        assert mean_average_precision(name, *given) > 1.25 * few


def test_the_recipes_rank_digits_as_400_base_points_do():
    data = load_dataset("digits")
    given = data.X_train, data.y_train, data.X_test, data.y_test
    few = mean_average_precision("imh-tsne-rotated", *given)
    for name in ("imh-large", "imh-large-fast"):
        assert mean_average_precision(name, *given) == pytest.approx(few, abs=0.05)


@pytest.mark.usefixtures("seed_of_zero")
def test_invalid_options_are_errors_that_name_them(digits):
    for bad in (LargeBase(size=0), LargeBase(probes=0), LargeBase(max_iter=-1)):
        with pytest.raises(ValueError, match="must be"):
            bad.fit(digits)
    with pytest.raises(ValueError, match="n_components must be"):
        ReducedBase(KMeansBase(10), n_components=0).fit(digits)
    with pytest.raises(ValueError, match="probes must be"):
        LargeBase(20, neighbors=CoarseNeighbors(probes=-3)).fit(digits)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    ("base", "message"),
    [
        (LargeBase(20, neighbors="exact"), r"neighbors must be CoarseNeighbors\(\), .*, not 'exact'"),
        (LargeBase(20, neighbors=ExactNeighbors), r"neighbors must be an object.*give ExactNeighbors\(\)"),
        (ReducedBase(KMeansBase), r"base must be an object, not a class: give KMeansBase\(\)"),
        (ReducedBase(np.eye(64)), r"base must be KMeansBase\(\), .*, not ndarray of shape \(64, 64\)"),
        (ReducedBase(400), r"base must be KMeansBase\(\), .*, not 400"),
    ],
)
def test_invalid_parts_are_errors_that_name_valid_ones(digits, base, message):
    with pytest.raises(ValueError, match=message):
        base.fit(digits)
    with pytest.raises(ValueError, match=message):
        IMH(8, base).fit(digits)


@pytest.mark.parametrize("n", [6, 16])
def test_too_few_rows_for_a_large_base_are_an_error(digits, n):
    with pytest.raises(ValueError, match="use a larger base set"):
        recipe("imh-large", 16, random_state=0).fit(digits[:n])
