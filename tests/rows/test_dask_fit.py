"""``fit`` learns the same bits on Dask workers, on threads and here: arrays are aligned where they arrive."""

import numpy as np
import pytest
from dask_vectors import differing, small_recipe

from manihash import recipe_names
from manihash.rows import dask_client, rows_of

pytestmark = [pytest.mark.extra, pytest.mark.usefixtures("small_spans")]


def chunked(X, chunks):
    import dask.array as da

    return da.from_array(X, chunks=(chunks, -1))


@pytest.fixture(scope="module")
def labeled():
    """Rows of 300 columns in float64 and labels: sums over so many columns depend on how numpy reads them."""
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=700)
    return 2 * rng.normal(size=(6, 300))[y] + rng.normal(size=(700, 300)), y


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_learns_the_same_bits_on_workers_and_on_threads(client, labeled, monkeypatch, name):
    import dask

    X, y = labeled
    here = small_recipe(name).fit(X, y)
    assert not differing(here, small_recipe(name).fit(chunked(X, 250), y))
    monkeypatch.setattr(dask_client, "current", lambda: None)
    with dask.config.set(scheduler="threads"):
        assert not differing(here, small_recipe(name).fit(chunked(X, 333), y))


@pytest.mark.parametrize("m", [10, 1000, 20_000])
def test_arrays_in_functions_blocks_and_results_are_aligned(client, m):
    X = np.random.default_rng(0).normal(size=(9000, 16))
    for shift in range(4):
        points, text = np.ones((m, 16), np.float32), "x" * shift

        def visit(block, points=points, text=text):
            return points.flags.aligned and block.flags.aligned, len(text), np.ones((m // 10, 3))

        for aligned, _, result in rows_of(chunked(X, 1000)).map(visit):
            assert aligned
            assert result.flags.aligned


def test_processes_without_a_cluster_learn_the_same_bits(labeled, monkeypatch):
    import dask

    X, y = labeled
    monkeypatch.setattr(dask_client, "current", lambda: None)
    with dask.config.set(scheduler="processes", num_workers=2):
        there = small_recipe("imh-large").fit(chunked(X, 250), y)
    assert not differing(small_recipe("imh-large").fit(X, y), there)
