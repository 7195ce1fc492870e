"""The fast scan of half bytes: the same answers as a scan of all codes, whatever the tables are."""

import numpy as np
import pytest

from manihash import HammingIndex
from manihash.code_layout import CodeLayout
from manihash.codes import pack
from manihash.search import scanners, tables
from manihash.search.tables import RoundedTables

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
}


def searched(layout, codes, values, k, monkeypatch, packed_from):
    monkeypatch.setattr(tables, "_PACKED_FROM", packed_from)
    queries = pack(RNG.random((len(values), layout.n_bits)) < 0.5)
    return HammingIndex(codes, layout.n_bits, layout=layout).search(queries, k, asymmetric=values)


@pytest.fixture
def fast_scans(monkeypatch):
    """The numbers of candidates of all fast scans."""
    counted, original = [], tables._candidates

    def candidates(packed, rounded, codes, k):
        counted.append(k)
        return original(packed, rounded, codes, k)

    monkeypatch.setattr(tables, "_candidates", candidates)
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


def test_fields_of_8_bits_and_the_first_queries_use_no_fast_scan(monkeypatch, fast_scans):
    layout = CodeLayout(16, 0, codebooks=books(2, 8))
    codes = pack(RNG.random((4000, 16)) < 0.5)
    searched(layout, codes, RNG.normal(size=(5, 6)), 10, monkeypatch, 0)
    searched(
        LAYOUTS["signs"], pack(RNG.random((4000, 64)) < 0.5), RNG.normal(size=(5, 64)), 10, monkeypatch, 16
    )
    assert not fast_scans


def test_a_scan_that_rounds_otherwise_gives_the_same_answers(monkeypatch):
    """If a version of FAISS rounds tables in another way, sums do not match, and all codes are compared."""
    layout, codes = LAYOUTS["signs"], pack(RNG.random((4000, 64)) < 0.5)
    values = RNG.normal(size=(6, 64))
    expected = searched(layout, codes, values, 10, monkeypatch, 99)
    original = RoundedTables.of.__func__

    def halved(cls, given):
        rounded = original(cls, given)
        return cls(rounded.entries * np.float32(0.37), rounded.least, rounded.step / 0.37)

    monkeypatch.setattr(RoundedTables, "of", classmethod(halved))
    found = searched(layout, codes, values, 10, monkeypatch, 0)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_rounded_sums_are_within_half_a_step_per_table():
    layout = LAYOUTS["signs and fields of 4 bits"]
    codes = pack(RNG.random((50, 64)) < 0.5)
    given = layout.tables(RNG.normal(size=(50, layout.n_values)))
    rounded = RoundedTables.of(given)
    exact = np.array([sum(t[j, c[j]] for j in range(8)) for t, c in zip(given, codes, strict=True)])
    assert (np.abs(rounded.least + rounded.step * rounded.sums(codes) - exact) <= 8.001 * rounded.step).all()
    assert (rounded.entries.max(axis=(1, 2)) == 255).all()
    assert (rounded.bounds(rounded.sums(codes)) <= exact).all()
