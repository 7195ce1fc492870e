"""The nearest base points, settled in float64 where float32 does not decide them."""

import numpy as np
import pytest

from manihash.base.closest import AllPoints
from manihash.compute import rounding, threads
from manihash.rows.raw import as_block


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limited", [False, True])
def test_an_outer_product_is_subtracted_with_and_without_scipy(dtype, limited, monkeypatch):
    rng = np.random.default_rng(2)
    scores, scale, h = (rng.standard_normal(shape).astype(dtype) for shape in ((90, 300), 90, 300))
    expected = scores.astype(float) - np.outer(scale, h)
    monkeypatch.setattr(threads._limit, "users", int(limited))
    for update in (rounding._outer_update, lambda dtype: None):
        monkeypatch.setattr(rounding, "_outer_update", update)
        out = scores.copy()
        rounding.subtract_outer(out, scale, h)
        assert np.allclose(out, expected, atol=1e-5)
