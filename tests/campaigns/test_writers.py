"""Several writers of one output, some of them killed: one state of it, and no acknowledged row is lost.

MANIHASH_KILLS sets the number of cases, and the seed of a case is its number, from MANIHASH_FIRST on.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from manihash import HammingIndex, recipe
from manihash.search.journal import journal_of

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")
tasks = pytest.importorskip("concurrent_tasks")

KILLS = int(os.environ.get("MANIHASH_KILLS", "6"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
SEEDS = pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS))
SECONDS = 60


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a model, vectors and their codes."""
    folder = tmp_path_factory.mktemp("model")
    X = np.random.default_rng(0).normal(size=(3000, 8)).astype(np.float32)
    np.save(folder / "X.npy", X)
    hasher = recipe("lsh", n_bits=24, random_state=0).fit(X)
    hasher.save(folder / "model.mhash")
    np.save(folder / "codes.npy", hasher.encode(X))
    command = ["index", "codes.npy", "--model=model.mhash", "-o", "codes.mhx"]
    killed_command.run_killed(folder, command, None)  # the first process takes longer
    start = time.monotonic()
    killed_command.run_killed(folder, command, None)
    return folder, time.monotonic() - start


def at_once(*calls):
    """The results of functions with arguments, called at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(function, *args) for function, *args in calls]
        return [future.result(SECONDS) for future in futures]


def moment(rng, seconds):
    """A moment to kill a writer that takes some seconds alone: None for never."""
    return None if rng.random() < 0.4 else float(rng.random()) * 2 * seconds


@SEEDS
def test_no_acknowledged_row_is_lost_by_writers_of_one_index(model, tmp_path, seed):
    model, seconds = model
    rng = np.random.default_rng(seed)
    path, codes = tmp_path / "codes.mhx", np.load(model / "codes.npy")
    HammingIndex(codes, 24).save(path)
    calls, added = [], []
    for i in range(3):
        first = 10_000 * (i + 1)
        if rng.random() < 0.4:
            calls.append((tasks.killed_committer, path, first, moment(rng, seconds) or seconds))
            continue
        ids = np.arange(first, first + 50)
        np.save(tmp_path / f"new{i}.npy", codes[:50])
        np.save(tmp_path / f"ids{i}.npy", ids)
        command = ["index", str(path), "--add", f"new{i}.npy", "--ids", f"ids{i}.npy"]
        calls.append((killed_command.run_killed, tmp_path, command, moment(rng, seconds)))
        added.append((len(calls) - 1, ids))
    results = at_once(*calls)
    present = set(HammingIndex.load(path).ids.tolist())
    assert set(range(3000)) <= present
    for i, ids in added:
        among = len(present & set(ids.tolist()))
        assert results[i] in (0, 2, -9), results[i]
        assert among == 50 if results[i] == 0 else among == 0 if results[i] == 2 else among in (0, 50)
    for result in (result for result in results if isinstance(result, set)):
        assert result <= present
    np.save(tmp_path / "last.npy", codes[:1])
    assert killed_command.run_killed(tmp_path, ["index", str(path), "--add", "last.npy"], None) == 0
    assert len(HammingIndex.load(path)) == len(present) + 1
    assert not journal_of(path).exists()
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith(".")]


@SEEDS
def test_an_output_of_two_writers_is_that_of_one_of_them(model, tmp_path, seed):
    model, seconds = model
    rng = np.random.default_rng(seed)
    if seed % 2:
        outputs = ["index.mhx", "index.mhx"]
        np.save(tmp_path / "half.npy", np.load(model / "codes.npy")[:1500])
        sources = [str(model / "codes.npy"), "half.npy"]
        commands = [["index", source, "--bits=24", "-o", "index.mhx"] for source in sources]
    else:
        outputs = ["codes.npy", "codes.npy"]
        np.save(tmp_path / "half.npy", np.load(model / "X.npy")[:1500])
        sources = [str(model / "X.npy"), "half.npy"]
        commands = [["encode", str(model / "model.mhash"), source, "-o", "codes.npy"] for source in sources]
    expected = []
    for i, (command, output) in enumerate(zip(commands, outputs, strict=True)):
        assert killed_command.run_killed(tmp_path, command, None) == 0
        expected.append((tmp_path / output).read_bytes())
        assert i == 0 or expected[0] != expected[1]
    run = killed_command.run_killed
    results = at_once(*((run, tmp_path, command, moment(rng, seconds)) for command in commands))
    assert set(results) <= {0, 2, -9}
    assert (tmp_path / outputs[0]).read_bytes() in expected
    for command, content in zip(commands, expected, strict=True):
        ended = run(tmp_path, command, None)
        if ended == 2 and command[0] == "encode":  # a killed run of the other command has left a part
            ended = run(tmp_path, [*command, "--restart"], None)
        assert ended == 0
        assert (tmp_path / outputs[0]).read_bytes() == content
