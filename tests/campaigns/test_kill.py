"""Commands that are killed, or meet a full disk: the old state or the new one, and the next run completes.

MANIHASH_KILLS sets the number of cases, and the seed of a case is its number, from MANIHASH_FIRST on.
"""

import os
import shutil
import time

import numpy as np
import pytest

from manihash import HammingIndex, open_store, recipe

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")

KILLS = int(os.environ.get("MANIHASH_KILLS", "4"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
TARGETS = {"fit": "new.mhash", "encode": "codes.npy", "index": "codes.mhx", "export": "codes.faiss"}
COMMANDS = {
    "fit": ["fit", "X.npy", "--recipe=itq", "--bits=16", "--seed=1", "-o", "new.mhash"],
    "encode": ["encode", "model.mhash", "X.npy", "-o", "codes.npy"],
    "index": ["index", "made.npy", "--model", "model.mhash", "-o", "codes.mhx"],
    "export": ["export", "made.npy", "--bits=128", "--to", "codes.faiss"],
}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A folder before the commands, in which the targets have old content, and one after them."""
    before = tmp_path_factory.mktemp("before")
    X = np.random.default_rng(0).integers(0, 256, (60_000, 24), np.uint8)
    np.save(before / "X.npy", X)
    hasher = recipe("lsh", n_bits=128, random_state=0).fit(X[:500])
    hasher.save(before / "model.mhash")
    np.save(before / "made.npy", hasher.encode(X))
    recipe("itq", n_bits=8, random_state=0).fit(X[:500]).save(before / "new.mhash")
    np.save(before / "codes.npy", np.zeros((3, 2), np.uint8))
    HammingIndex(np.zeros((3, 16), np.uint8), 128).save(before / "codes.mhx")
    after = tmp_path_factory.mktemp("after") / "work"
    shutil.copytree(before, after)
    seconds = {}
    for name, args in COMMANDS.items():
        start = time.monotonic()
        assert killed_command.run_killed(after, args, None) == 0, name
        seconds[name] = time.monotonic() - start
    return before, after, seconds


def content(folder, name):
    """The bytes of the target of a command; None if it does not exist, or is a store without rows."""
    path = folder / TARGETS[name]
    if not path.exists():
        return None
    if name == "export":
        with open_store(str(path)) as store:
            if not len(store):
                return None
    return path.read_bytes()


def check(folder, name, before, after):
    """The target is old or new; the same command completes it, and no other file is left."""
    assert content(folder, name) in (content(before, name), content(after, name))
    assert killed_command.run_killed(folder, COMMANDS[name], None) == 0
    assert content(folder, name) == content(after, name)
    assert {path.name for path in folder.iterdir()} <= {path.name for path in after.iterdir()}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS))
def test_a_killed_command_leaves_the_old_state_or_the_new_one(states, tmp_path, seed):
    before, after, seconds = states
    rng = np.random.default_rng(seed)
    name = list(COMMANDS)[seed % len(COMMANDS)]
    folder = tmp_path / "work"
    shutil.copytree(before, folder)
    killed_command.run_killed(folder, COMMANDS[name], rng.random() * 1.1 * seconds[name])
    check(folder, name, before, after)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS // 2))
def test_a_full_disk_leaves_the_old_state(states, tmp_path, seed):
    before, after, _ = states
    rng = np.random.default_rng(seed)
    name = list(COMMANDS)[seed % len(COMMANDS)]
    folder = tmp_path / "work"
    shutil.copytree(before, folder)
    size = (after / TARGETS[name]).stat().st_size
    assert killed_command.run_limited(folder, COMMANDS[name], int(rng.integers(size))) == 2
    assert content(folder, name) == content(before, name)
    check(folder, name, before, after)
