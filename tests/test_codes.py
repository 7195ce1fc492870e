"""Packed codes: bit order, length and distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import check_codes, hamming, n_bytes, pack, unpack


def bits_of(n, n_bits, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n, n_bits), dtype=np.uint8)


@pytest.mark.parametrize("n_bits", range(1, 258))
def test_unpack_inverts_pack(n_bits):
    bits = bits_of(5, n_bits)
    codes = pack(bits)
    assert codes.shape == (5, n_bytes(n_bits))
    np.testing.assert_array_equal(unpack(codes, n_bits), bits)


def test_bits_are_packed_from_the_highest_bit_and_padded_with_zeros():
    bits = [[1, 0, 0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 0, 1]]
    np.testing.assert_array_equal(pack(bits), [[0b10000000, 0b11000000], [0b00000011, 0b01000000]])


def test_every_nonzero_value_is_packed_as_one():
    np.testing.assert_array_equal(pack(np.array([[-1.5, 0.0, 2.0]])), [[0b10100000]])


@settings(deadline=None)
@given(st.integers(1, 257), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_hamming_distance_is_the_number_of_differing_bits(n_bits, q, n, seed):
    a, b = bits_of(q, n_bits, seed), bits_of(n, n_bits, seed + 1)
    np.testing.assert_array_equal(hamming(pack(a), pack(b)), (a[:, None] != b).sum(axis=2))


def test_hamming_distance_does_not_depend_on_the_batch_of_queries():
    queries, codes = pack(bits_of(9, 70)), pack(bits_of(30_000, 70, 1))
    whole = hamming(queries, codes)
    np.testing.assert_array_equal(whole, np.concatenate([hamming(q[None], codes) for q in queries]))
    np.testing.assert_array_equal(whole, hamming(codes, queries).T)


def test_codes_need_not_be_contiguous():
    queries, codes = pack(bits_of(4, 24)), pack(bits_of(20, 24, 1))
    np.testing.assert_array_equal(hamming(queries[::2], codes[::-1]), hamming(queries, codes)[::2, ::-1])


def test_distances_above_255_do_not_overflow():
    assert hamming(pack(np.ones((1, 300))), pack(np.zeros((1, 300)))) == [[300]]


def test_bits_beyond_the_length_are_refused():
    with pytest.raises(ValueError, match="bits set beyond the first 12"):
        check_codes(pack(np.ones((3, 13))), 12)
    check_codes(pack(np.ones((3, 12))), 12)


@pytest.mark.parametrize(
    ("codes", "n_bits", "message"),
    [
        (np.zeros((3, 2), np.uint8), 17, "2 bytes per row, but codes of 17 bits have 3"),
        (np.zeros((3, 2), np.uint8), 8, "2 bytes per row, but codes of 8 bits have 1"),
        (np.zeros((3, 0), np.uint8), 0, "n_bits"),
        (np.zeros((3, 2)), 16, "2-D array of bytes .* got 2-D of float64"),
        (np.zeros(3, np.uint8), 16, "got 1-D of uint8"),
    ],
)
def test_invalid_codes_are_refused(codes, n_bits, message):
    with pytest.raises(ValueError, match=message):
        check_codes(codes, n_bits)


def test_pack_refuses_a_single_code_that_is_not_2d():
    with pytest.raises(ValueError, match="reshape a single code"):
        pack([1, 0, 1])
