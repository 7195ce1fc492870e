"""Rows in files, sparse rows and samples give the same models and codes as an array in memory."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from command import run

import manihash
from manihash import IMH, InductiveEmbedding, open_vectors, recipe
from manihash.base import KMeansBase
from manihash.base import kmeans as kmeans_module
from manihash.embeddings import PCA
from manihash.files.formats import write
from manihash.files.stored import StoredRows
from manihash.hashers import LSH
from manihash.rows.local import LocalRows
from manihash.rows.rows import span_rows

h5py = pytest.importorskip("h5py")

N, D = 5000, 12
X = np.random.default_rng(0).poisson(2, (N, D)).astype(np.uint8) + (np.arange(N)[:, None] % 7 == np.arange(D))
X = X.astype(np.uint8)


def hasher(**options):
    return IMH(n_bits=6, base=KMeansBase(30), embedding=PCA(), random_state=0, **options)


@pytest.fixture
def expected():
    return hasher().fit(X).encode(X)


@pytest.mark.parametrize("name", ["x.npy", "x.fvecs", "x.bvecs", "x.idx", "x.hdf5", "x.parquet", "x.npz"])
def test_every_format_gives_the_codes_of_the_array(name, tmp_path, expected):
    write(tmp_path / name, X)
    vectors = open_vectors(tmp_path / name)
    assert vectors.shape == (N, D)
    assert np.array_equal(hasher().fit(vectors).encode(vectors), expected)


@pytest.mark.parametrize("name", ["x.npy", "x.idx"])
@pytest.mark.parametrize("shape", [(N, D), (N, 3, 4)])
def test_big_endian_rows_stay_in_their_file_and_give_the_same_codes(name, shape, tmp_path, monkeypatch):
    path, floats = tmp_path / name, X.astype(np.float32)
    np.save(path, floats.reshape(shape).astype(">f4")) if name == "x.npy" else write(
        path, floats.reshape(shape)
    )
    rows = open_vectors(path)
    assert rows.shape == (N, D)
    assert rows.dtype == np.float32
    read_at_once = []
    monkeypatch.setattr(StoredRows, "__getitem__", counted(read_at_once))
    assert np.array_equal(hasher().fit(rows).encode(rows), hasher().fit(floats).encode(floats))
    assert 0 < max(read_at_once) <= 2048


def counted(lengths, read=StoredRows.__getitem__):
    def some(self, part):
        rows = read(self, part)
        assert rows.dtype.isnative
        lengths.append(len(rows))
        return rows

    return some


def test_images_are_rows_of_pixels(tmp_path, expected):
    for name in ("x.npy", "x.hdf5"):
        write(tmp_path / name, X.reshape(N, 3, 4))
        vectors = open_vectors(tmp_path / name)
        assert vectors.shape == (N, D)
        assert np.array_equal(hasher().fit(vectors).encode(vectors), expected)


def test_an_h5py_dataset_is_accepted(tmp_path, expected):
    write(tmp_path / "x.hdf5", X)
    with h5py.File(tmp_path / "x.hdf5") as file:
        assert np.array_equal(hasher().fit(file["train"]).encode(file["train"]), expected)
        with pytest.raises(ValueError, match="12 features, but IMH is expecting 7"):
            hasher().fit(X[:, :7]).encode(file["train"])


def test_rows_of_a_file_are_read_in_blocks_and_never_all_at_once(monkeypatch):
    asked = []

    class Watched:
        shape, dtype = (300_000, 4), np.dtype(np.uint8)

        def __getitem__(self, part):
            asked.append(part.stop - part.start)
            return np.arange(part.start, part.stop)[:, None] % np.array([251, 241, 239, 233])

    LSH(n_bits=8, random_state=0).fit(Watched())
    assert sum(asked) >= 300_000
    assert max(asked) <= 2048


@pytest.mark.parametrize("layout", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_rows_give_the_codes_of_dense_ones(layout, expected):
    S = layout(X)
    model = hasher().fit(S)
    assert np.array_equal(model.encode(S), expected)
    assert np.array_equal(model.transform(S), hasher().fit(X).transform(X))
    assert np.array_equal(model.embed(S), hasher().fit(X).embed(X))


@pytest.mark.parametrize(
    "name", ["imh-le", "agh", "itq", "pcah", "lsh", "sh", "sph", "sklsh", "klsh", "bre", "sth"]
)
def test_every_hasher_takes_sparse_rows_and_rows_of_files(name, tmp_path):
    few = X[:600].astype(np.float32)
    write(tmp_path / "x.parquet", few)
    options = {"base__size": 30} if name in ("imh-le", "agh") else {}
    codes = [
        recipe(name, n_bits=6, random_state=0, **options).fit(rows).encode(rows)
        for rows in (few, sp.csr_array(few), open_vectors(tmp_path / "x.parquet"))
    ]
    assert np.array_equal(codes[0], codes[1])
    assert np.array_equal(codes[0], codes[2])


def test_a_sparse_file_goes_through_the_command(tmp_path, monkeypatch, expected):
    monkeypatch.chdir(tmp_path)
    sp.save_npz("x.npz", sp.csr_array(X))
    hasher().fit(X).save("model.mhash")
    run("encode", "model.mhash", "x.npz", "-o", "codes.npy")
    assert np.array_equal(np.load("codes.npy"), expected)
    run("fit", "x.npz", "--recipe=lsh", "--bits=8", "-o", "lsh.mhash")


def test_nan_in_a_sparse_matrix_is_named_by_its_row():
    S = sp.csr_array(X.astype(np.float32))
    S.data[S.indptr[4321]] = np.nan
    with pytest.raises(ValueError, match="first such row is 4321"):
        hasher().fit(S)


def test_encode_blocks_are_the_codes_from_any_row_on(expected):
    model = hasher().fit(X)
    for start in (0, 1, 2048, 3000, N - 1, N):
        parts = list(model.encode_blocks(X, start))
        assert np.array_equal(np.concatenate([expected[:0], *parts]), expected[start:])


def test_encode_blocks_belong_to_the_model_that_was_asked():
    model = LSH(8, random_state=0).fit(X)
    expected, blocks = model.encode(X), model.encode_blocks(X)
    model.set_params(random_state=1).fit(X)
    assert np.array_equal(np.concatenate(list(blocks)), expected)


def test_encode_blocks_check_their_input_at_once():
    with pytest.raises(ValueError, match="expecting 12 features"):
        hasher().fit(X).encode_blocks(X[:, :5])


def test_an_inductive_embedding_takes_rows_of_a_file(tmp_path):
    write(tmp_path / "x.hdf5", X)
    models = [
        InductiveEmbedding(2, KMeansBase(30), PCA(), random_state=0).fit(rows).transform(rows)
        for rows in (X, open_vectors(tmp_path / "x.hdf5"))
    ]
    assert np.array_equal(*models)


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(kmeans_module, "_ALL_ROWS", 1000)


def test_k_means_uses_a_sample_of_many_rows_and_logs_it(small_limit, caplog):
    caplog.set_level(logging.INFO, "manihash.note")
    seen = []
    lloyd = kmeans_module.lloyd_round
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            kmeans_module, "lloyd_round", lambda rows, *C: (seen.append(len(rows)), lloyd(rows, *C))[1]
        )
        KMeansBase(10, sample=20, random_state=0).fit(X)
        KMeansBase(10, sample=None, random_state=0).fit(X)
        KMeansBase(10, sample=500, random_state=0).fit(X)
    assert set(seen) == {200, N}
    assert caplog.messages == [f"k-means uses 200 of {N:,} rows, 20 per center (sample=None uses all rows)"]


def test_the_same_seed_gives_the_same_sample_from_an_array_and_a_file(small_limit, tmp_path):
    write(tmp_path / "x.parquet", X)
    found = [
        KMeansBase(10, sample=20, random_state=seed).fit(rows).points_
        for seed, rows in [(0, X), (0, open_vectors(tmp_path / "x.parquet")), (1, X)]
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_nan_in_a_sample_is_named_by_its_row_in_the_file():
    bad = X.astype(np.float32)
    bad[4000] = np.nan
    with pytest.raises(ValueError, match="first such row is 4000"):
        list(LocalRows(bad).subset(np.array([3, 10, 4000, 4500])).map(len))


@pytest.mark.parametrize("bandwidth", [None, 1.0])
def test_fit_finds_a_nan_outside_the_sample(small_limit, bandwidth):
    rows = X.astype(np.float32)
    rows[4001] = np.nan
    options = {"base": KMeansBase(10, sample=20), "embedding": PCA(), "random_state": 0}
    with pytest.raises(ValueError, match="first such row is 4001"):
        InductiveEmbedding(2, **options, bandwidth=bandwidth).fit(rows)


def test_a_subset_has_the_chosen_rows(tmp_path):
    write(tmp_path / "x.hdf5", X)
    index = np.array([0, 7, 2047, 2048, 4999])
    for source in (X, sp.csr_array(X), open_vectors(tmp_path / "x.hdf5")):
        assert np.array_equal(LocalRows(source).subset(index).take([1, 4, 0]), X[[7, 4999, 0]])


def test_a_fold_adds_up_spans_in_row_order():
    width = 2**13  # a span is 2,048 rows: two blocks
    wide = np.random.default_rng(0).standard_normal((5000, width)).astype(np.float32)
    assert span_rows(width) == 2048
    (each,), (total,) = LocalRows(wide).fold(lambda B: ((B[:, 0],), (B.sum(axis=0),)))
    blocks = [wide[i : i + 1024].sum(axis=0).astype(np.float64) for i in range(0, 5000, 1024)]
    assert np.array_equal(each, wide[:, 0])
    assert np.array_equal(total, (blocks[0] + blocks[1]) + (blocks[2] + blocks[3]) + blocks[4])


def test_open_vectors_is_public():
    assert manihash.open_vectors is open_vectors
