"""Rankings by the query's real values and by the original vectors."""

import numpy as np
import pytest

from manihash import code_tables
from manihash.codes import hamming, pack, unpack
from manihash.search import HammingIndex, Rerank, asymmetric_distances, rerank, segments, tables
from manihash.stores import create_store
from manihash.stores.reranking import search_reranked

RNG = np.random.default_rng(0)


def real_values(q, n_bits, seed=1):
    return np.random.default_rng(seed).integers(-6, 7, (q, n_bits)).astype(np.float32)


def weights(Y):
    """|y|, at most the root mean square of a query's values."""
    return np.minimum(np.abs(Y), np.sqrt(np.mean(np.square(Y, dtype=np.float64), axis=1, keepdims=True)))


@pytest.mark.parametrize("n_bits", [1, 8, 13, 64, 70])
def test_the_asymmetric_distance_is_the_weight_of_the_differing_bits(n_bits):
    Y, bits = real_values(9, n_bits), RNG.random((50, n_bits)) < 0.5
    expected = [[w[(y > 0) != b].sum() for b in bits] for y, w in zip(Y, weights(Y), strict=True)]
    np.testing.assert_allclose(asymmetric_distances(Y, pack(bits), n_bits), np.array(expected), rtol=1e-5)


def test_the_asymmetric_distance_ranks_as_the_negative_product_with_the_signs():
    Y, codes = real_values(5, 20), pack(RNG.random((200, 20)) < 0.5)
    signed = np.sign(Y) * weights(Y)
    product = signed @ (2.0 * unpack(codes, 20) - 1).T
    distance = asymmetric_distances(Y, codes, 20)
    np.testing.assert_allclose(2 * distance - weights(Y).sum(axis=1, keepdims=True), -product, atol=1e-4)


def test_the_asymmetric_distance_of_signs_is_the_hamming_distance():
    bits, codes = RNG.random((6, 37)) < 0.5, pack(RNG.random((90, 37)) < 0.5)
    np.testing.assert_array_equal(asymmetric_distances(bits * 2.0 - 1, codes, 37), hamming(pack(bits), codes))


@pytest.mark.parametrize("filter", [None, set(range(0, 400, 3))])
@pytest.mark.parametrize("k", [1, 7, 150, 1000])
def test_asymmetric_search_is_exact_with_ties_by_id(k, filter):
    bits = (RNG.random((60, 13)) < 0.5)[RNG.integers(0, 60, 400)]
    Y = real_values(25, 13)
    index = HammingIndex(pack(bits), 13)
    index.remove([5, 6])
    index.add(pack(bits[5:7]), [6, 5])
    bits[[5, 6]] = bits[[6, 5]]
    dist, ids = index.search(pack(Y > 0), k, asymmetric=Y, filter=filter)
    every = asymmetric_distances(Y, pack(bits), 13)
    kept = sorted(filter or range(400))
    for d, i, row in zip(dist, ids, every, strict=True):
        expected = sorted((row[j], j) for j in kept)[:k]
        assert list(zip(d.tolist(), i.tolist(), strict=True)) == expected
    assert dist.dtype == np.float32


def test_the_size_of_blocks_does_not_change_results(monkeypatch):
    Y, codes = RNG.standard_normal((40, 64)), pack(RNG.random((500, 64)) < 0.5)
    index = HammingIndex(codes, 64)
    expected = index.search(pack(Y > 0), 9, asymmetric=Y)
    monkeypatch.setattr(code_tables, "_CODES", 33)
    monkeypatch.setattr(tables, "_QUERIES", 3)
    for a, b in zip(index.search(pack(Y > 0), 9, asymmetric=Y), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    one = index.search(pack(Y[:1] > 0), 9, asymmetric=Y[:1])
    np.testing.assert_array_equal(one[0], expected[0][:1])


def test_very_large_and_very_small_values_are_ranked():
    Y = np.array([[1e300, 2e300, -1e300], [1e-300, 0, 0]])
    distance, ids = HammingIndex(pack([[1, 1, 0], [0, 1, 0], [0, 0, 1]]), 3).search(
        pack(Y > 0), 3, asymmetric=Y
    )
    assert np.isfinite(distance).all()
    assert ids.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert distance[1].tolist() == pytest.approx([0, 3**-0.5, 3**-0.5])


def test_a_shortlist_of_all_rows_gives_the_euclidean_ranking(tmp_path):
    X, Q = RNG.standard_normal((300, 6)), RNG.standard_normal((20, 6))
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    index = HammingIndex(pack(X > 0), 6)
    dist, ids = index.search(pack(Q > 0), 12, rerank=Rerank(Q, mapped, shortlist=300))
    every = np.linalg.norm(Q[:, None] - mapped[None].astype(np.float64), axis=2)
    np.testing.assert_array_equal(ids, np.argsort(every, axis=1, kind="stable")[:, :12])
    np.testing.assert_allclose(dist, np.sort(every, axis=1)[:, :12])


def shortlist(distance, codes, kept, size):
    """The rows of whole buckets, by distance and lowest id, until they are at least ``size``."""
    rows = []
    for i in sorted(kept, key=lambda i: (distance[i], i)):
        if i not in rows and len(rows) < size:
            rows += [j for j in kept if codes[j].tobytes() == codes[i].tobytes()]
    return rows


@pytest.mark.parametrize("filter", [None, list(range(0, 200, 3))])
@pytest.mark.parametrize("n_bits", [2, 4, 10])
@pytest.mark.parametrize("changed", [False, True])
def test_rescoring_ranks_whole_buckets_with_ties_by_id(monkeypatch, n_bits, changed, filter):
    monkeypatch.setattr(rerank, "_VALUES", 20)
    monkeypatch.setattr(segments, "_REQUESTED", 100)
    X = RNG.integers(0, 3, (200, 4)).astype(float)
    Q = RNG.integers(0, 3, (15, 4)).astype(float)
    codes, queries = pack(RNG.random((200, n_bits)) < 0.5), pack(RNG.random((15, n_bits)) < 0.5)
    index = HammingIndex(codes, n_bits)
    if changed:  # the rows of one code are then in two segments
        index.remove(range(0, 40, 2))
        index.add(codes[0:40:2], range(0, 40, 2))
    _, ids = index.search(queries, 3, rerank=Rerank(Q, X), filter=filter)
    for found, distance, q in zip(ids.tolist(), hamming(queries, codes), Q, strict=True):
        among = shortlist(distance, codes, filter or range(200), 30)
        assert found == sorted(among, key=lambda i: (((X[i] - q) ** 2).sum(), i))[:3]


def test_rescoring_finds_the_nearest_row_of_a_collapsed_code():
    X = RNG.standard_normal((3000, 5))
    index = HammingIndex(np.zeros((3000, 1), np.uint8), 8)
    _, ids = index.search(np.zeros((20, 1), np.uint8), 1, rerank=Rerank(X[-20:], X))
    assert ids.ravel().tolist() == list(range(2980, 3000))


def test_a_store_is_reranked_like_an_index(tmp_path):
    pytest.importorskip("faiss")
    X, Q = RNG.standard_normal((300, 6)), RNG.standard_normal((20, 6))
    codes, queries = pack(X[:, :5] > 0), pack(Q[:, :5] > 0)
    with create_store(str(tmp_path / "codes.faiss"), 5) as store:
        for options in ({}, {"shortlist": 1}, {"shortlist": 77}, {"shortlist": 1000}):
            assert search_reranked(store, queries, 3, Rerank(Q, X, **options))[1].shape == (20, 0)
        store.add(codes, np.arange(300))
        for options in ({}, {"shortlist": 1}, {"shortlist": 77}, {"shortlist": 1000}):
            chosen = Rerank(Q, X, **options)
            expected = HammingIndex(codes, 5).search(queries, 3, rerank=chosen)
            for a, b in zip(search_reranked(store, queries, 3, chosen), expected, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asymmetric": np.zeros((2, 9))}, r"real numbers of shape \(q, 8\)"),
        ({"asymmetric": np.zeros((3, 8))}, "got 2 queries, but asymmetric has 3 rows"),
        ({"asymmetric": np.full((2, 8), np.nan)}, "the embedding of the queries contains NaN"),
        ({"rerank": Rerank(np.zeros((3, 4)), np.zeros((9, 4)))}, "got 2 queries, Rerank.queries of shape"),
        ({"rerank": Rerank(np.zeros((2, 4)), np.zeros((9, 5)))}, "the same number of columns in both"),
        ({"rerank": Rerank(np.zeros((2, 4)), np.zeros((5, 4)))}, "Rerank.vectors has 5 rows"),
        ({"rerank": Rerank(np.zeros((2, 4)), np.full((9, 4), np.nan))}, "re-rank by contains NaN"),
        ({"rerank": Rerank(np.zeros((2, 4)), np.zeros((9, 4)), shortlist=0)}, "shortlist must be a whole"),
    ],
)
def test_invalid_rankings_are_refused(options, message):
    index = HammingIndex(pack(RNG.random((9, 8)) < 0.5), 8)
    with pytest.raises(ValueError, match=message):
        index.search(np.zeros((2, 1), np.uint8), 3, **options)


def test_rescoring_with_an_empty_filter_returns_nothing():
    codes = np.arange(6, dtype=np.uint8)[:, None]
    X = np.arange(12.0).reshape(6, 2)
    distance, ids = HammingIndex(codes, 8).search(codes[:2], 3, filter=[], rerank=Rerank(X[:2], X))
    assert distance.shape == ids.shape == (2, 0)


def test_ids_of_a_filter_that_exceed_int64_match_no_row():
    codes = np.arange(6, dtype=np.uint8)[:, None]
    index = HammingIndex(codes, 8, ids=np.arange(-3, 3))
    kept = np.array([2, 2**64 - 1], np.uint64)  # the second would be -1 as a signed number
    assert np.array_equal(index.search(codes[:1], 6, filter=kept)[1], [[2]])


def test_lists_are_accepted_and_other_shapes_refused():
    index = HammingIndex(np.zeros((3, 1), np.uint8), 2)
    query = np.zeros((1, 1), np.uint8)
    rerank = Rerank([[0.2, 0.2]], [[0.9, 0.9], [0.1, 0.2], [-0.5, 0.5]])
    assert index.search(query, 1, rerank=rerank)[1].tolist() == [[1]]
    with pytest.raises(ValueError, match="the same number of columns in both"):
        index.search(query, 1, rerank=Rerank([0.2, 0.2], [[1, 2]]))
    with pytest.raises(ValueError, match="give real numbers"):
        index.search(query, 1, rerank=Rerank([["a", "b"]], [[1, 2]] * 3))
