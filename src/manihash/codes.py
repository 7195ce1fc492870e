"""Packed binary codes: n codes of r bits are an (n, ceil(r / 8)) array of bytes.

Bit j of a code is bit 7 - j % 8 of byte j // 8 (the order of ``np.packbits``, which FAISS shares);
the unused bits of the last byte are zero. The true length r is kept beside the bytes, never guessed.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Codes = NDArray[np.uint8]


def n_bytes(n_bits: int) -> int:
    """Bytes that hold a code of n_bits."""
    return -(-n_bits // 8)


def pack(bits: ArrayLike) -> Codes:
    """Bits (n, r), anything that is true or false, to bytes (n, ceil(r / 8))."""
    array = np.asarray(bits)
    if array.ndim != 2:
        raise ValueError(f"bits must be 2-D, one row a code, not {array.ndim}-D: reshape one code to (1, -1)")
    return np.packbits(array.astype(bool, copy=False), axis=1)


def unpack(codes: Codes, n_bits: int) -> NDArray[np.uint8]:
    """Bytes (n, ceil(r / 8)) to bits (n, r) of 0 and 1."""
    return np.unpackbits(check_codes(codes, n_bits), axis=1, count=n_bits)


def check_codes(codes: ArrayLike, n_bits: int, name: str = "codes") -> Codes:
    """The codes as an array of bytes, if they can be codes of n_bits; otherwise an error that says why."""
    array = np.asarray(codes)
    if array.dtype != np.uint8 or array.ndim != 2:
        raise ValueError(
            f"{name} must be a 2-D array of bytes (uint8) as encode() makes it, "
            f"not {array.ndim}-D of {array.dtype}"
        )
    if n_bits < 1 or array.shape[1] != n_bytes(n_bits):
        raise ValueError(
            f"{name} have {array.shape[1]} bytes a row, but codes of {n_bits} bits have "
            f"{n_bytes(n_bits)}: give the n_bits that the codes were made with"
        )
    if n_bits % 8 and len(array) and np.any(array[:, -1] & (0xFF >> n_bits % 8)):
        raise ValueError(
            f"{name} have bits set beyond the first {n_bits}: they are longer codes, or in another bit order"
        )
    return array


def hamming(queries: Codes, codes: Codes) -> NDArray[np.uint16]:
    """Hamming distance of every query to every code: (q, b), (n, b) -> (q, n)."""
    a, b = _words(queries), np.ascontiguousarray(_words(codes).T)
    distance = np.zeros((len(queries), len(codes)), np.uint16)
    step = max(1, 2**16 // max(1, len(codes)))  # few rows at once: what a word differs in stays in the cache
    for i in range(0, len(a), step):
        for query, word in zip(a[i : i + step].T, b, strict=True):
            distance[i : i + step] += np.bitwise_count(query[:, None] ^ word)
    return distance


def _words(codes: Codes) -> NDArray[np.uint64]:
    """The same bytes as 64-bit words (n, w), zeros behind: a popcount then takes eight bytes at once."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(np.uint64)
