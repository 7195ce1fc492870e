"""The nearest base points through cells: what is found, how much of it, and the same in every batch."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import InductiveEmbedding
from manihash.base import CoarseNeighbors, ExactNeighbors, LargeBase, ListedNeighbors
from manihash.base.cell_search import coarse_cells, members_near, nearest_cell
from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread
from manihash.embeddings import PCA
from manihash.rows.local import LocalRows

FINDERS = [CoarseNeighbors(probes=3), ListedNeighbors(probes=3), CoarseNeighbors(cells=4, probes=2)]


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32) / 16


def clusters(n, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((30, d))[rng.integers(0, 30, n)] * 4 + rng.standard_normal((n, d))).astype(
        np.float32
    )


def learned(part, X, size=150, k=5):
    """A finder over some rows of X as base points, which has seen X, and these points in its order."""
    rng = np.random.default_rng(0)
    B = X[rng.choice(len(X), size, replace=False)]
    B = B[part.arrange(B, rng)]
    part.learn(LocalRows(X), B, k, rng)
    return B


def test_probing_every_cell_finds_what_all_points_give():
    X = clusters(1000)
    part = CoarseNeighbors(probes=100)
    B = learned(part, X)
    squared, index = part.k_nearest(X[:500], B, 5)
    exact, nearest = numpy_backend.k_nearest(X[:500], B, 5)
    assert np.array_equal(index, nearest)
    assert np.allclose(squared, exact, atol=1e-4)
    assert part.recall_ == 1


@pytest.mark.parametrize("k", [1, 5, 30])
@pytest.mark.parametrize("part", FINDERS, ids=repr)
def test_the_k_points_found_are_distinct_nearest_first_and_at_their_distance(part, k):
    X = clusters(1000)
    B = learned(part, X, k=k)
    squared, index = part.k_nearest(X[:300], B, k)
    assert all(len(set(row)) == k for row in index)
    assert (np.diff(squared, axis=1) >= 0).all()
    assert np.allclose(squared, ((X[:300, None] - B[index]) ** 2).sum(axis=2), atol=1e-3)


@pytest.mark.parametrize("part", FINDERS, ids=repr)
def test_the_recall_kept_is_that_on_rows_never_seen(part):
    X, new = clusters(3000), clusters(5000)[3000:]
    B = learned(part, X)
    found, nearest = part.k_nearest(new, B, 5)[1], numpy_backend.k_nearest(new, B, 5)[1]
    recall = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(found, nearest, strict=True)])
    assert part.recall_ == pytest.approx(recall, abs=0.05)
    assert 0.5 < recall < 1


def test_more_probes_find_more():
    X = clusters(3000)
    recalls = []
    for probes in (1, 2, 4, 8):
        part = CoarseNeighbors(probes=probes)
        learned(part, X, size=400)
        recalls.append(part.recall_)
    assert np.all(np.diff(recalls) > 0)
    assert recalls[-1] > 0.95


@pytest.mark.parametrize("part", FINDERS, ids=repr)
def test_a_rows_neighbors_are_the_same_in_every_batch_but_for_rounding(part):
    X = clusters(700).astype(np.float64)
    B = learned(part, X)
    with single_blas_thread():
        squared, index = part.k_nearest(X, B, 5)
        for size in (*range(1, 12), 100, 333):
            some = part.k_nearest(X[size : 2 * size], B, 5)
            assert np.allclose(some[0], squared[size : 2 * size], rtol=1e-9, atol=1e-10)
            assert np.array_equal(some[1], index[size : 2 * size])


def test_cells_with_fewer_points_than_neighbors_still_give_k_neighbors():
    X = clusters(60, d=2)
    for part in (CoarseNeighbors(cells=20, probes=1), ListedNeighbors(cells=20, probes=1)):
        B = learned(part, X, size=40, k=12)
        assert np.isfinite(part.k_nearest(X, B, 12)[0]).all()


def test_lists_hold_the_points_of_the_nearest_cells(digits):
    cells = coarse_cells(digits, 12, np.random.default_rng(0))
    own = nearest_cell(LocalRows(digits), cells)
    assert np.array_equal(own, ((digits[:, None] - cells) ** 2).sum(axis=2).argmin(axis=1))
    for c, members in enumerate(members_near(digits, cells, 3)):
        nearest = np.argsort(((cells - cells[c]) ** 2).sum(axis=1))[:3]
        assert np.array_equal(members, np.flatnonzero(np.isin(own, nearest)))


class Interrupted(ListedNeighbors):
    """When its lists have been set, another question comes in between: as from another thread."""

    held = question = None

    @property
    def _lists(self):
        return self.held

    @_lists.setter
    def _lists(self, lists):
        self.held = lists
        if self.question is not None:
            question, self.question = self.question, None
            self.k_nearest(*question)


def test_rows_of_two_types_can_be_searched_at_the_same_time():
    part, X = Interrupted(), clusters(500)
    B = learned(part, X)
    wanted = part.k_nearest(X, B, 5)
    part._lists, part.question = None, (X.astype(np.float64), B.astype(np.float64), 5)
    found = part.k_nearest(X, B, 5)
    assert part.question is None
    assert all(map(np.array_equal, found, wanted))


@pytest.mark.parametrize("neighbors", [None, ListedNeighbors(), ExactNeighbors()], ids=repr)
def test_float64_rows_get_the_neighbors_of_the_points_in_float64(digits, neighbors):
    model = InductiveEmbedding(4, LargeBase(200, neighbors=neighbors), PCA(), random_state=0).fit(digits)
    rows = digits.astype(np.float64) + 1e-9
    wanted = model.finder_.k_nearest(rows, model.base_points_.astype(np.float64), 5)
    found = model.finder_.k_nearest(rows, model.base_points_, 5)
    assert found[0].dtype == np.float64
    assert all(map(np.array_equal, found, wanted))
