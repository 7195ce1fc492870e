"""Index files of FAISS: both libraries read the files of each other, and a damaged file gives an error."""

from contextlib import suppress

import numpy as np
import pytest
from store_databases import (
    assert_search_matches_brute_force,
    assert_within_matches_brute_force,
    repeated_codes,
    scattered_ids,
)

from manihash.stores import StoreError, create_store, open_store

faiss = pytest.importorskip("faiss")


def written(path, n_bits=13, n=40):
    codes, ids = repeated_codes(n, n_bits), scattered_ids(n)
    with create_store(str(path), n_bits) as store:
        store.add(codes, ids)
    return codes, ids


@pytest.mark.parametrize("n_bits", [13, 64])
def test_faiss_reads_files_of_manihash(tmp_path, n_bits):
    codes, ids = written(tmp_path / "a.faiss", n_bits)
    index = faiss.read_index_binary(str(tmp_path / "a.faiss"))
    assert (type(index).__name__, index.ntotal, index.d) == ("IndexBinaryIDMap", 40, 8 * codes.shape[1])
    np.testing.assert_array_equal(faiss.vector_to_array(index.id_map), ids)
    stored = faiss.downcast_IndexBinary(index.index)
    np.testing.assert_array_equal(faiss.vector_to_array(stored.xb).reshape(codes.shape), codes)
    distances, _ = index.search(codes[:5], 7)
    with open_store(str(tmp_path / "a.faiss")) as store:
        np.testing.assert_array_equal(distances, store.search(codes[:5], 7)[0])


@pytest.mark.parametrize("kind", ["IndexBinaryFlat", "IndexBinaryIDMap", "IndexBinaryIDMap2"])
def test_manihash_reads_files_of_faiss(tmp_path, kind):
    codes, ids = repeated_codes(60, 24), scattered_ids(60)
    index = faiss.IndexBinaryFlat(24)
    if kind == "IndexBinaryFlat":
        index.add(codes)
        ids = np.arange(60)
    else:
        index = getattr(faiss, kind)(index)
        index.add_with_ids(codes, ids)
    faiss.write_index_binary(index, str(tmp_path / "a.faiss"))
    with open_store(str(tmp_path / "a.faiss")) as store:
        assert (store.n_bits, store.count()) == (24, 60)
        assert_search_matches_brute_force(store, codes, ids, codes[:4], 9)
        assert_within_matches_brute_force(store, codes, ids, codes[:4], 5)
        store.add(codes[:2], [10**9, 10**9 + 1])
    assert faiss.read_index_binary(str(tmp_path / "a.faiss")).ntotal == 62


@pytest.mark.parametrize(
    "index",
    [
        faiss.IndexBinaryHNSW(16, 4),
        faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(16), 16, 1),
        faiss.IndexBinaryIDMap(faiss.IndexBinaryHNSW(16, 4)),
    ],
)
def test_an_index_that_is_not_flat_is_rejected(tmp_path, index):
    faiss.write_index_binary(index, str(tmp_path / "a.faiss"))
    with pytest.raises(StoreError, match="not a flat one: read it with FAISS itself, if you trust the file"):
        open_store(str(tmp_path / "a.faiss"))


def test_a_float_index_or_a_text_file_is_rejected(tmp_path):
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "a.faiss"))
    (tmp_path / "b.faiss").write_text("not an index at all, but long enough to have a header")
    (tmp_path / "c.faiss").write_bytes(b"")
    for name in "abc":
        with pytest.raises(StoreError, match="not a binary index file of FAISS"):
            open_store(str(tmp_path / f"{name}.faiss"))


def test_a_truncated_file_gives_an_error_or_the_same_codes(tmp_path):
    path = tmp_path / "a.faiss"
    codes, ids = written(path, 16)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if length < len(content) - 16:  # only n_bits is stored after that
            with pytest.raises(StoreError):
                open_store(str(path))
        else:
            with open_store(str(path)) as store:
                np.testing.assert_array_equal(store.get(ids), codes)


def test_a_corrupted_file_never_crashes_the_process(tmp_path):
    path = tmp_path / "a.faiss"
    codes, _ = written(path)
    content = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    for _ in range(400):
        damaged = content.copy()
        places = np.concatenate([rng.integers(0, 58, 2), rng.integers(0, len(content), 2)])
        damaged[places] = rng.choice([0, 1, 127, 128, 255], 4)
        path.write_bytes(damaged.tobytes())
        with suppress(ValueError), open_store(str(path)) as store:
            store.search(np.zeros((1, codes.shape[1]), np.uint8), 3)


def test_a_failed_change_leaves_the_file_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "a.faiss"
    codes, ids = written(path)
    content = path.read_bytes()
    with open_store(str(path)) as store:
        monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
        with pytest.raises(OSError, match="No space left"):
            store.add(codes[:1], [5_000])
        with pytest.raises(OSError, match="No space left"):
            store.remove(ids[:1])
        monkeypatch.undo()
        assert store.count() == 40
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["a.faiss"]


def test_the_error_names_a_missing_folder(tmp_path):
    with pytest.raises(OSError, match=r"cannot write .*nowhere.*: No such file or directory"):
        create_store(str(tmp_path / "nowhere" / "a.faiss"), 8)
