"""Packed binary codes: n codes of r bits are an (n, ceil(r / 8)) array of bytes.

Bit j of a code is bit 7 - j % 8 of byte j // 8 (the order of ``np.packbits`` and of FAISS); the unused bits
of the last byte are zero. The length r is always passed with the bytes and never inferred from them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import check_unmasked
from manihash.types import Codes


def n_bytes(n_bits: int) -> int:
    """Number of bytes that hold a code of n_bits."""
    return -(-n_bits // 8)


def pack(bits: ArrayLike) -> Codes:
    """Pack bits into the bytes of codes.

    Parameters
    ----------
    bits : array-like of shape (n, n_bits)
        One code per row. Every nonzero or true value is a 1.

    Returns
    -------
    ndarray of shape (n, ceil(n_bits / 8)), uint8
        The packed codes. Bit j is bit 7 - j % 8 of byte j // 8; unused bits of the last byte are zero.

    Examples
    --------
    >>> from manihash import pack
    >>> pack([[1, 0, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 0]])
    array([[160, 128],
           [  1,   0]], dtype=uint8)
    """
    check_unmasked(bits, "bits")
    array = np.asarray(bits)
    if array.ndim != 2:
        raise ValueError(
            f"bits must be 2-D, one code per row, got {array.ndim}-D: reshape a single code to (1, -1)"
        )
    return np.packbits(array.astype(bool, copy=False), axis=1)


def unpack(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Unpack the bytes of codes into bits.

    Parameters
    ----------
    codes : ndarray of shape (n, ceil(n_bits / 8)), uint8
        Packed codes, as ``encode`` and ``pack`` return them.
    n_bits : int
        Length of a code.

    Returns
    -------
    ndarray of shape (n, n_bits), uint8
        The bits, 0 or 1.

    Examples
    --------
    >>> from manihash import pack, unpack
    >>> codes = pack([[1, 0, 1, 0, 0, 0, 0, 0, 1]])
    >>> unpack(codes, n_bits=9)
    array([[1, 0, 1, 0, 0, 0, 0, 0, 1]], dtype=uint8)
    """
    return np.unpackbits(check_codes(codes, n_bits), axis=1, count=n_bits)


def check_codes(codes: ArrayLike, n_bits: int, name: str = "codes") -> Codes:
    """Return the codes (n, ceil(n_bits / 8)) as an array of bytes; raise if they cannot have n_bits."""
    check_unmasked(codes, name)
    array = np.asarray(codes)
    if array.dtype != np.uint8 or array.ndim != 2:
        raise ValueError(
            f"{name} must be a 2-D array of bytes (uint8) as encode() returns it, "
            f"got {array.ndim}-D of {array.dtype}"
        )
    if n_bits < 1 or array.shape[1] != n_bytes(n_bits):
        raise ValueError(
            f"{name} have {array.shape[1]} bytes per row, but codes of {n_bits} bits have "
            f"{n_bytes(n_bits)}: pass the n_bits of the model that made the codes"
        )
    if n_bits % 8 and len(array) and np.any(array[:, -1] & (0xFF >> n_bits % 8)):
        raise ValueError(
            f"{name} have bits set beyond the first {n_bits}: the codes are longer or have another bit order"
        )
    return array


def words(codes: Codes) -> NDArray[np.uint64]:
    """Codes (n, b) as 64-bit words (n, ceil(b / 8)), padded with zero bytes."""
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(np.uint64)


def hamming(queries: Codes, codes: Codes) -> NDArray[np.uint16]:
    """Hamming distance of every query to every code: (q, b), (n, b) -> (q, n)."""
    a, b = words(queries), np.ascontiguousarray(words(codes).T)
    distance = np.zeros((len(queries), len(codes)), np.uint16)
    step = max(1, 2**16 // max(1, len(codes)))  # few rows at once: the XOR stays in the cache
    for i in range(0, len(a), step):
        for query, word in zip(a[i : i + step].T, b, strict=True):
            distance[i : i + step] += np.bitwise_count(query[:, None] ^ word)
    return distance


def to_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes for FAISS's binary indexes of 8 * ceil(n_bits / 8) bits: the bit order is the same."""
    return np.ascontiguousarray(check_codes(codes, n_bits))


def from_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes from a binary index of FAISS, such as ``vector_to_array(index.xb)`` reshaped to rows."""
    return check_codes(codes, n_bits)


def to_usearch(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes for usearch: ``Index(ndim=n_bits, metric="hamming", dtype="b1")`` takes the same bytes."""
    return np.ascontiguousarray(check_codes(codes, n_bits))


def from_usearch(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes from a usearch index, as its ``get`` returns them."""
    return check_codes(codes, n_bits)


def to_sentence_transformers(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Signed bytes as ``quantize_embeddings(precision="binary")`` returns them: each byte minus 128.

    Its ``"ubinary"`` is the same as our codes. Both hold only if n_bits is a multiple of 8, because
    sentence-transformers packs the bits of all rows as one string.
    """
    return (check_codes(codes, n_bits) ^ np.uint8(0x80)).view(np.int8)


def from_sentence_transformers(signed: ArrayLike, n_bits: int) -> Codes:
    """Codes from signed bytes of sentence-transformers, each byte minus 128."""
    return check_codes(_signed(signed).view(np.uint8) ^ np.uint8(0x80), n_bits)


def to_vespa(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Signed bytes as Vespa's ``pack_bits`` returns them: the same bits, read as two's complement."""
    return check_codes(codes, n_bits).view(np.int8)


def from_vespa(signed: ArrayLike, n_bits: int) -> Codes:
    """Codes from the int8 cells of a Vespa tensor."""
    return check_codes(_signed(signed).view(np.uint8), n_bits)


def to_pgvector(codes: ArrayLike, n_bits: int) -> list[str]:
    """Codes as text of PostgreSQL's type bit(n_bits), such as ``"1010000000001"``."""
    text = (unpack(codes, n_bits) + np.uint8(ord("0"))).tobytes().decode("ascii")
    return [text[i : i + n_bits] for i in range(0, len(text), n_bits)]


def from_pgvector(texts: Sequence[str], n_bits: int) -> Codes:
    """Codes from text of type bit(n_bits), one string per code."""
    for text in texts:
        if len(text) != n_bits or text.strip("01"):
            raise ValueError(
                f"{text[:80]!r} is not text of type bit({n_bits}): expected {n_bits} characters 0 or 1"
            )
    bits = np.frombuffer("".join(texts).encode("ascii"), np.uint8).reshape(len(texts), n_bits)
    return pack(bits == ord("1"))


def to_milvus(codes: ArrayLike, n_bits: int) -> list[bytes]:
    """Codes for a Milvus BINARY_VECTOR of 8 * ceil(n_bits / 8) dimensions: one bytes object per code."""
    return [row.tobytes() for row in check_codes(codes, n_bits)]


def from_milvus(vectors: Sequence[bytes], n_bits: int) -> Codes:
    """Codes from the bytes of a BINARY_VECTOR, one bytes object per code."""
    width = n_bytes(n_bits)
    for vector in vectors:
        if len(vector) != width:
            raise ValueError(f"got a vector of {len(vector)} bytes, but codes of {n_bits} bits have {width}")
    return check_codes(np.frombuffer(b"".join(vectors), np.uint8).reshape(len(vectors), width), n_bits)


def _signed(array: ArrayLike) -> NDArray[np.int8]:
    """The array if its dtype is int8; other integers are refused, because two signed forms exist."""
    check_unmasked(array, "codes")
    signed = np.asarray(array)
    if signed.dtype != np.int8:
        raise ValueError(f"expected signed bytes (int8), got {signed.dtype}: uint8 codes need no conversion")
    return signed
