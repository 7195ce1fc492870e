"""New rows are compared with an index as brute force does it, also through tables beside its file."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from similar_codes import similar_codes

from manihash import HammingIndex, known_rows
from manihash.codes import hamming
from manihash.hashers import ITQ
from manihash.search import prepare_tables
from manihash.search.duplicates import known

RNG = np.random.default_rng(0)


def expected_of(codes, ids, new, radius):
    distance = hamming(new, codes).astype(np.int64)
    counts = (distance <= radius).sum(axis=1)
    best = [min(zip(row.tolist(), ids.tolist(), strict=True)) for row in distance]
    return counts, [(d, i) if d <= radius else (-1, -1) for d, i in best]


@pytest.mark.parametrize("radius", [0, 1, 3])
@pytest.mark.parametrize("changed", [False, True])
def test_known_rows_are_those_of_brute_force(radius, changed):
    codes, ids = similar_codes(RNG, 900, 48), RNG.permutation(5000)[:900]
    new = np.concatenate([similar_codes(RNG, 50, 48), codes[:50]])
    new[60:80, 0] ^= 128
    index = HammingIndex(codes, 48, ids)
    if changed:
        index.remove(ids[:20])
        index.add(codes[:5], ids=[9001, 9002, 9003, 9004, 9005])
        codes, ids = np.concatenate([codes[20:], codes[:5]]), np.concatenate([ids[20:], 9001 + np.arange(5)])
    found = known_rows(index, new, radius)
    counts, best = expected_of(codes, ids, new, radius)
    assert found.counts.tolist() == counts.tolist()
    assert list(zip(found.distances.tolist(), found.ids.tolist(), strict=True)) == best
    assert found.known.tolist() == (counts > 0).tolist()


def test_string_ids_are_returned():
    codes = np.array([[0], [255], [255]], np.uint8)
    index = HammingIndex(codes, 8, ["cat", "owl", "dog"])
    found = known_rows(index, np.array([[254], [15]], np.uint8), 1)
    assert (found.ids.tolist(), found.counts.tolist()) == (["dog", ""], [2, 0])


def test_vectors_are_encoded_by_the_model_of_the_index():
    X = RNG.normal(size=(200, 16))
    hasher = ITQ(n_bits=16, random_state=0).fit(X)
    found = known_rows(hasher.index(X), X[:5], radius=2)
    expected = known_rows(HammingIndex(hasher.encode(X), 16), hasher.encode(X[:5]), radius=2)
    assert found.known.all()
    assert (found.ids.tolist(), found.counts.tolist()) == (expected.ids.tolist(), expected.counts.tolist())
    with pytest.raises(ValueError, match=r"got rows of float64, expected packed codes .* hasher.index"):
        known_rows(HammingIndex(hasher.encode(X), 16), X[:5])


@pytest.fixture
def large(monkeypatch, tmp_path):
    """The file of an index that is large enough for tables, and its codes."""
    monkeypatch.setattr(known, "_FEW", 10)
    codes = RNG.integers(0, 256, (200_000, 8), np.uint8)
    HammingIndex(codes, 64).save(tmp_path / "items.mhx")
    return tmp_path / "items.mhx", codes


def test_tables_beside_the_index_are_used_by_later_processes(large, monkeypatch):
    path, codes = large
    folder = prepare_tables(HammingIndex.load(path), 2)
    assert folder == path.with_name("items.mhx.tables")
    files = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert len(files) > 2
    index = HammingIndex.load(path)
    monkeypatch.setattr("manihash.search.routes._table", None)  # nothing is built again
    assert prepare_tables(index, 2) == folder
    assert index.explain(radius=2).route != "scan"
    assert known_rows(index, codes[:3], 2).ids.tolist() == [0, 1, 2]
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == files


def test_tables_of_an_older_index_file_are_replaced(large):
    path, codes = large
    folder = prepare_tables(HammingIndex.load(path), 2)
    HammingIndex(codes[::-1], 64).save(path)
    index = HammingIndex.load(path)
    assert prepare_tables(index, 2) == folder
    assert known_rows(index, codes[:3], 2).ids.tolist() == [199_999, 199_998, 199_997]
    again = HammingIndex.load(path)
    prepare_tables(again, 2)
    assert known_rows(again, codes[:3], 2).ids.tolist() == [199_999, 199_998, 199_997]


@pytest.mark.parametrize("damage", ["truncated", "missing", "of another size"])
def test_damaged_tables_are_built_again(large, damage):
    path, codes = large
    folder = prepare_tables(HammingIndex.load(path), 2)
    file = next(folder.glob("*-order.npy"))
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:100])
    elif damage == "missing":
        file.unlink()
    else:
        np.save(file, np.zeros(3, np.uint32))
    index = HammingIndex.load(path)
    assert prepare_tables(index, 2) == folder
    assert known_rows(index, codes[:3], 2).ids.tolist() == [0, 1, 2]


def test_without_a_writable_folder_tables_are_built_in_memory(large, caplog):
    path, _ = large
    path.with_name("items.mhx.tables").write_text("a file")
    index = HammingIndex.load(path)
    assert prepare_tables(index, 2) is None
    assert "cannot keep the tables" in caplog.text
    assert index.explain(radius=2).route != "scan"


def test_small_indexes_need_no_tables(tmp_path):
    HammingIndex(np.zeros((3, 8), np.uint8), 64).save(tmp_path / "items.mhx")
    assert prepare_tables(HammingIndex.load(tmp_path / "items.mhx"), 2) is None
    assert not (tmp_path / "items.mhx.tables").exists()


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_matrix, pd.DataFrame, np.ndarray.tolist])
def test_rows_may_be_sparse_or_a_table(kind):
    X = np.random.default_rng(0).normal(size=(60, 6))
    index = ITQ(6, random_state=0).fit(X).index(X)
    assert (
        known_rows(index, kind(X[20:30]), 0).counts.tolist() == known_rows(index, X[20:30], 0).counts.tolist()
    )
