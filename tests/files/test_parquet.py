"""Parquet files are read in any order, from any column of lists; errors name the row or the column."""

import errno
from pathlib import Path

import numpy as np
import pytest

from manihash import open_vectors
from manihash.errors import DataFileError
from manihash.files.formats import read, write
from manihash.files.stored import StoredRows
from manihash.hashers import LSH

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_parquet_is_read_in_any_order(tmp_path):
    write(tmp_path / "x.parquet", np.arange(200_000, dtype=np.int32).reshape(-1, 2))
    vectors = open_vectors(tmp_path / "x.parquet")
    for start, stop in [
        (0, 10),
        (5, 30_000),
        (99_990, 100_000),
        (65_530, 65_540),
        (0, 0),
        (70_000, 90_000),
        (3, 4),
    ]:
        assert np.array_equal(vectors[start:stop][:, 0], 2 * np.arange(start, stop))


def test_parquet_accepts_lists_of_any_kind_and_a_column_by_name(tmp_path):
    path = tmp_path / "x.parquet"
    table = {
        "id": [1, 2, 3],
        "a": [[1.0, 2.0]] * 3,
        "b": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
        "t": ["x", "y", "z"],
    }
    pq.write_table(pa.table(table), path)
    assert np.array_equal(open_vectors(f"{path}:b")[1:], [[4, 5, 6], [7, 8, 9]])
    assert np.array_equal(read(f"{path}:id"), [1, 2, 3])
    with pytest.raises(
        DataFileError, match=r"holds the arrays: a, b; no key was given. Name one: 'x.parquet:key'"
    ):
        open_vectors(path)
    with pytest.raises(DataFileError, match="one number per row"):
        open_vectors(f"{path}:id")
    with pytest.raises(DataFileError, match="t holds text"):
        open_vectors(f"{path}:t")


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0], None], r"row 9001 of v is null"),
        ([[1.0, 2.0], [1.0, None]], r"row 9001 of v contains a null"),
        ([[1.0, 2.0], [1.0]], "row 9001 of v has 1 numbers, and row 0 has 2"),
    ],
)
def test_a_gap_in_parquet_is_named_by_its_row(rows, message, tmp_path):
    pq.write_table(pa.table({"v": [[0.0, 0.0]] * 9000 + rows}), tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match=message):
        LSH(n_bits=4).fit(open_vectors(tmp_path / "x.parquet"))


def test_a_gap_in_the_first_row_of_parquet_is_not_called_damage(tmp_path):
    pq.write_table(pa.table({"v": [None, [1.0, 2.0]]}), tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match=r"row 0 of v is null"):
        open_vectors(tmp_path / "x.parquet")


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        (":caption", "caption holds text; expected numbers: name one of v, uneven, id$"),
        (":words", "words holds list<.*string>; expected numbers: name one of v, uneven, id$"),
        (":id", "id holds one number per row: expected a column of lists"),
        (":uneven", "row 1 of uneven has 2 numbers, and row 0 has 1"),
        (":nowhere", "holds the arrays: v, uneven, id; got the key 'nowhere'"),
    ],
)
def test_a_parquet_column_without_numbers_is_an_error_that_names_others(key, message, tmp_path):
    columns = {"caption": ["a", "b"], "words": [["a"], ["b"]], "id": [1, 2]}
    vectors = {"v": [[1.0, 2.0], [0.0, 1.0]], "uneven": [[1.0], [0.0, 1.0]]}
    pq.write_table(pa.table({**vectors, **columns}), tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match=message):
        LSH(n_bits=4).fit(open_vectors(f"{tmp_path}/x.parquet{key}"))


def test_the_error_for_a_parquet_file_without_vectors_names_its_columns(tmp_path):
    pq.write_table(pa.table({"caption": ["a", "b"], "id": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match="caption holds text, id holds int64; expected numbers: write"):
        open_vectors(tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["x.parquet", "x.hdf5"])
def test_the_error_for_a_damaged_file_says_so(name, tmp_path):
    write(tmp_path / name, np.ones((5000, 12), np.uint8))
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataFileError, match="truncated or damaged"):
        open_vectors(tmp_path / name)


def test_the_error_for_an_unreadable_disk_does_not_mention_damage():
    def read(start, stop):  # as h5py
        raise OSError(errno.EIO, "Can't synchronously read data (file read failed: time = ..., errno = 5)")

    rows = StoredRows(Path("x.hdf5"), (9, 2), np.float32, read)
    with pytest.raises(OSError, match=r"cannot read x\.hdf5: Input/output error$") as raised:
        rows[:5]
    assert raised.value.errno == errno.EIO
