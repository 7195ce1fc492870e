"""All routes find the same codes, and the plan shows the choice between them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.codes import hamming, pack
from manihash.search import HammingIndex, routes, scanners
from manihash.search.buckets import aligned

NAMES = ["scan", "enumerate", "multi-index"]


def near(codes, queries, radius):
    return [
        sorted((int(d), i) for i, d in enumerate(row) if d <= radius)
        for row in hamming(queries, codes).tolist()
    ]


def found(answer):
    lims, distance, position = answer
    pairs = list(zip(distance.tolist(), position.tolist(), strict=True))
    return [sorted(pairs[a:b]) for a, b in pairwise(lims)]


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(NAMES), st.integers(1, 140), st.integers(1, 80), st.integers(0, 3), st.integers(0, 999)
)
def test_each_route_agrees_with_brute_force(name, n_bits, n, radius, seed):
    rng = np.random.default_rng(seed)
    bits = rng.random((n, n_bits)) < 0.5
    codes = aligned(np.unique(pack(bits), axis=0))
    queries = aligned(pack(bits[rng.integers(0, n, 12)] ^ (rng.random((12, n_bits)) < 1.5 / n_bits)))
    finder = routes.CodeFinder(codes, n_bits, scanners.default_scanner())
    radius = min(radius, n_bits)
    if name in {estimate.route for estimate in finder.plan(radius, 1).estimates}:
        assert found(finder.within(queries, radius, name)) == near(codes, queries, radius)


@pytest.mark.parametrize("radius", range(1, 9))
def test_multi_index_is_exact_at_every_radius(radius):
    rng = np.random.default_rng(radius)
    bits = rng.random((3000, 24)) < 0.5
    codes = aligned(np.unique(pack(bits), axis=0))
    queries = aligned(pack(bits[:50] ^ (rng.random((50, 24)) < 0.1)))
    finder = routes.CodeFinder(codes, 24, scanners.default_scanner())
    assert found(finder.within(queries, radius, "multi-index")) == near(codes, queries, radius)


@given(st.integers(2, 64), st.integers(1, 4), st.integers(0, 2))
def test_near_codes_share_a_substring_up_to_the_flips(n_bits, n_tables, flips):
    """The pigeonhole principle of TableLayout."""
    rng = np.random.default_rng(n_bits)
    reach = n_tables * (flips + 1) - 1
    for _ in range(20):
        differ = rng.permutation(n_bits) < min(reach, n_bits)
        assert min(part.sum() for part in np.array_split(differ, n_tables)) <= flips


@pytest.mark.parametrize("layout", [(1, 9, 3), (2, 7, 1), (3, 5, 1), (4, 8, 0), (4, 3, 0)])
def test_every_sufficient_layout_finds_each_code_once(layout):
    rng = np.random.default_rng(0)
    bits = rng.random((2000, 37)) < 0.5
    codes = aligned(np.unique(pack(bits), axis=0))
    queries = aligned(pack(bits[:60] ^ (rng.random((60, 37)) < 0.04)))
    tables = routes.MultiIndex(codes)
    assert found(tables.within(queries, 3, routes.TableLayout(*layout))) == near(codes, queries, 3)


def test_the_size_of_blocks_does_not_change_matches(monkeypatch):
    monkeypatch.setattr(routes, "_PROBES", 100)
    monkeypatch.setattr(routes, "_CANDIDATES", 7)
    codes = aligned(np.unique(pack(np.random.default_rng(0).random((400, 11)) < 0.5), axis=0))
    finder = routes.CodeFinder(codes, 11, scanners.default_scanner())
    for name in ("enumerate", "multi-index"):
        assert found(finder.within(codes[:30], 2, name)) == near(codes, codes[:30], 2)


@given(st.integers(1, 90), st.data())
def test_a_substring_is_the_integer_of_its_bits(n_bits, data):
    start = data.draw(st.integers(0, n_bits - 1))
    bits = data.draw(st.integers(1, min(32, n_bits - start)))
    drawn = np.random.default_rng(n_bits).random((5, n_bits)) < 0.5
    expected = [int("".join("01"[int(bit)] for bit in row[start : start + bits]), 2) for row in drawn]
    assert routes.substring(pack(drawn), start, bits).tolist() == expected


def test_tables_are_shared_by_the_radii_that_need_them():
    codes = aligned(pack(np.random.default_rng(0).random((3000, 64)) < 0.5))
    tables = routes.MultiIndex(codes)
    tables.within(codes[:1], 1, routes.TableLayout(2, 12, 0))
    held = tables.nbytes
    assert held == 2 * 4 * (2**12 + 1 + 3000)
    assert tables.missing(routes.TableLayout(3, 12, 0)) == 1
    tables.within(codes[:1], 3, routes.TableLayout(2, 12, 1))
    assert tables.nbytes == held


def test_the_masks_enumerate_the_ball():
    assert routes.ball(60_000, 30_000) >= 2**62
    for bits, flips in ((1, 0), (13, 2), (20, 4)):
        masks = routes._masks(bits, flips)
        assert len(np.unique(masks)) == len(masks) == routes.ball(bits, flips)
        assert np.bitwise_count(masks).max() == flips
        assert 0 <= masks.min() <= masks.max() < 2**bits


def test_a_plan_shows_all_routes_and_names_the_cheapest():
    index = HammingIndex(pack(np.random.default_rng(0).random((5000, 64)) < 0.5), 64)
    plan = index.explain(radius=2, n_queries=10**9)
    assert plan.route == min(plan.estimates, key=lambda e: e.query * 10**9 + e.prepare).route
    assert {e.route for e in plan.estimates} >= {"scan", "enumerate"}
    assert "within 2" in str(plan)
    assert all(e.route in str(plan) for e in plan.estimates)
    assert index.explain(k=10).route == "scan"
    with pytest.raises(ValueError, match="either k or radius"):
        index.explain()
    with pytest.raises(ValueError, match="either k or radius"):
        index.explain(k=1, radius=1)


def test_tables_are_built_when_enough_queries_pay_for_them():
    index = HammingIndex(pack(np.random.default_rng(0).random((20_000, 64)) < 0.5), 64)
    queries = pack(np.random.default_rng(1).random((1000, 64)) < 0.5)
    assert index.explain(radius=3, n_queries=1).route == "scan"
    assert index.explain(radius=3, n_queries=10**6).route == "multi-index"
    assert index.stats().table_bytes == 0
    index.within(np.tile(queries, (100, 1)), 3)
    prepare = {e.route: e.prepare for e in index.explain(radius=3, n_queries=1000).estimates}
    assert prepare["multi-index"] == 0
    assert index.stats().table_bytes > 0


def test_a_single_query_builds_no_tables():
    index = HammingIndex(pack(np.random.default_rng(0).random((300, 64)) < 0.5), 64)
    assert index.explain(radius=2, n_queries=1).route == "scan"


def test_without_faiss_the_routes_are_the_same(monkeypatch):
    monkeypatch.setattr(scanners, "faiss_library", lambda: None)
    index = HammingIndex(pack(np.random.default_rng(0).random((50, 64)) < 0.5), 64)
    assert {e.route for e in index.explain(radius=1).estimates} == {"scan", "enumerate", "multi-index"}
