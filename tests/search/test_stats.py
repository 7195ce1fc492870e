"""Statistics of an index, and the warnings for collapsed codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manihash.codes import pack
from manihash.search import HammingIndex, stats
from manihash.search.buckets import offsets

RNG = np.random.default_rng(0)


def of(bits):
    return HammingIndex(pack(bits), np.shape(bits)[1]).stats()


def test_bucket_sizes_are_counted():
    bits = np.repeat([[0, 0, 1], [0, 1, 0], [1, 0, 0]], [1, 3, 6], axis=0)
    found = of(bits)
    assert (found.rows, found.n_bits, found.distinct_codes, found.largest_bucket) == (10, 3, 3, 6)
    assert found.mean_bucket == pytest.approx(10 / 3)
    assert found.median_bucket == 6
    share = np.array([0.1, 0.3, 0.6])
    assert found.entropy == pytest.approx(-(share * np.log2(share)).sum())


def test_independent_bits_are_all_effective(monkeypatch):
    monkeypatch.setattr(stats, "_BLOCK", 1000)
    found = of(RNG.random((20_000, 24)) < 0.5)
    assert found.effective_bits == pytest.approx(24, abs=0.1)
    assert (found.constant_bits, found.correlated_bits, found.warnings) == ((), (), ())


def test_effective_bits_follow_from_the_correlation_matrix():
    bits = (RNG.random((500, 9)) < 0.5)[RNG.integers(0, 500, 3000)]
    bits[:, 8] = bits[:, 0] ^ (RNG.random(3000) < 0.1)
    C = np.corrcoef(bits.T.astype(float))
    assert of(bits).effective_bits == pytest.approx(np.trace(C) ** 2 / (C**2).sum())


def test_constant_and_correlated_bits_have_warnings():
    bits = RNG.random((5000, 8)) < 0.5
    bits[:, 2], bits[:, 5] = True, False
    bits[:, 6], bits[:, 7] = bits[:, 1], ~bits[:, 0]
    found = of(bits)
    assert found.constant_bits == (2, 5)
    assert found.correlated_bits == ((0, 7), (1, 6))
    text = " ".join(found.warnings)
    assert "2 of 8 bits are the same in every row" in text
    assert "2 of 8 bits repeat an earlier bit" in text
    assert "codes of 6 bits would say about as much" in text
    bits[:, 6] = np.random.default_rng(1).random(5000) < 0.5
    assert not any("repeat" in each for each in of(bits).warnings)  # a single pair needs no action


def test_collapsed_codes_have_a_warning():
    bits = RNG.random((1000, 32)) < 0.5
    bits[:400] = bits[0]
    (text,) = of(bits).warnings
    assert "collapsed: 400 of 1,000 rows have the same code" in text


def test_few_effective_bits_are_no_reason_for_advice():
    """Codes of few effective bits can be better than shorter ones: ITQ with 256 bits against 16."""
    bits = np.repeat(RNG.random((4000, 2)) < 0.5, 12, axis=1) ^ (RNG.random((4000, 24)) < 0.04)
    found = of(bits)
    assert found.effective_bits < 6
    assert found.warnings == ()


def test_no_warning_speaks_of_parts_that_a_method_may_not_have():
    bits = np.zeros((100, 8), bool)
    bits[:, :3] = RNG.random((100, 1)) < 0.5
    assert len(of(bits).warnings) == 3
    assert not any(word in " ".join(of(bits).warnings) for word in ("base", "rotation", "shorter"))


def test_stats_of_one_row_of_changed_rows_and_of_an_empty_index():
    index = HammingIndex(pack([[1, 0, 1]]), 3)
    assert (index.stats().rows, index.stats().entropy, index.stats().warnings) == (1, 0.0, ())
    index.add(pack([[0, 1, 1]]))
    assert index.stats().distinct_codes == 2
    index.remove(index.ids)
    with pytest.raises(ValueError, match="the index is empty"):
        index.stats()


@pytest.mark.parametrize("n_bits", [24, 32, 40, 64, 72, 128])
@pytest.mark.parametrize("distinct", [20_000, 19_990, 14_000, 100])
@pytest.mark.parametrize("ids", [None, np.arange(20_000) * 200_000])
def test_memory_is_at_most_one_and_a_half_times_codes_and_ids(n_bits, distinct, ids):
    """Without the tables of radius queries, which are built on demand."""
    codes = pack((RNG.random((distinct, n_bits)) < 0.5)[RNG.permutation(20_000) % distinct])
    index = HammingIndex(codes, n_bits, ids)
    assert index.stats().bytes <= 1.5 * 20_000 * (-(-n_bits // 8) + 8)
    assert index.distinct_codes == len(np.unique(codes, axis=0))


@given(st.lists(st.integers(1, 4) | st.just(1), min_size=1, max_size=40))
def test_dense_and_sparse_offsets_agree(count):
    expected = np.concatenate([[0], np.cumsum(count)])
    held = offsets(np.array(count))
    np.testing.assert_array_equal(held.at(np.arange(len(count) + 1)), expected)
    np.testing.assert_array_equal(held.dense(), expected)
    assert held.nbytes <= 4 * (len(count) + 1)
    position = np.arange(len(count))
    start, end = held.spans(position)
    assert np.array_equal(end - start, count)
    assert np.array_equal(start, held.at(position))
