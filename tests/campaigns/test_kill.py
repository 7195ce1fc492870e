"""Commands that are killed, or meet a full disk: the old state or the new one, and the next run completes.

MANIHASH_KILLS sets the number of cases, and the seed of a case is its number, from MANIHASH_FIRST on.
"""

import os
import shutil
import time

import numpy as np
import pytest
from store_databases import database_params

from manihash import HammingIndex, create_store, open_store, recipe

killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")

KILLS = int(os.environ.get("MANIHASH_KILLS", "6"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
TARGETS = {
    "fit": ["new.mhash"],
    "encode": ["codes.npy"],
    "index": ["codes.mhx"],
    "export": ["codes.faiss"],
    "update": ["imh2.mhash", "old.npy"],
    "update index and store": ["imh2.mhash", "old.mhx", "old.faiss"],
}
STORES = {
    "sqlite": "{}.db",
    "duckdb": "{}.duckdb",
    "parquet": "{}.parquet",
    "usearch": "{}.usearch",
    "clickhouse": "chdb:{}",
    "qdrant": "qdrant:{}",
}
UPDATE = ["update", "imh.mhash", "more.npy", "--vectors", "some.npy", "--max-changed=0.5", "-o", "imh2.mhash"]
COMMANDS = {
    "fit": ["fit", "X.npy", "--recipe=itq", "--bits=16", "--seed=1", "-o", "new.mhash"],
    "encode": ["encode", "model.mhash", "X.npy", "-o", "codes.npy"],
    "index": ["index", "made.npy", "--model", "model.mhash", "-o", "codes.mhx"],
    "export": ["export", "made.npy", "--bits=128", "--to", "codes.faiss"],
    "update": [*UPDATE, "--codes", "old.npy"],
    "update index and store": [*UPDATE, "--codes", "old.mhx", "--store", "old.faiss"],
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
    prepare_update(before)
    after = tmp_path_factory.mktemp("after") / "work"
    shutil.copytree(before, after)
    seconds = {}
    for name, args in COMMANDS.items():
        start = time.monotonic()
        assert killed_command.run_killed(after, args, None) == 0, name
        seconds[name] = time.monotonic() - start
        assert all(content(before, target) != content(after, target) for target in TARGETS[name])
    return before, after, seconds


def prepare_update(folder):
    """Write a model with base points, its codes as a file, an index and a store, and vectors that are new."""
    rng = np.random.default_rng(1)
    centers = 1.5 * rng.normal(size=(6, 10))
    some = (centers[rng.integers(4, size=2000)] + rng.normal(size=(2000, 10))).astype(np.float32)
    np.save(folder / "some.npy", some)
    more = (centers[rng.integers(4, 6, size=300)] + rng.normal(size=(300, 10))).astype(np.float32)
    np.save(folder / "more.npy", more)
    hasher = recipe("imh-tsne", n_bits=16, random_state=0)
    hasher.set_params(base__size=40, embedding__perplexity=5, embedding__n_iter=50).fit(some)
    hasher.save(folder / "imh.mhash")
    codes = hasher.encode(some)
    np.save(folder / "old.npy", codes)
    index = HammingIndex(codes, 16)
    index.made_by = hasher.lineage_["id"]
    index.save(folder / "old.mhx")
    with create_store(str(folder / "old.faiss"), 16) as store:
        store.add(codes, np.arange(len(codes)))


def content(folder, target):
    """The bytes of a target; None if it does not exist. A store: its codes, None if it has no rows."""
    path = folder / target
    if not path.exists():
        return None
    if target.endswith(".faiss"):
        with open_store(str(path)) as store:
            return store.get(np.arange(len(store))).tobytes() if len(store) else None
    return path.read_bytes()


def check(folder, name, before, after):
    """Each target is old or new; the same command completes them, and no other file is left."""
    for target in TARGETS[name]:
        assert content(folder, target) in (content(before, target), content(after, target)), target
    assert killed_command.run_killed(folder, COMMANDS[name], None) == 0
    for target in TARGETS[name]:
        assert content(folder, target) == content(after, target), target
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


@pytest.mark.parametrize("database", database_params(STORES))
def test_a_killed_export_is_completed_when_it_is_repeated(tmp_path, database):
    """After a kill a store may hold a part of the batches; after the next command it holds all."""
    codes = np.random.default_rng(0).integers(0, 256, (1500, 16), np.uint8)
    np.save(tmp_path / "made.npy", codes)
    args = ["export", "made.npy", "--look-up-bits=24", "--batch=100", "--to"]
    start = time.monotonic()
    assert killed_command.run_killed(tmp_path, [*args, STORES[database].format("whole")], None) == 0
    seconds = time.monotonic() - start
    for seed in range(FIRST, FIRST + max(3, KILLS // len(STORES))):
        address = STORES[database].format(f"killed{seed}")
        moment = np.random.default_rng(seed).random() * seconds
        killed_command.run_killed(tmp_path, [*args, address], moment)
        assert killed_command.run_killed(tmp_path, [*args, address], None) == 0, (seed, moment)
        assert killed_command.stored_codes(tmp_path, address, len(codes)) == codes.tobytes(), (seed, moment)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + KILLS // 2))
def test_a_full_disk_leaves_the_old_state(states, tmp_path, seed):
    before, after, _ = states
    rng = np.random.default_rng(seed)
    name = list(COMMANDS)[seed % len(COMMANDS)]
    folder = tmp_path / "work"
    shutil.copytree(before, folder)
    size = max((after / target).stat().st_size for target in TARGETS[name])
    assert killed_command.run_limited(folder, COMMANDS[name], int(rng.integers(size))) == 2
    target = max(TARGETS[name], key=lambda target: (after / target).stat().st_size)
    assert content(folder, target) == content(before, target)
    check(folder, name, before, after)
