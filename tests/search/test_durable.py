"""Changes of an index survive the end of the process at any moment."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash import HammingIndex
from manihash.search import durable as module
from manihash.search.durable import DurableIndex, KnownIdError, UnknownIdError, load_with_changes
from manihash.search.journal import ADD, REMOVE, UPDATE, Change, Journal, journal_of, read_journal

N_BITS = 20


def codes_of(n, seed=0):
    codes = np.random.default_rng(seed).integers(0, 256, (n, 3), np.uint8)
    codes[:, -1] &= 0xF0
    return codes


def state(index):
    """The code of each id."""
    return dict(zip(index.ids.tolist(), map(bytes, index.codes), strict=True))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "codes.mhx"
    HammingIndex(codes_of(10), N_BITS, first_bits=8).save(path)
    return path


def add(n, ids=None, seed=1):
    return Change(ADD, None if ids is None else np.array(ids), codes_of(n, seed))


def update(ids, seed=2):
    return Change(UPDATE, np.array(ids), codes_of(len(ids), seed))


def remove(ids):
    return Change(REMOVE, np.array(ids))


def test_changes_are_made_in_their_order_and_found_again(path):
    with_changes = DurableIndex(path)
    results = with_changes.commit([add(2), remove([3, 10]), add(1, [3]), update([3, 4]), add(1)])
    assert [ids.tolist() for ids in results] == [[10, 11], [3, 10], [3], [3, 4], [12]]
    expected = state(with_changes.index)
    assert sorted(expected) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12]
    assert expected[4] == bytes(codes_of(2, 2)[1])
    with_changes.close()
    assert state(HammingIndex.load(path)) != expected
    assert state(load_with_changes(path)) == expected
    again = DurableIndex(path)
    assert state(again.index) == expected
    assert again.commit([add(1)])[0].tolist() == [13]
    again.close()


def test_an_invalid_change_is_refused_and_the_others_are_made(path):
    with_changes = DurableIndex(path)
    results = with_changes.commit(
        [add(1, [5]), remove([99]), update([0, 99]), remove([0]), update([0]), add(1, [20]), add(1, [20])]
    )
    kinds = [type(result) for result in results]
    assert kinds[:3] == [KnownIdError, UnknownIdError, UnknownIdError]
    assert kinds[4] is UnknownIdError
    assert kinds[6] is KnownIdError
    assert "id 99 is not in the index" in str(results[2])
    for change in (add(2, [30]), add(2, [30, 30]), Change(ADD, None, codes_of(1)[:, :2])):
        assert isinstance(with_changes.commit([change])[0], ValueError)
    expected = state(with_changes.index)
    assert 20 in expected
    assert 0 not in expected
    with_changes.close()
    assert state(load_with_changes(path)) == expected


def test_compaction_moves_the_changes_into_the_file(path):
    path.chmod(0o640)
    with_changes = DurableIndex(path)
    assert not with_changes.compact()
    with_changes.commit([add(3), remove([1])])
    expected = state(with_changes.index)
    assert with_changes.compact()
    assert with_changes.journal.empty
    assert state(HammingIndex.load(path)) == state(with_changes.index) == expected
    assert HammingIndex.load(path).first_bits == 8
    assert path.stat().st_mode & 0o777 == 0o640
    with_changes.commit([add(1)])
    with_changes.close()
    assert sorted(set(state(load_with_changes(path))) - set(expected)) == [13]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", ["save", "append_compacted", "replace", "start"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_during_compaction_loses_nothing(path, monkeypatch, step, after):
    owner = {"save": HammingIndex, "replace": os}.get(step, Journal)
    original = getattr(owner, step)
    with_changes = DurableIndex(path)
    with_changes.commit([add(3), remove([1]), update([2])])
    expected = state(with_changes.index)

    def killed(*args, **kwargs):
        if after:
            original(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, killed)
        with pytest.raises(Killed):
            with_changes.compact()
    with_changes.close()
    assert state(load_with_changes(path)) == expected
    again = DurableIndex(path)
    assert state(again.index) == expected
    again.commit([add(1)])
    again.compact()
    again.close()
    assert len(state(HammingIndex.load(path))) == len(expected) + 1


def test_a_journal_cut_at_any_byte_gives_the_changes_before(path):
    with_changes = DurableIndex(path)
    journal = journal_of(path)
    sizes, states = [journal.stat().st_size], [state(with_changes.index)]
    for change in (add(2), remove([0, 11]), update([1]), add(1, [0])):
        with_changes.commit([change])
        sizes.append(journal.stat().st_size)
        states.append(state(with_changes.index))
    with_changes.close()
    content = journal.read_bytes()
    for size in range(len(content) + 1):
        journal.write_bytes(content[:size])
        n = sum(size >= known for known in sizes) - 1
        assert state(load_with_changes(path)) == states[max(0, n)], size
    journal.write_bytes(content[: sizes[2] + 5])
    again = DurableIndex(path)
    again.commit([add(1, [50])])
    again.close()
    assert set(state(load_with_changes(path))) == {*states[2], 50}


def test_a_changed_byte_ends_the_journal(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    size = journal_of(path).stat().st_size
    with_changes.commit([add(1)])
    with_changes.close()
    content = bytearray(journal_of(path).read_bytes())
    content[size + 12] ^= 1
    journal_of(path).write_bytes(content)
    assert len(load_with_changes(path)) == 11


@given(st.lists(st.tuples(st.sampled_from("aur"), st.lists(st.integers(0, 14), min_size=1, unique=True))))
@settings(max_examples=60)
def test_any_changes_give_the_rows_of_a_dictionary(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("index") / "codes.mhx"
    HammingIndex(codes_of(10), N_BITS).save(path)
    expected = state(HammingIndex.load(path))
    with_changes = DurableIndex(path)
    made = {"a": lambda ids, i: add(len(ids), ids, i), "u": update, "r": lambda ids, i: remove(ids)}
    changes = [made[kind](ids, i) for i, (kind, ids) in enumerate(steps)]
    results = with_changes.commit(changes[: len(steps) // 2]) + with_changes.commit(
        changes[len(steps) // 2 :]
    )
    for change, result in zip(changes, results, strict=True):
        ids = change.ids.tolist()
        valid = all((i in expected) != (change.kind == ADD) for i in ids)
        assert valid != isinstance(result, Exception)
        if valid and change.kind == REMOVE:
            expected = {i: code for i, code in expected.items() if i not in ids}
        elif valid:
            expected |= dict(zip(ids, map(bytes, change.codes), strict=True))
    assert state(with_changes.index) == expected
    with_changes.close()
    assert state(load_with_changes(path)) == expected
    again = DurableIndex(path)
    again.compact()
    again.close()
    assert state(HammingIndex.load(path)) == expected


def test_only_one_process_writes(path):
    with_changes = DurableIndex(path)
    with pytest.raises(OSError, match="another process writes to the index"):
        DurableIndex(path)
    with_changes.close()
    DurableIndex(path).close()


def test_a_link_to_an_index_has_the_journal_of_the_file(path):
    link = path.with_name("link.mhx")
    link.symlink_to(path)
    with_changes = DurableIndex(link)
    with_changes.commit([add(1)])
    with_changes.compact()
    with_changes.commit([add(1)])
    with_changes.close()
    assert link.is_symlink()
    assert len(load_with_changes(path)) == len(load_with_changes(link)) == 12


def test_a_file_that_was_replaced_is_not_overwritten(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    HammingIndex(codes_of(5, 7), N_BITS).save(path)
    with pytest.raises(OSError, match="was replaced by another program"):
        with_changes.compact()
    with_changes.close()
    assert len(HammingIndex.load(path)) == 5
    with pytest.raises(ValueError, match="holds changes of another index file"):
        load_with_changes(path)
    with pytest.raises(ValueError, match="holds changes of another index file"):
        DurableIndex(path)


def test_an_index_that_is_replaced_while_it_is_read_is_read_again(path, monkeypatch):
    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    expected = state(with_changes.index)
    original, calls = read_journal, []

    def compacted_meanwhile(*args):
        calls.append(args)
        if len(calls) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(module, "read_journal", original)
                with_changes.compact()
                with_changes.commit([update([0])])
        return original(*args)

    monkeypatch.setattr(module, "read_journal", compacted_meanwhile)
    found = load_with_changes(path)
    with_changes.close()
    assert len(calls) == 2
    assert state(found) == expected | {0: bytes(codes_of(1, 2)[0])}


def test_a_full_disk_refuses_the_change_and_keeps_the_others(path):
    from command import full_disk

    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    expected = state(with_changes.index)
    with full_disk(journal_of(path).stat().st_size + 10), pytest.raises(OSError, match="too large"):
        with_changes.commit([add(5)])
    assert state(with_changes.index) == expected
    assert with_changes.commit([add(1, [40])])[0].tolist() == [40]
    with_changes.close()
    assert set(state(load_with_changes(path))) == {*expected, 40}


def test_nothing_is_acknowledged_after_a_failed_fsync(path, monkeypatch):
    with_changes = DurableIndex(path)

    def fails(handle):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            with_changes.commit([add(1)])
    with pytest.raises(OSError, match="could not be written before"):
        with_changes.commit([add(1)])
    assert len(with_changes.index) == 10
    with_changes.close()
    assert len(load_with_changes(path)) == 10


def test_another_file_is_no_journal(path):
    journal_of(path).write_text("something else")
    with pytest.raises(ValueError, match="is not a journal"):
        load_with_changes(path)


def test_all_rows_can_be_removed(path):
    with_changes = DurableIndex(path)
    with_changes.commit([remove(list(range(10)))])
    with_changes.compact()
    assert len(HammingIndex.load(path)) == 0
    assert with_changes.commit([add(1)])[0].tolist() == [10]
    with_changes.close()


WRITER = """
import sys, numpy as np
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, Change

with_changes = DurableIndex(sys.argv[1])
print("ready", flush=True)
for i in range(100_000):
    ids = with_changes.commit([Change(ADD, None, np.full((2, 3), i % 16 * 16, np.uint8))])[0]
    print(*ids, flush=True)
    if i % 7 == 6:
        with_changes.compact()
"""


@pytest.mark.parametrize("seed", range(3))
def test_every_acknowledged_row_is_there_after_kill_9(path, seed):
    acknowledged = set(range(10))
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(np.random.default_rng(seed).uniform(0.05, 0.3))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split("\n")[:-1]
        process.wait()
        acknowledged |= {int(word) for line in lines for word in line.split()}
    assert acknowledged <= set(state(load_with_changes(path)))
