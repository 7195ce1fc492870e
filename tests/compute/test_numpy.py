"""Operations on a block are correct, and a row has the same result in any batch and on any thread."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from manihash.compute import numpy as numpy_backend
from manihash.compute.threads import single_blas_thread

SHAPES = [  # (d, m): one column, one base point, tiny, odd, large, wide
    (1, 1),
    (1, 7),
    (2, 2),
    (3, 1),
    (5, 33),
    (17, 16),
    (31, 100),
    (64, 3),
    (100, 400),
    (784, 1),
    (784, 50),
    (960, 7),
    (5000, 3),
    (64, 300),  # in float64 a kernel of 24 rows, with a remainder of columns
    (64, 500),
]
TYPES = [np.float32, np.float64]


def block(d, n, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("d", "m"), SHAPES)
def test_product_is_the_sum_of_products(d, m, dtype):
    X, C = block(d, 40, dtype), block(d, m, dtype, 1)
    exact = np.array(
        [[sum(a * b for a, b in zip(x, c, strict=True)) for c in C[:5]] for x in X[:7].astype(float)]
    )
    for product in (numpy_backend.product, numpy_backend.rowwise_product):
        found = product(X, C)
        assert found.dtype == dtype
        assert found.shape == (40, m)
        assert np.allclose(found[:7, :5], exact, atol=20 * np.finfo(dtype).eps * d)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("d", "m"), SHAPES)
def test_a_row_of_a_product_is_bit_for_bit_the_same_in_every_batch(d, m, dtype):
    n = min(numpy_backend.block_rows(d), 700 if d * m > 10**5 else 2048)
    X, C = block(d, n, dtype), block(d, m, dtype, 1)
    rng = np.random.default_rng(2)
    with single_blas_thread():
        whole = numpy_backend.rowwise_product(X, C)
        sizes = [*range(1, 21), *(int(size) for size in rng.integers(21, n, 6))]
        for size in sizes:
            start = int(rng.integers(0, n - size + 1))
            part = numpy_backend.rowwise_product(np.ascontiguousarray(X[start : start + size]), C)
            assert np.array_equal(part, whole[start : start + size]), size


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [1, 2, 5, 16, 17, 50])
def test_k_nearest_finds_what_a_naive_search_finds(k, dtype):
    X, C = block(12, 80, dtype), block(12, 50, dtype, 1)
    exact = ((X[:, None].astype(np.float64) - C[None].astype(np.float64)) ** 2).sum(axis=2)
    order = np.argsort(exact, axis=1, kind="stable")[:, :k]
    squared, index = numpy_backend.k_nearest(X, C, k)
    assert np.array_equal(index, order)
    assert np.allclose(squared, np.take_along_axis(exact, order, axis=1), rtol=1e-4, atol=1e-5)
    assert (np.diff(squared, axis=1) >= 0).all()


@pytest.mark.parametrize("k", [4, 20])
def test_equal_base_points_are_ordered_by_index(k):
    C = np.repeat(block(3, 10, np.float64), 2, axis=0)
    squared, index = numpy_backend.k_nearest(C[::2], C, k)
    assert np.array_equal(index[:, 0], np.arange(0, 20, 2))
    assert np.array_equal(index[:, 1], np.arange(1, 20, 2))
    assert np.allclose(squared[:, :2], 0, atol=1e-12)


@pytest.mark.parametrize("m", [40, 5000])
@pytest.mark.parametrize("k", [1, 5, 16, 17, 25])
def test_ties_go_to_the_lower_index(k, m):
    rng = np.random.default_rng(0)
    for levels in (1, 2, 7):
        scores = rng.integers(0, levels, (30, m)).astype(np.float32)
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best, index = numpy_backend.k_largest(scores.copy(), k)
        assert np.array_equal(index, expected)
        assert np.array_equal(best, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize("dtype", TYPES)
def test_squared_distances_are_never_below_zero(dtype):
    X = 1000 + block(50, 64, dtype)
    found = numpy_backend.squared_distances(X, X.copy())
    assert (found >= 0).all()
    assert (numpy_backend.k_nearest(X, X.copy(), 1)[0] >= 0).all()


def test_squared_distances_are_those_of_the_definition():
    X, C = block(9, 20, np.float64), block(9, 30, np.float64, 1)
    for distances in (numpy_backend.squared_distances, numpy_backend.rowwise_squared_distances):
        assert np.allclose(distances(X, C), ((X[:, None] - C) ** 2).sum(axis=2))


def test_the_type_of_the_array_decides_the_type_of_the_arithmetic():
    types = {"f8": "f8", ">f8": "f8", "f4": "f4", "f2": "f4", "i8": "f8", "i2": "f4", "u1": "f4", "?": "f4"}
    for given, expected in types.items():
        assert numpy_backend.float_type(np.zeros((1, 1), given)) == np.dtype(expected), given


def test_blocks_depend_on_the_width_alone_and_stay_small():
    for width in (1, 64, 784, 4096, 5000, 10**6):
        rows = numpy_backend.block_rows(width)
        assert 64 <= rows <= 2048
        assert rows * width <= max(2**23, 64 * width)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [1, 3, 31, 784, 10_000, 10_001, 40_000])
def test_a_squared_norm_does_not_depend_on_position_or_threads(d, dtype):
    rows = np.repeat(block(d, 1, dtype), 20, axis=0)
    with threadpool_limits(2, user_api="blas"):
        norms = numpy_backend.squared_norms(rows)
    with single_blas_thread():
        assert np.array_equal(norms, numpy_backend.squared_norms(rows))
    assert np.array_equal(norms[:-1], norms[1:])
    assert np.array_equal(numpy_backend.squared_norms(rows[:1]), norms[:1])
    assert np.allclose(norms, (rows[0].astype(float) ** 2).sum(), rtol=100 * np.finfo(dtype).eps)


def test_unit_rows_leave_a_zero_row_as_it_is():
    X = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert np.array_equal(
        numpy_backend.unit_rows(X, numpy_backend.squared_norms(X)), [[0.6, 0.8], [0.0, 0.0]]
    )


def test_rows_whose_squares_underflow_still_get_unit_length():
    X = np.array([[3e-30, 4e-30], [0, 0], [3, 4]], np.float32)
    assert np.allclose(
        numpy_backend.unit_rows(X, numpy_backend.squared_norms(X)), [[0.6, 0.8], [0, 0], [0.6, 0.8]]
    )
