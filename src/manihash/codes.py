"""Packed binary codes: n codes of r bits are an (n, ceil(r / 8)) array of bytes.

Bit j of a code is bit 7 - j % 8 of byte j // 8 (the order of ``np.packbits``, which FAISS shares);
the unused bits of the last byte are zero. The true length r is kept beside the bytes, never guessed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.types import Codes


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


def to_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes for FAISS's binary indexes of 8 * ceil(n_bits / 8) bits: numpy's order is FAISS's own."""
    return np.ascontiguousarray(check_codes(codes, n_bits))


def from_faiss(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes out of a binary index of FAISS, such as ``vector_to_array(index.xb)`` in rows."""
    return check_codes(codes, n_bits)


def to_usearch(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes for usearch: ``Index(ndim=n_bits, metric="hamming", dtype="b1")`` takes the same bytes."""
    return np.ascontiguousarray(check_codes(codes, n_bits))


def from_usearch(codes: ArrayLike, n_bits: int) -> Codes:
    """Codes out of an index of usearch, as its ``get`` gives them."""
    return check_codes(codes, n_bits)


def to_sentence_transformers(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Signed bytes as ``quantize_embeddings(precision="binary")`` makes them: each byte less 128.

    Its ``"ubinary"`` is our own form. Both agree with its own only where n_bits fills whole bytes: it packs
    the bits of all rows as one string.
    """
    return (check_codes(codes, n_bits) ^ np.uint8(0x80)).view(np.int8)


def from_sentence_transformers(signed: ArrayLike, n_bits: int) -> Codes:
    """Codes from signed bytes of sentence-transformers, each byte less 128."""
    return check_codes(_signed(signed).view(np.uint8) ^ np.uint8(0x80), n_bits)


def to_vespa(codes: ArrayLike, n_bits: int) -> NDArray[np.int8]:
    """Signed bytes as Vespa's ``pack_bits`` makes them: the same bits, read as two's complement."""
    return check_codes(codes, n_bits).view(np.int8)


def from_vespa(signed: ArrayLike, n_bits: int) -> Codes:
    """Codes from the int8 cells of a Vespa tensor."""
    return check_codes(_signed(signed).view(np.uint8), n_bits)


def to_pgvector(codes: ArrayLike, n_bits: int) -> list[str]:
    """Codes as the text of PostgreSQL's type bit(n_bits), such as ``"1010000000001"``."""
    text = (unpack(np.asarray(codes), n_bits) + np.uint8(ord("0"))).tobytes().decode("ascii")
    return [text[i : i + n_bits] for i in range(0, len(text), n_bits)]


def from_pgvector(texts: Sequence[str], n_bits: int) -> Codes:
    """Codes from the text of bit(n_bits), one string a code."""
    for text in texts:
        if len(text) != n_bits or text.strip("01"):
            raise ValueError(f"{text[:80]!r} is no text of bit({n_bits}): give {n_bits} characters 0 and 1")
    bits = np.frombuffer("".join(texts).encode("ascii"), np.uint8).reshape(len(texts), n_bits)
    return pack(bits == ord("1"))


def to_milvus(codes: ArrayLike, n_bits: int) -> list[bytes]:
    """Codes as Milvus takes a BINARY_VECTOR of 8 * ceil(n_bits / 8) dimensions: one bytes object each."""
    return [row.tobytes() for row in check_codes(codes, n_bits)]


def from_milvus(vectors: Sequence[bytes], n_bits: int) -> Codes:
    """Codes from the bytes of a BINARY_VECTOR, one object a code."""
    width = n_bytes(n_bits)
    for vector in vectors:
        if len(vector) != width:
            raise ValueError(f"a vector of {len(vector)} bytes came: codes of {n_bits} bits have {width}")
    return check_codes(np.frombuffer(b"".join(vectors), np.uint8).reshape(len(vectors), width), n_bits)


def _signed(array: ArrayLike) -> NDArray[np.int8]:
    """The array if it is one of signed bytes; int8 and nothing that merely fits, since two forms exist."""
    signed = np.asarray(array)
    if signed.dtype != np.int8:
        raise ValueError(
            f"signed bytes (int8) were wanted, not {signed.dtype}: uint8 codes need no converting"
        )
    return signed
