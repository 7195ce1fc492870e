"""FAISS files of codes with a product quantizer: FAISS ranks the file as the index ranks the codes."""

from functools import cache

import numpy as np
import pytest

from manihash import Hybrid
from manihash.errors import StoreError
from manihash.hashers import ITQ, ProductQuantizer
from manihash.search import asymmetric_distances, faiss_vectors
from manihash.stores import create_store, export_codes, open_store

faiss = pytest.importorskip("faiss")
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(12, 32))[RNG.integers(0, 12, 1000)] + RNG.normal(size=(1000, 32))).astype(np.float32)
IDS = 3 * np.arange(len(X)) + 5
HASHERS = {
    "pq": ProductQuantizer(32, rotation=False, random_state=0),
    "opq": ProductQuantizer(32, random_state=0),
    "fields of 4 bits, one byte not full": ProductQuantizer(20, bits_per_field=4, random_state=0),
    "signs and fields": Hybrid(ITQ(16), ProductQuantizer(24), weight=0.3, random_state=0),
    "a byte of both": Hybrid(ITQ(12), ProductQuantizer(24), random_state=0),
    "fields of 2 bits": Hybrid(ITQ(8), ProductQuantizer(14, bits_per_field=2), random_state=0),
}


@cache
def fitted(name):
    return HASHERS[name].fit(X)


@pytest.fixture(scope="module", params=HASHERS)
def hasher(request):
    return fitted(request.param)


def exported(hasher, path, ids=IDS):
    codes = hasher.encode(X)
    id_type = str if ids.dtype == object else int
    with create_store(str(path), hasher.n_bits_, id_type=id_type, layout=hasher.layout_) as store:
        export_codes(codes, store, ids)
    return codes


def test_faiss_ranks_the_file_as_the_index_ranks_the_codes(hasher, tmp_path):
    codes = exported(hasher, tmp_path / "a.faiss")
    index = faiss.read_index(str(tmp_path / "a.faiss"))
    assert type(index).__name__ == "IndexIDMap"
    assert type(faiss.downcast_index(index.index)).__name__ == "IndexPQ"
    values = hasher.embed(X[:20])
    far, ids = index.search(faiss_vectors(values, hasher.layout_), 10)
    own, expected = hasher.index(X, ids=IDS).search(X[:20], 10)
    distances = asymmetric_distances(values, codes, hasher.n_bits_, layout=hasher.layout_)
    found = np.take_along_axis(distances, (ids - 5) // 3, axis=1)
    np.testing.assert_allclose(found, own, rtol=1e-5)  # the same rows, ties in any order
    extra = far - found  # one number per query
    np.testing.assert_allclose(extra, np.repeat(extra[:, :1], 10, axis=1), atol=1e-4 * far.max())
    assert (ids == expected).mean() > 0.9


def test_faiss_encodes_vectors_to_the_codes_of_the_hasher(hasher, tmp_path):
    codes = exported(hasher, tmp_path / "a.faiss")
    index = faiss.read_index(str(tmp_path / "a.faiss"))
    found = faiss.downcast_index(index.index).pq.compute_codes(faiss_vectors(hasher.embed(X), hasher.layout_))
    differ = (found != hasher.layout_.split(codes)).any(axis=1)
    assert differ.mean() <= 0.002  # rounding in float32


def test_a_store_reads_its_file_and_ranks_as_the_index(hasher, tmp_path):
    codes = exported(hasher, tmp_path / "a.faiss")
    index = hasher.index(X, ids=IDS)
    with open_store(str(tmp_path / "a.faiss")) as store:
        assert store.layout == hasher.layout_
        assert store.count() == len(X)
        np.testing.assert_array_equal(store.get(IDS[:7]), codes[:7])
        for asked, expected in (
            (store.search(codes[:9], 5, asymmetric=hasher.embed(X[:9])), index.search(X[:9], 5)),
            (store.search(codes[:9], 5), index.search(codes[:9], 5)),
        ):
            np.testing.assert_array_equal(asked[0], expected[0])
            np.testing.assert_array_equal(asked[1], expected[1])
        store.remove(IDS[:2])
        store.add(codes[:1], [4])
    with open_store(str(tmp_path / "a.faiss")) as store:
        assert store.count() == len(X) - 1
    assert faiss.read_index(str(tmp_path / "a.faiss")).ntotal == len(X) - 1


def test_a_radius_is_that_of_the_first_part(tmp_path):
    hasher = fitted("signs and fields")
    codes = exported(hasher, tmp_path / "a.faiss")
    with open_store(str(tmp_path / "a.faiss")) as store:
        lims, _, ids = store.within(codes[:5], 2, part="first")
        expected = hasher.index(X, ids=IDS).within(codes[:5], 2)
        np.testing.assert_array_equal(lims, expected[0])
        assert set(ids[: lims[1]].tolist()) == set(expected[2][: lims[1]].tolist())
        with pytest.raises(StoreError, match="means nothing: use search, or within with part='first'"):
            store.within(codes[:5], 2)


def test_strings_as_ids_are_kept(tmp_path):
    hasher = fitted("opq")
    names = np.array([f"row {i}" for i in range(len(X))], object)
    exported(hasher, tmp_path / "a.faiss", names)
    with open_store(str(tmp_path / "a.faiss")) as store:
        found = store.search(hasher.encode(X[:3]), 1, asymmetric=hasher.embed(X[:3]))[1]
    assert found.ravel().tolist() == hasher.index(X, ids=names).search(X[:3], 1)[1].ravel().tolist()


def test_every_cut_of_a_file_is_refused(tmp_path):
    hasher = fitted("signs and fields")
    exported(hasher, tmp_path / "a.faiss")
    whole = (tmp_path / "a.faiss").read_bytes()
    for size in [*range(0, 200, 7), *np.linspace(200, len(whole) - 1, 60).astype(int)]:
        (tmp_path / "cut.faiss").write_bytes(whole[:size])
        with pytest.raises(StoreError):
            open_store(str(tmp_path / "cut.faiss"))


def test_an_index_pq_of_others_is_refused(tmp_path):
    index = faiss.IndexIDMap(faiss.IndexPQ(32, 4, 8))
    index.train(X)
    index.add_with_ids(X[:9], np.arange(9))
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    with pytest.raises(StoreError, match="not written by manihash"):
        open_store(str(tmp_path / "a.faiss"))


def test_a_store_without_first_parts_refuses_a_layout(tmp_path):
    hasher = fitted("signs and fields")
    with pytest.raises(StoreError, match="no column for the first part"):
        create_store(str(tmp_path / "a.usearch"), hasher.n_bits_, layout=hasher.layout_)


def test_a_store_of_other_centers_is_refused(tmp_path):
    exported(fitted("opq"), tmp_path / "a.faiss")
    other = ProductQuantizer(32, random_state=1).fit(X).layout_
    with pytest.raises(StoreError, match="not the given layout"):
        open_store(str(tmp_path / "a.faiss"), 32, layout=other)


def test_codes_of_signs_have_no_vectors():
    hasher = ITQ(16, random_state=0).fit(X)
    with pytest.raises(ValueError, match="have no fields of a product quantizer"):
        faiss_vectors(hasher.embed(X[:2]), hasher.layout_)
