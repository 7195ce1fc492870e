"""Threads and processes beside each other: every answer is that of one state, and no row is lost.

MANIHASH_ROUNDS sets the number of rounds of each kind; the seed of a round is its number. ``make torture``
runs more of them than ``make fuzz``.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from manihash import HammingIndex, create_store, export_codes, load, open_store, recipe
from manihash.codes import hamming

tasks = pytest.importorskip("concurrent_tasks")
killed_command = pytest.importorskip("killed_command", reason="needs processes that can be forked")

ROUNDS = int(os.environ.get("MANIHASH_ROUNDS", "2"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
SEEDS = pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
SECONDS = 120


pytestmark = pytest.mark.usefixtures("threads_switch_often")


def together(*functions):
    """Call the functions on threads of their own; raise the first error."""
    with ThreadPoolExecutor(len(functions)) as pool:
        for future in [pool.submit(function) for function in functions]:
            future.result(SECONDS)


def processes(context, *calls):
    """Run functions with arguments in processes of their own, and wait for them."""
    started = [context.Process(target=function, args=args) for function, *args in calls]
    for process in started:
        process.start()
    for process in started:
        process.join(SECONDS)
        assert process.exitcode == 0, process


class History:
    """An index that one thread changes, and every state that it has had: ids and codes."""

    def __init__(self, rng, n_bits):
        self.n_bits, self.rng = n_bits, rng
        codes = self.some_codes(60)
        self.index = HammingIndex(codes, n_bits)
        self.states = [dict(enumerate(codes))]
        self.finished = 0
        self.ended = threading.Event()

    def some_codes(self, n):
        """Codes with few distinct values."""
        bits = self.rng.integers(0, 2, (n, self.n_bits)) * (np.arange(self.n_bits) % 3 == 0)
        return np.packbits(bits, axis=1)

    def change(self):
        """Add, update or remove some rows; the new state is in the list before the index changes."""
        state = dict(self.states[-1])
        kind, n = self.rng.integers(3 if len(state) > 30 else 2), int(self.rng.integers(1, 12))
        codes = self.some_codes(n)
        if kind == 0:
            ids = np.arange(self.index.next_id, self.index.next_id + n)
        else:
            ids = self.rng.permutation(list(state))[:n]
        if kind == 2:
            state = {i: code for i, code in state.items() if i not in ids}
        else:
            state |= dict(zip(ids.tolist(), codes, strict=False))
        self.states.append(state)
        if kind == 0:
            self.index.add(codes)
        elif kind == 1:
            self.index.update(codes[: len(ids)], ids)
        else:
            self.index.remove(ids)
        self.finished = len(self.states) - 1

    def write(self, changes):
        """Make some changes."""
        try:
            for _ in range(changes):
                self.change()
        finally:
            self.ended.set()

    def read(self, seed):
        """Query until the writer ends; an answer must be that of a state between both of its ends."""
        rng = np.random.default_rng(seed)
        while not self.ended.is_set():
            query, k = np.packbits(rng.integers(0, 2, (1, self.n_bits)), axis=1), int(rng.integers(1, 20))
            first = self.finished
            distances, ids = self.index.search(query, k)
            states = self.states[first : len(self.states)]
            assert any(
                answers(state, query, k) == (distances[0].tolist(), ids[0].tolist()) for state in states
            )
            first = self.finished
            lims, _, ids = self.index.within(query, k % self.n_bits)
            states = self.states[first : len(self.states)]
            found = sorted(ids.tolist())
            assert lims[1] == len(found)
            assert any(ball(state, query, k % self.n_bits) == found for state in states)


def answers(state, query, k):
    """The distances and ids of the k nearest rows of a state, ties by id."""
    ids = np.array(sorted(state))
    distances = hamming(query, np.array([state[i] for i in ids]))[0]
    order = np.lexsort((ids, distances))[:k]
    return distances[order].tolist(), ids[order].tolist()


def ball(state, query, radius):
    """The ids of the rows of a state within a radius, ascending."""
    ids = np.array(sorted(state))
    return ids[hamming(query, np.array([state[i] for i in ids]))[0] <= radius].tolist()


@SEEDS
def test_every_answer_beside_a_writer_is_that_of_one_state(seed):
    rng = np.random.default_rng(seed)
    history = History(rng, int(rng.choice([8, 24, 40])))
    together(
        lambda: history.write(80), *(lambda s=s: history.read([seed, s]) for s in range(2)),
    )  # fmt: skip
    assert sorted(history.states[-1]) == history.index.ids.tolist()
    assert np.array_equal([history.states[-1][i] for i in history.index.ids], history.index.codes)


@SEEDS
def test_rows_of_several_writers_of_an_index_are_all_kept(seed):
    rng = np.random.default_rng(seed)
    index = HammingIndex(np.zeros((1, 2), np.uint8), 16)
    codes = rng.integers(0, 256, (4, 30, 2), np.uint8)
    added = [[] for _ in codes]

    def add(writer):
        for start in range(0, 30, 5):
            ids = index.add(codes[writer, start : start + 5])
            index.update(codes[writer, start : start + 5], ids)
            added[writer] += ids.tolist()

    together(*(lambda w=w: add(w) for w in range(4)))
    for writer, ids in enumerate(added):
        order = np.searchsorted(index.ids, ids)
        assert np.array_equal(index.codes[order], codes[writer])
    assert len(index) == 121


@pytest.fixture(scope="module")
def models():
    """Fitted hashers of several kinds, and rows with their codes."""
    X = np.random.default_rng(0).normal(size=(300, 12)).astype(np.float32)
    made = {"lsh": {}, "itq": {}, "imh-pca": {"base__size": 20}, "agh": {"base__size": 20}, "sph": {}}
    fitted = [
        recipe(name, n_bits=8, random_state=0).set_params(**options).fit(X) for name, options in made.items()
    ]
    return X, fitted, [hasher.encode(X) for hasher in fitted]


@SEEDS
def test_threads_that_share_a_model_get_the_same_codes(models, tmp_path, seed):
    X, fitted, codes = models
    which = seed % len(fitted)
    fitted[which].save(tmp_path / "model.mhash")
    hasher = load(tmp_path / "model.mhash")  # nothing is prepared yet

    def encode(thread):
        rng = np.random.default_rng([seed, thread])
        for _ in range(5):
            start = int(rng.integers(0, 250))
            part = X[start : start + int(rng.choice([1, 10, 200]))]
            part = part.astype(rng.choice([np.float32, np.float64]))
            assert np.array_equal(hasher.encode(part), codes[which][start : start + len(part)])

    together(*(lambda t=t: encode(t) for t in range(4)))


@SEEDS
def test_a_target_with_two_writers_always_holds_one_version(models, tmp_path, seed):
    X, fitted, _ = models
    index = seed % 2
    versions = [HammingIndex(hasher.encode(X)[: 50 + i], 8) for i, hasher in enumerate(fitted)]
    versions = versions if index else fitted
    name = "codes.mhx" if index else "model.mhash"
    contents = []
    for version in versions:
        version.save(tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    ended = threading.Event()

    def read():
        while not ended.is_set():
            assert (tmp_path / name).read_bytes() in contents

    def write():
        fork = killed_command.CONTEXT
        call = (tasks.write_often, str(tmp_path), name, versions, seed)
        try:
            together(
                lambda: tasks.write_often(str(tmp_path), name, versions, seed),
                *([lambda: processes(fork, call, call)] if seed % 10 == 0 else []),
                lambda: tasks.write_often(str(tmp_path), name, versions, seed + 1),
            )
        finally:
            ended.set()

    together(read, write)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@SEEDS
def test_one_of_two_commands_with_one_target_completes_it(models, tmp_path, seed):
    X, fitted, codes = models
    np.save(tmp_path / "X.npy", np.tile(X, (20, 1)))
    which = seed % len(fitted)
    fitted[which].save(tmp_path / "model.mhash")
    context = killed_command.CONTEXT
    results = context.SimpleQueue()
    call = (tasks.run_command, str(tmp_path), ["encode", "model.mhash", "X.npy", "-o", "codes.npy"], results)
    processes(context, call, call)
    ends = [results.get() for _ in range(2)]
    assert any(code == 0 for code, _ in ends), ends
    for code, output in ends:
        assert code == 0 or (code == 2 and "is being written by another process" in output), output
    assert np.array_equal(np.load(tmp_path / "codes.npy"), np.tile(codes[which], (20, 1)))
    assert {path.name for path in tmp_path.iterdir()} == {"X.npy", "model.mhash", "codes.npy"}


@SEEDS
def test_two_exports_into_one_store_keep_all_rows(tmp_path, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (90, 2), np.uint8)
    starts = [0, int(rng.integers(0, 60))]  # rows that both have are equal
    for i, start in enumerate(starts):
        np.save(tmp_path / f"{i}.npy", codes[start : start + 60 - 30 * i])
        np.save(tmp_path / f"ids{i}.npy", np.arange(start, start + 60 - 30 * i))
    address = str(tmp_path / "codes.faiss")
    if seed % 2:
        context = killed_command.CONTEXT
        results = context.SimpleQueue()
        calls = [
            ["export", f"{i}.npy", "--ids", f"ids{i}.npy", "--batch", "7", "--to", "codes.faiss"]
            for i in (0, 1)
        ]
        processes(context, *((tasks.run_command, str(tmp_path), call, results) for call in calls))
        ends = [results.get() for _ in calls]
        assert [code for code, _ in ends] == [0, 0], ends
    else:
        create_store(address, 16).close()

        def export(i):
            with open_store(address) as store:
                export_codes(np.load(tmp_path / f"{i}.npy"), store, np.load(tmp_path / f"ids{i}.npy"), 7)

        together(lambda: export(0), lambda: export(1))
    ids = np.union1d(np.arange(60), np.arange(starts[1], starts[1] + 30))
    with open_store(address) as store:
        assert len(store) == len(ids)
        assert np.array_equal(store.get(ids), codes[ids])


def check_in_child(hasher, index, X, codes):
    """Encode, search and change the index in a forked process; end it with 0 if all is right."""
    right = np.array_equal(hasher.encode(X[:70]), codes[:70])
    index.add(codes[:3])
    right &= len(index.search(codes[:1], 5)[1][0]) == 5
    os._exit(0 if right else 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@SEEDS
def test_a_worker_forked_beside_busy_threads_computes_and_ends(models, seed):
    X, fitted, codes = models
    which = seed % len(fitted)
    hasher, index, ended = fitted[which], HammingIndex(codes[which], 8), threading.Event()

    def work():
        while not ended.is_set():
            index.update(codes[which][:5], np.arange(5))
            index.search(codes[which][:2], 3)
            hasher.encode(X[:70])

    def fork():
        try:
            for _ in range(3):
                child = os.fork()
                if not child:
                    check_in_child(hasher, index, X, codes[which])
                assert ended_within(child, SECONDS) == 0
        finally:
            ended.set()

    together(work, work, fork)


def ended_within(child, seconds):
    """The exit status of a child; it is killed, and the status is not 0, if it takes longer."""
    timer = threading.Timer(seconds, os.kill, (child, 9))
    timer.start()
    status = os.waitpid(child, 0)[1]
    timer.cancel()
    return status
