"""String ids in every store with its real database: the same answers as integers, and nothing is executed."""

import numpy as np
import pytest
from store_databases import DATABASES, new_address, repeated_codes

from manihash.codes import hamming
from manihash.search import Rerank
from manihash.stores import StoreError, create_store, export_codes, open_store
from manihash.stores.reranking import search_reranked

ODD = [
    'a "quoted" name',
    "back\\slash\\n",
    "tab\there",
    "50 % of {0} $1 %s",
    '") or id != "',
    "ünïcödé-日本語-🦉.png",
    "\\N",
    "Z",
    "a",
    "é",
    " leading space",
    "x" * 1024,
    "0",
    "null",
]


@pytest.fixture(params=DATABASES)
def address(request, tmp_path):
    return new_address(request.param, tmp_path)


def test_names_with_special_characters_are_kept_as_they_are(address):
    codes = np.arange(len(ODD), dtype=np.uint8)[:, None]
    with create_store(address, 8, id_type=str) as store:
        assert store.id_type is str
        store.add(codes, ODD)
    with open_store(address) as store:
        assert store.id_type is str
        np.testing.assert_array_equal(store.get(ODD[::-1]), codes[::-1])
        _, found = store.search(codes, 1)
        assert found[:, 0].tolist() == ODD
        for name in ODD:
            store.remove([name])
            assert not store.contains([name])[0]
        assert store.count() == 0


@pytest.mark.parametrize(
    "name", ["new\nline", "carriage\rreturn", "it's", "') OR 1=1 --", "'); DROP TABLE x;"]
)
def test_quotes_and_line_breaks_are_kept_or_refused_before_anything_is_written(address, name):
    code = np.zeros((1, 1), np.uint8)
    with create_store(address, 8, id_type=str) as store:
        store.add(code, ["other"])
        if "shared.db" in address:
            with pytest.raises(StoreError, match="Milvus cannot select the id"):
                store.add(code, [name])
            with pytest.raises(StoreError, match="Milvus cannot select the id"):
                store.remove([name])
        else:
            store.add(code, [name])
            assert store.search(code, 2)[1].tolist() == [sorted(["other", name])]
            store.remove([name])
        assert store.count() == 1


def test_answers_are_those_of_integer_ids_with_ties_in_the_order_of_code_points(address, tmp_path):
    codes, rng = repeated_codes(200, 13), np.random.default_rng(0)
    names = [f"{'Aaé日🦉'[i % 5]}{i:03d}" for i in range(200)]
    order = sorted(range(200), key=lambda i: [ord(c) for c in names[i]])
    numbers = np.empty(200, np.int64)
    numbers[order] = np.arange(200)
    shuffled = rng.permutation(200)
    queries = codes[:6]
    with create_store(address, 13, id_type=str) as store:
        for part in np.array_split(shuffled, 3):
            store.add(codes[part], [names[i] for i in part])
        for k in (1, 7, 200):
            distance = hamming(queries, codes)
            expected = [sorted(range(200), key=lambda i: (distance[q, i], numbers[i]))[:k] for q in range(6)]
            _, found = store.search(queries, k)
            assert found.tolist() == [[names[i] for i in row] for row in expected]
        lims, _, found = store.within(queries, 3)
        for q in range(6):
            expected = [
                i
                for i in sorted(range(200), key=lambda i: (distance[q, i], numbers[i]))
                if distance[q, i] <= 3
            ]
            assert found[lims[q] : lims[q + 1]].tolist() == [names[i] for i in expected]


def test_an_export_with_names_resumes_and_can_be_reranked(address):
    codes, names = repeated_codes(30, 16), [f"{i}.png" for i in range(30)]
    X = np.random.default_rng(0).normal(size=(30, 4))
    with open_store(address, 16, id_type=str) as store:
        assert export_codes(codes[:20], store, names[:20], batch=7).added == 20
        assert export_codes(codes, store, names, batch=7).added == 10
        with pytest.raises(StoreError, match="are strings: pass one id per code"):
            export_codes(codes, store)
        distances, found = search_reranked(store, codes[:3], 2, Rerank(X[:3], X, ids=names))
        assert found[:, 0].tolist() == names[:3]
        np.testing.assert_allclose(distances[:, 0], 0)


def test_ids_of_the_other_type_are_refused(address):
    codes = repeated_codes(2, 16)
    with create_store(address, 16, id_type=str) as store:
        for change in (store.contains, store.get, store.remove):
            with pytest.raises(ValueError, match="ids of the other rows are strings, got integers"):
                change([1])
        with pytest.raises(ValueError, match="all integers or all strings, got int and str"):
            store.add(codes, ["1", 2])
        with pytest.raises(StoreError, match=r"id 'b' is not in"):
            store.get(["b"])
        store.add(codes, ["a", "b"])
        with pytest.raises(StoreError, match=r"ids 'a', 'b' are already in"):
            store.add(codes, ["a", "b"])
    with pytest.raises(StoreError, match="are strings, got integers: use ids of its type"):
        open_store(address, 16, id_type=int)
    with pytest.raises(ValueError, match="expected int or str"):
        create_store(address, 16, id_type=bytes)


def test_a_store_of_integers_refuses_names(address):
    with create_store(address, 16) as store:
        assert store.id_type is int
        with pytest.raises(ValueError, match="ids of the other rows are integers, got strings"):
            store.add(repeated_codes(1, 16), ["a"])
    with pytest.raises(StoreError, match="are integers, got strings"):
        open_store(address, 16, id_type=str)


def test_faiss_reads_a_file_with_names_as_row_numbers(tmp_path):
    faiss = pytest.importorskip("faiss")
    codes = repeated_codes(5, 16)
    with create_store(str(tmp_path / "a.faiss"), 16, id_type=str) as store:
        store.add(codes, list("edcba"))
    index = faiss.read_index_binary(str(tmp_path / "a.faiss"))
    assert index.ntotal == 5
    assert faiss.vector_to_array(index.id_map).tolist() == [0, 1, 2, 3, 4]


def test_a_faiss_file_with_damaged_names_is_refused(tmp_path):
    path = tmp_path / "a.faiss"
    with create_store(str(path), 16, id_type=str) as store:
        store.add(repeated_codes(5, 16), list("edcba"))
    content = path.read_bytes()
    # The names are the last five bytes; six offsets of eight bytes are before them, and the size before.
    changes = [(-1, b"\xff"), (-1, b"b"), (-1, b"\0"), (-13, b"\x09"), (-45, b"\x02"), (-61, b"\xff")]
    for place, value in changes:
        path.write_bytes(content[:place] + value + content[len(content) + place + 1 :])
        with pytest.raises(StoreError, match="is damaged"):
            open_store(str(path))
    path.write_bytes(content[:-1])
    with pytest.raises(StoreError, match="is damaged"):
        open_store(str(path))
