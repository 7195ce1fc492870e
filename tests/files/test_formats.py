"""Data files: arrays are read back as written; damaged files and wrong formats are refused."""

import gzip
import re
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command import full_disk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from manihash import open_vectors
from manihash.errors import DataFileError
from manihash.files.formats import read, split_key, write

h5py = pytest.importorskip("h5py")

EXTENSIONS = ["npy", "npz", "fvecs", "ivecs", "bvecs", "idx", "idx.gz", "hdf5", "h5", "parquet", "csv"]
ANY = ("u1", "i1", "i2", "i4", "f4", "f8")
TYPES = {
    "npy": (*ANY, "bool", "f2", "u8", ">f4"),
    "npz": (*ANY, "bool", "f2", "i8"),
    "hdf5": (*ANY, "i8"),
    "parquet": (*ANY, "i8", "u2"),
    "idx": (*ANY, ">i4"),
    "idx.gz": (*ANY, ">f8"),
    "fvecs": ("f4", ">f4", "u1", "i2"),
    "ivecs": ("i4", "u2", "i8"),
    "bvecs": ("u1", "i1", "i8"),
    "csv": (*ANY, "f2"),
}
SETTINGS = {
    "max_examples": 40,
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}


@st.composite
def arrays_for(draw: st.DrawFn, extension: str) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(TYPES[extension])))
    two_dims = extension in ("fvecs", "ivecs", "bvecs", "csv", "parquet")
    shape = draw(st_np.array_shapes(min_dims=2 if two_dims else 1, max_dims=2 if two_dims else 4, max_side=9))
    elements = None
    if dtype.kind == "f":
        elements = st.floats(width=8 * dtype.itemsize, allow_nan=False)
    elif extension in ("ivecs", "bvecs"):
        top = 2**15 - 1 if extension == "ivecs" else 127
        elements = st.integers(0, top)
    return draw(st_np.arrays(dtype, shape, elements=elements))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_full_disk_raises_an_error_and_keeps_the_old_file(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{extension}"
    dtype = {"fvecs": np.float32, "ivecs": np.int32}.get(extension, np.uint8)
    write(path, np.zeros((2, 3), dtype))
    before = path.read_bytes()
    large = np.random.default_rng(0).integers(0, 256, (9000, 8)).astype(dtype)
    why = r"(File too large|\d+ requested and \d+ written)"  # the latter is numpy's message
    message = rf"{re.escape(f'cannot write {path}')}: {why}\. Free disk space, or choose another target"
    with full_disk(20_000), pytest.raises(OSError, match=message):
        write(path, large)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("extension", TYPES)
@settings(**SETTINGS)
@given(draw=st.data())
def test_what_is_written_is_read_back(extension: str, draw: st.DataObject, tmp_path: Path) -> None:
    array = draw.draw(arrays_for(extension))
    path = tmp_path / f"vectors.{extension}"
    write(path, array)
    back = read(path)
    np.testing.assert_array_equal(back.astype(array.dtype), array)
    assert back.dtype.isnative
    if extension in ("npy", "npz", "hdf5", "parquet", "idx", "idx.gz"):
        assert back.dtype == array.dtype.newbyteorder("=")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", ["npy", "fvecs", "ivecs", "bvecs", "idx"])
def test_these_formats_are_memory_mapped_and_read_only(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{extension}"
    write(path, np.arange(12, dtype="u1").reshape(4, 3))
    rows = read(path)
    assert isinstance(rows, np.memmap)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows[::2, 1:], [[1, 2], [7, 8]])


def test_fvecs_has_the_layout_of_corpus_texmex(tmp_path: Path) -> None:
    write(tmp_path / "two.fvecs", [[1.0, 2.0], [3.0, 4.0]])
    assert (tmp_path / "two.fvecs").read_bytes() == struct.pack("<iffiff", 2, 1, 2, 2, 3, 4)
    write(tmp_path / "two.bvecs", np.array([[1, 2], [3, 4]]))
    assert (tmp_path / "two.bvecs").read_bytes() == struct.pack("<iBBiBB", 2, 1, 2, 2, 3, 4)


def test_idx_has_the_layout_of_mnist(tmp_path: Path) -> None:
    write(tmp_path / "t10k-labels-idx1-ubyte", np.array([5, 0], np.uint8))
    assert (tmp_path / "t10k-labels-idx1-ubyte").read_bytes() == b"\0\0\x08\x01\0\0\0\2\5\0"


def test_a_gzipped_file_does_not_depend_on_when_or_where_it_was_written(tmp_path: Path) -> None:
    for name in ("a.idx.gz", "b.idx.gz"):
        write(tmp_path / name, np.arange(5, dtype=np.uint8))
    assert (tmp_path / "a.idx.gz").read_bytes() == (tmp_path / "b.idx.gz").read_bytes()


def test_the_files_of_mnist_are_read_under_their_original_names(data_folder: Path) -> None:
    images = read(data_folder / "mnist/t10k-images-idx3-ubyte.gz")
    assert images.shape == (10000, 28, 28)
    assert images.dtype == np.uint8


def test_hdf5_in_the_layout_of_ann_benchmarks_gives_train_without_a_key(tmp_path: Path) -> None:
    path = tmp_path / "set.hdf5"
    write(path, {"train": np.ones((3, 2), "f4"), "test": np.zeros((1, 2), "f4"), "neighbors": [[2, 0, 1]]})
    assert read(path).shape == (3, 2)
    np.testing.assert_array_equal(read(f"{path}:neighbors"), [[2, 0, 1]])
    with h5py.File(path) as file:
        assert dict(file.attrs) == {
            "type": "dense",
            "distance": "euclidean",
            "dimension": 2,
            "point_type": "float",
        }


def test_hdf5_that_refers_to_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    path = tmp_path / "set.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("train", (4,), "f4", external=[(str(tmp_path / "secret"), 0, 16)])
        file["test"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "train")
    with pytest.raises(DataFileError, match="other files"):
        read(path)
    with pytest.raises(DataFileError, match="holds the arrays: train"):
        read(path, key="test")


def test_an_npz_with_several_arrays_needs_a_key(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    write(path, {"file": np.ones(2), "query": np.zeros(3)})
    with pytest.raises(DataFileError, match=r"file, query; no key was given.*'set\.npz:key'"):
        read(path)
    with pytest.raises(DataFileError, match="got the key 'base'"):
        read(path, key="base")
    np.testing.assert_array_equal(read(f"{path}:query"), np.zeros(3))
    np.testing.assert_array_equal(np.load(path)["file"], np.ones(2))


def test_a_key_after_a_colon_is_split_from_the_path(tmp_path: Path) -> None:
    assert split_key("a/b.npz:X") == (Path("a/b.npz"), "X")
    assert split_key("C:/b.npz") == (Path("C:/b.npz"), None)
    assert split_key("b.npy:X") == (Path("b.npy:X"), None)
    assert split_key("b.h5:test", "test") == (Path("b.h5"), "test")
    with pytest.raises(ValueError, match="two keys"):
        split_key("b.h5:test", "train")
    odd = tmp_path / "b.npz:X"
    odd.touch()
    assert split_key(odd) == (odd, None)
    write(f"{tmp_path}/c.npz:codes", [1, 2])
    np.testing.assert_array_equal(read(tmp_path / "c.npz", key="codes"), [1, 2])


def test_csv_is_read_with_and_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for text in ("1,2\n3,4\n", "width,height\n1,2\n3,4", "\ufeffa,b\r\n1,2\r\n3,4\r\n"):
        path.write_text(text, encoding="utf-8", newline="")
        np.testing.assert_array_equal(read(path), [[1, 2], [3, 4]])


@pytest.mark.parametrize("text", ["", "a,b\n", "1,2\n3\n", "1,2\n3,x\n", "1,2\n3,\n"])
def test_csv_that_is_not_a_table_of_numbers_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match="table of numbers"):
        read(path)


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_truncated_file_is_refused_by_name(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{extension}"
    write(path, np.arange(6, dtype="u1").reshape(2, 3))
    whole = path.read_bytes()
    one_row = len(whole) // 2 if extension.endswith("vecs") else None
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        if size == one_row or (extension == "csv" and size > 0):
            continue
        path.write_bytes(whole[:size])
        with pytest.raises(DataFileError, match=path.name):
            read(path)


@pytest.mark.parametrize("extension", EXTENSIONS)
@settings(**SETTINGS)
@given(noise=st.binary(max_size=200), at=st.integers(0, 60))
def test_noise_in_a_file_gives_an_array_or_a_data_file_error(
    extension: str, noise: bytes, at: int, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{extension}"
    write(path, np.arange(6, dtype="u1").reshape(2, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    with suppress(DataFileError):
        assert isinstance(read(path), np.ndarray)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.fvecs", struct.pack("<if", -1, 0.0), "-1 values"),
        ("a.fvecs", struct.pack("<if", 2**31 - 1, 0.0), "truncated or damaged"),
        ("a.fvecs", struct.pack("<ifif", 1, 0.0, 2, 0.0), "row 1 has 2 values, row 0 has 1"),
        ("a.idx", b"\0\0\x08\x04" + b"\xff" * 16, "promises"),
        ("a.idx", b"\0\0\x08\x03" + b"\0" * 4 + b"\xff" * 8, "not a complete idx file"),
        ("a.idx.gz", gzip.compress(b"\0\0\x08\x04" + b"\xff" * 16, mtime=0), "promises"),
        ("a.idx.gz", gzip.compress(b"\0\0\x08\x01\0\0\0\2abc", mtime=0), "got more"),
        ("a.idx", b"\0\0\x07\x01\0\0\0\1a", "not an idx file"),
    ],
)
def test_a_wrong_header_is_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read(path)


def test_python_objects_and_text_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}], object))
    np.savez(tmp_path / "o.npz", o=np.array([{}], object), text=np.array(["a"]))
    for path in ("o.npy", "o.npz:o"):
        with pytest.raises(DataFileError, match="Python objects"):
            read(f"{tmp_path}/{path}")
    with pytest.raises(DataFileError, match="real numbers"):
        read(f"{tmp_path}/o.npz:text")


def test_an_unknown_extension_lists_the_known_ones(tmp_path: Path) -> None:
    for act in (lambda: read("x.feather"), lambda: write(tmp_path / "x.feather", [1])):
        with pytest.raises(ValueError, match=r"\.npy, \.npz, \.fvecs.*not '\.feather'"):
            act()


def test_a_missing_file_and_a_superfluous_key_are_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no file at nowhere\.npy"):
        read("nowhere.npy")
    with pytest.raises(ValueError, match="remove the key"):
        read("nowhere.npy", key="X")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("a.fvecs", np.zeros(3)),
        ("a.fvecs", np.zeros((0, 3))),
        ("a.bvecs", np.array([[256]])),
        ("a.ivecs", np.array([[0.5]])),
        ("a.idx", np.zeros(3, np.int64)),
        ("a.csv", np.zeros((2, 2, 2))),
        ("a.npy", np.array(["a"])),
        ("a.npy", {"X": np.zeros(2)}),
    ],
)
def test_an_array_that_a_format_cannot_hold_is_refused_and_the_old_file_is_kept(
    name: str, array: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="got"):
        write(path, array)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_target_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"cannot write .*Choose a target"):
        write(tmp_path / "no such folder" / "a.npy", np.zeros(3))


def test_an_interrupt_while_writing_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.npy", np.zeros(3))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_a_sparse_matrix_with_an_index_out_of_range_is_refused(kind: str, tmp_path: Path) -> None:
    X = sp.csr_matrix(np.eye(6)).asformat(kind)
    X.indices[3] = 10**9
    sp.save_npz(tmp_path / "X.npz", X)
    with pytest.raises(DataFileError, match=r"X\.npz"):
        open_vectors(tmp_path / "X.npz")


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (0,)])
def test_an_array_without_rows_of_numbers_is_refused_with_its_shape(tmp_path, shape):
    np.save(tmp_path / "X.npy", np.zeros(shape))
    with pytest.raises(DataFileError, match=re.escape(f"an array of shape {shape}")):
        open_vectors(tmp_path / "X.npy")
