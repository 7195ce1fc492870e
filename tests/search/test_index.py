"""HammingIndex against brute force, with each scanner."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import pack
from manihash.search import HammingIndex, expansion, scanners, segments

SCANNERS = [
    "numpy",
    pytest.param("faiss", marks=pytest.mark.skipif(not importlib.util.find_spec("faiss"), reason="no faiss")),
]


@pytest.fixture(params=SCANNERS)
def scanner(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(scanners, "faiss_library", lambda: None)
    return request.param


def random_bits(n, n_bits, seed):
    return np.random.default_rng(seed).random((n, n_bits)) < 0.5


def brute_force(queries, bits, ids):
    """For each query all (distance, id), sorted."""
    return [sorted(zip((q != bits).sum(axis=1).tolist(), ids, strict=True)) for q in queries]


def check_search(found, expected, k):
    dist, ids = found
    assert [list(zip(d, i, strict=True)) for d, i in zip(dist.tolist(), ids.tolist(), strict=True)] == [
        answers[:k] for answers in expected
    ]


def check_within(found, expected, radius):
    lims, dist, ids = found
    assert len(lims) == len(expected) + 1
    assert lims[0] == 0
    for i, answers in enumerate(expected):
        span = slice(lims[i], lims[i + 1])
        got = list(zip(dist[span].tolist(), ids[span].tolist(), strict=True))
        assert got == [(d, j) for d, j in answers if d <= radius]


@pytest.mark.parametrize("n_distinct", [40, 900, 20_000])
@pytest.mark.parametrize("k", [1, 10, 64, 65])
def test_a_single_query_finds_what_brute_force_finds(scanner, n_distinct, k):
    rng = np.random.default_rng(k)
    distinct = random_bits(n_distinct, 16, 0)
    bits = np.concatenate([distinct, distinct[rng.integers(0, n_distinct, 2_000)]])
    ids = rng.permutation(3 * len(bits))[: len(bits)]
    index = HammingIndex(pack(bits), 16, ids)
    for query in random_bits(3, 16, 1):
        expected = brute_force([query], bits, ids.tolist())
        check_search(index.search(pack([query]), k), expected, k)
        check_within(index.within(pack([query]), 2), expected, 2)


def test_the_scanner_under_test_is_the_one_in_use(scanner):
    assert scanners.default_scanner().name == scanner


# Hypothesis would share a fixture between its examples, so the scanner is drawn with them.
@settings(deadline=None)
@given(
    st.booleans(),
    st.integers(1, 70),
    st.integers(1, 60),
    st.integers(0, 8),
    st.integers(1, 70),
    st.integers(0, 999),
)
def test_answers_are_exact_and_in_order_of_distance_then_id(without_faiss, n_bits, n, q, k, seed):
    with pytest.MonkeyPatch.context() as patch:
        if without_faiss:
            patch.setattr(scanners, "faiss_library", lambda: None)
        bits, queries = random_bits(n, n_bits, seed), random_bits(q, n_bits, seed + 1)
        searched = HammingIndex(pack(bits), n_bits=n_bits)
        expected = brute_force(queries, bits, range(n))
        check_search(searched.search(pack(queries), k), expected, k)
        for radius in (0, 2, n_bits // 2, n_bits + 5):
            check_within(searched.within(pack(queries), radius), expected, radius)


@pytest.mark.parametrize("k", [1, 2, 10, 33, 100, 999, 1000])
def test_a_result_cut_inside_a_tie_has_the_lowest_ids(scanner, k):
    bits = random_bits(20, 12, 0)[np.random.default_rng(1).integers(0, 20, 1000)]  # 20 codes, 50 times each
    queries = random_bits(30, 12, 2)
    found = HammingIndex(pack(bits), n_bits=12).search(pack(queries), k)
    check_search(found, brute_force(queries, bits, range(1000)), k)


def test_rows_with_equal_codes_are_returned_in_order_of_id(scanner):
    codes = np.zeros((5000, 2), np.uint8)
    dist, ids = HammingIndex(codes, n_bits=16).search(codes[:3], 7)
    np.testing.assert_array_equal(ids, np.tile(np.arange(7), (3, 1)))
    assert not dist.any()


def test_faiss_is_not_used_if_it_breaks_ties_otherwise(monkeypatch):
    faiss = pytest.importorskip("faiss")

    def backwards(queries, codes, q, n, k, width, distances, ids):
        faiss.hammings_knn_mc(queries, codes, q, n, k, width, distances, ids)
        faiss.rev_swig_ptr(ids, q * k)[:] *= -1

    threads = {name: getattr(faiss, name) for name in ("omp_get_max_threads", "omp_set_num_threads")}
    library = SimpleNamespace(swig_ptr=faiss.swig_ptr, hammings_knn_mc=backwards, **threads)
    monkeypatch.setattr(scanners.importlib, "import_module", lambda name: library)
    scanners.faiss_library.cache_clear()
    try:
        assert scanners.default_scanner().name == "numpy"
    finally:
        scanners.faiss_library.cache_clear()


def test_given_ids_are_returned_and_break_ties(scanner):
    bits, queries = random_bits(200, 5, 0), random_bits(10, 5, 1)
    ids = np.random.default_rng(2).permutation(10_000)[:200] - 5000
    searched = HammingIndex(pack(bits), n_bits=5, ids=ids)
    expected = brute_force(queries, bits, ids.tolist())
    check_search(searched.search(pack(queries), 9), expected, 9)
    check_within(searched.within(pack(queries), 1), expected, 1)


def test_a_code_at_the_radius_is_within_it(scanner):
    codes = pack([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    lims, dist, ids = HammingIndex(codes, n_bits=4).within(codes[:1], 2)
    assert (lims.tolist(), dist.tolist(), ids.tolist()) == ([0, 2], [0, 2], [0, 1])


def test_both_scanners_return_the_same_types(scanner):
    codes = pack(random_bits(20, 8, 0))
    searched = HammingIndex(codes, n_bits=8)
    assert [a.dtype for a in searched.search(codes, 3)] == [np.int32, np.int64]
    assert [a.dtype for a in searched.within(codes, 3)] == [np.int64, np.int32, np.int64]


def test_a_k_above_the_number_of_rows_returns_all_with_a_warning(scanner, caplog):
    codes = pack(random_bits(4, 8, 0))
    dist, ids = HammingIndex(codes, n_bits=8).search(codes, 10)
    assert dist.shape == ids.shape == (4, 4)
    assert "k=10 exceeds the 4 rows of the index: all 4 are returned" in caplog.text


def test_an_empty_batch_of_queries_has_an_empty_result(scanner):
    searched = HammingIndex(pack(random_bits(4, 8, 0)), n_bits=8)
    none = np.empty((0, 1), np.uint8)
    assert [a.shape for a in searched.search(none, 3)] == [(0, 3), (0, 3)]
    assert [a.tolist() for a in searched.within(none, 3)] == [[0], [], []]


def test_codes_and_queries_need_not_be_contiguous(scanner):
    codes = pack(random_bits(60, 24, 0))
    whole = HammingIndex(codes[::3].copy(), n_bits=24).search(codes[::2].copy(), 5)
    for a, b in zip(HammingIndex(codes[::3], n_bits=24).search(codes[::2], 5), whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_size_of_blocks_does_not_change_results(scanner, monkeypatch):
    monkeypatch.setattr(scanners, "query_block", lambda n: 4)
    monkeypatch.setattr(scanners, "_COUNTER_BYTES", 2000)
    monkeypatch.setattr(expansion, "_REQUESTED", 400)
    monkeypatch.setattr(expansion, "_SORTED", 100)
    monkeypatch.setattr(segments, "QUERY_BITS", 2)
    bits, queries = random_bits(80, 7, 0), random_bits(30, 7, 1)
    searched, expected = HammingIndex(pack(bits), n_bits=7), brute_force(queries, bits, range(80))
    for k in (3, 20):  # FAISS counts the answers for the first, and is not used for the second
        check_search(searched.search(pack(queries), k), expected, k)
    check_within(searched.within(pack(queries), 2), expected, 2)


def test_its_length_is_the_number_of_rows(scanner):
    assert len(HammingIndex(pack(random_bits(9, 3, 0)), n_bits=3)) == 9


def test_its_repr_shows_rows_bits_distinct_codes_and_file(tmp_path):
    index = HammingIndex(pack([[0, 1, 1], [0, 1, 1], [1, 0, 0]]), n_bits=3)
    assert repr(index) == "HammingIndex(rows=3, n_bits=3, distinct_codes=2)"
    index.save(tmp_path / "codes.mhx")
    assert f"file={str(tmp_path / 'codes.mhx')!r}" in repr(HammingIndex.load(tmp_path / "codes.mhx"))
    index.remove([0])
    assert repr(index) == "HammingIndex(rows=2, n_bits=3)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_bits": 17}, "2 bytes per row, but codes of 17 bits have 3"),
        ({"n_bits": 15}, "bits set beyond the first 15"),
        ({"n_bits": 0}, "n_bits must be a whole number of at least 1"),
        ({"n_bits": 2**16}, "n_bits=65536 exceeds the limit of an index, 65535"),
        ({"codes": np.ones((3, 2))}, "2-D array of bytes"),
        ({"codes": np.ones((0, 2), np.uint8)}, "codes are empty"),
        ({"ids": [1, 2]}, "ids must be 3 integers"),
        ({"ids": [1.0, 2.0, 3.0]}, "got .* type float64"),
        ({"ids": [1, 2, 1]}, "ids must be distinct, but 1 occurs 2 times"),
    ],
)
def test_invalid_arguments_of_the_index_are_refused(scanner, arguments, message):
    with pytest.raises(ValueError, match=message):
        HammingIndex(**{"codes": np.ones((3, 2), np.uint8), "n_bits": 16} | arguments)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda i: i.search(np.zeros((1, 2), np.uint8), 0), "k must be a whole number of at least 1, not 0"),
        (lambda i: i.search(np.zeros((1, 2), np.uint8), 2.5), "k must be a whole number"),
        (lambda i: i.search(np.zeros((1, 3), np.uint8), 1), "queries have 3 bytes per row"),
        (lambda i: i.search(np.zeros(2, np.uint8), 1), "queries must be a 2-D array"),
        (lambda i: i.within(np.zeros((1, 2), np.uint8), -1), "radius must be a whole number of at least 0"),
        (lambda i: i.within(np.full((1, 2), 255, np.uint8), 1), "queries have bits set beyond the first 12"),
        (lambda i: i.within(np.zeros((1, 2)), 1), "got 2-D of float64"),
        (lambda i: i.bucket(np.zeros((2, 2), np.uint8)), "bucket takes one code, got 2"),
        (lambda i: i.bucket(np.zeros(3, np.uint8)), "queries have 3 bytes per row"),
    ],
)
def test_invalid_queries_are_refused(scanner, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(HammingIndex(np.zeros((3, 2), np.uint8), n_bits=12))


def test_contains_knows_the_ids_of_all_rows():
    codes = pack(random_bits(10, 16, 0))
    index = HammingIndex(codes, 16, ids=np.arange(0, 30, 3))
    index.add(codes[:1], [1])
    index.remove([6])
    assert index.contains([0, 1, 2, 3, 6]).tolist() == [True, True, False, True, False]
    assert index.contains([]).tolist() == []
