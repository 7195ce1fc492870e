"""Added, removed and updated rows, filters, and concurrent queries."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from manihash.code_layout import CodeLayout
from manihash.codes import pack
from manihash.search import HammingIndex, Rerank
from manihash.search import hamming_index as index_module
from manihash.search.buckets import Buckets

N_BITS = 13
# Few distinct codes, as learned codes have.
CODE = st.integers(0, 9).map(lambda i: tuple(int(b) for b in f"{(i * 2654435761) % 2**N_BITS:013b}"))
ROWS = st.lists(CODE, min_size=1, max_size=6)


class ChangingIndex(RuleBasedStateMachine):
    """An index and a dictionary from id to bits: after any changes the index agrees with brute force."""

    @initialize(rows=ROWS, recent=st.sampled_from([0, 1, 16]), shuffled=st.booleans())
    def start(self, rows, recent, shuffled):
        self.recent, index_module._RECENT = index_module._RECENT, recent
        ids = np.random.default_rng(len(rows)).permutation(50)[: len(rows)] - 20 if shuffled else None
        self.index = HammingIndex(pack(np.array(rows)), N_BITS, ids)
        self.rows = dict(zip(range(len(rows)) if ids is None else ids.tolist(), rows, strict=True))

    def teardown(self):
        index_module._RECENT = getattr(self, "recent", index_module._RECENT)

    @rule(rows=ROWS)
    def add(self, rows):
        ids = self.index.add(pack(np.array(rows)))
        assert not set(ids.tolist()) & set(self.rows)
        self.rows |= zip(ids.tolist(), rows, strict=True)

    @rule(rows=ROWS, start=st.integers(-60, 60))
    def add_under_ids(self, rows, start):
        ids = [start + 3 * i for i in range(len(rows))]
        if set(ids) & set(self.rows):
            with pytest.raises(ValueError, match="already in the index"):
                self.index.add(pack(np.array(rows)), ids)
        else:
            self.index.add(pack(np.array(rows)), ids)
            self.rows |= zip(ids, rows, strict=True)

    @precondition(lambda self: self.rows)
    @rule(choice=st.data())
    def remove(self, choice):
        ids = choice.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, min_size=1))
        self.index.remove(ids)
        for i in ids:
            del self.rows[i]

    @precondition(lambda self: self.rows)
    @rule(choice=st.data(), code=CODE)
    def update(self, choice, code):
        ids = choice.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, min_size=1, max_size=3))
        self.index.update(pack(np.array([code] * len(ids))), ids)
        self.rows |= dict.fromkeys(ids, code)

    @rule(query=CODE, k=st.integers(1, 30), choice=st.data())
    def search(self, query, k, choice):
        rows, filter = self.filtered(choice)
        dist, ids = self.index.search(pack([query]), k, filter=filter)
        assert list(zip(dist[0].tolist(), ids[0].tolist(), strict=True)) == self.expected(query, rows)[:k]

    @rule(query=CODE, radius=st.integers(0, N_BITS), choice=st.data())
    def within(self, query, radius, choice):
        rows, filter = self.filtered(choice)
        lims, dist, ids = self.index.within(pack([query]), radius, filter=filter)
        expected = [(d, i) for d, i in self.expected(query, rows) if d <= radius]
        assert lims.tolist() == [0, len(expected)]
        assert list(zip(dist.tolist(), ids.tolist(), strict=True)) == expected
        assert self.index.count(pack([query]), radius, filter=filter).tolist() == [len(expected)]
        assert self.index.bucket(pack([query])[0]).tolist() == sorted(
            i for i, code in self.rows.items() if code == query
        )

    @invariant()
    def ids_are_those_of_the_rows(self):
        if hasattr(self, "index"):
            assert self.index.ids.tolist() == sorted(self.rows)
            assert len(self.index) == len(self.rows)

    def filtered(self, choice):
        """Some of the rows, and a filter that selects them, in one of its forms."""
        ids = sorted(self.rows)
        if not ids or choice.draw(st.booleans()):
            return self.rows, None
        kept = choice.draw(st.lists(st.sampled_from(ids), unique=True))
        form = choice.draw(st.sampled_from([set, list, np.array, lambda kept: np.isin(ids, kept)]))
        return {i: self.rows[i] for i in kept}, form(kept)

    @staticmethod
    def expected(query, rows):
        return sorted((sum(a != b for a, b in zip(query, code, strict=True)), i) for i, code in rows.items())


TestChangingIndex = ChangingIndex.TestCase
TestChangingIndex.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def random_codes(n, n_bits, seed, distinct=None):
    rng = np.random.default_rng(seed)
    bits = rng.random((distinct or n, n_bits)) < 0.5
    return pack(bits if distinct is None else bits[rng.integers(0, distinct, n)])


def test_a_new_id_is_never_that_of_a_removed_row():
    index = HammingIndex(random_codes(5, 8, 0), n_bits=8)
    index.remove([4])
    assert index.add(random_codes(2, 8, 1)).tolist() == [5, 6]


def test_an_emptied_index_returns_nothing_and_accepts_new_rows(caplog):
    codes = random_codes(3, 8, 0)
    index = HammingIndex(codes, n_bits=8)
    index.remove([0, 1, 2])
    assert len(index) == 0
    assert [a.shape for a in index.search(codes, 2)] == [(3, 0), (3, 0)]
    assert "k=2 exceeds the 0 rows of the index" in caplog.text
    assert index.within(codes, 8)[0].tolist() == [0, 0, 0, 0]
    assert index.explain(radius=2).estimates
    assert index.explain(k=2).estimates
    index.add(codes[:1], [7])
    assert index.search(codes[:1], 1)[1].tolist() == [[7]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.add(random_codes(2, 16, 0)), "2 bytes per row, but codes of 8 bits have 1"),
        (lambda i: i.add(random_codes(2, 8, 0), [9, 9]), "ids must be distinct"),
        (lambda i: i.add(random_codes(2, 8, 0), [9, 1]), "id 1 is already in the index: use update"),
        (
            lambda i: i.add(random_codes(1, 8, 0), np.array([2**64 - 1], np.uint64)),
            "ids must fit into a signed 64-bit",
        ),
        (lambda i: i.add(random_codes(1, 8, 0), [2**70]), f"64-bit integer, got {2**70}: use smaller ids"),
        (lambda i: i.add(random_codes(2, 8, 0), [-1, 2**63]), f"64-bit integer, got {2**63}"),
        (lambda i: i.remove([-(2**63) - 1]), "64-bit integer, got -9223372036854775809"),
        (lambda i: i.remove([10**5000]), "64-bit integer, got one of 16610 bits"),
        (lambda i: i.search(random_codes(1, 8, 0), 1, filter={2**70}), "64-bit integer"),
        (lambda i: i.remove([1, 77, 78]), r"id 77 \(and 1 others\) is not in the index. Nothing was changed"),
        (lambda i: i.remove([1, 1]), "ids must be distinct"),
        (lambda i: i.update(random_codes(2, 8, 0), [1, 77]), "id 77 is not in the index"),
        (lambda i: i.update(random_codes(2, 8, 0), [1]), "ids must be 2 integers"),
        (
            lambda i: i.search(random_codes(1, 8, 0), 1, filter=[True]),
            "got a boolean filter of shape \\(1,\\) for",
        ),
        (
            lambda i: i.within(random_codes(1, 8, 0), 1, filter=[0.5]),
            "filter must be a set of ids or one boolean",
        ),
    ],
)
def test_an_invalid_change_is_refused_and_changes_nothing(change, message):
    codes = random_codes(5, 8, 0)
    index = HammingIndex(codes, n_bits=8)
    with pytest.raises(ValueError, match=message):
        change(index)
    assert index.ids.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(index.search(codes, 5)[1], HammingIndex(codes, 8).search(codes, 5)[1])


def test_without_free_ids_the_caller_must_pass_ids():
    index = HammingIndex(random_codes(1, 8, 0), n_bits=8, ids=[2**63 - 1])
    with pytest.raises(ValueError, match="no free ids are left"):
        index.add(random_codes(1, 8, 1))
    assert index.search(random_codes(1, 8, 0), 1)[1].tolist() == [[2**63 - 1]]


def test_unknown_ids_of_a_filter_are_ignored_with_a_warning(caplog):
    codes = random_codes(5, 8, 0)
    assert HammingIndex(codes, 8).search(codes[:1], 5, filter={1, 3, 99, -1})[1].shape == (1, 2)
    assert "2 of 4 ids of the filter are not in the index" in caplog.text


def test_an_empty_filter_finds_nothing():
    codes = random_codes(5, 8, 0)
    index = HammingIndex(codes, 8)
    assert index.search(codes, 3, filter=[])[1].shape == (5, 0)
    assert index.count(codes, 8, filter=np.zeros(5, bool)).tolist() == [0] * 5


def test_concurrent_queries_have_the_results_of_sequential_ones():
    codes, queries = random_codes(20_000, 64, 0, distinct=3000), random_codes(200, 64, 1)
    expected = HammingIndex(codes, 64)
    index = HammingIndex(codes, 64)
    for one in (expected, index):
        one.remove(np.arange(0, 20_000, 7))
        one.add(random_codes(50, 64, 2))
    ask = [lambda i: i.search(queries, 9), *(lambda i, r=r: i.within(queries, r) for r in (0, 1, 2, 12, 20))]
    want = [asked(expected) for asked in ask]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda asked: asked(index), ask * 5))
    for found, right in zip(got, want * 5, strict=True):
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)


def test_codes_are_in_the_order_of_the_ids_after_changes():
    rng = np.random.default_rng(3)
    codes = pack((rng.random((30, 13)) < 0.5)[rng.integers(0, 30, 300)])
    index = HammingIndex(codes, 13)
    index.remove(np.arange(0, 300, 7))
    index.update(codes[:5], [1, 2, 3, 4, 5])
    kept = dict(enumerate(codes.tolist())) | dict(zip([1, 2, 3, 4, 5], codes[:5].tolist(), strict=True))
    expected = [kept[i] for i in range(300) if i % 7]
    assert index.codes.tolist() == expected
    assert index.distinct_codes == len({tuple(code) for code in expected})


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("look_up_bits", [None, 6])
def test_removed_rows_are_in_no_ranking(seed, look_up_bits):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    codes = pack(rng.random((40, 20)) < 0.5)[rng.integers(40, size=300)]
    index = HammingIndex(codes, 20, layout=CodeLayout(20, look_up_bits, 0.5))
    kept = np.ones(300, bool)
    for n in (1, 20, 3):
        gone = rng.choice(np.flatnonzero(kept), n, replace=False)
        kept[gone] = False
        index.remove(gone)
        fresh = HammingIndex(codes[kept], 20, np.flatnonzero(kept), layout=CodeLayout(20, look_up_bits, 0.5))
        queries, values = codes[[*gone[:2], 7]], rng.normal(size=(len(gone[:2]) + 1, 20))
        for options in ({}, {"asymmetric": values}, {"rerank": Rerank(X[: len(queries)], X, 15)}):
            for k in (1, 4, 70, 290):
                for found, expected in zip(
                    index.search(queries, k, **options), fresh.search(queries, k, **options), strict=True
                ):
                    np.testing.assert_array_equal(found, expected)


def test_rows_are_filtered_once_for_many_removals(monkeypatch):
    codes = pack(np.random.default_rng(0).random((2500, 32)) < 0.5)
    filtered, calls = Buckets.filtered, []
    monkeypatch.setattr(Buckets, "filtered", lambda *args: calls.append(args) or filtered(*args))
    index = HammingIndex(codes, 32)
    for i in range(500):
        index.remove([i])
        assert index.search(codes[i : i + 1], 1)[1][0, 0] != i
    assert len(calls) == 2
