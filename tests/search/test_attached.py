"""Vectors, labels, images and texts of rows survive the end of the process at any moment, as codes do."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash import HammingIndex
from manihash.errors import DamagedIndexError
from manihash.search import files
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, NAMES, REMOVE, UPDATE, Change, Journal, RowFields, journal_of
from manihash.search.storage import attached_path

N_BITS, WIDTH = 16, 3


def codes_of(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 2), np.uint8)


def fields_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return RowFields(
        rng.normal(size=(n, WIDTH)).astype(np.float32),
        [None if i % 3 == 2 else f"label {seed} é" for i in range(n)],
        [None if i % 3 == 1 else bytes([seed % 256]) * (i + 1) for i in range(n)],
        [f"text {seed}.{i} \u2028" for i in range(n)],
    )


def add(ids, seed=1, fields=True):
    return Change(ADD, np.array(ids), codes_of(len(ids), seed), fields_of(len(ids), seed) if fields else None)


def update(ids, seed=2, fields=None):
    return Change(UPDATE, np.array(ids), codes_of(len(ids), seed), fields or fields_of(len(ids), seed))


def remove(ids):
    return Change(REMOVE, np.array(ids))


def state(index):
    """The fields of the rows of an index that has some."""
    attached = index._stored.fields()
    found = {}
    for identity in index.ids.tolist():
        known = {name: attached.value(identity, name) for name in NAMES if attached.knows(identity, name)}
        if known:
            found[identity] = known | {name: known[name].tolist() for name in known if name == "vectors"}
    return found


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "codes.mhx"
    HammingIndex(codes_of(10), N_BITS).save(path)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fields_are_the_same_after_they_were_bytes(dtype):
    fields = fields_of(5)
    fields = RowFields(fields.vectors.astype(dtype), [1, 2.5, "x", None, -3], fields.images, fields.texts)
    again = RowFields.of_bytes(fields.to_bytes(), 5)
    assert again.vectors.dtype == dtype
    np.testing.assert_array_equal(again.vectors, fields.vectors)
    assert (again.labels, again.images, again.texts) == (fields.labels, fields.images, fields.texts)
    assert RowFields.of_bytes(RowFields().to_bytes(), 7).given() == {}
    for content in (b"", fields.to_bytes()[:-1], fields.to_bytes() + b"x"):
        with pytest.raises(ValueError, match=r".+"):
            RowFields.of_bytes(content, 5)


def test_fields_are_found_again_from_the_journal_and_from_the_file(path):
    with_changes = DurableIndex(path)
    with_changes.commit(
        [add([10, 11, 12]), remove([3]), add([3], 4), update([11], 5), add([13], fields=False)]
    )
    with_changes.commit([update([0], fields=RowFields(labels=["new"])), remove([12])])
    expected = state(with_changes.index)
    assert expected[3]["texts"] == "text 4.0 \u2028"
    assert expected[11]["labels"] == "label 5 é"
    assert expected[13] == dict.fromkeys(["labels", "images", "texts"])
    assert expected[0] == {"labels": "new"}
    assert 12 not in expected
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected
    again = DurableIndex(path)
    assert state(again.index) == expected
    again.compact()
    assert again.journal.empty
    assert state(again.index) == state(HammingIndex.load(path)) == expected
    again.commit([update([10], 9)])
    again.close()
    assert state(HammingIndex.load(path))[10]["labels"] == "label 9 é"


def test_a_row_that_is_removed_can_be_read_until_the_next_compaction(path):
    """A search that has begun may still find it."""
    with_changes = DurableIndex(path)
    with_changes.commit([add([10])])
    with_changes.commit([remove([10])])
    assert with_changes.attached.knows(10, "vectors")
    with_changes.close()
    assert not HammingIndex.load(path)._stored.fields().knows(10, "vectors")


def test_changes_without_fields_make_no_file_beside_the_index(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add([10], fields=False), remove([3])])
    with_changes.compact()
    with_changes.close()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("fields", [fields_of(2), RowFields(labels=[]), RowFields(texts=["a", "b"])])
def test_fields_of_another_number_of_rows_are_refused_before_the_journal(path, fields):
    with_changes = DurableIndex(path)
    size = with_changes.journal.size
    (result,) = with_changes.commit([Change(ADD, None, codes_of(1), fields)])
    assert isinstance(result, ValueError)
    assert "got 1 rows and" in str(result)
    assert with_changes.journal.size == size
    with_changes.close()


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("first", [False, True])  # with or without a file beside the index
@pytest.mark.parametrize("step", ["written", "append_compacted", "replace", "start", "fsync"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_during_compaction_loses_no_field(path, monkeypatch, step, after, first):
    with_changes = DurableIndex(path)
    if not first:
        with_changes.commit([add([20, 21], 7)])
        with_changes.compact()
    with_changes.commit([add([10, 11]), remove([1, 10]), update([2], fields=RowFields(texts=["t"]))])
    expected = state(with_changes.index)
    owner = {"written": files, "replace": os, "fsync": os}.get(step, Journal)
    original = getattr(owner, step)

    def killed(*args, **kwargs):
        if after:
            original(*args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, killed)
        with pytest.raises(Killed):
            with_changes.compact()
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected
    again = DurableIndex(path)
    assert state(again.index) == expected
    again.commit([add([30], 8)])
    again.compact()
    again.close()
    assert state(HammingIndex.load(path)) == expected | {30: state(HammingIndex.load(path))[30]}


def test_a_journal_cut_at_any_byte_gives_the_fields_before(path):
    with_changes = DurableIndex(path)
    journal = journal_of(path)
    sizes, states = [journal.stat().st_size], [{}]
    for change in (add([10]), update([1], fields=RowFields(texts=["x"])), remove([10])):
        with_changes.commit([change])
        sizes.append(journal.stat().st_size)
        states.append(state(with_changes.index))
    with_changes.close()
    content = journal.read_bytes()
    for size in range(len(content) + 1):
        journal.write_bytes(content[:size])
        n = sum(size >= known for known in sizes) - 1
        assert state(HammingIndex.load(path)) == states[max(0, n)], size


def test_a_file_that_was_cut_or_damaged_is_refused(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add([10, 11])])
    with_changes.compact()
    expected = state(with_changes.index)
    with_changes.close()
    file = attached_path(path)
    content = file.read_bytes()
    file.write_bytes(content + b"\x05\x00interrupted")
    assert state(HammingIndex.load(path)) == expected
    for size in range(len(content)):
        file.write_bytes(content[:size])
        with pytest.raises(ValueError, match="or is damaged" if size < 16 else "another index file"):
            HammingIndex.load(path)._stored.fields()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises((DamagedIndexError, ValueError)):
            HammingIndex.load(path)._stored.fields()
    assert len(HammingIndex.load(path)) == 12, "the codes do not need the file"


def test_a_file_that_is_missing_is_noticed(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add([10, 11])])
    with_changes.compact()
    with_changes.commit([remove([0])])
    with_changes.compact()
    expected = state(with_changes.index)
    with_changes.close()
    moved = attached_path(path).rename(path.with_name("moved"))
    index = HammingIndex.load(path)
    assert len(index) == 11, "the codes do not need the file"
    for use in (lambda: DurableIndex(path), lambda: index.save(path), index._stored.fields):
        with pytest.raises(
            FileNotFoundError, match=r"in codes\.mhx\.rows, which is missing: put that file back"
        ):
            use()
    assert not journal_of(path).exists()
    index.save(path.with_name("without.mhx"))
    HammingIndex.load(path.with_name("without.mhx"))._stored.fields()
    moved.rename(attached_path(path))
    assert state(HammingIndex.load(path)) == expected


def test_fields_that_changed_without_the_codes_are_not_lost_silently(path):
    """The index file is then equal to an earlier one, and so is its checksum."""
    with_changes = DurableIndex(path)
    with_changes.commit([add([10, 11])])
    with_changes.compact()
    codes = with_changes.index.codes
    states = []
    for label, code in (("a", codes[:1]), ("b", codes[:1]), ("c", codes[3:4]), ("d", codes[:1])):
        fields = RowFields(labels=[label])
        with_changes.commit([Change(UPDATE, np.array([0]), code, fields)])
        with_changes.compact()
        states.append(state(with_changes.index))
        assert state(HammingIndex.load(path)) == states[-1]
        content = attached_path(path).read_bytes()
        for place in range(len(states), len(content), 7):
            damaged = bytearray(content)
            damaged[place] ^= 1
            for bad in (content[:place], bytes(damaged)):
                attached_path(path).write_bytes(bad)
                with pytest.raises(ValueError, match=r"damaged|another index|cannot be read"):
                    HammingIndex.load(path)._stored.fields()
        attached_path(path).write_bytes(content)
    assert len({tuple(found[0]["labels"]) for found in states}) == 4
    with_changes.close()


def test_fields_of_another_index_file_are_not_used(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add([10])])
    with_changes.compact()
    with_changes.close()
    HammingIndex(codes_of(11, 5), N_BITS).save(path)
    with pytest.raises(ValueError, match=r"codes\.mhx\.rows holds .* of rows of another index file"):
        DurableIndex(path)
    assert not journal_of(path).exists()


def test_fields_stay_with_an_index_that_is_changed_and_saved(path):
    with_changes = DurableIndex(path)
    with_changes.commit([add([10, 11, 12])])
    expected = state(with_changes.index)
    with_changes.close()  # killed: the changes are in the journal
    index = HammingIndex.load(path)
    index.remove([11, 12])
    index.add(codes_of(1, 3), [12])
    index.save(path)
    assert not journal_of(path).exists()
    assert state(HammingIndex.load(path)) == {10: expected[10]}, "another row has the id 12 now"
    again = HammingIndex.load(path)
    again.remove([0])
    again.save(path)
    assert state(HammingIndex.load(path)) == {10: expected[10]}
    again.save(path.with_name("copy.mhx"))
    assert not attached_path(path.with_name("copy.mhx")).exists()


def test_strings_are_ids_of_fields(tmp_path):
    path = tmp_path / "named.mhx"
    HammingIndex(codes_of(2), N_BITS, ids=["a.jpg", "b.jpg"]).save(path)
    with_changes = DurableIndex(path)
    ids = np.array(["ü.jpg", "c.jpg"], object)
    with_changes.commit([Change(ADD, ids, codes_of(2, 1), fields_of(2))])
    expected = state(with_changes.index)
    assert list(expected) == ["c.jpg", "ü.jpg"]
    with_changes.compact()
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected


def test_a_file_of_rows_that_were_replaced_is_written_again(path, monkeypatch):
    monkeypatch.setattr("manihash.search.storage._FEW", 2)
    with_changes = DurableIndex(path)
    sizes = []
    for seed in range(8):
        with_changes.commit([add([10], seed) if seed == 0 else update([10], seed)])
        with_changes.compact()
        sizes.append(attached_path(path).stat().st_size)
    expected = state(with_changes.index)
    with_changes.close()
    assert max(sizes) < 6 * sizes[0]
    assert state(HammingIndex.load(path)) == expected
    assert expected[10]["labels"] == "label 7 é"


def test_changes_of_many_bytes_are_written_in_parts(path, monkeypatch):
    monkeypatch.setattr("manihash.search.durable._AT_ONCE", 100)
    with_changes = DurableIndex(path)
    results = with_changes.commit([add([10]), add([11]), add([10]), add([12])])
    assert [type(result) for result in results] == [np.ndarray, np.ndarray, type(results[2]), np.ndarray]
    original, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        original(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        results = with_changes.commit([add([20]), add([21]), add([22])])
    assert [type(result) for result in results] == [np.ndarray, OSError, np.ndarray]
    expected = state(with_changes.index)
    assert sorted(expected) == [10, 11, 12, 20, 22]
    with_changes.close()
    assert state(HammingIndex.load(path)) == expected


@settings(max_examples=int(os.environ.get("MANIHASH_CASES", "40")), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), st.booleans()), max_size=25))
def test_any_order_of_changes_compactions_and_restarts_keeps_the_last_fields(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("rows") / "codes.mhx"
    HammingIndex(codes_of(3), N_BITS).save(path)
    opened = DurableIndex(path)
    expected = {}
    present = {0, 1, 2}
    for seed, (identity, action, some) in enumerate(steps):
        if action == 5:
            opened.compact()
        elif action == 6:
            opened.close()
            opened = DurableIndex(path)
        elif identity not in present:
            fields = RowFields(labels=[seed]) if some else fields_of(1, seed)
            opened.commit([Change(ADD, np.array([identity]), codes_of(1, seed), fields)])
            expected[identity] = seed if some else fields.labels[0]
            present.add(identity)
        elif action == 4:
            opened.commit([remove([identity])])
            expected.pop(identity, None)
            present.remove(identity)
        else:
            opened.commit([update([identity], seed, RowFields(labels=[seed]))])
            expected[identity] = seed
        found = {i: row["labels"] for i, row in state(opened.index).items()}
        assert found == expected
    opened.close()
    assert {i: row["labels"] for i, row in state(HammingIndex.load(path)).items()} == expected
