"""Journals that are cut or changed: the changes of complete records, or an error that keeps the file.

MANIHASH_CASES sets the number of cases. A case is one journal cut at one byte, or with one flipped bit or
some zeros at one byte; each byte of a journal is a case of each kind. The seed of a journal is its number,
from MANIHASH_FIRST on.
"""

import os

import numpy as np

from manihash import HammingIndex
from manihash.search import DamagedIndexError
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, NAMES, REMOVE, UPDATE, Change, RowFields, journal_of

CASES = int(os.environ.get("MANIHASH_CASES", "400"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
HEAD = 84  # bytes of the first two lines


def state(index):
    """The code and the fields of each id."""
    attached, found = index._stored.fields(), {}
    for identity, code in zip(index.ids.tolist(), map(bytes, index.codes), strict=True):
        known = {name: attached.value(identity, name) for name in NAMES if attached.knows(identity, name)}
        found[identity] = code, {name: np.asarray(value).tolist() for name, value in known.items()}
    return found


def random_fields(rng, n):
    """Vectors, labels, images and texts of n rows, some of them missing; None for no fields."""
    if rng.random() < 0.5:
        return None

    def some(*values):
        return None if rng.random() < 0.4 else [values[i] for i in rng.integers(len(values), size=n)]

    vectors = rng.normal(size=(n, 3)).astype(rng.choice([np.float32, np.float64]))
    return RowFields(
        None if rng.random() < 0.4 else vectors,
        some("a", "é\u2028", 3, -1.5, None),
        some(b"\x89PNG", bytes(9), None),
        some("", "text\n", None),
    )


def random_index(rng, path):
    """Write an index with integers or strings as ids, and return what makes codes and ids for it."""
    n_bits = int(rng.integers(1, 80))
    used = iter(range(10**6))

    def codes(n):
        return np.packbits(rng.random((n, n_bits)) < 0.5, axis=1)

    strings = rng.random() < 0.5
    names = ["", "日本/", "x" * int(rng.integers(1, 300)), "\n", "a.jpg "]

    def ids(n):
        numbers = [next(used) for _ in range(n)]
        if strings:
            return np.array([f"{rng.choice(names)}{i}" for i in numbers], object)
        return np.array([i * int(rng.choice([1, -1, 2**40])) for i in numbers], np.int64)

    n = int(rng.integers(1, 12))
    first = HammingIndex(codes(n), n_bits, ids(n))
    first.save(path)
    return codes, ids


def random_change(rng, rows, codes, ids):
    """A change of an index with these rows."""
    kind = int(rng.choice([ADD, UPDATE, REMOVE])) if rows else ADD
    n = int(rng.integers(1, 4))
    if kind == ADD:
        return Change(ADD, ids(n), codes(n), random_fields(rng, n))
    known = rng.permutation(np.array(sorted(rows), object))[:n]
    known = known if isinstance(known[0], str) else known.astype(np.int64)
    if kind == REMOVE:
        return Change(REMOVE, known)
    return Change(UPDATE, known, codes(len(known)), random_fields(rng, len(known)))


def write_journal(rng, path):
    """Write an index and its journal; return the positions where records end, and the rows after each."""
    codes, ids = random_index(rng, path)
    durable = DurableIndex(path)
    ends, states = [durable.journal.size], [state(durable.index)]
    for _ in range(int(rng.integers(1, 6))):
        if rng.random() < 0.15 and len(ends) > 1:  # a compaction that was killed before the file was replaced
            durable.journal.append_compacted("0123456789abcdef" * 4)
        else:
            changes, rows = [], dict(states[-1])
            for _ in range(int(rng.integers(1, 4))):
                changes.append(random_change(rng, rows, codes, ids))
                for i in changes[-1].ids.tolist():
                    rows.pop(i, None)
                    if changes[-1].kind != REMOVE:
                        rows[i] = b""
            durable.commit(changes)
        ends.append(durable.journal.size)
        states.append(state(durable.index))
    durable.close()
    return ends, states


def mutations(rng, content, last):
    """All cases of a journal whose last record starts at ``last``: the place of the change, and its bytes."""
    for i in range(len(content)):
        yield "cut", i, content[:i]
        changed = bytearray(content)
        changed[i] ^= 1 << int(rng.integers(8))
        yield "flip", i, bytes(changed)
        stop = min(i + int(rng.integers(1, 32)), last if i < last else len(content))
        yield "zeros", i, content[:i] + bytes(stop - i) + content[stop:]


def fault(kind, place, is_changed, path, ends, states):
    """What is wrong with what is read from a damaged journal; None if nothing is."""
    rows = states[-1]
    if is_changed and place >= HEAD:
        rows = states[sum(end <= place for end in ends) - 1]
    damaged = is_changed and kind != "cut" and place < ends[-2]
    try:
        found = state(HammingIndex.load(path))
    except ValueError as error:
        expected = DamagedIndexError if place >= HEAD else ValueError
        return None if damaged and isinstance(error, expected) else repr(error)
    if place < HEAD:  # a cut there is an interrupted creation
        return None if found == (states[0] if kind == "cut" else rows) else "other rows"
    if damaged:
        return "acknowledged changes were lost"
    return None if found == rows else "other rows"


def test_a_damaged_journal_gives_complete_records_or_an_error(tmp_path):
    done, seed = 0, FIRST
    while done < CASES:
        rng = np.random.default_rng(seed)
        path = tmp_path / f"{seed}.mhx"
        ends, rows = write_journal(rng, path)
        original = journal_of(path).read_bytes()
        for kind, place, content in mutations(rng, original, ends[-2]):
            journal_of(path).write_bytes(content)
            wrong = fault(kind, place, content != original, path, ends, rows)
            assert wrong is None, f"seed {seed}, {kind} at byte {place}: {wrong}"
            assert journal_of(path).read_bytes() == content
            done += 1
        seed += 1


def test_many_rows_are_deleted_one_by_one_and_in_parts(tmp_path):
    """100 rows for each case: MANIHASH_CASES=10000 deletes a million rows of an index, and of a journal."""
    n, rng = 100 * max(20, CASES // 20 if CASES < 1000 else CASES), np.random.default_rng(0)
    codes = rng.integers(0, 4, (n, 4), np.uint8) * 64
    index, left = HammingIndex(codes, 32), np.ones(n, bool)
    index.save(tmp_path / "codes.mhx")
    order = rng.permutation(n)
    for i, row in enumerate(order[: n - 10].tolist()):
        index.remove([row])
        left[row] = False
        if i % (n // 40) == 0:
            fresh = HammingIndex(codes[left], 32, np.flatnonzero(left))
            for found, expected in zip(index.search(codes[:3], 5), fresh.search(codes[:3], 5), strict=True):
                np.testing.assert_array_equal(found, expected)
    assert index.ids.tolist() == np.flatnonzero(left).tolist()
    durable, start = DurableIndex(tmp_path / "codes.mhx"), 0
    while start < n - 10:
        size = int(rng.choice([1, 1, 10, 1000]))
        durable.commit([Change(REMOVE, order[start : min(start + size, n - 10)])])
        start += size
        if rng.random() < 2e-3:
            durable.compact()
    durable.close()
    loaded = HammingIndex.load(tmp_path / "codes.mhx")
    np.testing.assert_array_equal(loaded.ids, index.ids)
    np.testing.assert_array_equal(loaded.codes, index.codes)
    with_more = DurableIndex(tmp_path / "codes.mhx")
    assert with_more.commit([Change(ADD, None, codes[:1])])[0].tolist() == [n]
    with_more.close()
