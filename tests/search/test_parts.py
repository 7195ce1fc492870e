"""Codes of two parts: weighted distances and look-up by the first part agree with enumeration."""

import gc
import weakref
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manihash.code_layout import CodeLayout
from manihash.codes import hamming, pack, unpack
from manihash.search import HammingIndex, Rescore, asymmetric_distances, parts, scanners

WEIGHTS = [0, 0.25, 0.5, 0.75, 1, 2, 3, 0.1, 1 / 3, 0.7, 3.7, 1e-9, 1e9]
RNG = np.random.default_rng(0)


def random_bits(n, n_bits, seed, distinct=None):
    bits = np.random.default_rng(seed).random((distinct or n, n_bits)) < 0.5
    return bits if distinct is None else bits[np.random.default_rng(seed + 1).integers(0, distinct, n)]


def part_distances(queries, bits, first_bits):
    """Hamming distances of both parts of all pairs: two arrays (q, n)."""
    differ = queries[:, None] != bits
    return differ[..., :first_bits].sum(axis=2), differ[..., first_bits:].sum(axis=2)


def enumerated(distance, ids, keep=None, k=None):
    """The (distance, id) pairs of each query, nearest first, ties by id."""
    rows = [sorted(zip(row.tolist(), ids, strict=True)) for row in distance]
    if keep is not None:
        rows = [[(d, i) for d, i in row if kept[i]] for row, kept in zip(rows, keep, strict=True)]
    return [row[:k] for row in rows]


def searched(found):
    return [list(zip(d, i, strict=True)) for d, i in zip(found[0].tolist(), found[1].tolist(), strict=True)]


def looked_up(found):
    lims, distance, ids = found
    return [list(zip(distance[a:b].tolist(), ids[a:b].tolist(), strict=True)) for a, b in pairwise(lims)]


@given(
    st.booleans(),
    st.integers(2, 70),
    st.data(),
    st.sampled_from(WEIGHTS),
    st.integers(1, 60),
    st.integers(0, 6),
    st.integers(1, 70),
    st.integers(0, 999),
)
def test_search_ranks_by_the_weighted_distance_with_ties_by_id(
    without_faiss, n_bits, data, weight, n, q, k, seed
):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    with pytest.MonkeyPatch.context() as patch:
        if without_faiss:
            patch.setattr(scanners, "faiss_library", lambda: None)
        bits, queries = random_bits(n, n_bits, seed, distinct=30), random_bits(q, n_bits, seed + 2)
        index = HammingIndex(pack(bits), n_bits, first_bits=first_bits, weight=weight)
        d1, d2 = part_distances(queries, bits, first_bits)
        distance, ids = index.search(pack(queries), k)
    assert distance.dtype == np.float64
    assert searched((distance, ids)) == enumerated(d1 + weight * d2, range(n), k=k)


@given(st.integers(2, 70), st.data(), st.sampled_from(WEIGHTS), st.integers(0, 9), st.integers(0, 999))
def test_within_looks_up_by_the_first_part_and_ranks_as_asked(n_bits, data, weight, radius, seed):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    bits, queries = random_bits(80, n_bits, seed, distinct=40), random_bits(5, n_bits, seed)
    index = HammingIndex(pack(bits), n_bits, first_bits=first_bits, weight=weight)
    d1, d2 = part_distances(queries, bits, first_bits)
    for rank_by, distance in ((None, d1), ("first", d1), ("second", d2), ("both", d1 + weight * d2)):
        found = index.within(pack(queries), radius, part="first", rank_by=rank_by)
        assert looked_up(found) == enumerated(distance, range(80), keep=d1 <= radius)
        assert found[1].dtype == (np.float64 if rank_by == "both" else np.int32)
    assert index.count(pack(queries), radius, part="first").tolist() == (d1 <= radius).sum(axis=1).tolist()


@given(st.integers(2, 40), st.data(), st.integers(0, 99))
def test_without_a_part_within_compares_all_bits(n_bits, data, seed):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    bits, queries = random_bits(50, n_bits, seed, distinct=20), random_bits(5, n_bits, seed)
    index = HammingIndex(pack(bits), n_bits, first_bits=first_bits)
    plain = HammingIndex(pack(bits), n_bits)
    for got, expected in zip(index.within(pack(queries), 3), plain.within(pack(queries), 3), strict=True):
        np.testing.assert_array_equal(got, expected)


def real_values(q, n_bits, seed):
    """Values whose root mean squares are exact, so that enumeration gives the same float32 distances."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], (q, n_bits)) * rng.choice([1.0, 1.0, 1.0, 7.0], (q, n_bits))


def asymmetric_of_parts(Y, bits, first_bits, factors):
    """The distances by their definition, in float64."""
    expected = np.zeros((len(Y), len(bits)))
    for part, factor in zip((slice(0, first_bits), slice(first_bits, None)), factors, strict=True):
        y = Y[:, part]
        scale = np.sqrt(np.mean(np.square(y), axis=1, keepdims=True))
        weights = np.minimum(np.abs(y) / np.where(scale > 0, scale, 1), 1)
        differ = (y > 0)[:, None] != bits[:, part]
        expected += factor * np.where(differ, weights[:, None], 0).sum(axis=2)
    return expected


@given(st.integers(2, 70), st.data(), st.sampled_from(WEIGHTS[:-2]), st.integers(0, 99))
def test_the_asymmetric_distance_scales_each_part_on_its_own(n_bits, data, weight, seed):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    Y, bits = real_values(4, n_bits, seed), random_bits(30, n_bits, seed)
    Y[0] = 0
    Y[1, :first_bits] *= 1e40
    Y[2, first_bits:] *= 1e-40
    expected = asymmetric_of_parts(Y, bits, first_bits, (1, weight))
    options = {"first_bits": first_bits, "weight": weight}
    got = asymmetric_distances(Y, pack(bits), n_bits, **options)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    index = HammingIndex(pack(bits), n_bits, **options)
    distance, ids = index.search(pack(Y > 0), 30, asymmetric=Y)
    assert distance.dtype == np.float32
    assert searched((distance, ids)) == enumerated(got, range(30))


@pytest.mark.parametrize(("rank_by", "factors"), [("first", (1, 0)), ("second", (0, 1)), ("both", (1, 0.5))])
def test_the_rows_that_the_first_part_finds_are_ranked_by_the_values_of_the_query(rank_by, factors):
    Y, bits = real_values(9, 27, 3), random_bits(200, 27, 4, distinct=50)
    index = HammingIndex(pack(bits), 27, first_bits=10, weight=0.5)
    lims, distance, ids = index.within(pack(Y > 0), 3, part="first", rank_by=rank_by, asymmetric=Y)
    d1, _ = part_distances(Y > 0, bits, 10)
    expected = asymmetric_of_parts(Y, bits, 10, factors)
    assert distance.dtype == np.float32
    for query, (start, stop) in enumerate(pairwise(lims)):
        found = ids[start:stop]
        assert sorted(found) == np.flatnonzero(d1[query] <= 3).tolist()
        np.testing.assert_allclose(distance[start:stop], expected[query, found], rtol=1e-5, atol=1e-6)
        assert sorted(zip(distance[start:stop], found, strict=True)) == list(
            zip(distance[start:stop], found, strict=True)
        )


def test_equal_values_of_a_query_give_the_weighted_distance():
    bits, queries = random_bits(100, 33, 0), random_bits(8, 33, 1)
    d1, d2 = part_distances(queries, bits, 12)
    got = asymmetric_distances(queries * 2.0 - 1, pack(bits), 33, first_bits=12, weight=0.25)
    np.testing.assert_array_equal(got, d1 + 0.25 * d2)


@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_rows_added_removed_and_filtered_are_ranked_alike(weight):
    bits, queries = random_bits(300, 21, 0, distinct=90), random_bits(15, 21, 5)
    index = HammingIndex(pack(bits[:250]), 21, ids=np.arange(250) * 3, first_bits=8, weight=weight)
    ids = np.concatenate([np.arange(250) * 3, np.arange(50) * 3 + 1])
    index.add(pack(bits[250:]), ids[250:])
    index.remove(ids[10:40])
    left = np.r_[0:10, 40:300]
    d1, d2 = (d[:, left] for d in part_distances(queries, bits, 8))
    every = d1 + weight * d2
    assert searched(index.search(pack(queries), 20)) == enumerated(every, ids[left].tolist(), k=20)
    some = set(ids[left][::4].tolist())
    kept = [dict.fromkeys(ids[left].tolist(), False) | dict.fromkeys(some, True)] * 15
    filtered = enumerated(every, ids[left].tolist(), keep=kept, k=20)
    assert searched(index.search(pack(queries), 20, filter=some)) == filtered
    found = index.within(pack(queries), 2, part="first", rank_by="both")
    near = [dict(zip(ids[left].tolist(), row, strict=True)) for row in (d1 <= 2).tolist()]
    assert looked_up(found) == enumerated(every, ids[left].tolist(), keep=near)
    near = [{i: row[i] and i in some for i in row} for row in near]
    found = index.within(pack(queries), 2, part="first", rank_by="both", filter=some)
    assert looked_up(found) == enumerated(every, ids[left].tolist(), keep=near)
    assert index.count(pack(queries), 2, part="first", filter=some).tolist() == [
        len(row) for row in looked_up(found)
    ]


def test_blocks_of_queries_and_pairs_do_not_change_results(monkeypatch):
    bits, Y = random_bits(400, 24, 0, distinct=200), RNG.standard_normal((70, 24))
    index = HammingIndex(pack(bits), 24, first_bits=6, weight=0.3)
    ask = (
        lambda: index.search(pack(Y > 0), 9),
        lambda: index.within(pack(Y > 0), 1, part="first", rank_by="both"),
        lambda: index.within(pack(Y > 0), 1, part="first", rank_by="both", asymmetric=Y),
    )
    expected = [question() for question in ask]
    monkeypatch.setattr(parts, "_PAIRS", 17)
    monkeypatch.setattr(parts, "query_block", lambda n: 4)
    monkeypatch.setattr("manihash.search.segments.QUERY_BITS", 3)
    for question, result in zip(ask, expected, strict=True):
        for got, whole in zip(question(), result, strict=True):
            np.testing.assert_array_equal(got, whole)


def test_a_bucket_of_the_first_part_has_the_rows_that_share_it():
    bits = random_bits(200, 20, 3, distinct=40)
    bits[:, :6] = random_bits(200, 6, 4, distinct=5)
    index = HammingIndex(pack(bits), 20, first_bits=6)
    index.remove([3, 8])
    for row in (0, 7, 50):
        same = (bits[:, :6] == bits[row, :6]).all(axis=1)
        same[[3, 8]] = False
        assert index.bucket(pack(bits[row : row + 1]), part="first").tolist() == np.flatnonzero(same).tolist()
        whole = (bits == bits[row]).all(axis=1)
        whole[[3, 8]] = False
        assert index.bucket(pack(bits[row : row + 1])).tolist() == np.flatnonzero(whole).tolist()


def test_statistics_of_the_first_part_are_those_of_an_index_of_it():
    bits = random_bits(300, 30, 5, distinct=80)
    index = HammingIndex(pack(bits), 30, first_bits=9)
    index.add(pack(random_bits(20, 30, 6)))
    every = np.vstack([bits, random_bits(20, 30, 6)])
    alone = HammingIndex(pack(every[:, :9]), 9).stats()
    found = index.stats(part="first")
    assert replace(found, bytes=0, table_bytes=0) == replace(alone, bytes=0, table_bytes=0)
    assert index.stats().distinct_codes == len(np.unique(every, axis=0))


def test_explain_estimates_the_look_up_by_the_first_part():
    bits = random_bits(5000, 64, 7)
    index = HammingIndex(pack(bits), 64, first_bits=12, weight=0.5)
    plan = index.explain(radius=2, part="first", n_queries=100)
    assert plan.what == "within 2 of the first part"
    distinct = len(np.unique(bits[:, :12], axis=0))
    assert f"{distinct:,} distinct codes" in plan.estimates[0].why
    assert "5,000 distinct codes" in index.explain(radius=2, n_queries=100).estimates[0].why
    weighted, plain = index.explain(k=5), HammingIndex(pack(bits), 64).explain(k=5)
    assert weighted.estimates[0].query > plain.estimates[0].query, "copies of the parts are compared"
    with pytest.raises(ValueError, match="pass radius"):
        index.explain(k=5, part="first")
    with pytest.raises(ValueError, match="have one part"):
        HammingIndex(pack(bits), 64).stats(part="first")


def test_set_parts_changes_the_ranking_of_the_same_codes():
    bits, queries = random_bits(60, 16, 0), random_bits(4, 16, 1)
    index = HammingIndex(pack(bits), 16)
    plain = searched(index.search(pack(queries), 60))
    for first_bits, weight in ((4, 0.5), (9, 0.1)):
        index.set_parts(first_bits, weight)
        d1, d2 = part_distances(queries, bits, first_bits)
        assert searched(index.search(pack(queries), 60)) == enumerated(d1 + weight * d2, range(60))
        assert (index.first_bits, index.weight) == (first_bits, weight)
        assert f"n_bits=16, first_bits={first_bits}, weight={weight}" in repr(index)
    index.set_parts(None)
    assert searched(index.search(pack(queries), 60)) == plain
    assert (index.first_bits, index.weight) == (None, None)


def test_what_is_kept_for_codes_goes_when_they_go():
    made = parts.PerCodes(lambda codes: codes.copy())
    for _ in range(3):
        codes = np.zeros((4, 8), np.uint8)
        kept = weakref.ref(made.of(codes))
        assert made.of(codes) is kept()
    del codes
    gc.collect()
    made.of(np.zeros((2, 8), np.uint8))
    assert kept() is None


@given(st.integers(2, 90), st.data(), st.integers(0, 99))
def test_the_parts_of_packed_codes_are_the_packed_parts_of_the_bits(n_bits, data, seed):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    bits, layout = random_bits(7, n_bits, seed), CodeLayout(n_bits, first_bits)
    np.testing.assert_array_equal(layout.first(pack(bits)), pack(bits[:, :first_bits]))
    np.testing.assert_array_equal(layout.second(pack(bits)), pack(bits[:, first_bits:]))
    assert np.array_equal(unpack(pack(bits), n_bits), bits)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_levels_order_as_distances_in_float64(weight):
    bits, layout = random_bits(50, 20, 0), CodeLayout(20, 7, weight)
    d1, d2 = part_distances(bits, bits, 7)
    levels = layout.levels(pack(bits), pack(bits))
    np.testing.assert_array_equal(layout.distances(levels), d1 + weight * d2)
    assert levels.max() < layout.n_levels
    order = np.argsort(d1 + weight * d2, axis=1, kind="stable")
    np.testing.assert_array_equal(np.argsort(levels, axis=1, kind="stable"), order)


def test_a_weight_of_one_is_the_hamming_distance():
    codes = pack(random_bits(200, 24, 0))
    distance, ids = HammingIndex(codes, 24, first_bits=5, weight=1).search(codes[:9], 200)
    every = np.take_along_axis(hamming(codes[:9], codes), ids, axis=1)
    np.testing.assert_array_equal(distance, every)


@pytest.mark.parametrize("made_by", [None, "a model"])
def test_the_parts_are_saved_in_the_file(tmp_path, made_by):
    bits, queries = random_bits(90, 19, 0), random_bits(4, 19, 1)
    index = HammingIndex(pack(bits), 19, first_bits=6, weight=0.1)
    index.made_by = made_by
    index.save(tmp_path / "codes.mhx")
    loaded = HammingIndex.load(tmp_path / "codes.mhx")
    loaded.verify()
    assert (loaded.first_bits, loaded.weight, loaded.made_by) == (6, 0.1, made_by)
    assert searched(loaded.search(pack(queries), 7)) == searched(index.search(pack(queries), 7))


def test_a_file_without_parts_is_the_same_as_before(tmp_path):
    index = HammingIndex(pack(random_bits(90, 19, 0)), 19)
    index.save(tmp_path / "plain.mhx")
    index.set_parts(5)
    index.set_parts(None)
    index.save(tmp_path / "again.mhx")
    content = (tmp_path / "plain.mhx").read_bytes()
    assert content == (tmp_path / "again.mhx").read_bytes()
    assert b'"version": "1"' in content
    assert b"first_bits" not in content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first_bits": 0}, "first_bits must be a whole number of at least 1, not 0"),
        ({"first_bits": 2.0}, "first_bits must be a whole number"),
        (
            {"first_bits": 16},
            "first_bits=16 leaves none of the 16 bits .* lower first_bits to 15, or omit it",
        ),
        ({"first_bits": 20}, "first_bits=20 leaves none of the 16 bits"),
        ({"first_bits": 8, "weight": -1}, "weight must be a finite number of at least zero, not -1"),
        ({"first_bits": 8, "weight": np.inf}, "weight must be a finite number of at least zero, not inf"),
        ({"first_bits": 8, "weight": np.nan}, "weight must be a finite number of at least zero, not nan"),
        ({"first_bits": 8, "weight": None}, "weight must be a finite number of at least zero, not None"),
        ({"first_bits": 8, "weight": 1e31}, r"weight must be at most 1e\+30, not 1e\+31"),
        ({"weight": -1}, "weight must be a finite number of at least zero, not -1"),
    ],
)
def test_invalid_parts_are_refused(options, message):
    codes = pack(random_bits(5, 16, 0))
    with pytest.raises(ValueError, match=message):
        HammingIndex(codes, 16, **options)
    with pytest.raises(ValueError, match=message):
        HammingIndex(codes, 16).set_parts(**{"first_bits": None} | options)
    with pytest.raises(ValueError, match=message):
        asymmetric_distances(np.ones((1, 16)), codes, 16, **options)


def test_a_weight_that_needs_too_large_a_table_is_refused():
    with pytest.raises(ValueError, match=r"weight=0.3 is not supported for parts of 4000 and 4000 bits"):
        CodeLayout(8000, 4000, 0.3)
    assert CodeLayout(8000, 4000, 0.5).copies == (2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "second"}, "part must be \"first\" or None, not 'second'"),
        ({"rank_by": "second"}, 'pass part="first", too'),
        ({"asymmetric": np.ones((1, 16))}, 'pass part="first", too'),
        ({"part": "first", "rank_by": "third"}, 'rank_by must be "first", "second" or "both", not \'third\''),
        ({"part": "first", "asymmetric": np.ones((2, 16))}, "got 1 queries, but asymmetric has 2 rows"),
        ({"part": "first", "asymmetric": np.ones((1, 8))}, r"real numbers of shape \(q, 16\)"),
    ],
)
def test_invalid_look_ups_are_refused(options, message):
    codes = pack(random_bits(5, 16, 0))
    with pytest.raises(ValueError, match=message):
        HammingIndex(codes, 16, first_bits=8).within(codes[:1], 1, **options)


def test_codes_of_one_part_have_no_first_part():
    codes = pack(random_bits(5, 16, 0))
    with pytest.raises(
        ValueError, match=r"have one part: pass first_bits to HammingIndex, or call set_parts"
    ):
        HammingIndex(codes, 16).within(codes, 1, part="first")


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.7])
def test_a_shortlist_by_weighted_distance_is_ranked_by_the_vectors(weight):
    bits = np.unique(random_bits(400, 24, seed=5), axis=0)  # one row per bucket
    X, Q = RNG.normal(size=(len(bits), 6)), RNG.normal(size=(8, 6))
    index = HammingIndex(pack(bits), 24, first_bits=8, weight=weight)
    found = index.search(pack(bits[:8]), k=4, rescore=Rescore(Q, X, shortlist=30))
    first, second = part_distances(bits[:8], bits, 8)
    for i, row in enumerate(first + weight * second):
        short = np.argsort(row, kind="stable")[:30]
        far = np.linalg.norm(X[short] - Q[i], axis=1)
        assert found[1][i].tolist() == short[np.argsort(far)[:4]].tolist()
        np.testing.assert_allclose(found[0][i], np.sort(far)[:4])
