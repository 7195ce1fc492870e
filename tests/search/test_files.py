"""Index files: atomic writes, memory maps, and no crash for any content."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st

from manihash.code_layout import FIRST_BITS, CodeLayout
from manihash.codes import pack
from manihash.search import DamagedIndexError, HammingIndex, files
from manihash.search.buckets import DenseOffsets


def example(ids=None, n_bits=21, n=300):
    rng = np.random.default_rng(0)
    bits = (rng.random((40, n_bits)) < 0.5)[rng.integers(0, 40, n)]
    return HammingIndex(pack(bits), n_bits, ids), pack(rng.random((25, n_bits)) < 0.5)


IDS = [None, np.random.default_rng(1).permutation(5000)[:300] - 700]


@pytest.mark.parametrize("ids", IDS, ids=["positions", "ids"])
@pytest.mark.parametrize("mmap", [True, False])
def test_a_loaded_index_has_the_results_of_the_saved_one(tmp_path, ids, mmap):
    index, queries = example(ids)
    index.remove(index.ids[::9])
    index.add(queries[:3])
    index.save(tmp_path / "codes.mhx")
    loaded = HammingIndex.load(tmp_path / "codes.mhx", mmap=mmap)
    loaded.verify()
    assert loaded.n_bits == 21
    np.testing.assert_array_equal(loaded.ids, index.ids)
    for ask in (lambda i: i.search(queries, 30), lambda i: i.within(queries, 6), lambda i: [i.add(queries)]):
        for a, b in zip(ask(loaded), ask(index), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_mapped_index_can_be_saved_to_its_own_file(tmp_path):
    index, queries = example()
    path = tmp_path / "codes.mhx"
    index.save(path)
    loaded = HammingIndex.load(path)
    loaded.update(queries, np.arange(25))
    loaded.save(path)
    index.update(queries, np.arange(25))
    for one in (loaded, HammingIndex.load(path)):
        np.testing.assert_array_equal(one.search(queries, 50)[1], index.search(queries, 50)[1])
    assert [p.name for p in tmp_path.iterdir()] == ["codes.mhx"]


def test_an_emptied_index_can_be_saved(tmp_path):
    index, queries = example()
    index.remove(index.ids)
    index.save(tmp_path / "empty.mhx")
    loaded = HammingIndex.load(tmp_path / "empty.mhx")
    loaded.verify()
    assert len(loaded) == 0
    assert loaded.add(queries[:2]).tolist() == [300, 301]


def test_an_index_file_is_a_safetensors_file(tmp_path):
    from safetensors.numpy import load_file

    index, _ = example(IDS[1])
    index.save(tmp_path / "codes.mhx")
    arrays = load_file(tmp_path / "codes.mhx")
    np.testing.assert_array_equal(arrays["ids"], index.ids)
    assert arrays["codes"].shape == (40, 4)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    index, _ = example()
    path = tmp_path / "codes.mhx"
    index.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)  # the last step before the new file replaces the old one
    with pytest.raises(OSError, match="disk full"):
        index.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["codes.mhx"]


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path):
    index, _ = example()
    with (
        full_disk(1000),
        pytest.raises(OSError, match=r"cannot write .*codes\.mhx: File too large. Free disk space"),
    ):
        index.save(tmp_path / "codes.mhx")
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_indexes_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no index file at"):
        HammingIndex.load(tmp_path / "none.mhx")
    with pytest.raises(FileNotFoundError, match="no index file at"):
        HammingIndex.load(tmp_path)
    (tmp_path / "text").write_text("not an index, but long enough for the header's length to be read from it")
    with pytest.raises(DamagedIndexError, match="not a complete index file"):
        HammingIndex.load(tmp_path / "text")
    with pytest.raises(ValueError, match="not loaded from a file"):
        example()[0].verify()


def test_a_model_file_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros((4, 4))}, tmp_path / "model", {"format": "manihash", "p": " " * 56})
    with pytest.raises(DamagedIndexError, match="model"):
        HammingIndex.load(tmp_path / "model")


def rewrite(path, change, *, sealed=True):
    """Change the header of a file, and by default seal it again as an attacker would."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    if sealed:
        header["__metadata__"].pop("header_sha256", None)
        header["__metadata__"]["header_sha256"] = files._seal(header)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["__metadata__"].update(n_bits="200"), "other arrays"),
        (lambda h: h["__metadata__"].update(n_bits="0"), "n_bits=0"),
        (lambda h: h["__metadata__"].update(n_bits="many"), "not a complete index file"),
        (lambda h: h["__metadata__"].update(next_id="-3"), "next_id=-3"),
        (lambda h: h["__metadata__"].update(version="5"), "upgrade manihash"),
        (lambda h: h["__metadata__"].update(**{FIRST_BITS: "0"}, weight="1"), "look_up_bits=0 is not"),
        (lambda h: h["__metadata__"].update(**{FIRST_BITS: "99"}, weight="1"), "=99 of 21"),
        (lambda h: h["__metadata__"].update(**{FIRST_BITS: "2"}, weight="nan"), "weight must be"),
        (lambda h: h["__metadata__"].update(**{FIRST_BITS: "2"}), "not a complete index file"),
        (lambda h: h["__metadata__"].update(format="other"), "a safetensors file, not an index file"),
        (lambda h: h["codes"].update(shape=[10**15, 3]), "other arrays"),
        (lambda h: h["rows"].update(shape=[-1]), "other arrays"),
        (lambda h: h["rows"].update(data_offsets=[0, 10**18]), "other arrays"),
        (lambda h: h["rows"].update(dtype="F32"), "other arrays"),
        (lambda h: h["codes"].update(shape="abc"), "not a complete index file"),
        (lambda h: h.pop("rows"), "not a complete index file"),
        (lambda h: h.update(more={"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}), "other arrays"),
        (lambda h: h.update(__metadata__=[]), "not a complete index file"),
    ],
)
def test_a_hostile_header_is_refused(tmp_path, change, message):
    index, _ = example()
    index.save(tmp_path / "codes.mhx")

    def keep_metadata(header):
        change(header)
        if not isinstance(header["__metadata__"], dict):
            header["__metadata__"] = {"format": files.FORMAT, "version": "1", "n_bits": []}

    rewrite(tmp_path / "codes.mhx", keep_metadata)
    with pytest.raises(DamagedIndexError, match=message):
        HammingIndex.load(tmp_path / "codes.mhx")


def test_a_changed_header_is_detected(tmp_path):
    index, _ = example()
    index.save(tmp_path / "codes.mhx")
    rewrite(tmp_path / "codes.mhx", lambda h: h["__metadata__"].update(n_bits="22"), sealed=False)
    with pytest.raises(DamagedIndexError, match="header was changed"):
        HammingIndex.load(tmp_path / "codes.mhx")


def test_a_truncated_file_is_refused_at_every_length(tmp_path):
    index, _ = example(n=20)
    index.save(tmp_path / "whole.mhx")
    content = (tmp_path / "whole.mhx").read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut.mhx").write_bytes(content[:length])
        with pytest.raises(DamagedIndexError):
            HammingIndex.load(tmp_path / "cut.mhx")


def test_verify_finds_a_changed_byte(tmp_path):
    index, _ = example(IDS[1])
    path = tmp_path / "codes.mhx"
    index.save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 8
    path.write_bytes(content)
    with pytest.raises(DamagedIndexError, match="checksum does not match"):
        HammingIndex.load(path).verify()


def uses_without_error(path):
    """Whether all methods of a loaded index succeed; errors must be those of a damaged file."""
    queries = example()[1]
    try:
        index = HammingIndex.load(path)
        rest = np.setdiff1d(np.arange(-5, 5), index.ids)[:2]
        index.search(queries, 20)
        index.search(queries, 20, asymmetric=np.ones((25, index.n_bits)))
        index.search(queries, 20, filter=np.arange(len(index)) % 2 == 0)
        for radius in (0, 2, 9, 21):
            index.within(queries, radius)
            index.within(queries, radius, filter=set(range(50)))
        index.stats()
        index.add(queries[: len(rest)], rest)
        index.search(queries, 400)
        index.remove(index.ids[:200])
        index.within(queries, 3)
        index.save(path.with_suffix(".again"))
        index.verify()
    except DamagedIndexError:
        return False
    except ValueError as error:
        assert any(known in str(error) for known in CALLER_ERRORS), error  # noqa: PT017
        return False
    return True


# Errors of stats() and remove() if a file has padding bits set or lists rows twice.
CALLER_ERRORS = ("bits set beyond the first", "in the index", "ids must be distinct")


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([0, 1]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=20),
    st.booleans(),
)
def test_random_bytes_in_a_file_cause_no_crash(kind, changes, in_body):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.mhx"
        example(IDS[kind])[0].save(path)
        content = bytearray(path.read_bytes())
        start = 8 + int.from_bytes(content[:8], "little") if in_body else 0
        before = bytes(content)
        for place, value in changes:
            content[start + place % (len(content) - start)] = value
        path.write_bytes(content)
        assert not uses_without_error(path) or bytes(content) == before


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", ["offsets", "rows", "codes", "ids"])
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1])
def test_invalid_arrays_with_a_correct_checksum_cause_no_crash(tmp_path, kind, name, value):
    index, _ = example(IDS[kind])
    buckets = index._snapshot.merged()
    array = getattr(buckets, name)
    if array is None:
        pytest.skip("no ids in this file")
    hostile = (
        array.dense().copy()
        if name == "offsets"
        else array.astype(np.int64 if name == "ids" else array.dtype)
    )
    hostile[1:-1:3] = value % 256 if name == "codes" else value
    object.__setattr__(buckets, name, DenseOffsets(hostile) if name == "offsets" else hostile)
    path = tmp_path / "codes.mhx"
    with files.written(path, files.IndexContent(buckets, 21, 300, None, CodeLayout(21), None, False)):
        pass
    uses_without_error(path)
