"""Groups do not depend on memory, on the folder of the work, or on where a process was killed."""

import os

import numpy as np
import pytest
from brute_force_groups import brute_force_groups
from hypothesis import given
from hypothesis import strategies as st
from similar_codes import similar_codes

from manihash import dedup, verified_duplicates
from manihash.codes import pack
from manihash.errors import ResumeError
from manihash.search.duplicates import near_pairs, self_join, work_store
from manihash.search.duplicates.self_join import fits_into_memory, parse_memory

pytestmark = pytest.mark.usefixtures("tiny_memory")

MOMENTS = 20


def groups_of(found):
    return [group.tolist() for group in found]


@given(
    st.integers(1, 300), st.integers(1, 400), st.integers(0, 6), st.sampled_from([1, 9000, 60_000]),
    st.integers(0, 999),
)  # fmt: skip
def test_parts_on_disk_give_the_groups_of_brute_force(n_bits, n, radius, memory, seed):
    codes = similar_codes(np.random.default_rng(seed), n, n_bits)
    expected = [group for group in brute_force_groups(codes, radius, list(range(n))) if len(group) > 1]
    assert groups_of(dedup(codes, n_bits, radius, memory=memory)) == expected


def test_hashes_of_codes_that_are_equal_by_chance_merge_nothing(monkeypatch):
    codes = similar_codes(np.random.default_rng(0), 300, 40)
    expected = groups_of(dedup(codes, 40, 1))
    for module in (near_pairs, self_join):
        monkeypatch.setattr(module, "hashed", lambda records, key: np.zeros(len(records), np.uint64))
    assert groups_of(dedup(codes, 40, 1)) == expected
    assert groups_of(dedup(codes, 40, 1, memory=9000)) == expected


@pytest.mark.parametrize("memory", ["40M", "2G"])
def test_a_million_equal_codes_are_not_compared_in_pairs(memory):
    codes = np.zeros((1_000_100, 8), np.uint8)
    codes[:100, 0] = np.arange(100) % 2
    codes[50:100, 7] = 255
    found = dedup(codes, 64, 1, memory=memory)
    assert np.diff(found.lims).tolist() == [1_000_050, 50]


def test_dense_codes_are_one_group():
    codes = np.arange(2**16, dtype=">u2")[:, None].view(np.uint8)
    assert [len(group) for group in dedup(codes, 16, 1)] == [2**16]
    assert [len(group) for group in dedup(codes[::2], 16, 2, memory="1M")] == [2**15]


def test_a_memory_map_is_read_in_blocks(tmp_path):
    codes = similar_codes(np.random.default_rng(1), 1000, 64)
    np.save(tmp_path / "codes.npy", codes)
    mapped = np.load(tmp_path / "codes.npy", mmap_mode="r")
    assert groups_of(dedup(mapped, 64, 2, memory=20_000)) == groups_of(dedup(codes, 64, 2))


@pytest.mark.parametrize("union_on_disk", [False, True])
def test_the_folder_of_the_work_is_removed_at_the_end(tmp_path, union_on_disk):
    codes = similar_codes(np.random.default_rng(1), 1000, 64)
    memory = 7000 if union_on_disk else 30_000
    found = dedup(codes, 64, 2, memory=memory, work=tmp_path / "work")
    assert groups_of(found) == groups_of(dedup(codes, 64, 2))
    assert not (tmp_path / "work").exists()


def in_killed_process(write_number, call):
    """Run ``call`` in a process that ends without cleaning up before, or within, its n-th write."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    writes = [0]
    original = work_store.write_npy

    def write_or_die(part, array):
        writes[0] += 1
        if writes[0] == write_number:
            if write_number % 2:
                part.write_bytes(b"half an array")
            os._exit(9)
        original(part, array)

    work_store.write_npy = write_or_die
    try:
        call()
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
@pytest.mark.parametrize("verified", [False, True])
def test_work_that_was_killed_is_resumed_with_the_same_groups(tmp_path, verified):
    rng = np.random.default_rng(2)
    codes, work = similar_codes(rng, 2000, 64, 0.5), tmp_path / "work"
    X = np.unpackbits(codes, axis=1) + rng.normal(size=(2000, 64)).round() / 100

    def call(**options):
        if verified:
            return verified_duplicates(codes, 64, X, cosine=0.97, radius=2, **options)
        return dedup(codes, 64, 2, **options)

    expected = call()
    killed = 0
    for moment in range(1, 5 * MOMENTS, 5):
        code = in_killed_process(moment, lambda: call(memory=40_000, work=work))
        assert code == 9 or (code == 0 and killed)
        killed += code == 9
        if moment % 2:  # resume at once, or after another process was killed, too
            found = call(memory=40_000, work=work)
            assert groups_of(found) == groups_of(expected)
            assert not verified or found.pairs.tolist() == expected.pairs.tolist()
            assert not verified or found.candidates == expected.candidates
    assert killed >= MOMENTS - 3
    assert groups_of(call(memory=40_000, work=work)) == groups_of(expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_the_work_on_something_else_is_not_resumed(tmp_path):
    codes, work = similar_codes(np.random.default_rng(2), 2000, 64), tmp_path / "work"
    assert in_killed_process(7, lambda: dedup(codes, 64, 2, memory=40_000, work=work)) == 9
    with pytest.raises(ResumeError, match="work of a search with another radius"):
        dedup(codes, 64, 1, memory=40_000, work=work)
    with pytest.raises(ResumeError, match="work of a search of other codes"):
        dedup(codes[::-1], 64, 2, memory=40_000, work=work)
    with pytest.raises(ResumeError, match="another amount of memory"):
        dedup(codes, 64, 2, memory=80_000, work=work)
    found = dedup(codes[::-1], 64, 2, memory=40_000, work=work, restart=True)
    assert groups_of(found) == groups_of(dedup(codes[::-1], 64, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_a_resumed_search_says_so(tmp_path, caplog):
    codes, work = similar_codes(np.random.default_rng(2), 500, 64), tmp_path / "work"
    assert in_killed_process(7, lambda: dedup(codes, 64, 1, memory=20_000, work=work)) == 9
    with caplog.at_level("INFO", "manihash.note"):
        dedup(codes, 64, 1, memory=20_000, work=work)
        assert f"resuming the work in {work}" in caplog.text
        caplog.clear()
        dedup(codes, 64, 1, memory=20_000, work=work)
        assert "resuming" not in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")
def test_arrays_of_a_stage_are_discarded_after_a_crash_of_the_system(tmp_path, monkeypatch):
    codes, work = similar_codes(np.random.default_rng(2), 2000, 64), tmp_path / "work"
    assert in_killed_process(60, lambda: dedup(codes, 64, 2, memory=40_000, work=work)) == 9
    torn = sorted(work.glob("stage*.npy"))
    assert torn
    for file in torn:
        file.write_bytes(b"\0" * file.stat().st_size)
    monkeypatch.setattr(work_store, "_boot", lambda: "another start of the system")
    assert groups_of(dedup(codes, 64, 2, memory=40_000, work=work)) == groups_of(dedup(codes, 64, 2))


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ResumeError, match="holds other files, such as thesis"):
        dedup(np.zeros((3, 1), np.uint8), 8, work=tmp_path, restart=True)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_an_interrupt_says_where_the_work_is(tmp_path, monkeypatch):
    codes = similar_codes(np.random.default_rng(2), 500, 64)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(self_join, "task_of_join", interrupted)
    with pytest.raises(KeyboardInterrupt, match="run again to resume"):
        dedup(codes, 64, 2, work=tmp_path / "work")


def test_bits_beyond_the_code_are_found_in_any_block():
    codes = np.zeros((500, 1), np.uint8)
    codes[400] = 1
    with pytest.raises(ValueError, match="bits set beyond the first 7"):
        dedup(codes, 7, 1, memory=1)


@pytest.mark.parametrize(("text", "value"), [("2G", 2**31), ("1.5KiB", 1536), ("500m", 500 * 2**20), (7, 7)])
def test_sizes_of_memory_are_read(text, value):
    assert parse_memory(text) == value


@pytest.mark.parametrize("text", ["", "G", "many", "-1G", 0, 1.5])
def test_other_sizes_of_memory_are_refused(text):
    with pytest.raises(ValueError, match="memory must be"):
        parse_memory(text)


def test_long_codes_need_more_memory():
    assert fits_into_memory(10**7, 64, 2**31)
    assert not fits_into_memory(10**7, 4096, 2**31)
    assert groups_of(dedup(pack(np.eye(3, 4096)), 4096, 2)) == [[0, 1, 2]]


@pytest.mark.parametrize("memory", [100, "100"])
def test_memory_without_a_unit_is_refused(monkeypatch, memory):
    monkeypatch.setattr("manihash.search.duplicates.self_join.LEAST_MEMORY", 2**20)
    with pytest.raises(ValueError, match=r"100 bytes: did you mean 100M\?"):
        dedup(np.zeros((3, 1), np.uint8), 8, memory=memory)
