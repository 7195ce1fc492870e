import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import check_codes, hamming, n_bytes, pack, unpack


def bits_of(n, n_bits, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n, n_bits), dtype=np.uint8)


@pytest.mark.parametrize("n_bits", range(1, 258))
def test_unpacking_gives_back_what_was_packed(n_bits):
    bits = bits_of(5, n_bits)
    codes = pack(bits)
    assert codes.shape == (5, n_bytes(n_bits))
    np.testing.assert_array_equal(unpack(codes, n_bits), bits)


def test_the_first_bit_is_the_highest_of_the_first_byte_and_the_last_byte_is_filled_with_zeros():
    bits = [[1, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 0, 1]]
    np.testing.assert_array_equal(pack(bits), [[0b10000000, 0b11000000], [0b00000011, 0b01000000]])


def test_anything_true_is_a_one():
    np.testing.assert_array_equal(pack(np.array([[-1.5, 0.0, 2.0]])), [[0b10100000]])


@settings(deadline=None)
@given(st.integers(1, 257), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_hamming_distance_is_the_number_of_bits_that_differ(n_bits, q, n, seed):
    a, b = bits_of(q, n_bits, seed), bits_of(n, n_bits, seed + 1)
    np.testing.assert_array_equal(hamming(pack(a), pack(b)), (a[:, None] != b).sum(axis=2))


def test_hamming_distance_is_the_same_for_one_query_and_for_many_among_many_codes():
    queries, codes = pack(bits_of(9, 70)), pack(bits_of(30_000, 70, 1))
    whole = hamming(queries, codes)
    np.testing.assert_array_equal(whole, np.concatenate([hamming(q[None], codes) for q in queries]))
    np.testing.assert_array_equal(whole, hamming(codes, queries).T)


def test_codes_that_are_not_contiguous_are_read_rightly():
    queries, codes = pack(bits_of(4, 24)), pack(bits_of(20, 24, 1))
    np.testing.assert_array_equal(hamming(queries[::2], codes[::-1]), hamming(queries, codes)[::2, ::-1])


def test_distances_above_255_are_counted():
    assert hamming(pack(np.ones((1, 300))), pack(np.zeros((1, 300)))) == [[300]]


def test_bits_beyond_the_length_are_refused():
    with pytest.raises(ValueError, match="bits set beyond the first 12"):
        check_codes(pack(np.ones((3, 13))), 12)
    check_codes(pack(np.ones((3, 12))), 12)


@pytest.mark.parametrize(
    ("codes", "n_bits", "message"),
    [
        (np.zeros((3, 2), np.uint8), 17, "2 bytes a row, but codes of 17 bits have 3"),
        (np.zeros((3, 2), np.uint8), 8, "2 bytes a row, but codes of 8 bits have 1"),
        (np.zeros((3, 0), np.uint8), 0, "n_bits"),
        (np.zeros((3, 2)), 16, "2-D array of bytes .* not 2-D of float64"),
        (np.zeros(3, np.uint8), 16, "not 1-D of uint8"),
    ],
)
def test_what_cannot_be_codes_of_that_length_is_refused(codes, n_bits, message):
    with pytest.raises(ValueError, match=message):
        check_codes(codes, n_bits)


def test_one_code_without_its_row_is_refused_by_pack():
    with pytest.raises(ValueError, match="reshape one code"):
        pack([1, 0, 1])
