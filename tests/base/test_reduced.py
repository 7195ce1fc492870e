"""The principal components that base points are looked for in."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from manihash import IMH
from manihash.base import KMeansBase, ReducedBase
from manihash.base.principal import principal_directions
from manihash.base.reduced import ReducedNeighbors
from manihash.compute import numpy as numpy_backend
from manihash.embeddings import PCA
from manihash.rows.local import LocalRows


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32) / 16


def test_principal_directions_are_those_of_the_covariance(digits):
    directions = principal_directions(LocalRows(digits), 10, np.random.default_rng(0))
    values = np.linalg.eigvalsh(np.cov(digits.T.astype(float)))[::-1]
    assert np.allclose(directions @ directions.T, np.eye(10), atol=1e-5)
    assert np.allclose((digits @ directions.T).var(axis=0, ddof=1), values[:10], rtol=1e-3)


def test_directions_of_wide_rows_are_found_without_their_covariance(monkeypatch):
    rng = np.random.default_rng(0)
    variances = 10.0 / np.arange(1, 501)
    X = (rng.standard_normal((1500, 500)) * np.sqrt(variances) + 3).astype(np.float32)
    exact = ReducedNeighbors(20, random_state=0).fit(X)
    monkeypatch.setattr("manihash.base.principal._EXACT_WIDTH", 100)
    near = ReducedNeighbors(20, random_state=0).fit(X)
    assert np.allclose(near.directions_ @ near.directions_.T, np.eye(20), atol=1e-5)
    kept, most = (part.project(X).var(axis=0) for part in (near, exact))
    assert kept.sum() > 0.99 * most.sum()
    assert np.allclose(np.abs((near.directions_[:5] * exact.directions_[:5]).sum(axis=1)), 1, atol=1e-3)
    again = ReducedNeighbors(20, random_state=0).fit(X)
    assert np.array_equal(near.directions_, again.directions_)


@pytest.mark.parametrize("scale", [1e18, 1e-30])
def test_directions_do_not_depend_on_the_scale_of_the_rows(digits, scale):
    directions = ReducedNeighbors(10, random_state=0).fit(digits).directions_
    rows = np.tile(digits, (4, 1)) * np.float32(scale)
    scaled = ReducedNeighbors(10, random_state=0).fit(rows).directions_
    assert np.allclose(scaled, directions, atol=1e-3)


@pytest.mark.usefixtures("seed_of_zero")
def test_all_components_leave_distances_and_so_codes_nearly_as_they_are(digits):
    B = digits[::9]
    part = ReducedNeighbors(64).fit(digits)
    squared, index = part.k_nearest(digits, part.project(B), 5)
    exact, nearest = numpy_backend.k_nearest(digits, B, 5)
    assert np.allclose(squared, exact, atol=1e-4)
    assert (index == nearest).mean() > 0.98  # pixels are whole numbers: many are as near as others


@pytest.mark.usefixtures("seed_of_zero")
def test_projected_rows_are_the_same_in_memory_and_computed_on_each_visit(digits, monkeypatch):
    part, rows = ReducedNeighbors(10).fit(digits), LocalRows(digits, normalize=True)
    held = part.projected(rows)
    monkeypatch.setattr("manihash.base.reduced.CACHE_BYTES", 0)
    anew = part.projected(rows)
    places = np.array([5, 1700, 3])
    assert np.array_equal(held.take(places), anew.take(places))
    assert np.array_equal(held.block(100, 900), anew.block(100, 900))


@pytest.mark.usefixtures("seed_of_zero")
def test_only_the_requested_rows_are_projected(digits, monkeypatch):
    part, made = ReducedNeighbors(10).fit(digits), []
    monkeypatch.setattr("manihash.base.reduced.CACHE_BYTES", 0)
    rows = part.projected(LocalRows(digits))
    project = part.project
    monkeypatch.setattr(part, "project", lambda X: (made.append(len(X)), project(X))[1])
    places = np.array([5, 1700, 3])
    assert np.array_equal(rows.take(places), project(digits)[places])
    assert sum(made) == 3
    made.clear()
    assert rows.sample(100, np.random.default_rng(0)).stack(np.asarray, 10, np.float32).shape == (100, 10)
    assert sum(made) == 100


def test_rows_far_from_zero_are_reduced_as_those_near_it(digits):
    near = ReducedBase(KMeansBase(30), 10, random_state=0).fit(digits.astype(float)).points_
    far = ReducedBase(KMeansBase(30), 10, random_state=0).fit(digits + np.float32(300)).points_
    assert np.allclose(far - far.mean(axis=0), near - near.mean(axis=0), atol=0.02)


def test_a_reduced_base_can_wrap_another(digits):
    twice = ReducedBase(ReducedBase(KMeansBase(30), 10), 20)
    near = clone(twice).set_params(random_state=0).fit(digits.astype(float)).points_
    far = clone(twice).set_params(random_state=0).fit(digits + np.float32(300)).points_
    assert near.shape == (30, 10)
    assert np.allclose(far - far.mean(axis=0), near - near.mean(axis=0), atol=0.02)
    hasher = IMH(8, twice, PCA(), random_state=0).fit(digits)
    assert len(np.unique(hasher.encode(digits))) > 10
