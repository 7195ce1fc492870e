"""The fast scan of half bytes: the same answers as a scan of all codes, whatever the tables are."""

import numpy as np
import pytest

from manihash import HammingIndex
from manihash.code_layout import CodeLayout
from manihash.codes import pack
from manihash.search import asymmetric_distances, scanners, tables
from manihash.search.tables import HalfBytes, RoundedTables

pytest.importorskip("faiss")
RNG = np.random.default_rng(0)


def books(fields, bits, width=3):
    return RNG.normal(size=(fields, 2**bits, width)).astype(np.float32)


LAYOUTS = {
    "signs": CodeLayout(64),
    "odd number of signs": CodeLayout(77),
    "two parts of signs": CodeLayout(48, 20, 0.5),
    "fields of 4 bits": CodeLayout(36, 0, codebooks=books(9, 4)),
    "signs and fields of 4 bits": CodeLayout(64, 32, 0.3, books(8, 4), 0.7),
    "a byte of both": CodeLayout(48, 20, 0.3, books(7, 4)),
    "signs and fields of 2 bits": CodeLayout(40, 16, 2.0, books(12, 2)),
    "second part without weight": CodeLayout(64, 32, 0.0, books(8, 4)),
    "fields of 8 bits": CodeLayout(64, 0, codebooks=books(8, 8)),
    "signs and fields of 8 bits": CodeLayout(64, 24, 0.5, books(5, 8), 0.2),
    "a byte of signs and fields of 8 bits": CodeLayout(44, 20, 0.3, books(3, 8)),
    "signs and fields of 1 bit": CodeLayout(40, 16, 0.3, books(24, 1)),
}


def searched(layout, codes, values, k, monkeypatch, packed_from):
    monkeypatch.setattr(tables, "_PACKED_FROM", packed_from)
    queries = pack(RNG.random((len(values), layout.n_bits)) < 0.5)
    return HammingIndex(codes, layout.n_bits, layout=layout).search(queries, k, asymmetric=values)


@pytest.fixture
def fast_scans(monkeypatch):
    """The numbers of candidates of all fast scans."""
    counted, original = [], scanners._FastScan.smallest

    def smallest(self, tables, k):
        counted.append(k)
        return original(self, tables, k)

    scanners._adds_whole_numbers(scanners.faiss_library())  # is remembered, and is no scan of codes
    monkeypatch.setattr(scanners._FastScan, "smallest", smallest)
    return counted


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("kind", ["normal", "one large value", "whole numbers"])
def test_answers_are_those_of_a_scan_of_all_codes(name, kind, monkeypatch, fast_scans):
    layout = LAYOUTS[name]
    codes = pack(RNG.random((4000, layout.n_bits)) < 0.5)
    values = RNG.normal(size=(9, layout.n_values))
    if kind == "one large value":
        values[:, -1] = 1e4
    elif kind == "whole numbers":  # many ties
        values = np.rint(values) + 0.5
    found = searched(layout, codes, values, 10, monkeypatch, 0)
    assert fast_scans
    with monkeypatch.context() as patched:
        patched.setattr(scanners, "faiss_library", lambda: None)
        expected = searched(layout, codes, values, 10, patched, 0)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_the_first_queries_use_no_fast_scan(monkeypatch, fast_scans):
    codes = pack(RNG.random((4000, 64)) < 0.5)
    searched(LAYOUTS["signs"], codes, RNG.normal(size=(5, 64)), 10, monkeypatch, 16)
    assert not fast_scans


def test_numbers_of_candidates_that_decide_few_queries_are_no_longer_tried(monkeypatch, fast_scans):
    """Groups of centers far from each other bound distances badly: in the end, all codes are scanned."""
    layout, codes = CodeLayout(64, 0, codebooks=books(8, 8, 99)), pack(RNG.random((60_000, 64)) < 0.5)
    index, values = HammingIndex(codes, 64, layout=layout), RNG.normal(size=(40, 8 * 99))
    queries = codes[:40]
    monkeypatch.setattr(tables, "_FAST_CANDIDATES", (2, 9))
    found = index.search(queries, 10, asymmetric=values)
    assert fast_scans == [12, 19]
    again = index.search(queries, 10, asymmetric=values)
    assert fast_scans == [12, 19]
    for distance, ids in (found, again):
        expected = searched(layout, codes, values, 10, monkeypatch, 10**9)
        np.testing.assert_array_equal(distance, expected[0])
        np.testing.assert_array_equal(ids, expected[1])


def test_a_version_of_faiss_that_rounds_tables_is_not_used(monkeypatch, fast_scans):
    layout, codes = LAYOUTS["signs"], pack(RNG.random((4000, 64)) < 0.5)
    values = RNG.normal(size=(6, 64))
    original = scanners._FastScan.smallest

    def rounded(self, tables, k):
        return original(self, np.rint(tables / 4) * 4, k)

    with monkeypatch.context() as patched:
        patched.setattr(scanners._FastScan, "smallest", rounded)
        assert not scanners._adds_whole_numbers.__wrapped__(scanners.faiss_library())
    monkeypatch.setattr(scanners, "_adds_whole_numbers", lambda faiss: False)
    fast_scans.clear()
    searched(layout, codes, values, 10, monkeypatch, 0)
    assert not fast_scans


def exact(given, codes):
    """Distances of codes to the tables of the query in the same row."""
    return np.array([sum(t[j, c[j]] for j in range(len(t))) for t, c in zip(given, codes, strict=True)])


def sums_of_half_bytes(entries, codes):
    """Sums (q,) of the entries (q, t, 16) of packed half bytes (q, b)."""
    halves = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    numbers = halves[:, : entries.shape[1], None].astype(np.intp)
    return np.take_along_axis(entries, numbers, axis=2).sum(axis=(1, 2), dtype=np.float64)


@pytest.mark.parametrize("name", LAYOUTS)
def test_half_bytes_bound_distances_from_below(name):
    layout = LAYOUTS[name]
    codes = layout.split(pack(RNG.random((50, layout.n_bits)) < 0.5))
    given, half_bytes = layout.tables(RNG.normal(size=(50, layout.n_values))), HalfBytes.of(layout)
    found = sums_of_half_bytes(half_bytes.tables(given), half_bytes.packed(codes))
    distance = exact(given.astype(np.float64), codes)
    assert (found <= distance * (1 + 1e-6)).all()
    if layout.bits_per_field <= 4:
        np.testing.assert_allclose(found, distance, rtol=1e-6)


def test_each_group_has_16_of_the_centers_and_they_are_near_each_other():
    layout = LAYOUTS["fields of 8 bits"]
    for centers, book in zip(HalfBytes.of(layout).centers, layout.codebooks, strict=True):
        assert sorted(centers) == list(range(256))
        assert book[centers].reshape(16, 16, -1).var(axis=1).sum() < 0.6 * 16 * book.var(axis=0).sum()


def test_rounded_sums_are_within_half_a_step_per_table():
    layout = LAYOUTS["signs and fields of 4 bits"]
    codes, half_bytes = pack(RNG.random((50, 64)) < 0.5), HalfBytes.of(layout)
    given = layout.tables(RNG.normal(size=(50, layout.n_values)))
    rounded, distance = RoundedTables.of(half_bytes.tables(given)), exact(given, codes)
    sums = sums_of_half_bytes(rounded.entries, half_bytes.packed(codes)).astype(np.float32)
    assert (np.abs(rounded.least + rounded.step * sums - distance) <= 8.001 * rounded.step).all()
    assert (rounded.entries.max(axis=(1, 2)) == 255).all()
    assert (rounded.bounds(sums) <= distance).all()


@pytest.mark.parametrize("name", ["fields of 8 bits", "signs and fields of 8 bits"])
def test_a_query_whose_distances_exceed_float32_does_not_change_the_others(name, monkeypatch):
    layout, codes = LAYOUTS[name], pack(RNG.random((4000, 64)) < 0.5)
    values = RNG.normal(size=(6, layout.n_values))
    values[2, -3:] = 1e25
    for packed_from in (0, 99):
        with np.errstate(all="ignore"):
            found = searched(layout, codes, values, 10, monkeypatch, packed_from)
        with monkeypatch.context() as patched:
            patched.setattr(scanners, "faiss_library", lambda: None)
            with np.errstate(all="ignore"):
                expected = searched(layout, codes, values, 10, patched, packed_from)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("large", [1, 30, 10**9])
@pytest.mark.parametrize("bits", [8, 4, 1])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_first_parts_that_repeat_are_visited_exactly(large, bits, k, monkeypatch):
    """By brute force: few first parts, among words that also repeat, whose distances tie often."""
    monkeypatch.setattr(tables, "_LARGE", large)
    layout = CodeLayout(56, 16, 0.5, np.rint(books(40 // bits, bits)), 0.25)
    codes = RNG.integers(0, 256, (5000, 7), np.uint8)
    codes[:, 1:2], codes[:, 0] = RNG.integers(0, 4, (5000, 1)), RNG.integers(0, 9, 5000)
    codes[:900] = codes[900:1800]
    values = np.rint(2 * RNG.normal(size=(7, layout.n_values)))
    index = HammingIndex(codes, 56, layout=layout)
    assert "first parts" in str(index.explain(k=k))
    chosen = np.flatnonzero(RNG.random(5000) < 0.7)
    for rows, filter in ((np.arange(5000), None), (chosen, chosen)):
        found = index.search(codes[:7], k, filter=filter, asymmetric=values)
        every = asymmetric_distances(values, codes[rows], 56, layout=layout)
        order = np.argsort(every, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found[0], np.take_along_axis(every, order, axis=1))
        np.testing.assert_array_equal(found[1], rows[order])
