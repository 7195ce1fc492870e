"""Changes of an index survive the end of the process at any moment."""

import os
import shutil
import signal
import subprocess
import sys
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash import HammingIndex
from manihash.code_layout import CodeLayout
from manihash.errors import KnownIdError, UnknownIdError
from manihash.search import DamagedIndexError, files
from manihash.search import storage as module
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, REMOVE, UPDATE, Change, Journal, journal_of, read_journal

N_BITS = 20


def codes_of(n, seed=0):
    codes = np.random.default_rng(seed).integers(0, 256, (n, 3), np.uint8)
    codes[:, -1] &= 0xF0
    return codes


def state(index):
    """The code of each id."""
    return dict(zip(index.ids.tolist(), map(bytes, index.codes), strict=True))


def file_alone(path):
    """The index of a file without its journal."""
    return HammingIndex.load(shutil.copy(path, path.with_name("copy.mhx")))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "codes.mhx"
    HammingIndex(codes_of(10), N_BITS, layout=CodeLayout(N_BITS, 8, 0.5)).save(path)
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
    assert state(file_alone(path)) != expected
    assert state(HammingIndex.load(path)) == expected
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
    assert state(HammingIndex.load(path)) == expected


def test_compaction_moves_the_changes_into_the_file(path):
    path.chmod(0o640)
    with_changes = DurableIndex(path)
    assert not with_changes.compact()
    with_changes.commit([add(3), remove([1])])
    expected = state(with_changes.index)
    assert with_changes.compact()
    assert with_changes.journal.empty
    assert state(file_alone(path)) == state(with_changes.index) == expected
    assert HammingIndex.load(path).layout.look_up_bits == 8
    assert path.stat().st_mode & 0o777 == 0o640
    with_changes.commit([add(1)])
    with_changes.close()
    assert sorted(set(state(HammingIndex.load(path))) - set(expected)) == [13]


class Killed(BaseException):
    """Stands for the end of the process."""


def killed_at(step, after, patch):
    """Let a step of a write raise ``Killed`` before or after its work."""
    owner = {"written": files, "replace": os}.get(step, Journal)
    original = getattr(owner, step)

    def killed(*args, **kwargs):
        if after:
            original(*args, **kwargs)
        raise Killed

    patch.setattr(owner, step, killed)


@pytest.mark.parametrize("step", ["written", "append_compacted", "replace", "start"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_during_compaction_loses_nothing(path, monkeypatch, step, after):
    with_changes = DurableIndex(path)
    with_changes.commit([add(3), remove([1]), update([2])])
    expected = state(with_changes.index)
    with monkeypatch.context() as patch:
        killed_at(step, after, patch)
        with pytest.raises(Killed):
            with_changes.compact()
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected
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
        assert state(HammingIndex.load(path)) == states[max(0, n)], size
    journal.write_bytes(content[: sizes[2] + 5])
    again = DurableIndex(path)
    again.commit([add(1, [50])])
    again.close()
    assert set(state(HammingIndex.load(path))) == {*states[2], 50}


def journaled(path, *commits):
    """The sizes of the journal of an index and its states, before and after each commit."""
    with_changes = DurableIndex(path)
    sizes, states = [with_changes.journal.size], [state(with_changes.index)]
    for changes in commits:
        with_changes.commit(changes)
        sizes.append(with_changes.journal.size)
        states.append(state(with_changes.index))
    with_changes.close()
    return sizes, states


def test_a_flipped_bit_is_an_error_if_records_follow_and_keeps_the_file(path):
    sizes, states = journaled(path, [add(2), remove([0])], [update([1, 2])], [add(1)], [remove([3])])
    content = journal_of(path).read_bytes()
    for bit in range(8 * sizes[0], 8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        journal_of(path).write_bytes(damaged)
        if bit // 8 >= sizes[3]:  # the last record: it may never have been acknowledged
            assert state(HammingIndex.load(path)) == states[3]
            continue
        for opened in (HammingIndex.load, DurableIndex, HammingIndex(codes_of(1), N_BITS).save):
            with pytest.raises(DamagedIndexError, match="acknowledged changes would be lost"):
                opened(path)
        assert journal_of(path).read_bytes() == damaged


def test_an_incomplete_record_may_have_any_bytes(path, caplog):
    """After a power failure, blocks of the last write may be missing: its changes are one record."""
    sizes, states = journaled(path, [add(1)], [add(2), remove([0]), update([1])])
    content = journal_of(path).read_bytes()
    for start in range(sizes[1], sizes[2]):
        damaged = bytearray(content)
        damaged[start : start + 16] = bytes(len(damaged[start : start + 16]))
        if damaged == content:
            continue
        journal_of(path).write_bytes(damaged)
        assert state(HammingIndex.load(path)) == states[1]
    DurableIndex(path).close()
    assert "not a complete record" in caplog.text
    assert journal_of(path).stat().st_size == sizes[1]


@pytest.mark.parametrize("ids", [None, [f"{i}.jpg" for i in range(10)]])
def test_a_journal_whose_creation_was_interrupted_is_empty(path, ids):
    HammingIndex(codes_of(10), N_BITS, ids=ids).save(path)
    with_changes = DurableIndex(path)
    content = journal_of(path).read_bytes()
    with_changes.close()
    for size in range(len(content) + 1):
        journal_of(path).write_bytes(content[:size])
        assert len(HammingIndex.load(path)) == 10
        DurableIndex(path).close()
        assert not journal_of(path).exists()


def as_written_before(content, number):
    """A journal of integer ids and changes of one kind as format 1 or 3 has it: without fields."""
    head = content[: len(b"manihash-journal 5\n") + 65]
    old, start = head.replace(b"journal 5", b"journal %d" % number), len(head)
    while start < len(content):
        size = int.from_bytes(content[start : start + 4], "little")
        inside = content[start + 8 : start + 8 + size - 4]
        old += len(inside).to_bytes(4, "little") + zlib.crc32(inside).to_bytes(4, "little") + inside
        start += 8 + size
    return old


@pytest.mark.parametrize("number", [1, 3])
def test_a_journal_of_an_earlier_format_is_read_and_replaced(path, number):
    _, states = journaled(path, [add(2)], [remove([0])])
    content = journal_of(path).read_bytes()
    journal_of(path).write_bytes(as_written_before(content, number))
    assert state(HammingIndex.load(path)) == states[-1]
    again = DurableIndex(path)
    again.commit([add(1), remove([1])])
    again.close()
    assert journal_of(path).read_bytes().startswith(b"manihash-journal 5")
    assert len(HammingIndex.load(path)) == 11


def test_a_journal_of_a_later_format_is_refused(path):
    journaled(path, [add(2)])
    content = journal_of(path).read_bytes()
    journal_of(path).write_bytes(content.replace(b"journal 5", b"journal 9"))
    with pytest.raises(ValueError, match="upgrade manihash"):
        DurableIndex(path)


def test_a_journal_of_codes_of_another_length_is_an_error(path):
    journaled(path, [add(2)])
    checksum = files.read(path, mmap=True).sha256
    HammingIndex(codes_of(10)[:, :2], 16).save(path.with_name("other.mhx"))
    other = files.read(path.with_name("other.mhx"), mmap=True).sha256
    content = journal_of(path).read_bytes().replace(checksum.encode(), other.encode())
    journal_of(path.with_name("other.mhx")).write_bytes(content)
    with pytest.raises(DamagedIndexError, match="not one of codes of 16 bits"):
        HammingIndex.load(path.with_name("other.mhx"))


def test_ids_that_overflow_are_refused_before_they_are_in_the_journal(path):
    with_changes = DurableIndex(path)
    largest = 2**63 - 1
    assert with_changes.commit([add(1, [largest])])[0].tolist() == [largest]
    results = with_changes.commit([add(1), add(1, [20]), add(3)])
    assert [type(result) for result in results] == [ValueError, np.ndarray, ValueError]
    assert "no free ids are left" in str(results[0])
    expected = state(with_changes.index)
    assert sorted(expected) == [*range(10), 20, largest]
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected
    again = DurableIndex(path)
    again.compact()
    again.close()
    assert state(file_alone(path)) == expected


def test_nothing_is_acknowledged_after_a_change_that_could_not_be_made(path, monkeypatch):
    with_changes = DurableIndex(path)

    def fails(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(HammingIndex, "add", fails)
        with pytest.raises(MemoryError):
            with_changes.commit([add(1)])
    with pytest.raises(OSError, match="restart the server"):
        with_changes.commit([add(1)])
    with_changes.close()
    assert len(HammingIndex.load(path)) == 11


def test_a_change_that_is_too_large_for_a_record_is_refused(path, monkeypatch):
    monkeypatch.setattr("manihash.search.journal.MOST_BYTES", 100)
    with_changes = DurableIndex(path)
    with pytest.raises(ValueError, match="change fewer rows at once"):
        with_changes.commit([add(20)])
    assert with_changes.commit([add(1), add(0)])[1].tolist() == []
    with_changes.close()
    assert len(HammingIndex.load(path)) == 11


def test_save_writes_the_changes_of_the_journal_into_the_file(path):
    journaled(path, [add(2)], [remove([0])])
    index = HammingIndex.load(path)
    index.remove([1])
    index.save(path)
    assert not journal_of(path).exists()
    assert sorted(state(HammingIndex.load(path))) == [*range(2, 12)]
    index.remove([2])
    index.save(path)
    assert len(HammingIndex.load(path)) == 9


def test_save_refuses_to_lose_changes_of_the_journal(path):
    early = HammingIndex.load(path)
    journaled(path, [add(2)])
    later = HammingIndex.load(path)
    journaled(path, [remove([0])])
    for index in (early, later, HammingIndex(codes_of(5), N_BITS)):
        with pytest.raises(ValueError, match=r"changes of .* that are not in the index to write"):
            index.save(path)
        assert len(HammingIndex.load(path)) == 11
    early.save(path.with_name("other.mhx"))


def test_save_refuses_while_another_process_writes(path):
    with_changes = DurableIndex(path)
    with pytest.raises(BlockingIOError, match="another process writes to the index"):
        HammingIndex.load(path).save(path)
    with_changes.close()
    HammingIndex.load(path).save(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("step", ["written", "append_compacted", "replace", "start"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_during_save_loses_nothing(path, monkeypatch, step, after):
    _, states = journaled(path, [add(3)], [remove([1]), update([2])])
    index = HammingIndex.load(path)
    index.remove([9])
    with monkeypatch.context() as patch:
        killed_at(step, after, patch)
        with pytest.raises(Killed):
            index.save(path)
    found = state(HammingIndex.load(path))
    assert found in (states[-1], state(index))
    DurableIndex(path).close()
    assert state(HammingIndex.load(path)) == found


def test_an_index_is_opened_with_all_changes_while_its_journal_is_emptied(path, monkeypatch):
    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    original, calls = read_journal, []

    def compacted_meanwhile(*args):
        calls.append(args)
        if len(calls) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(module, "read_journal", original)
                with_changes.compact()
                with_changes.close()
        return original(*args)

    monkeypatch.setattr(module, "read_journal", compacted_meanwhile)
    assert len(HammingIndex.load(path)) == 11


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
    assert state(HammingIndex.load(path)) == expected
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
    assert len(HammingIndex.load(path)) == len(HammingIndex.load(link)) == 12


def test_a_file_that_was_replaced_is_not_overwritten(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add(1)])
    HammingIndex(codes_of(5, 7), N_BITS).save(path.with_name("other.mhx"))
    os.replace(path.with_name("other.mhx"), path)
    with pytest.raises(OSError, match="was replaced by another program"):
        with_changes.compact()
    with_changes.close()
    assert len(file_alone(path)) == 5
    with pytest.raises(ValueError, match="holds changes of another index file"):
        HammingIndex.load(path)
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
    found = HammingIndex.load(path)
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
    assert set(state(HammingIndex.load(path))) == {*expected, 40}


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
    assert len(HammingIndex.load(path)) == 10


def test_another_file_is_no_journal(path):
    journal_of(path).write_text("something else")
    with pytest.raises(ValueError, match="is not a journal"):
        HammingIndex.load(path)


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
    assert acknowledged <= set(state(HammingIndex.load(path)))
