"""Base sets: k-means against scikit-learn's, and what happens to empty clusters and repeated rows."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from manihash import IMH
from manihash.base import KMeansBase, RandomBase
from manihash.base import kmeans as kmeans_module
from manihash.base.kmeans import among_all, lloyd_round
from manihash.embeddings import PCA
from manihash.rows.local import LocalRows


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


def normal(n, d, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def start_of(X, size, seed):
    """The rows that KMeansBase starts from: its one draw."""
    return X[np.random.default_rng(seed).choice(len(X), size, replace=False)]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_k_means_gives_the_centers_of_scikit_learn_from_the_same_start(digits, rounds):
    ours = KMeansBase(20, max_iter=rounds, random_state=3).fit(digits)
    theirs = KMeans(20, init=start_of(digits, 20, 3), n_init=1, max_iter=rounds, tol=0, algorithm="lloyd")
    assert np.allclose(ours.points_, theirs.fit(digits).cluster_centers_, atol=1e-9)


def test_k_means_that_has_converged_is_where_scikit_learn_converges(digits):
    ours = KMeansBase(10, max_iter=300, random_state=1).fit(digits)
    theirs = KMeans(10, init=start_of(digits, 10, 1), n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(
        digits
    )
    assert np.allclose(ours.points_, theirs.cluster_centers_, atol=1e-9)
    assert ours.inertia_ == pytest.approx(theirs.inertia_)
    assert ours.n_iter_ < 300


def a_round(rows, centers):
    return lloyd_round(rows, centers, among_all(rows))


def test_a_round_of_lloyds_assigns_to_the_nearest_center_and_takes_means():
    X, centers = normal(3000, 4), normal(7, 4, seed=1)
    new, labels, inertia = a_round(LocalRows(X), centers)
    squared = ((X[:, None] - centers) ** 2).sum(axis=2)
    assert np.array_equal(labels, squared.argmin(axis=1))
    assert inertia == pytest.approx(squared.min(axis=1).sum())
    assert np.allclose(new, [X[labels == j].mean(axis=0) for j in range(7)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sum_of_squares_never_rises(digits, dtype):
    rows = LocalRows(digits.astype(dtype))
    centers = digits[:40].astype(dtype)
    inertias = []
    for _ in range(12):
        centers, _, inertia = a_round(rows, centers)
        inertias.append(inertia)
    assert (np.diff(inertias) <= 1e-6 * inertias[0]).all()
    assert inertias[-1] < 0.9 * inertias[0]


@pytest.mark.parametrize("base", [KMeansBase(30), RandomBase(30)])
def test_a_seed_repeats_the_points_and_another_gives_others(digits, base):
    first = base.set_params(random_state=5).fit(digits).points_.copy()
    assert np.array_equal(base.fit(digits).points_, first)
    assert not np.array_equal(base.set_params(random_state=6).fit(digits).points_, first)


def test_float32_gives_nearly_the_centers_of_float64(digits):
    wide = KMeansBase(20, random_state=0).fit(digits)
    narrow = KMeansBase(20, random_state=0).fit(digits.astype(np.float32))
    assert narrow.points_.dtype == np.float32
    assert np.allclose(wide.points_, narrow.points_, atol=1e-4)


def test_threads_do_not_change_a_bit_of_the_centers():
    X = normal(9000, 20, np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(KMeansBase(50, random_state=0).fit(X).points_)
    assert np.array_equal(*found)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_memory_map_gives_the_same_centers(tmp_path, dtype):
    X = (normal(5000, 8) * 20 + 100).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.array_equal(
        KMeansBase(20, random_state=0).fit(mapped).points_, KMeansBase(20, random_state=0).fit(X).points_
    )


def test_rows_that_do_not_fit_into_memory_give_the_same_centers(monkeypatch):
    X = (normal(5000, 8) * 20 + 100).astype(np.uint8)
    kept = KMeansBase(20, random_state=0).fit(X).points_
    monkeypatch.setattr("manihash.rows.local.CACHE_BYTES", 0)
    assert np.array_equal(KMeansBase(20, random_state=0).fit(X).points_, kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_empty_cluster_is_given_the_point_farthest_from_its_center(dtype):
    X = np.array([[0.0], [0.1], [0.2], [10.0], [10.3]], dtype)
    centers = np.array([[0.1], [10.0], [500.0]], dtype)  # nothing is nearest to the last
    new, labels, _ = a_round(LocalRows(X), centers)
    assert np.array_equal(labels, [0, 0, 0, 1, 2])
    assert np.allclose(new, [[0.1], [10.0], [10.3]])


def test_a_point_alone_in_its_cluster_stays_and_the_empty_ones_are_filled_in_a_few_rounds():
    X = np.array([[0.0], [1.0], [2.0], [50.0]])
    centers = np.array([[1.0], [40.0], [900.0], [901.0]])
    labels = a_round(LocalRows(X), centers)[1]
    assert labels[3] == 1
    for _ in range(3):
        centers, labels, _ = a_round(LocalRows(X), centers)
    assert sorted(labels) == [0, 1, 2, 3]
    assert np.array_equal(np.sort(centers, axis=0), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_fewer_distinct_rows_than_base_points_warn_and_shrink_the_base(seed, dtype):
    distinct = normal(5, 7, dtype, seed)
    X = np.repeat(distinct, 700, axis=0)
    with pytest.warns(UserWarning, match=r"too few distinct values for a base set of 10 points: it has 5"):
        points = KMeansBase(10, random_state=seed).fit(X).points_
    assert np.allclose(np.sort(points, axis=0), np.sort(distinct, axis=0), atol=1e-4)
    with pytest.warns(UserWarning, match="too few distinct values"):
        assert len(RandomBase(100, random_state=seed).fit(X).points_) == 5


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1 / 3, 1e-3, 123.456])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [50, 3000])
@pytest.mark.filterwarnings("ignore:the rows hold too few")
def test_rows_that_are_all_equal_are_an_error(value, dtype, n):
    for base in (KMeansBase(10), RandomBase(10)):
        hasher = IMH(n_bits=1, base=base, embedding=PCA(), n_neighbors=1, random_state=0)
        with pytest.raises(ValueError, match="the rows are all equal"):
            hasher.fit(np.full((n, 7), value, dtype))


def test_random_base_points_are_distinct_rows(digits):
    points = RandomBase(200, random_state=0).fit(digits).points_
    rows = {row.tobytes() for row in digits}
    assert len({point.tobytes() for point in points}) == 200
    assert all(point.tobytes() in rows for point in points)


def test_a_base_as_large_as_the_data_is_the_data():
    X = normal(30, 3)
    for base in (KMeansBase(30), RandomBase(30)):
        points = base.set_params(random_state=0).fit(X).points_
        assert np.allclose(points[np.lexsort(points.T)], X[np.lexsort(X.T)])


@pytest.mark.parametrize("base", [KMeansBase(31), RandomBase(31)])
def test_more_base_points_than_rows_are_an_error(base):
    with pytest.raises(
        ValueError,
        match=r"31 points needs at least 31 rows, got n_samples = 30: give more rows, or a smaller base",
    ):
        base.fit(normal(30, 3))


def test_a_bad_row_is_named_whichever_base_meets_it_first(digits):
    X = digits.copy()
    X[777, 3] = np.nan
    for base in (KMeansBase(20), RandomBase(len(X))):
        with pytest.raises(ValueError, match="first such row is 777"):
            base.fit(X)


def test_a_warm_start_takes_rounds_on_a_sample_and_then_on_all_rows(monkeypatch):
    X, seen = normal(4000, 6), []
    lloyd = kmeans_module.lloyd_round
    monkeypatch.setattr(
        kmeans_module, "lloyd_round", lambda rows, *given: (seen.append(len(rows)), lloyd(rows, *given))[1]
    )
    warm = KMeansBase(20, max_iter=4, sample=50, full_rounds=2, random_state=0).fit(X)
    assert seen == [1000] * 4 + [4000] * 2
    assert warm.n_iter_ == 6
    cold = KMeansBase(20, max_iter=6, random_state=0).fit(X)
    assert warm.inertia_ < 1.02 * cold.inertia_
    seen.clear()
    KMeansBase(20, max_iter=4, sample=500, full_rounds=2, random_state=0).fit(X)
    assert seen == [4000] * 4  # fewer rows than the sample wants: nothing to start from
