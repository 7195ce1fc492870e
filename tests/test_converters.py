"""Conversion to and from the formats of other tools: golden vectors, round trips, the tools themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from manihash import codes as converters
from manihash.codes import pack

CONVERTERS = ["faiss", "usearch", "sentence_transformers", "vespa", "pgvector", "milvus"]
# 1010000000001 and 0000000011111, bits 0 to 12 from the left
BITS = np.array([[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]])
GOLDEN = {
    "faiss": np.array([[0b10100000, 0b00001000], [0b00000000, 0b11111000]], np.uint8),
    "usearch": np.array([[0b10100000, 0b00001000], [0b00000000, 0b11111000]], np.uint8),
    "sentence_transformers": np.array([[32, -120], [-128, 120]], np.int8),
    "vespa": np.array([[-96, 8], [0, -8]], np.int8),
    "pgvector": ["1010000000001", "0000000011111"],
    "milvus": [b"\xa0\x08", b"\x00\xf8"],
}


def to_format(name):
    return getattr(converters, f"to_{name}")


def from_format(name):
    return getattr(converters, f"from_{name}")


@pytest.mark.parametrize("name", CONVERTERS)
def test_conversions_agree_with_the_golden_vectors(name):
    converted = to_format(name)(pack(BITS), 13)
    assert type(converted) is type(GOLDEN[name])
    assert getattr(converted, "dtype", None) == getattr(GOLDEN[name], "dtype", None)
    assert np.array_equal(converted, GOLDEN[name])
    np.testing.assert_array_equal(from_format(name)(GOLDEN[name], 13), pack(BITS))


@pytest.mark.parametrize("name", CONVERTERS)
def test_a_round_trip_keeps_codes_of_every_length(name):
    rng = np.random.default_rng(0)
    for n_bits in range(1, 258):
        codes = pack(rng.random((5, n_bits)) < 0.5)
        np.testing.assert_array_equal(from_format(name)(to_format(name)(codes, n_bits), n_bits), codes)


@pytest.mark.parametrize("name", CONVERTERS)
@settings(deadline=None)
@given(bits=hnp.arrays(bool, st.tuples(st.integers(0, 4), st.integers(1, 257))))
def test_a_round_trip_keeps_any_codes(name, bits):
    n_bits = bits.shape[1]
    again = from_format(name)(to_format(name)(pack(bits), n_bits), n_bits)
    assert again.shape == (len(bits), converters.n_bytes(n_bits))
    np.testing.assert_array_equal(converters.unpack(again, n_bits), bits)


@pytest.mark.parametrize("name", CONVERTERS)
def test_codes_of_another_length_are_refused(name):
    with pytest.raises(ValueError, match="codes have 2 bytes per row, but codes of 17 bits have 3"):
        to_format(name)(pack(BITS), 17)
    with pytest.raises(ValueError, match="17"):
        from_format(name)(GOLDEN[name], 17)


@pytest.mark.parametrize("name", CONVERTERS)
def test_bits_beyond_the_length_are_refused(name):
    with pytest.raises(ValueError, match="bits set beyond the first 12"):
        to_format(name)(pack(BITS), 12)
    with pytest.raises(ValueError, match="12"):
        from_format(name)(GOLDEN[name], 12)


@pytest.mark.parametrize("name", ["sentence_transformers", "vespa"])
def test_unsigned_bytes_are_refused_as_signed_codes(name):
    with pytest.raises(ValueError, match=r"expected signed bytes \(int8\), got uint8"):
        from_format(name)(pack(BITS), 13)


def test_text_of_another_type_is_refused():
    for text in ("10100000000x1", "1" * 12, "", "1010000000001 "):
        with pytest.raises(ValueError, match=r"is not text of type bit\(13\)"):
            converters.from_pgvector([text], 13)


def test_codes_agree_with_the_formulas_of_sentence_transformers():
    """The formulas of its quantize_embeddings for "ubinary" and "binary"."""
    Y = np.random.default_rng(0).normal(size=(20, 64))
    unsigned = np.packbits(Y > 0).reshape(len(Y), -1)
    codes = pack(Y > 0)
    np.testing.assert_array_equal(codes, unsigned)
    np.testing.assert_array_equal(
        to_format("sentence_transformers")(codes, 64), (unsigned - 128).astype(np.int8)
    )


def test_codes_agree_with_the_examples_of_vespa():
    """The table on Vespa's page about binarizing vectors."""
    vectors = np.array([[1] * 8, [0] * 8, [1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 1]])
    assert to_format("vespa")(pack(vectors), 8).ravel().tolist() == [-1, 0, -128, -127]


@pytest.mark.parametrize("n_bits", [8, 13, 257])
def test_faiss_stores_and_compares_the_same_bytes(n_bits):
    faiss = pytest.importorskip("faiss")
    codes = pack(np.random.default_rng(0).random((50, n_bits)) < 0.5)
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(to_format("faiss")(codes, n_bits))
    stored = faiss.vector_to_array(index.xb).reshape(codes.shape)
    np.testing.assert_array_equal(from_format("faiss")(stored, n_bits), codes)
    np.testing.assert_array_equal(
        np.sort(converters.hamming(codes, codes), axis=1), index.search(codes, 50)[0]
    )


@pytest.mark.extra
@pytest.mark.parametrize("n_bits", [8, 13, 257])
def test_usearch_stores_and_compares_the_same_bytes(n_bits):
    from usearch.index import Index

    codes = pack(np.random.default_rng(0).random((50, n_bits)) < 0.5)
    index = Index(ndim=n_bits, metric="hamming", dtype="b1")
    index.add(np.arange(50), to_format("usearch")(codes, n_bits))
    np.testing.assert_array_equal(from_format("usearch")(index.get(np.arange(50)), n_bits), codes)
    found = index.search(codes, 50, exact=True)
    np.testing.assert_array_equal(np.sort(converters.hamming(codes, codes), axis=1), found.distances)


@pytest.mark.extra
def test_postgres_reads_and_writes_the_same_text():
    import psycopg
    from store_databases import postgres_url

    codes = pack(np.random.default_rng(0).random((20, 13)) < 0.5)
    with psycopg.connect(postgres_url()) as connection:
        texts = [
            connection.execute("SELECT %s::bit(13)::text", [text]).fetchone()[0]
            for text in to_format("pgvector")(codes, 13)
        ]
    np.testing.assert_array_equal(from_format("pgvector")(texts, 13), codes)
