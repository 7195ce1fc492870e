"""Local rows are visited in order, in fixed blocks, checked, with the same result on any thread."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from manihash.compute import numpy as numpy_backend
from manihash.errors import BadRowsError
from manihash.rows import far_origin, rows_to_fit
from manihash.rows import local as rows_module
from manihash.rows.local import LocalRows

WIDE = 20_000  # so wide that a block has 419 rows
LONG = 5_000  # rows of a narrow array: three blocks


def normal(n, d, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


@pytest.fixture
def earlier_threads():
    """Threads that other tests of this process have left."""
    return threading.enumerate()


def pool_threads(earlier):
    found = [thread for thread in threading.enumerate() if thread not in earlier]
    return [thread for thread in found if thread.name.startswith("ThreadPoolExecutor")]


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2048, 3), (2049, 3), (LONG, 3), (900, WIDE)])
def test_blocks_are_the_rows_in_order(n, d):
    X = normal(n, d, np.float32)
    seen = list(LocalRows(X).map(lambda part: part))
    assert np.array_equal(np.concatenate(seen), X)
    assert {len(part) for part in seen[:-1]} <= {numpy_backend.block_rows(d)}


def test_stack_concatenates_the_blocks():
    X = normal(LONG, 4)
    assert np.array_equal(LocalRows(X).stack(lambda part: part[:, :2] * 2, 2, np.float64), X[:, :2] * 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "m"), [(7, 3), (784, 40)])
def test_threads_do_not_change_a_bit(d, m, dtype):
    X, C = normal(LONG, d, dtype), normal(m, d, dtype, 1)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(LocalRows(X).stack(lambda part: numpy_backend.product(part, C), m, dtype))
    assert np.array_equal(*found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "m"), [(3, 1), (7, 50), (784, 40)])
def test_a_row_is_the_same_in_the_first_block_the_last_block_and_alone(d, m, dtype):
    X, C = normal(LONG, d, dtype), normal(m, d, dtype, 1)

    def products(rows):
        return rows.stack(lambda part: numpy_backend.rowwise_product(part, C), m, dtype)

    whole = products(LocalRows(X))
    for row in (0, 1, 2047, 2048, 4095, 4096, LONG - 1):
        for size in (1, 2, 5, 19):
            part = X[max(0, row + 1 - size) : row + 1]
            assert np.array_equal(products(LocalRows(part))[-1], whole[row]), (row, size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 2047, 2048, LONG - 1])
def test_the_error_for_an_invalid_value_names_its_row(bad, row):
    X = normal(LONG, 3)
    X[row, 1] = bad
    with pytest.raises(ValueError, match=rf"first such row is {row}\. Remove"):
        list(LocalRows(X).map(len))


def test_the_error_for_rows_taken_by_index_names_the_row_of_x():
    X = normal(LONG, 3)
    X[4000] = np.nan
    with pytest.raises(ValueError, match="first such row is 4000"):
        LocalRows(X).take([4500, 4000, 10])


def test_squares_that_overflow_are_an_error_that_names_the_row():
    X = np.ones((LONG, 2), np.float32)
    X[3000] = 3e19
    with pytest.raises(ValueError, match=r"overflow float32 \(row 3000\).*float64"):
        list(LocalRows(X).map(len))
    assert len(LocalRows(X.astype(np.float64)).take(np.arange(LONG))) == LONG


def test_distances_of_valid_rows_do_not_overflow():
    edge = np.float32(np.sqrt(float(np.finfo(np.float32).max) / 8) * 0.999)
    X = LocalRows(np.array([[edge], [-edge]])).take([0, 1])
    assert np.isfinite(numpy_backend.k_nearest(X, X.copy(), 2)[0]).all()


@pytest.mark.parametrize("given", [np.uint8, np.int16, np.float16, bool])
def test_types_that_float32_holds_become_float32_without_touching_the_array(given):
    X = (normal(50, 3) > 0).astype(given)
    before = X.copy()
    rows = LocalRows(X, normalize=True)
    taken = rows.take(np.arange(50))
    assert taken.dtype == rows.dtype == np.float32
    assert np.array_equal(X, before)
    lengths = np.linalg.norm(taken, axis=1)
    assert np.allclose(lengths[lengths > 0], 1)


def test_normalized_rows_have_unit_length_and_zero_rows_stay_zero():
    X = normal(30, 5)
    X[7] = 0
    taken = LocalRows(X, normalize=True).take(np.arange(30))
    assert np.array_equal(taken[7], np.zeros(5))
    assert np.allclose(np.delete(np.linalg.norm(taken, axis=1), 7), 1)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_a_read_only_memory_map_is_read_like_an_array(tmp_path, dtype, normalize):
    X = (normal(LONG, 6) * 20 + 100).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for rows in (LocalRows(mapped, normalize=normalize), LocalRows(mapped, normalize=normalize).cached()):
        plain = LocalRows(X, normalize=normalize)
        assert np.array_equal(
            np.concatenate(list(rows.map(np.array))), np.concatenate(list(plain.map(np.array)))
        )
        assert np.array_equal(rows.take([4000, 3, 3]), plain.take([4000, 3, 3]))


def test_a_plain_array_is_cached_without_a_copy():
    X = normal(LONG, 4)
    assert np.shares_memory(LocalRows(X).cached().block(0, 10), X)


def test_a_fortran_array_gives_the_same_blocks():
    X = normal(LONG, 4)
    fortran = LocalRows(np.asfortranarray(X))
    assert np.array_equal(fortran.block(2048, 4096), X[2048:4096])
    assert np.array_equal(fortran.cached().block(2048, 4096), X[2048:4096])


def test_take_keeps_order_and_repeats_and_accepts_an_empty_index():
    X = normal(100, 3)
    index = [50, 2, 2, 99, 0]
    assert np.array_equal(LocalRows(X).take(index), X[index])
    assert LocalRows(X).take(np.array([], int)).shape == (0, 3)


def test_an_error_in_the_mapped_function_is_raised_and_leaves_no_thread(earlier_threads):
    calls = []

    def fail_on_the_second(part):
        calls.append(len(part))
        if len(calls) == 2:
            raise KeyError("second block")
        return part

    with threadpool_limits(2, user_api="blas"):
        before = threadpool_info()
        with pytest.raises(KeyError, match="second block"):
            list(LocalRows(normal(30 * 2048, 1)).map(fail_on_the_second))
        assert threadpool_info() == before
    assert pool_threads(earlier_threads) == []
    assert len(calls) < 30


def test_an_interrupted_visit_leaves_no_thread_and_no_limit(earlier_threads):
    with threadpool_limits(2, user_api="blas"):
        before = threadpool_info()
        visit = LocalRows(normal(30 * 2048, 1)).map(len)
        assert next(visit) == 2048
        visit.close()
        assert threadpool_info() == before
    assert pool_threads(earlier_threads) == []


@pytest.mark.parametrize("seconds", [0, 10])
def test_stream_gives_the_blocks_of_map_and_leaves_no_limit_or_thread_between_them(
    seconds, monkeypatch, earlier_threads
):
    monkeypatch.setattr(rows_module, "_STREAM_SECONDS", seconds)
    X = normal(LONG, 3)
    with threadpool_limits(2, user_api="blas"):
        before = threadpool_info()
        for start in (0, 700):
            blocks = LocalRows(X).stream(np.copy, start=start)
            made = [next(blocks)]
            assert threadpool_info() == before
            assert pool_threads(earlier_threads) == []
            made += blocks
            expected = list(LocalRows(X).map(np.copy, start=start))
            assert [block.tobytes() for block in made] == [block.tobytes() for block in expected]


def test_rows_may_be_visited_inside_a_visit_and_from_several_threads():
    X = normal(LONG, 3)
    expected = X.sum()
    inner = [sum(float(s) for s in LocalRows(X).map(np.sum)) for _ in LocalRows(X).map(len)]
    assert np.allclose(inner, expected)
    totals = []
    threads = [
        threading.Thread(target=lambda: totals.append(sum(float(s) for s in LocalRows(X).map(np.sum))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(totals)) == 1
    assert len(totals) == 4


@pytest.mark.parametrize("visit", ["map", "stream"])
def test_progress_is_logged_up_to_the_last_row(caplog, visit):
    caplog.set_level("DEBUG", "manihash.progress")
    list(getattr(LocalRows(normal(LONG, 3)), visit)(len, "counting"))
    steps = [(r.done, r.total) for r in caplog.records if getattr(r, "stage", "") == "counting"]
    assert steps == sorted(steps)
    assert steps[-1] == (LONG, LONG)


@pytest.mark.parametrize("given", [np.int32, np.uint32, np.int64, np.uint64, np.longdouble, ">f8"])
def test_types_that_float32_does_not_hold_become_float64(given):
    X = (2**24 + np.arange(6).reshape(3, 2)).astype(given)
    assert np.array_equal(LocalRows(X).take([0, 1, 2]), X.astype(np.float64))


def test_unit_rows_that_lie_close_together_are_shifted_before_they_are_rounded():
    X = (1000 + normal(500, 8)).astype(np.float32)
    rows, exact = (rows_to_fit(Z, normalize=True, by_distance=True) for Z in (X, X.astype(np.float64)))
    assert np.array_equal(rows.origin, exact.origin.astype(np.float32))
    error = np.abs(rows.block(0, 500) - exact.block(0, 500)).max()
    assert error < 1e-6 * np.abs(exact.block(0, 500)).max()


def test_rows_far_from_zero_have_an_origin_wherever_they_are():
    rng = np.random.default_rng(0)
    X = (3000 + rng.standard_normal((20_000, 8))).astype(np.float32)
    X[:5000] = X[0]
    assert np.allclose(far_origin(LocalRows(X)), 3000, atol=1)
    assert far_origin(LocalRows(X - 3000)) is None
    assert far_origin(LocalRows(X[:1])) is None  # one row has no spread


def test_the_error_for_an_invalid_row_found_while_choosing_an_origin_names_the_first():
    X = normal(LONG, 3, np.float32)
    X[[1000, LONG - 1]] = np.nan  # only the last row is in the sample
    with pytest.raises(BadRowsError, match="first such row is 1000"):
        rows_to_fit(X, by_distance=True)


def test_a_row_that_is_too_long_is_an_error_alone_and_among_others():
    X = np.full((4, 16), 3e18, np.float32)
    for some in (X, X[:1]):
        with pytest.raises(ValueError, match="overflow"):
            LocalRows(some).block(0, len(some))
    X /= 10
    for some in (np.repeat(X, 500, axis=0), X[:1]):  # their squares overflow only in the sum
        assert np.array_equal(LocalRows(some).block(0, len(some)), some)
