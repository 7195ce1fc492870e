"""String ids in an index: the answers of integer ids, in memory, in files and in journals, and errors."""

from pathlib import Path

import numpy as np
import pytest

from manihash import HammingIndex, dedup, pack, verified_duplicates
from manihash.search import DamagedIndexError, Rerank
from manihash.search.durable import DurableIndex
from manihash.search.ids import StringIds, check_ids, string_array
from manihash.search.journal import ADD, REMOVE, UPDATE, Change, journal_of

N, BITS = 400, 20
ALPHABET = "Zaé日🦉"


def some_codes(n, seed=0):
    """Codes with many duplicates."""
    rng = np.random.default_rng(seed)
    distinct = pack(rng.random((max(2, n // 8), BITS)) < 0.5)
    return distinct[rng.integers(len(distinct), size=n)]


def name(number):
    """A name whose order is that of the number: the letters ascend in code points."""
    return "".join(ALPHABET[number // 5**i % 5] for i in range(4, -1, -1)) + "/photo.jpg" * (number % 2)


def twin(n, seed=1):
    """An index with integer ids, and one with string ids in the same order."""
    numbers = np.random.default_rng(seed).permutation(3 * n)[:n]
    codes = some_codes(n)
    return (
        HammingIndex(codes, BITS, numbers),
        HammingIndex(codes, BITS, list(map(name, numbers.tolist()))),
        codes,
    )


def assert_same(numbers, names):
    assert names.shape == numbers.shape
    assert [name(i) for i in numbers.ravel().tolist()] == names.ravel().tolist()


def test_names_ascend_as_their_numbers():
    names = [name(i) for i in range(3000)]
    assert names == sorted(names)


@pytest.mark.parametrize("change", ["none", "changed", "saved", "mapped"])
def test_answers_are_those_of_integer_ids(change, tmp_path):
    integers, strings, codes = twin(N)
    if change != "none":
        rng = np.random.default_rng(2)
        for _ in range(6):
            gone = rng.choice(integers.ids, 30, replace=False)
            integers.remove(gone)
            strings.remove([name(i) for i in gone.tolist()])
            free = rng.choice(np.setdiff1d(np.arange(3000), integers.ids), 25, replace=False)
            integers.add(codes[:25], free)
            strings.add(codes[:25], [name(i) for i in free.tolist()])
            kept = rng.choice(integers.ids, 40, replace=False)
            integers.update(codes[40:80], kept)
            strings.update(codes[40:80], [name(i) for i in kept.tolist()])
    if change in ("saved", "mapped"):
        strings.save(tmp_path / "a.mhx")
        strings = HammingIndex.load(tmp_path / "a.mhx", mmap=change == "mapped")
        strings.verify()
    assert strings.id_type is str
    assert integers.id_type is int
    assert_same(integers.ids, strings.ids)
    np.testing.assert_array_equal(integers.codes, strings.codes)
    queries = some_codes(9, seed=7)
    some = integers.ids[::3]
    for k in (1, 10, 1000):
        for kept in (None, some):
            given = None if kept is None else {name(i) for i in kept.tolist()}
            one, two = integers.search(queries, k, filter=kept), strings.search(queries, k, filter=given)
            np.testing.assert_array_equal(one[0], two[0])
            assert_same(one[1], two[1])
    for radius in (0, 4):
        one, two = integers.within(queries, radius), strings.within(queries, radius)
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
        assert_same(one[2], two[2])
        np.testing.assert_array_equal(integers.count(queries, radius), strings.count(queries, radius))
    assert strings.contains([name(0), "unknown", name(int(some[0]))]).tolist() == [
        bool(integers.contains([0])[0]),
        False,
        True,
    ]


def test_vectors_rerank_by_their_ids():
    integers, strings, codes = twin(60)
    X = np.random.default_rng(0).normal(size=(180, 3))
    queries, Q = codes[:4], X[:4]
    order = np.random.default_rng(1).permutation(180)
    for recent in (False, True):
        if recent:
            integers.add(codes[:5], [500, 501, 502, 503, 504])
            strings.add(codes[:5], [name(i) for i in range(500, 505)])
            X, order = np.concatenate([X, np.ones((400, 3))]), np.random.default_rng(1).permutation(580)
        expected = integers.search(queries, 5, rerank=Rerank(Q, X))
        names = [name(i) for i in order.tolist()]
        for index, ids in ((integers, order), (strings, names)):
            found = index.search(queries, 5, rerank=Rerank(Q, X[order], ids=ids))
            np.testing.assert_allclose(found[0], expected[0])
        assert_same(expected[1], found[1])
    with pytest.raises(ValueError, match="pass the ids of the vectors"):
        strings.search(queries, 5, rerank=Rerank(Q, X))
    with pytest.raises(ValueError, match=r"Rerank.ids (has no such id|does not have)"):
        strings.search(queries, 5, rerank=Rerank(Q, X[:3], ids=["x", "y", "z"]))


def test_duplicates_are_those_of_integer_ids():
    numbers = np.random.default_rng(1).permutation(3 * N)[:N]
    codes, names = some_codes(N), [name(i) for i in numbers.tolist()]
    one, two = dedup(codes, BITS, 1, numbers), dedup(codes, BITS, 1, names)
    np.testing.assert_array_equal(one.lims, two.lims)
    for a, b in ((one.ids, two.ids), (one.first, two.first), (one.extra, two.extra)):
        assert_same(a, b)
    X = np.random.default_rng(0).normal(size=(N // 4, 8))[np.arange(N) % (N // 4)]
    one = verified_duplicates(codes, BITS, X, cosine=0.99, radius=BITS, ids=numbers)
    two = verified_duplicates(codes, BITS, X, cosine=0.99, radius=BITS, ids=names)
    assert len(one)
    assert_same(one.pairs, two.pairs)
    assert_same(one.first, two.first)


def test_a_journal_keeps_changes_of_string_ids(tmp_path):
    codes = some_codes(50)
    path = tmp_path / "a.mhx"
    HammingIndex(codes[:30], BITS, [f"{i}.jpg" for i in range(30)]).save(path)
    durable = DurableIndex(path)
    results = durable.commit(
        [
            Change(ADD, string_array(["日本.png", "x\ny"]), codes[30:32]),
            Change(REMOVE, string_array(["3.jpg", "日本.png"])),
            Change(UPDATE, string_array(["4.jpg"]), codes[40:41]),
            Change(ADD, None, codes[:1]),
            Change(ADD, string_array(["4.jpg"]), codes[:1]),
            Change(REMOVE, np.array([4])),
        ]
    )
    assert [str(r) for r in results[3:]] == [
        "the ids of this index are strings: give one id per row",
        "id '4.jpg' is already in the index. Nothing was changed",
        "the ids of the other rows are strings, got integers: use one type for all rows",
    ]
    expected = sorted(({f"{i}.jpg" for i in range(30)} - {"3.jpg"}) | {"x\ny"})
    read = HammingIndex.load(path)
    assert read.ids.tolist() == durable.index.ids.tolist() == expected
    np.testing.assert_array_equal(read.codes[read.ids.tolist().index("4.jpg")], codes[40])
    assert journal_of(path).read_bytes().startswith(b"manihash-journal 6\n")
    durable.close()
    again = DurableIndex(path)
    assert again.index.ids.tolist() == expected
    assert again.compact()
    assert again.index.ids.tolist() == HammingIndex.load(path).ids.tolist() == expected
    again.close()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a"], "ids must be distinct, but 'a' occurs 2 times"),
        (["a", ""], "id 1 is an empty string"),
        (["a", 1], "all integers or all strings, got int and str"),
        ([1, "a"], "all integers or all strings, got int and str"),
        ([b"a", b"b"], "all integers or all strings, got bytes"),
        (np.array([b"a", b"b"]), "type |S1"),
        ([Path("a"), Path("b")], "got PosixPath|got WindowsPath"),
        (["a", None], "got NoneType and str"),
        (["a", "b\0"], "id 1 contains a NUL character"),
        (["a", "\udcff.jpg"], r"id 1, '\\udcff.jpg', is not valid Unicode"),
        (["a", "é" * 513], "has 1,026 bytes in UTF-8, more than 1,024"),
        (["a"], r"2 integers or strings, one per code, got an array of shape \(1,\) and type str"),
        ([["a", "b"]], r"shape \(1, 2\) and type str"),
        ([True, False], "type bool"),
    ],
)
def test_ids_that_cannot_be_ids_are_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        HammingIndex(some_codes(2), BITS, ids)


def test_strings_of_all_kinds_of_arrays_are_ids():
    expected = ["b", "é"]
    pandas = pytest.importorskip("pandas")
    for given in (
        expected,
        tuple(expected),
        np.array(expected),
        np.array(expected, object),
        np.array(expected, np.dtypes.StringDType()),
        pandas.Series(expected),
        pandas.Series(expected, dtype="string"),
        [np.str_("b"), "é"],
    ):
        found = check_ids(given, 2)
        assert found.dtype == object
        assert found.tolist() == expected
    assert check_ids(np.array([1, 2], object), 2).dtype == np.int64


def test_one_index_has_ids_of_one_type(tmp_path):
    integers, strings, codes = twin(20)
    with pytest.raises(ValueError, match="the ids of the other rows are integers, got strings"):
        integers.add(codes[:1], ["a"])
    for change in (lambda: strings.add(codes[:1], [1]), lambda: strings.remove([1])):
        with pytest.raises(ValueError, match="the ids of the other rows are strings, got integers"):
            change()
    with pytest.raises(ValueError, match="are strings: pass one id per code"):
        strings.add(codes[:1])
    with pytest.raises(ValueError, match="type int64: the ids are strings"):
        strings.search(codes[:1], 1, filter=[3])
    with pytest.raises(ValueError, match="type strings: the ids are integers"):
        integers.search(codes[:1], 1, filter=["3"])
    with pytest.raises(ValueError, match="id 'unknown' is not in the index"):
        strings.remove(["unknown"])
    strings.remove(strings.ids)
    assert (len(strings), strings.ids.dtype) == (0, object)
    strings.save(tmp_path / "empty.mhx")
    strings = HammingIndex.load(tmp_path / "empty.mhx")
    assert strings.search(codes[:1], 3)[1].dtype == object
    strings.add(codes[:2], ["a", "b"])
    assert strings.ids.tolist() == ["a", "b"]


def test_a_file_without_strings_is_one_of_the_old_format(tmp_path):
    integers, strings, _ = twin(20)
    integers.save(tmp_path / "a.mhx")
    assert b'"version": "1"' in (tmp_path / "a.mhx").read_bytes()
    strings.save(tmp_path / "b.mhx")
    assert b'"version": "3"' in (tmp_path / "b.mhx").read_bytes()


def test_a_damaged_string_is_found(tmp_path):
    index = HammingIndex(some_codes(3), BITS, ["aa", "bb", "cc"])
    path = tmp_path / "a.mhx"
    index.save(path)
    content = path.read_bytes()
    assert content.endswith(b"aabbcc")
    for text in (b"aab\xffcc", b"aaccbb", b"aaaacc", b"aab\0cc"):
        path.write_bytes(content[:-6] + text)
        damaged = HammingIndex.load(path)  # reads the header and offsets only
        with pytest.raises(DamagedIndexError, match="checksum"):
            damaged.verify()
    path.write_bytes(content[:-6] + b"aab\xffcc")
    with pytest.raises(DamagedIndexError, match="not valid UTF-8"):
        HammingIndex.load(path).search(index.codes[:1], 3)
    path.write_bytes(content[:-1])
    with pytest.raises(DamagedIndexError, match="expected"):
        HammingIndex.load(path)


@pytest.mark.parametrize(
    "offsets", [[0, 2, 2, 6], [0, 4, 2, 6], [0, 2, 4, 5], [1, 2, 4, 6], [0, 2, 4, 2**62]]
)
def test_offsets_of_strings_are_checked(offsets, tmp_path):
    ids = StringIds(np.frombuffer(b"aabbcc", np.uint8), np.array(offsets))
    with pytest.raises(ValueError, match="its ids"):
        ids.check_offsets()


def test_few_and_many_strings_are_located_alike():
    names = [f"{i:05d}" for i in range(0, 2000, 2)]
    ids = StringIds.of(string_array(names))
    asked = string_array(["", "00003", "00004", "01998", "99999", "zz"])
    few = ids.ranks_of(asked)
    many = ids.ranks_of(string_array([*asked.tolist(), *names]))
    assert few[1].tolist() == many[1][:6].tolist() == [False, False, True, True, False, False]
    assert few[0][few[1]].tolist() == many[0][:6][few[1]].tolist() == [2, 999]
