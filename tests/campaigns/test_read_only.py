"""Commands of a user who may read a folder, but not write to it: results of reading, or a clean error.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number. If root runs the tests, the
commands run as another user, or without the rights that root has over files.
"""

import ctypes
import multiprocessing
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from manihash import HammingIndex, create_store, recipe

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")

CASES = int(os.environ.get("MANIHASH_CASES", "8"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
NOBODY = 65534
READS = [
    ["info", "model.mhash"],
    ["stats", "codes.npy", "--bits=16"],
    ["search", "model.mhash", "codes.mhx", "X.npy", "-k", "3"],
    ["drift", "model.mhash", "X.npy"],
]
WRITES = [
    ["encode", "model.mhash", "X.npy", "-o", "new.npy"],
    ["encode", "model.mhash", "X.npy", "-o", "codes.npy"],
    ["fit", "X.npy", "--recipe=itq", "--bits=8", "-o", "new.mhash"],
    ["fit", "X.npy", "--recipe=itq", "--bits=8", "-o", "model.mhash"],
    ["index", "codes.npy", "--bits=16", "-o", "new.mhx"],
    ["index", "codes.npy", "--bits=16", "-o", "codes.mhx"],
    ["export", "codes.npy", "--bits=16", "--to", "new.faiss"],
    ["export", "more.npy", "--bits=16", "--to", "codes.faiss"],
]


def readable_by_all():
    """Whether another user can run this Python and import the package."""
    import manihash

    for path in (sys.executable, os.__file__, manihash.__file__, np.__file__):
        for folder in Path(path).resolve().parents:
            if not folder.stat().st_mode & stat.S_IXOTH:
                return False
    return True


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="gives up the rights of root")


def give_up_root():
    """Become another user, or, if that one cannot run this Python, root without its capabilities."""
    if os.geteuid() != 0:
        return
    if readable_by_all():
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0


@pytest.fixture(scope="module")
def folder():
    """A folder that other users can read."""
    made = Path(tempfile.mkdtemp(prefix="manihash-"))
    X = np.random.default_rng(0).normal(size=(300, 20)).astype(np.float32)
    np.save(made / "X.npy", X)
    hasher = recipe("imh-pca", n_bits=16, base__size=30, random_state=0).fit(X)
    hasher.save(made / "model.mhash")
    np.save(made / "codes.npy", hasher.encode(X))
    np.save(made / "more.npy", np.tile(hasher.encode(X), (2, 1)))
    index = HammingIndex(hasher.encode(X), 16)
    index.made_by = hasher.lineage_["id"]
    index.save(made / "codes.mhx")
    with create_store(str(made / "codes.faiss"), 16) as store:
        store.add(hasher.encode(X), np.arange(300))
    for path in made.iterdir():
        path.chmod(0o444)
    made.chmod(0o555)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


def run_as_other(folder, args, results):
    """Run the command in the folder as a user who may not write there."""
    os.chdir(folder)
    give_up_root()
    os.environ["HOME"] = "/nonexistent"
    from typer.testing import CliRunner

    from manihash.cli._app import app

    done = CliRunner().invoke(app, args)
    fault = "" if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    results.put((done.exit_code, done.output, fault))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_a_folder_that_may_only_be_read_is_read_and_left_as_it_is(folder, seed):
    rng = np.random.default_rng(seed)
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    reads = seed % 3 == 0
    args = (READS if reads else WRITES)[seed % len(READS if reads else WRITES)]
    if args[0] != "info" and rng.random() < 0.3:  # which shows no progress
        args = [*args, "--quiet"]
    # Every tenth one imports its modules as the other user; the others have them, which is much faster.
    context = multiprocessing.get_context("spawn") if seed % 10 == 0 else killed_command.CONTEXT
    results = context.SimpleQueue()
    process = context.Process(target=run_as_other, args=(str(folder), args, results))
    process.start()
    code, output, fault = results.get()
    process.join()
    assert not fault, (args, fault)
    assert "Traceback" not in output
    if reads:
        assert code in (0, 1), (args, output)
    else:
        assert code == 2, (args, output)
        assert "ermission" in output or "read-only" in output, output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content
