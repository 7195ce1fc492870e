"""A cluster that does not answer, lacks workers or manihash, or is lost is an error that says what to do."""

import http.server
import json
import os
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
from dask_vectors import vectors

from manihash.files.resumable import ResumableFile
from manihash.hashers import LSH
from manihash.rows import dask_client
from manihash.rows.dask import connected

pytestmark = [pytest.mark.extra, pytest.mark.usefixtures("small_spans")]


def test_workers_without_a_limit_share_the_memory_of_their_machine():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, processes=False
        ) as local,
        distributed.Client(local),
    ):
        assert dask_client.cache_bytes() == pytest.approx(distributed.system.MEMORY_LIMIT / 2, rel=1e-6)


def dies_if(number, expression):
    """A call that kills the process of this number; in other processes, the value of the expression."""
    os_ = "__import__('os')"
    return eval, f"{os_}.kill({number}, 9) if {os_}.getpid() == {number} else {expression}"


def test_a_worker_that_dies_when_it_is_asked_for_its_version_is_no_error(client, monkeypatch):
    import dask.array as da

    client.wait_for_workers(2, timeout=60)
    number = min(client.run(os.getpid).values())
    monkeypatch.setattr(dask_client, "_ASK_VERSION", dies_if(number, "__import__('manihash').__version__"))
    hasher = LSH(8, random_state=0).fit(da.from_array(vectors(), chunks=(5000, -1)))
    assert np.array_equal(hasher.encode(vectors()), LSH(8, random_state=0).fit(vectors()).encode(vectors()))
    assert number not in client.run(os.getpid, on_error="ignore").values()


def test_a_check_waits_until_the_only_worker_is_restarted(monkeypatch):
    import distributed

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 60)
        (number,) = client.run(os.getpid).values()
        ask = dies_if(number, "__import__('manihash').__version__")
        monkeypatch.setattr(dask_client, "_ASK_VERSION", ask)
        dask_client.check_workers(client)
        assert list(client.run(os.getpid).values()) != [number]


def test_a_worker_that_is_restarted_slowly_is_not_given_up(monkeypatch):
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10ms"}), connected("1"):
        client = dask_client.current()
        (number,) = client.run(os.getpid).values()
        os.kill(number, 9)
        assert client.submit(os.getpid).result(60) != number
        assert len(client.cluster.workers) == 1


def test_a_worker_whose_manihash_cannot_load_a_library_is_an_error(client, monkeypatch):
    monkeypatch.setattr(dask_client, "_ASK_VERSION", (eval, "__import__('ctypes').CDLL('libmissing.so')"))
    with pytest.raises(ConnectionError, match=r"has no manihash \(libmissing\.so"):
        dask_client.check_workers(client)


def test_a_worker_that_dies_when_it_is_asked_for_its_memory_is_not_counted(monkeypatch):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as local,
        distributed.Client(local) as client,
    ):
        number = min(client.run(os.getpid).values())
        monkeypatch.setattr(dask_client, "_ASK_MEMORY", dies_if(number, "1000"))
        assert dask_client.cache_bytes() == 500  # each of two workers has half of the 1,000 bytes


def test_a_cluster_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 1)
    np.save("x.npy", vectors())
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        said = stderr_line(run("fit", "x.npy", "--recipe=lsh", "--dask", address, "-o", "m.mhash", code=2))
        assert f"no Dask scheduler answered at {address}" in said
        assert "start one with `dask scheduler`" in said
    assert not Path("m.mhash").exists()


def test_the_address_of_a_worker_is_an_error(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", vectors())
    worker = next(iter(client.scheduler_info()["workers"]))
    said = stderr_line(run("fit", "x.npy", "--dask", worker, "-o", "m.mhash", code=2))
    assert f"no Dask scheduler answered at {worker} (it is the address of a Dask worker)" in said


@contextmanager
def greeting(text):
    """The port of a server that accepts every connection and sends the text."""

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
def test_another_server_at_the_address_is_an_error(server, why, tmp_path, monkeypatch):
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
    """A function that starts a scheduler or a worker as a process."""
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


def test_a_cluster_without_workers_or_without_manihash_is_an_error(machines, bare, tmp_path, monkeypatch):
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


def test_a_scheduler_without_manihash_is_an_error(machines, bare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_client, "_SECONDS_TO_ANSWER", 60)
    _, address = scheduler(machines, bare)
    worker(machines, address, tmp_path)
    np.save("x.npy", vectors())
    said = stderr_line(run("fit", "x.npy", "--recipe=lsh", "--dask", address, "-o", "m.mhash", code=2))
    assert f"the Dask scheduler {address} has no manihash (no manihash here)" in said
    assert not Path("m.mhash").exists()


def test_a_run_whose_cluster_was_lost_can_be_resumed(machines, tmp_path, monkeypatch):
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
