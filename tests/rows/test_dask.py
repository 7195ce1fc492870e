"""Rows on a Dask cluster give the same bits as on one machine, for any chunks, even if a worker is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import run
from dask_vectors import D, N, vectors
from sklearn.datasets import load_digits

from manihash import IMH, InductiveEmbedding, recipe
from manihash.base import KMeansBase, ReducedBase
from manihash.base import kmeans as kmeans_module
from manihash.embeddings import PCA
from manihash.files.formats import write
from manihash.hashers import E2LSH, ITQ, LSH

pytestmark = [pytest.mark.extra, pytest.mark.usefixtures("small_spans")]


def chunked(X, chunks):
    import dask.array as da

    return da.from_array(X, chunks=(chunks, -1))


METHODS = {
    "lsh": {},
    "pcah": {},
    "itq": {},
    "sh": {},
    "imh-tsne": {"base__size": 40, "embedding__n_iter": 50},
    "imh-le": {"base__size": 40},
    "imh-tsne-rotated": {"base__size": 40, "embedding__n_iter": 50},
    "imh-large": {"base__base__size": 300, "base__n_components": 8, "embedding__n_iter": 20},
    "agh": {"base__size": 40},
    "agh2": {"base__size": 40},
    "sph": {},
    "sklsh": {},
    "sth": {"n_train": 500},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_bits_of_one_machine_whatever_the_chunks(client, name):
    X = vectors()
    here = recipe(name, n_bits=12, random_state=3, **METHODS[name]).fit(X)
    for chunks in (3000, (12_345, 1, 5654)):
        array = chunked(X, chunks)
        there = recipe(name, n_bits=12, random_state=3, **METHODS[name]).fit(array)
        codes = there.encode(array)
        assert codes.chunks[0] == array.chunks[0]
        assert np.array_equal(codes.compute(), here.encode(X))
        assert vars_equal(here, there)


def vars_equal(one, other):
    fitted = [
        name for name, value in vars(one).items() if name.endswith("_") and isinstance(value, np.ndarray)
    ]
    return fitted and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fitted)


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, np.float32])
@pytest.mark.parametrize("normalize", [False, True])
def test_types_and_unit_length_are_the_same(client, dtype, normalize):
    X = (vectors(np.float64) * 10 + 100).clip(0, 255).astype(dtype)
    hashers = [
        IMH(8, KMeansBase(30), PCA(), normalize=normalize, random_state=0).fit(rows_)
        for rows_ in (X, chunked(X, 3000))
    ]
    embedded = [hasher.embed(rows_) for hasher, rows_ in zip(hashers, (X, chunked(X, 777)), strict=True)]
    assert np.array_equal(embedded[0], embedded[1].compute())
    assert np.array_equal(hashers[0].transform(X), hashers[1].transform(chunked(X, 777)).compute())


def test_a_sample_is_the_same_on_a_cluster(client, monkeypatch):
    monkeypatch.setattr(kmeans_module, "_ALL_ROWS", 1000)
    X = vectors()
    models = [
        InductiveEmbedding(2, KMeansBase(20, sample=100), PCA(), random_state=0).fit(rows_)
        for rows_ in (X, chunked(X, 3000))
    ]
    assert vars_equal(*models)
    assert np.array_equal(models[0].transform(X), models[1].transform(chunked(X, 999)).compute())


def test_directions_of_wide_rows_are_the_same_on_a_cluster(client, monkeypatch):
    monkeypatch.setattr("manihash.base.principal._EXACT_WIDTH", D - 1)
    monkeypatch.setattr("manihash.base.reduced._PCA_ROWS", 5000)
    X = vectors()
    models = [
        InductiveEmbedding(2, ReducedBase(KMeansBase(20), 4), PCA(), random_state=0).fit(rows_)
        for rows_ in (X, chunked(X, 3000))
    ]
    assert vars_equal(*models)


def test_a_supervised_method_learns_from_labels_on_a_cluster(client):
    X, y = load_digits(return_X_y=True)
    models = [recipe("ksh", n_bits=8, random_state=0).fit(rows_, y) for rows_ in (X, chunked(X, 400))]
    assert vars_equal(*models)


def test_without_a_cluster_dask_uses_threads():
    pytest.importorskip("dask")
    code = (
        "import dask.array as da, numpy as np\n"
        "from manihash import ITQ\n"
        "from manihash.rows import rows\n"
        "rows._SPAN_NUMBERS = 2**15\n"
        "X = np.random.default_rng(0).standard_normal((9000, 16), np.float32)\n"
        "a, b = (ITQ(8, random_state=0).fit(r).encode(r) for r in (X, da.from_array(X, chunks=(700, -1))))\n"
        "assert np.array_equal(a, b.compute())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("method", ["encode", "transform", "embed", "bins"])
def test_a_lazy_result_belongs_to_the_model_that_was_asked_for_it(client, method):
    X, other = vectors(), vectors()[::-1] * 2 + 1
    model = E2LSH(8, random_state=0).fit(X)
    ask = getattr(model, method)
    now, later = ask(X), ask(chunked(X, 3000))
    model.fit(other)
    assert np.array_equal(later.compute(), now)
    assert not np.array_equal(ask(X), now)


def kill_one(client):
    pid = sorted(client.run(os.getpid).values())[0]
    os.kill(pid, signal.SIGKILL)


def test_a_worker_killed_while_encoding_changes_nothing(client):
    X = vectors()

    class Slow(LSH):
        def _embed(self, block):
            time.sleep(0.05)
            return super()._embed(block)

    hasher = Slow(64, random_state=0).fit(X)
    parts = hasher.encode_blocks(chunked(X, 3000))
    codes = [next(parts)]
    kill_one(client)
    codes.extend(parts)
    assert np.array_equal(np.concatenate(codes), LSH(64, random_state=0).fit(X).encode(X))


def test_a_worker_killed_between_rounds_of_k_means_changes_nothing(client, monkeypatch):
    X, killed = vectors(), []
    lloyd = kmeans_module.lloyd_round

    def and_kill(*given):
        if len(killed) < 2:
            kill_one(client)
            killed.append(True)
        return lloyd(*given)

    wanted = KMeansBase(30, random_state=0).fit(X).points_
    monkeypatch.setattr(kmeans_module, "lloyd_round", and_kill)
    model = InductiveEmbedding(2, KMeansBase(30, random_state=0), PCA()).fit(chunked(X, 3000))
    assert len(killed) == 2
    assert np.array_equal(model.base_points_, wanted)


def test_chunks_split_along_columns_are_an_error(client):
    with pytest.raises(ValueError, match=r"split along its columns, \(8, 8\).*rechunk\(\{1: -1\}\)"):
        LSH(8).fit(chunked(vectors(), 3000).rechunk({1: 8}))


def test_chunks_of_unknown_size_are_an_error(client):
    array = chunked(vectors(), 3000)
    unknown = array[array[:, 0] > 0]
    for method in (LSH(8).fit, LSH(8).fit(array).encode):
        with pytest.raises(ValueError, match=r"unknown size.*compute_chunk_sizes"):
            method(unknown)
    assert LSH(8, random_state=0).fit(unknown.compute_chunk_sizes())


@pytest.mark.parametrize("row", [17 * 1024 + 5, N - 1])
def test_nan_on_a_worker_is_named_by_its_row(client, row):
    X = vectors()
    hasher = ITQ(8, random_state=0).fit(X)
    X[row, 3] = np.nan
    array = chunked(X, 777)
    with pytest.raises(ValueError, match=f"contains NaN: the first such row is {row}\\."):
        ITQ(8).fit(array)
    with pytest.raises(ValueError, match=f"contains NaN: the first such row is {row}\\."):
        hasher.encode(array).compute()
    with pytest.raises(ValueError, match=f"contains NaN: the first such row is {row}\\."):
        list(hasher.encode_blocks(array))


def test_wrong_widths_and_types_are_errors_as_for_an_array(client):
    array = chunked(vectors(), 3000)
    hasher = LSH(8).fit(array)
    with pytest.raises(ValueError, match=r"5 features, but LSH is expecting 16.*Give vectors of the width"):
        hasher.encode(array[:, :5])
    with pytest.raises(ValueError, match=r"1 sample\(s\).*at least 2"):
        hasher.fit(array[:1])
    with pytest.raises(ValueError, match="complex64: give real numbers"):
        hasher.fit(array + 1j)


def test_the_command_writes_the_same_files_on_a_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("x.parquet", vectors())
    fit = ["fit", "x.parquet:X", "--recipe=imh-tsne", "--bits=8", "--set=base__size=30"]
    fit += ["--set=embedding__n_iter=20"]
    run(*fit, "-o", "here.mhash")
    run(*fit, "--dask", "2", "-o", "there.mhash")
    assert Path("here.mhash").read_bytes() == Path("there.mhash").read_bytes()
    run("encode", "here.mhash", "x.parquet", "-o", "here.npy")
    run("encode", "here.mhash", "x.parquet", "--dask", "1", "-o", "there.npy")
    assert Path("here.npy").read_bytes() == Path("there.npy").read_bytes()
    assert not list(tmp_path.glob("*.part*"))
