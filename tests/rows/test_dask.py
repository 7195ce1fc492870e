"""Rows on a cluster: real worker processes, any chunks, a worker killed in the middle; never another bit."""

import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from command import run, stderr_line
from sklearn.datasets import load_digits

from manihash import E2LSH, IMH, ITQ, LSH, PCA, InductiveEmbedding, KMeansBase, ReducedBase, recipe
from manihash.base import lloyd as lloyd_module
from manihash.files.formats import write
from manihash.files.resumable import ResumableFile
from manihash.rows import dask_client, rows

pytestmark = pytest.mark.extra

N, D = 18_000, 16


@pytest.fixture(scope="module")
def client():
    """A cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def small_spans(monkeypatch):
    """Spans of one block of 2,048 rows, so that a small array has nine."""
    monkeypatch.setattr(rows, "_SPAN_NUMBERS", 2**15)


def vectors(dtype=np.float32):
    rng = np.random.default_rng(0)
    return (4 * rng.standard_normal((9, D))[rng.integers(9, size=N)] + rng.standard_normal((N, D))).astype(
        dtype
    )


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
    monkeypatch.setattr(lloyd_module, "_ALL_ROWS", 1000)
    X = vectors()
    models = [
        InductiveEmbedding(2, KMeansBase(20, sample=100), PCA(), random_state=0).fit(rows_)
        for rows_ in (X, chunked(X, 3000))
    ]
    assert vars_equal(*models)
    assert np.array_equal(models[0].transform(X), models[1].transform(chunked(X, 999)).compute())


def test_directions_of_wide_rows_are_the_same_on_a_cluster(client, monkeypatch):
    monkeypatch.setattr("manihash.base.reduced._EXACT_WIDTH", D - 1)
    monkeypatch.setattr("manihash.base.reduced._PCA_ROWS", 5000)
    X = vectors()
    models = [
        InductiveEmbedding(2, ReducedBase(KMeansBase(20), 4), PCA(), random_state=0).fit(rows_)
        for rows_ in (X, chunked(X, 3000))
    ]
    assert vars_equal(*models)


def test_a_classifier_of_rows_learns_from_labels_on_a_cluster(client):
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
def test_what_is_computed_later_is_of_the_model_that_was_asked(client, method):
    X, other = vectors(), vectors()[::-1] * 2 + 1
    model = E2LSH(8, random_state=0).fit(X)
    ask = getattr(model, method)
    now, later = ask(X), ask(chunked(X, 3000))
    model.fit(other)
    assert np.array_equal(later.compute(), now)
    assert not np.array_equal(ask(X), now)


def test_workers_without_a_limit_share_the_memory_of_their_machine():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, processes=False
        ) as local,
        distributed.Client(local),
    ):
        assert dask_client.memory() == pytest.approx(distributed.system.MEMORY_LIMIT / 2, rel=1e-6)


# A worker that dies


def kill_one(client):
    pid = sorted(client.run(os.getpid).values())[0]
    os.kill(pid, signal.SIGKILL)


def test_a_worker_killed_while_encoding_changes_nothing(client):
    X = vectors()
    hasher = LSH(64, random_state=0).fit(X)
    embed = hasher._embed

    def slowly(block):
        time.sleep(0.05)
        return embed(block)

    hasher._embed = slowly
    parts = hasher.encode_blocks(chunked(X, 3000))
    codes = [next(parts)]
    kill_one(client)
    codes.extend(parts)
    assert np.array_equal(np.concatenate(codes), LSH(64, random_state=0).fit(X).encode(X))


def test_a_worker_killed_between_rounds_of_k_means_changes_nothing(client, monkeypatch):
    X, killed = vectors(), []
    lloyd = lloyd_module.lloyd_round

    def and_kill(*given):
        if len(killed) < 2:
            kill_one(client)
            killed.append(True)
        return lloyd(*given)

    wanted = KMeansBase(30, random_state=0).fit(X).points_
    monkeypatch.setattr(lloyd_module, "lloyd_round", and_kill)
    model = InductiveEmbedding(2, KMeansBase(30, random_state=0), PCA()).fit(chunked(X, 3000))
    assert len(killed) == 2
    assert np.array_equal(model.base_points_, wanted)


# What is wrong with it


def test_chunks_split_along_columns_are_refused(client):
    with pytest.raises(ValueError, match=r"split along its columns, \(8, 8\).*rechunk\(\{1: -1\}\)"):
        LSH(8).fit(chunked(vectors(), 3000).rechunk({1: 8}))


def test_chunks_of_unknown_size_are_refused(client):
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


def test_other_widths_and_types_are_refused_as_of_an_array(client):
    array = chunked(vectors(), 3000)
    hasher = LSH(8).fit(array)
    with pytest.raises(ValueError, match=r"5 features, but LSH is expecting 16.*Give vectors of the width"):
        hasher.encode(array[:, :5])
    with pytest.raises(ValueError, match=r"1 sample\(s\).*at least 2"):
        hasher.fit(array[:1])
    with pytest.raises(ValueError, match="complex64: give real numbers"):
        hasher.fit(array + 1j)


def test_a_cluster_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 1)
    np.save("x.npy", vectors())
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        said = stderr_line(run("fit", "x.npy", "--recipe=lsh", "--dask", address, "-o", "m.mhash", code=2))
        assert f"no Dask scheduler answered at {address}" in said
        assert "start one with `dask scheduler`" in said
    assert not Path("m.mhash").exists()


def test_the_address_of_a_worker_is_no_scheduler(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", vectors())
    worker = next(iter(client.scheduler_info()["workers"]))
    said = stderr_line(run("fit", "x.npy", "--dask", worker, "-o", "m.mhash", code=2))
    assert f"no Dask scheduler answered at {worker} (it is the address of a Dask worker)" in said


@contextmanager
def greeting(text):
    """The port of a server that takes every connection and says the text, or nothing."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(text)
            self.request.recv(10**6)
            self.request.recv(1)  # until the other side goes away

    with serving(socketserver.ThreadingTCPServer, Answer) as port:
        yield port


@contextmanager
def serving(kind, handler):
    with kind(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (lambda: greeting(b""), "a server accepted the connection but did not answer within 2 s"),
        (
            lambda: serving(http.server.ThreadingHTTPServer, http.server.SimpleHTTPRequestHandler),
            "did not answer within",
        ),
        (lambda: greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "the server there is not a Dask scheduler"),
    ],
    ids=["silent", "http", "talkative"],
)
def test_another_server_at_the_address_is_no_scheduler(server, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 1)
    np.save("x.npy", vectors())
    LSH(8, random_state=0).fit(vectors()).save("m.mhash")
    before = set(tmp_path.iterdir())
    with server() as port:
        address = f"tcp://127.0.0.1:{port}"
        for command in (["fit", "x.npy", "-o", "new.mhash"], ["encode", "m.mhash", "x.npy", "-o", "c.npy"]):
            said = stderr_line(run(*command, "--dask", address, code=2))
            assert f"no Dask scheduler answered at {address}" in said
            assert why in said
    assert set(tmp_path.iterdir()) == before


@pytest.fixture
def machines(tmp_path):
    """A way to start a scheduler or a worker in a process of its own."""
    processes = []

    def start(module, *arguments, folder=tmp_path):
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--no-dashboard"]
        processes.append(
            subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def scheduler(start, folder):
    """A scheduler without workers: its process and its address."""
    notes = folder / "scheduler.json"
    process = start(
        "dask_scheduler", "--port=0", "--host=127.0.0.1", f"--scheduler-file={notes}", folder=folder
    )
    until = time.monotonic() + 60
    while not (notes.exists() and notes.read_text().strip().endswith("}")) and time.monotonic() < until:
        time.sleep(0.1)
    return process, json.loads(notes.read_text())["address"]


def worker(start, address, folder):
    return start("dask_worker", address, "--nthreads=1", "--no-nanny", folder=folder)


@pytest.fixture
def bare(tmp_path):
    """A folder from which no manihash can be imported."""
    package = tmp_path / "bare" / "manihash"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('no manihash here')")
    return package.parent


def test_a_cluster_without_workers_or_without_manihash_is_refused(machines, bare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, address = scheduler(machines, tmp_path)
    np.save("x.npy", vectors())
    fit = ["fit", "x.npy", "--recipe=lsh", "--dask", address, "-o", "m.mhash"]
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 2)
    assert f"has no workers: start one with `dask worker {address}`" in stderr_line(run(*fit, code=2))
    worker(machines, address, bare)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 60)
    said = stderr_line(run(*fit, code=2))
    assert "has no manihash (no manihash here)" in said
    assert "install it in the environment of the scheduler and of every worker" in said
    assert not Path("m.mhash").exists()


def test_a_scheduler_without_manihash_is_refused(machines, bare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 60)
    _, address = scheduler(machines, bare)
    worker(machines, address, tmp_path)
    np.save("x.npy", vectors())
    said = stderr_line(run("fit", "x.npy", "--recipe=lsh", "--dask", address, "-o", "m.mhash", code=2))
    assert f"the Dask scheduler {address} has no manihash (no manihash here)" in said
    assert not Path("m.mhash").exists()


def test_a_cluster_that_is_lost_leaves_what_was_done_for_the_next_run(machines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 60)
    process, address = scheduler(machines, tmp_path)
    worker(machines, address, tmp_path)
    np.save("x.npy", vectors())
    hasher = LSH(64, random_state=0).fit(vectors())
    hasher.save("m.mhash")
    append = ResumableFile.append

    def and_lose_the_cluster(self, rows_):
        append(self, rows_)
        process.kill()

    encode = ["encode", "m.mhash", "x.npy", "-o", "c.npy"]
    with monkeypatch.context() as patch:
        patch.setattr(ResumableFile, "append", and_lose_the_cluster)
        said = stderr_line(run(*encode, "--dask", address, code=2))
    assert "the connection to the Dask cluster was lost" in said
    assert "of 18,000 rows are kept in c.npy.part: run again to resume" in said
    assert json.loads(run(*encode, "--json").stdout)["first_row"] > 0
    assert np.array_equal(np.load("c.npy"), hasher.encode(vectors()))


# The command


def test_the_command_writes_the_same_files_on_a_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("x.parquet", vectors())
    fit = ["fit", "x.parquet:X", "--bits=8", "--set=base__size=30", "--set=embedding__n_iter=20"]
    run(*fit, "-o", "here.mhash")
    run(*fit, "--dask", "2", "-o", "there.mhash")
    assert Path("here.mhash").read_bytes() == Path("there.mhash").read_bytes()
    run("encode", "here.mhash", "x.parquet", "-o", "here.npy")
    run("encode", "here.mhash", "x.parquet", "--dask", "1", "-o", "there.npy")
    assert Path("here.npy").read_bytes() == Path("there.npy").read_bytes()
    assert not list(tmp_path.glob("*.part*"))
