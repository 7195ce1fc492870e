"""Groups of duplicates that a Dask cluster finds are those of one machine, even if a worker is killed."""

import json
import os
import signal
import threading
import time

import numpy as np
import pytest
from command import run
from similar_codes import similar_codes

from manihash import dedup

pytestmark = [pytest.mark.extra, pytest.mark.usefixtures("tiny_memory")]


def groups_of(found):
    return [group.tolist() for group in found]


@pytest.mark.parametrize("chunk", [700, 100_000])
def test_a_cluster_finds_the_same_groups(client, chunk, tmp_path):
    import dask.array as da

    codes = similar_codes(np.random.default_rng(0), 5000, 64, 0.5)
    expected = groups_of(dedup(codes, 64, 2))
    rows = da.from_array(codes, chunks=(chunk, -1))
    assert groups_of(dedup(rows, 64, 2)) == expected
    assert groups_of(dedup(rows, 64, 2, memory=200_000, work=tmp_path / "work")) == expected


def test_a_worker_killed_at_work_changes_nothing(client, tmp_path):
    import dask.array as da

    codes = similar_codes(np.random.default_rng(0), 20_000, 64, 0.5)
    work = tmp_path / "work"
    pid = sorted(client.run(os.getpid).values())[0]

    def kill():
        while not list(work.glob("stage1-*")):
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = dedup(da.from_array(codes, chunks=(3000, -1)), 64, 2, memory=500_000, work=work)
    killer.join()
    assert pid not in client.run(os.getpid).values()
    assert groups_of(found) == groups_of(dedup(codes, 64, 2))


def test_the_command_starts_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("codes.npy", similar_codes(np.random.default_rng(0), 2000, 64, 0.5))
    alone, cluster = (
        json.loads(run("dedup", "codes.npy", "--radius=2", "--json", *options).stdout)["groups"]
        for options in ([], ["--dask=2", "-o", "a.npz"])
    )
    assert cluster == alone
    run("dedup", "codes.npy", "--dask=tcp://localhost:1", code=2)
