"""The nearest base points, settled in float64 where float32 does not decide them."""

import numpy as np
import pytest

from manihash.base.cell_search import CoarseSearch, ListedSearch, ReducedSearch
from manihash.base.closest import AllPoints
from manihash.compute import rounding, threads
from manihash.rows.raw import ScaledBlock, as_block


def nearest(Z, B, k):
    """The k nearest points of each row by integer arithmetic, ties by index."""
    squares = ((Z[:, None].astype(np.int64) - B.astype(np.int64)) ** 2).sum(axis=2)
    return np.argsort(squares, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_ties_of_many_rows_go_to_the_lowest_index(k):
    rng = np.random.default_rng(0)
    B, Z = rng.integers(0, 2, (40, 6)).astype(float), rng.integers(0, 2, (300, 6)).astype(float)
    assert np.array_equal(np.sort(AllPoints(B).index(Z, k)), np.sort(nearest(Z, B, k)))


def test_two_points_that_float32_cannot_order_are_exchanged_in_float64():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((200, 30))
    B = np.concatenate([rng.standard_normal((20, 30)), Z[:1] + 5])
    B[1] = B[0] + 1e-9 * rng.standard_normal(30)
    search = AllPoints(B)
    found = search.closest(as_block(Z, np.float32), 3)
    which = np.flatnonzero(found.exchange)
    assert len(which)
    assert not found.certain[which].any()
    found.settle(which, Z[which], search.points)
    expected = np.argsort(((Z[:, None] - B) ** 2).sum(axis=2), axis=1)[:, :3]
    sure = np.flatnonzero(found.certain)
    assert set(which) <= set(sure)
    assert np.array_equal(np.sort(found.index[sure]), np.sort(expected[sure]))


def probed_points(Z, cells, probes, bounds):
    """Whether each point (b, m) is in one of the nearest cells of each row, in float64."""
    near = np.argsort(((Z[:, None] - cells) ** 2).sum(axis=2), axis=1)[:, :probes]
    cell = np.repeat(np.arange(len(cells)), np.diff(bounds))
    return (cell == near[:, :, None]).any(axis=1)


@pytest.mark.parametrize("probes", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(30,) * 6, (1, 0, 40, 2, 3, 30)])
def test_the_points_of_the_nearest_cells_are_those_of_float64(probes, sizes):
    rng = np.random.default_rng(3)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    cells = rng.standard_normal((6, 8))
    B = np.repeat(cells, sizes, axis=0) + rng.standard_normal((sum(sizes), 8))
    Z = rng.standard_normal((400, 8)).astype(np.float32).astype(float)
    squares = ((Z[:, None] - B) ** 2).sum(axis=2)
    squares[~probed_points(Z, cells, probes, bounds)] = np.inf
    k, search = 4, CoarseSearch(B, cells, probes, bounds)
    enough = np.isfinite(squares).sum(axis=1) >= k
    expected = np.sort(np.argsort(squares, axis=1)[:, :k])[enough]
    found = search.closest(as_block(Z, np.float32), k)
    sure = found.certain[enough]
    assert sure.mean() > 0.9
    assert np.array_equal(np.sort(found.index)[enough][sure], expected[sure])
    assert np.array_equal(np.sort(search.index(Z[enough], k)), expected)


def searches(rng):
    """One search of each kind among 120 points, of rows with 20 columns."""
    bounds, cells = np.arange(0, 121, 20), rng.standard_normal((6, 8))
    B = np.repeat(cells, 20, axis=0) + rng.standard_normal((120, 8))
    directions = np.linalg.qr(rng.standard_normal((20, 8)))[0].T
    inner = {
        "all": AllPoints(B),
        "cells": CoarseSearch(B, cells, 3, bounds),
        "lists": ListedSearch(B, cells, np.arange(120), bounds),
    }
    return {name: ReducedSearch(directions, search) for name, search in inner.items()}


@pytest.mark.parametrize("kind", ["all", "cells", "lists"])
def test_the_nearest_points_of_one_row_are_those_of_a_block(kind):
    rng = np.random.default_rng(6)
    search, Z = searches(rng)[kind], rng.standard_normal((300, 20)).astype(np.float32)
    block = as_block(Z, np.float32)
    expected = np.sort(search.index(search.place(Z.astype(float)), 4))
    found = [
        search.nearest(ScaledBlock(z, t, n), 4)
        for z, t, n in zip(block.rows, block.scale, block.length, strict=True)
    ]
    sure = np.array([one is not None for one in found])
    assert sure.mean() > 0.9
    points = np.array([np.sort(one[0]) for one in found if one is not None])
    assert np.array_equal(points, expected[sure])


def test_the_nearest_points_of_one_row_are_not_certain_if_float32_cannot_order_two():
    B = np.array([[0.0, 0], [1, 0], [1, 1e-9], [9, 9]])
    z = np.array([0.5, 0.5], np.float32)
    row = ScaledBlock(z, np.float32(1), np.float32(np.linalg.norm(z)))
    assert AllPoints(B).nearest(row, 2) is None
    assert sorted(AllPoints(B).nearest(row, 3)[0]) == [0, 1, 2]
    assert AllPoints(B).nearest(row, 4) is None  # there is no next point whose distance could differ


def test_two_cells_in_doubt_matter_only_if_they_hold_a_near_point():
    rng = np.random.default_rng(4)
    cells = np.array([[0, 0], [10, 0], [10, 1e-9]])  # float32 cannot order the last two
    near, far = rng.uniform(-1, 1, (20, 2)), rng.uniform(12, 14, (20, 2))
    Z = rng.uniform(-1, 1, (50, 2))
    bounds = np.array([0, 20, 30, 40])
    found = CoarseSearch(np.concatenate([near, far]), cells, 2, bounds).closest(as_block(Z, np.float32), 3)
    assert found.certain.mean() > 0.9
    far[:] = [0.1, 0.1]  # now the cells in doubt hold the nearest points of many rows
    B = np.concatenate([near, far + np.arange(20)[:, None] * 1e-3])
    found = CoarseSearch(B, cells, 2, bounds).closest(as_block(Z, np.float32), 3)
    among = (found.index[found.certain] >= 20).any(axis=1)
    assert not among.any()
    assert not found.certain.all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limited", [False, True])
def test_an_outer_product_is_subtracted(dtype, limited, monkeypatch):
    rng = np.random.default_rng(2)
    scores, scale, h = (rng.standard_normal(shape).astype(dtype) for shape in ((90, 300), 90, 300))
    expected = scores.astype(float) - np.outer(scale, h)
    monkeypatch.setattr(threads._limit, "users", int(limited))
    rounding.subtract_outer(scores, scale, h)
    assert np.allclose(scores, expected, atol=1e-5)
