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
from manihash.search import HammingIndex, Rerank, asymmetric_distances, ranking, scanners, tables
from manihash.search.buckets import build

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
        index = HammingIndex(pack(bits), n_bits, layout=CodeLayout(n_bits, first_bits, weight))
        d1, d2 = part_distances(queries, bits, first_bits)
        distance, ids = index.search(pack(queries), k)
    assert distance.dtype == np.float64
    assert searched((distance, ids)) == enumerated(d1 + weight * d2, range(n), k=k)


@given(st.integers(2, 70), st.data(), st.sampled_from(WEIGHTS), st.integers(0, 9), st.integers(0, 999))
def test_within_looks_up_by_the_first_part_and_ranks_by_both(n_bits, data, weight, radius, seed):
    first_bits = data.draw(st.integers(1, n_bits - 1))
    bits, queries = random_bits(80, n_bits, seed, distinct=40), random_bits(5, n_bits, seed)
    index = HammingIndex(pack(bits), n_bits, layout=CodeLayout(n_bits, first_bits, weight))
    d1, d2 = part_distances(queries, bits, first_bits)
    found = index.within(pack(queries), radius)
    assert looked_up(found) == enumerated(d1 + weight * d2, range(80), keep=d1 <= radius)
    assert found[1].dtype == np.float64
    assert index.count(pack(queries), radius).tolist() == (d1 <= radius).sum(axis=1).tolist()


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
    layout = CodeLayout(n_bits, first_bits, weight)
    got = asymmetric_distances(Y, pack(bits), n_bits, layout=layout)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    index = HammingIndex(pack(bits), n_bits, layout=layout)
    distance, ids = index.search(pack(Y > 0), 30, asymmetric=Y)
    assert distance.dtype == np.float32
    assert searched((distance, ids)) == enumerated(got, range(30))


def test_the_rows_that_the_first_part_finds_are_ranked_by_the_values_of_the_query():
    Y, bits = real_values(9, 27, 3), random_bits(200, 27, 4, distinct=50)
    index = HammingIndex(pack(bits), 27, layout=CodeLayout(27, 10, 0.5))
    lims, distance, ids = index.within(pack(Y > 0), 3, asymmetric=Y)
    d1, _ = part_distances(Y > 0, bits, 10)
    expected = asymmetric_of_parts(Y, bits, 10, (1, 0.5))
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
    got = asymmetric_distances(queries * 2.0 - 1, pack(bits), 33, layout=CodeLayout(33, 12, 0.25))
    np.testing.assert_array_equal(got, d1 + 0.25 * d2)


@pytest.mark.parametrize("weight", [0.5, 0.3])
def test_rows_added_removed_and_filtered_are_ranked_alike(weight):
    bits, queries = random_bits(300, 21, 0, distinct=90), random_bits(15, 21, 5)
    index = HammingIndex(pack(bits[:250]), 21, ids=np.arange(250) * 3, layout=CodeLayout(21, 8, weight))
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
    found = index.within(pack(queries), 2)
    near = [dict(zip(ids[left].tolist(), row, strict=True)) for row in (d1 <= 2).tolist()]
    assert looked_up(found) == enumerated(every, ids[left].tolist(), keep=near)
    near = [{i: row[i] and i in some for i in row} for row in near]
    found = index.within(pack(queries), 2, filter=some)
    assert looked_up(found) == enumerated(every, ids[left].tolist(), keep=near)
    assert index.count(pack(queries), 2, filter=some).tolist() == [len(row) for row in looked_up(found)]


def test_blocks_of_queries_and_pairs_do_not_change_results(monkeypatch):
    bits, Y = random_bits(400, 24, 0, distinct=200), RNG.standard_normal((70, 24))
    index = HammingIndex(pack(bits), 24, layout=CodeLayout(24, 6, 0.3))
    ask = (
        lambda: index.search(pack(Y > 0), 9),
        lambda: index.within(pack(Y > 0), 1),
        lambda: index.within(pack(Y > 0), 1, asymmetric=Y),
    )
    expected = [question() for question in ask]
    monkeypatch.setattr(ranking, "_PAIRS", 17)
    monkeypatch.setattr(ranking, "query_block", lambda n: 4)
    monkeypatch.setattr("manihash.search.segments.QUERY_BITS", 3)
    for question, result in zip(ask, expected, strict=True):
        for got, whole in zip(question(), result, strict=True):
            np.testing.assert_array_equal(got, whole)


def test_a_bucket_of_the_first_part_has_the_rows_that_share_it():
    bits = random_bits(200, 20, 3, distinct=40)
    bits[:, :6] = random_bits(200, 6, 4, distinct=5)
    index = HammingIndex(pack(bits), 20, layout=CodeLayout(20, 6, 0.5))
    index.remove([3, 8])
    for row in (0, 7, 50):
        same = (bits[:, :6] == bits[row, :6]).all(axis=1)
        same[[3, 8]] = False
        assert index.bucket(pack(bits[row : row + 1])).tolist() == np.flatnonzero(same).tolist()


def test_statistics_of_the_first_part_are_those_of_an_index_of_it():
    bits = random_bits(300, 30, 5, distinct=80)
    index = HammingIndex(pack(bits), 30, layout=CodeLayout(30, 9, 0.5))
    index.add(pack(random_bits(20, 30, 6)))
    every = np.vstack([bits, random_bits(20, 30, 6)])
    alone = HammingIndex(pack(every[:, :9]), 9).stats()
    found = index.stats()
    assert replace(found, bytes=0, table_bytes=0) == replace(alone, bytes=0, table_bytes=0)


def test_explain_estimates_the_look_up_by_the_first_part():
    bits = random_bits(5000, 64, 7)
    index = HammingIndex(pack(bits), 64, layout=CodeLayout(64, 12, 0.5))
    plan = index.explain(radius=2, n_queries=100)
    assert plan.what == "within 2 of the first part"
    distinct = len(np.unique(bits[:, :12], axis=0))
    assert f"{distinct:,} distinct codes" in plan.estimates[0].why
    weighted, plain = index.explain(k=5), HammingIndex(pack(bits), 64).explain(k=5)
    assert weighted.estimates[0].query > plain.estimates[0].query, "copies of the parts are compared"


def test_set_layout_changes_the_ranking_of_the_same_codes():
    bits, queries = random_bits(60, 16, 0), random_bits(4, 16, 1)
    index = HammingIndex(pack(bits), 16)
    plain = searched(index.search(pack(queries), 60))
    for first_bits, weight in ((4, 0.5), (9, 0.1)):
        index.set_layout(CodeLayout(16, first_bits, weight))
        d1, d2 = part_distances(queries, bits, first_bits)
        assert searched(index.search(pack(queries), 60)) == enumerated(d1 + weight * d2, range(60))
        assert index.layout == CodeLayout(16, first_bits, weight)
        assert f"{first_bits} + {16 - first_bits} signs, weight {weight}" in repr(index)
    index.set_layout(None)
    assert searched(index.search(pack(queries), 60)) == plain
    assert index.layout.is_hamming


def test_what_is_kept_for_codes_goes_when_they_go():
    made = ranking.Ranking(CodeLayout(64), scanners.default_scanner())
    buckets = build(np.zeros((4, 8), np.uint8), None)
    kept = weakref.ref(made.of(buckets))
    assert made.of(buckets) is kept()
    del buckets
    gc.collect()
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
    distance, ids = HammingIndex(codes, 24, layout=CodeLayout(24, 5, 1)).search(codes[:9], 200)
    every = np.take_along_axis(hamming(codes[:9], codes), ids, axis=1)
    np.testing.assert_array_equal(distance, every)


@pytest.mark.parametrize("made_by", [None, "a model"])
def test_the_parts_are_saved_in_the_file(tmp_path, made_by):
    bits, queries = random_bits(90, 19, 0), random_bits(4, 19, 1)
    index = HammingIndex(pack(bits), 19, layout=CodeLayout(19, 6, 0.1))
    index.made_by = made_by
    index.save(tmp_path / "codes.mhx")
    loaded = HammingIndex.load(tmp_path / "codes.mhx")
    loaded.verify()
    assert (loaded.layout, loaded.made_by) == (CodeLayout(19, 6, 0.1), made_by)
    assert searched(loaded.search(pack(queries), 7)) == searched(index.search(pack(queries), 7))


def test_a_file_without_parts_is_the_same_as_before(tmp_path):
    index = HammingIndex(pack(random_bits(90, 19, 0)), 19)
    index.save(tmp_path / "plain.mhx")
    index.set_layout(CodeLayout(19, 5, 0.5))
    index.set_layout(None)
    index.save(tmp_path / "again.mhx")
    content = (tmp_path / "plain.mhx").read_bytes()
    assert content == (tmp_path / "again.mhx").read_bytes()
    assert b'"version": "1"' in content
    assert b"first_bits" not in content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"look_up_bits": 0}, "look_up_bits=0 is not a number of bits from 1 to the 16 of a code"),
        ({"look_up_bits": 2.0}, "look_up_bits must be a whole number"),
        ({"look_up_bits": 20}, "look_up_bits=20 is not a number of bits from 1 to the 16"),
        ({"look_up_bits": 8, "weight": -1}, "weight must be a finite number of at least zero, not -1"),
        ({"look_up_bits": 8, "weight": np.inf}, "weight must be a finite number of at least zero, not inf"),
        ({"look_up_bits": 8, "weight": np.nan}, "weight must be a finite number of at least zero, not nan"),
        ({"look_up_bits": 8, "weight": None}, "weight must be a finite number of at least zero, not None"),
        ({"look_up_bits": 8, "weight": 1e31}, r"weight must be at most 1e\+30, not 1e\+31"),
        ({"look_up_bits": 9, "codebooks": np.zeros((2, 16, 3))}, "expected f fields"),
        (
            {"look_up_bits": 8, "codebooks": np.zeros((1, 100, 3))},
            "expected f fields of 256, 16, 4 or 2 centers",
        ),
        ({"look_up_bits": 8, "scale": -1.0}, "scale must be a finite number of at least zero, not -1.0"),
    ],
)
def test_invalid_layouts_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CodeLayout(16, **options)


def test_a_weight_that_needs_too_large_a_table_is_refused():
    with pytest.raises(ValueError, match=r"weight=0.3 is not supported for parts of 4000 and 4000 bits"):
        CodeLayout(8000, 4000, 0.3)
    assert CodeLayout(8000, 4000, 0.5).copies == (2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asymmetric": np.ones((2, 16))}, "got 1 queries, but asymmetric has 2 rows"),
        ({"asymmetric": np.ones((1, 8))}, r"real numbers of shape \(q, 16\)"),
    ],
)
def test_invalid_look_ups_are_refused(options, message):
    codes = pack(random_bits(5, 16, 0))
    with pytest.raises(ValueError, match=message):
        HammingIndex(codes, 16, layout=CodeLayout(16, 8)).within(codes[:1], 1, **options)


def test_real_values_do_not_order_a_look_up_of_one_part():
    codes = pack(random_bits(5, 16, 0))
    with pytest.raises(ValueError, match="these codes have one part"):
        HammingIndex(codes, 16).within(codes[:1], 1, asymmetric=np.ones((1, 16)))


def test_a_layout_of_other_codes_is_refused():
    with pytest.raises(ValueError, match="the layout is that of codes of 8 bits, expected 16"):
        HammingIndex(pack(random_bits(5, 16, 0)), 16, layout=CodeLayout(8))


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.7])
def test_a_shortlist_by_weighted_distance_is_ranked_by_the_vectors(weight):
    bits = np.unique(random_bits(400, 24, seed=5), axis=0)  # one row per bucket
    X, Q = RNG.normal(size=(len(bits), 6)), RNG.normal(size=(8, 6))
    index = HammingIndex(pack(bits), 24, layout=CodeLayout(24, 8, weight))
    found = index.search(pack(bits[:8]), k=4, rerank=Rerank(Q, X, shortlist=30))
    first, second = part_distances(bits[:8], bits, 8)
    for i, row in enumerate(first + weight * second):
        short = np.argsort(row, kind="stable")[:30]
        far = np.linalg.norm(X[short] - Q[i], axis=1)
        assert found[1][i].tolist() == short[np.argsort(far)[:4]].tolist()
        np.testing.assert_allclose(found[0][i], np.sort(far)[:4])


def word_layout(first_bits, n_fields, field_bits, weight=0.5, seed=0):
    books = np.random.default_rng(seed).normal(size=(n_fields, 2**field_bits, 3)).astype(np.float32)
    return CodeLayout(first_bits + n_fields * field_bits, first_bits, weight, books, 1.5)


def word_distances(values, bits, layout):
    """The distances of real values (q, v) and codes by their definition, in float64."""
    r, (f, _, w) = layout.look_up_bits, layout.codebooks.shape
    b = layout.bits_per_field
    labels = bits[:, r:].reshape(len(bits), f, b) @ (2 ** np.arange(b - 1, -1, -1))
    centers = layout.codebooks[np.arange(f), labels].astype(float)  # (n, f, w)
    z = values[:, r:].reshape(len(values), 1, f, w)
    fields = np.square(z - centers).sum(axis=(2, 3))
    if not r:
        return fields
    y = values[:, :r]
    scale = np.sqrt(np.mean(np.square(y), axis=1, keepdims=True))
    weights = np.minimum(np.abs(y) / np.where(scale > 0, scale, 1), 1)
    signs = np.where((y > 0)[:, None] != bits[:, :r], weights[:, None], 0).sum(axis=2)
    return signs + layout.weight * layout.scale * fields


@given(
    st.sampled_from([0, 1, 5, 8, 16, 21, 32]),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4, 8]),
    st.booleans(),
    st.integers(1, 40),
    st.integers(0, 999),
)
def test_words_are_ranked_by_their_definition_and_exactly_by_their_tables(
    first_bits, n_fields, field_bits, without_faiss, k, seed
):
    rng, layout = np.random.default_rng(seed), word_layout(first_bits, n_fields, field_bits, seed=seed)
    bits = random_bits(1500, layout.n_bits, seed)
    bits[:, :first_bits] = random_bits(1500, first_bits, seed + 1, distinct=40)
    values = rng.normal(size=(6, layout.n_values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_FEW_CODES", 50)
        if without_faiss:
            patch.setattr(scanners, "faiss_library", lambda: None)
        index = HammingIndex(pack(bits), layout.n_bits, layout=layout)
        found = index.search(pack(values[:, :1] * np.ones(layout.n_bits) > 0), k, asymmetric=values)
    exact = asymmetric_distances(values, pack(bits), layout.n_bits, layout=layout)
    np.testing.assert_allclose(exact, word_distances(values, bits, layout), rtol=1e-5, atol=1e-5)
    assert found[0].dtype == np.float32
    assert searched(found) == enumerated(exact, range(1500), k=k)


@given(st.sampled_from([1, 8, 21, 32]), st.integers(0, 9), st.integers(0, 999))
def test_a_look_up_of_words_is_by_signs_and_ordered_by_the_whole_word(first_bits, radius, seed):
    layout = word_layout(first_bits, 2, 8, seed=seed)
    bits, queries = random_bits(300, layout.n_bits, seed, distinct=150), random_bits(5, layout.n_bits, seed)
    index = HammingIndex(pack(bits), layout.n_bits, layout=layout)
    inside = part_distances(queries, bits, first_bits)[0] <= radius
    values = layout.values_of(pack(queries))
    every = asymmetric_distances(values, pack(bits), layout.n_bits, layout=layout)
    expected = enumerated(every, range(300), keep=inside)
    assert looked_up(index.within(pack(queries), radius)) == expected
    assert looked_up(index.within(pack(queries), radius, asymmetric=values)) == expected
    assert index.count(pack(queries), radius).tolist() == inside.sum(axis=1).tolist()
    by_code = searched(index.search(pack(queries), 9))
    assert by_code == enumerated(every, range(300), k=9), "a query of codes stands for its centers"


def test_codes_of_a_quantizer_alone_have_no_radius():
    layout = word_layout(0, 2, 8)
    index = HammingIndex(pack(random_bits(20, 16, 0)), 16, layout=layout)
    with pytest.raises(ValueError, match="have no Hamming radius: search for the k nearest rows"):
        index.within(pack(random_bits(1, 16, 1)), 2)


@pytest.mark.parametrize("fields", [False, True])
@pytest.mark.parametrize("weight", [0, 0.25, 3.7])
def test_a_weight_of_a_search_ranks_as_a_layout_with_this_weight(fields, weight):
    layout = word_layout(16, 2, 8) if fields else CodeLayout(32, 16, 0.5)
    bits, queries = random_bits(600, 32, 0, distinct=400), pack(random_bits(5, 32, 1))
    index = HammingIndex(pack(bits), 32, layout=layout)
    other = HammingIndex(pack(bits), 32, layout=layout.with_weight(weight))
    values = np.random.default_rng(2).normal(size=(5, layout.n_values))
    before = searched(index.search(queries, 9))
    for _ in range(2):
        for options in ({}, {"asymmetric": values}):
            expected = searched(other.search(queries, 9, **options))
            assert searched(index.search(queries, 9, weight=weight, **options)) == expected
            assert looked_up(index.within(queries, 6, weight=weight, **options)) == looked_up(
                other.within(queries, 6, **options)
            )
        assert searched(index.search(queries, 9)) == before
    assert index.layout == layout


@pytest.mark.parametrize("layout", [None, word_layout(0, 4, 8)])
def test_a_weight_of_codes_of_one_part_is_refused(layout):
    index = HammingIndex(pack(random_bits(300, 32, 0)), 32, layout=layout)
    with pytest.raises(ValueError, match=r"weight=0.5 is that of the second part .* have one part: omit it"):
        index.search(pack(random_bits(1, 32, 1)), 3, weight=0.5)


@pytest.mark.parametrize("weight", [0, 0.3, 1e9])
def test_a_weight_in_a_layout_of_one_part_means_nothing(weight):
    bits, layout = random_bits(300, 32, 0), CodeLayout(32, weight=weight)
    index, plain = HammingIndex(pack(bits), 32, layout=layout), HammingIndex(pack(bits), 32)
    assert searched(index.search(pack(bits[:3]), 9)) == searched(plain.search(pack(bits[:3]), 9))
    assert index.explain(k=9) == plain.explain(k=9)
    assert layout.distances(np.arange(33)).tolist() == list(range(33))


@pytest.mark.parametrize("weight", [-1, np.nan, "auto"])
def test_an_invalid_weight_of_a_search_is_refused(weight):
    index = HammingIndex(pack(random_bits(300, 32, 0)), 32, layout=CodeLayout(32, 16, 0.5))
    with pytest.raises(ValueError, match="weight must be"):
        index.search(pack(random_bits(1, 32, 1)), 3, weight=weight)


def test_the_text_of_a_layout_is_one_line_and_counts_one_of_a_thing():
    assert word_layout(8, 1, 8).described() == "8 signs + 1 field of 8 bits, weight 0.5"
    assert word_layout(1, 3, 1).described() == "1 sign + 3 fields of 1 bit, weight 0.5"
    assert CodeLayout(1).described() == "1 sign"
    assert repr(word_layout(8, 2, 8)) == "CodeLayout(n_bits=24, look_up_bits=8, weight=0.5, scale=1.5)"


def test_words_keep_their_codebooks_in_the_file(tmp_path):
    layout, bits = word_layout(8, 2, 8), random_bits(90, 24, 0)
    index = HammingIndex(pack(bits), 24, layout=layout)
    index.save(tmp_path / "codes.mhx")
    loaded = HammingIndex.load(tmp_path / "codes.mhx")
    loaded.verify()
    assert loaded.layout == layout
    assert searched(loaded.search(pack(bits[:5]), 7)) == searched(index.search(pack(bits[:5]), 7))
    assert layout != layout.with_weight(0.25) != word_layout(8, 2, 8, 0.25, seed=1)


def test_first_parts_that_repeat_are_visited_in_order_and_most_codes_are_skipped():
    rng = np.random.default_rng(0)
    layout = word_layout(32, 4, 8, weight=0.01)
    firsts = random_bits(400, 32, 1)
    bits = np.hstack([firsts[rng.integers(0, 400, 20_000)], random_bits(20_000, 32, 2)])
    index = HammingIndex(pack(bits), 64, layout=layout)
    values = np.hstack([firsts[:8] * 2.0 - 1, rng.normal(size=(8, 12))])
    exact = asymmetric_distances(values, pack(bits), 64, layout=layout)
    found = index.search(pack(bits[:8]), 10, asymmetric=values)
    assert searched(found) == enumerated(exact, range(20_000), k=10)
    plan = index.explain(k=10)
    assert plan.route == "first parts"
    skipped = float(plan.estimates[0].why.split("codes ")[1].split(" %")[0])
    assert skipped > 90, "other first parts differ in about 16 bits"
    other = HammingIndex(pack(bits), 64, layout=layout)
    other.search(pack(bits[:2]), 10, weight=1e3)
    assert other.explain(k=10) == plan, "a weight of an earlier search is not that of the layout"
    other.set_layout(layout.with_weight(1e3))
    assert other.explain(k=10).route == "scan"
    assert "0.0 % skipped" in str(other.explain(k=10))
