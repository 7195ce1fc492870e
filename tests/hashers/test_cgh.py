"""CGH: the conditions of its optimum, agreement with another solver, and codes that use labels."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.utils import get_tags

from manihash import LabelTruth, evaluate
from manihash.hashers import CGH, LSH
from manihash.hashers._triplets import class_triplets, neighbor_triplets
from manihash.hashers.cgh import ColumnGeneration, solve_weights

X, y = load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def search():
    rng = np.random.default_rng(0)
    Z = (X[:300] - X[:300].mean(axis=0)) / 10
    found = ColumnGeneration(Z, class_triplets(y[:300], 2000, rng), 100.0)
    found.run(12, rng)
    return found


def test_weights_satisfy_the_dual_constraints_and_complementary_slackness(search):
    left = search.duals() @ search.A
    assert (search.w >= 0).all()
    assert (left <= 1 + 1e-4).all()
    assert left[search.w > 1e-6] == pytest.approx(1, abs=1e-4)


def test_the_dual_objective_equals_the_primal_objective(search):
    u = search.duals()
    dual = u.sum() - len(u) / (4 * search.C) * (u @ u)
    assert dual == pytest.approx(search.objectives[-1], rel=1e-4)


def test_the_objective_never_rises(search):
    assert (np.diff(search.objectives) <= 1e-9).all()


def test_weights_agree_with_another_solver():
    A = np.random.default_rng(0).integers(-1, 2, (30, 4)) + np.array([1, 0, 1, 0])
    w, objective = solve_weights(A.astype(float), 10.0, np.zeros(4))

    def loss(v):
        return v.sum() + 10 * (np.maximum(0, 1 - A @ v) ** 2).mean()

    other = minimize(loss, np.full(4, 0.1), method="SLSQP", bounds=[(0, None)] * 4, options={"ftol": 1e-14})
    assert objective == pytest.approx(other.fun, rel=1e-6)
    assert w == pytest.approx(other.x, abs=1e-3)


def test_column_generation_reaches_the_optimum_over_all_functions_of_one_column():
    rng = np.random.default_rng(0)
    Z = np.arange(12.0)[:, None]
    triplets = class_triplets(np.repeat([0, 1, 2], 4), 200, rng)
    found = ColumnGeneration(Z, triplets, 20.0)
    found.run(11, rng)
    every = np.column_stack([triplets.column(Z[:, 0] > t + 0.5) for t in range(11)])
    assert found.objectives[-1] == pytest.approx(solve_weights(every, 20.0, np.zeros(11))[1], rel=1e-6)
    assert (found.duals() @ every <= 1 + 1e-4).all()


def test_the_best_threshold_is_that_of_brute_force():
    rng = np.random.default_rng(1)
    triplets = class_triplets(y[:40], 300, rng)
    values, u = np.round(rng.standard_normal(40), 1), rng.random(300)
    gain, threshold = triplets.best_threshold(values, u)
    assert gain == pytest.approx(max(u @ triplets.column(values > t) for t in values))
    assert gain == pytest.approx(u @ triplets.column(values > threshold))


def test_triplets_are_of_the_stated_kind():
    rng = np.random.default_rng(0)
    made = class_triplets(y[:100], 500, rng)
    assert (y[made.row] == y[made.near]).all()
    assert (made.row != made.near).all()
    assert (y[made.row] != y[made.far]).all()
    made = neighbor_triplets(X[:100], 5, 500, rng)
    distance = np.linalg.norm(X[:100, None] - X[None, :100], axis=2)
    assert (distance[made.row, made.near] <= distance[made.row, made.far]).all()
    assert (made.row != made.near).all()
    assert (made.row != made.far).all()


def test_labels_rank_digits_better_than_lsh():
    truth = LabelTruth(y[1::2], y[::2])
    scores = []
    for hasher in (CGH(32, n_triplets=5000, random_state=0), LSH(32, random_state=0)):
        hasher.fit(X[::2], y[::2])
        scores.append(evaluate(hasher.encode(X[1::2]), hasher.encode(X[::2]), truth, 32).map)
    assert scores[0] > scores[1] + 0.1


@pytest.mark.usefixtures("seed_of_zero")
def test_unusable_input_raises_an_error():
    with pytest.raises(ValueError, match="all equal"):
        CGH(4, n_neighbors=3).fit(np.ones((20, 3)))
    with pytest.raises(ValueError, match="n_neighbors=50 exceeds 18"):
        CGH(4).fit(X[:20])
    with pytest.raises(ValueError, match="no two of the 20 labeled rows"):
        CGH(4).fit(X[:20], np.arange(20))
    bad = X.copy()
    bad[1234, 5] = np.nan
    with pytest.raises(ValueError, match="row is 1234"):
        CGH(4, n_train=10).fit(bad, y)


def test_it_uses_labels_but_does_not_require_them():
    assert CGH().uses_labels
    assert not get_tags(CGH()).target_tags.required


def test_codes_of_labeled_rows_do_not_depend_on_their_origin_and_scale():
    rows = X[:300]
    codes = CGH(8, random_state=0).fit(rows, y[:300]).encode(rows)
    for other in (rows + 64, 4 * rows):
        found = CGH(8, random_state=0).fit(other, y[:300]).encode(other)
        assert (codes != found).mean() < 0.02
