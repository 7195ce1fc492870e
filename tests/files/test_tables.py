"""CSV and wide Parquet files as pandas writes them: headers and index columns are not values."""

import logging

import numpy as np
import pytest

from manihash import open_vectors
from manihash.datasets import read, write
from manihash.errors import DataFileError

X = np.random.default_rng(0).normal(size=(20, 5)).round(3)
WHOLE = np.random.default_rng(0).integers(0, 255, (20, 5))


def lines(X, header=None, index=False):
    """The lines of a CSV file in the layout of pandas."""
    rows = [
        ",".join(([str(i)] if index else []) + [repr(v) for v in row]) for i, row in enumerate(X.tolist())
    ]
    return "\n".join(([] if header is None else [header]) + rows) + "\n"


@pytest.fixture
def notes(caplog):
    caplog.set_level(logging.INFO, logger="manihash.note")
    return caplog


@pytest.mark.parametrize("values", [X, WHOLE], ids=["fractions", "integers"])
@pytest.mark.parametrize(
    ("header", "index", "said"),
    [
        (None, False, ""),
        ("a,b,c,d,e", False, ""),
        ("0,1,2,3,4", False, "header"),
        ('"0","1","2","3","4"', False, "header"),
        (",0,1,2,3,4", True, "index"),
        (",a,b,c,d,e", True, "index"),
        ("Unnamed: 0,a,b,c,d,e", True, "index"),
        ("id,a,b,c,d,e", True, "index"),
        (None, True, "index"),
    ],
)
def test_header_and_index_of_pandas_are_not_values(tmp_path, notes, values, header, index, said):
    path = tmp_path / "x.csv"
    path.write_text(lines(values, header, index))
    np.testing.assert_array_equal(open_vectors(path), values)
    assert (said in notes.text) if said else not notes.text


def test_an_index_of_text_is_left_out(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",a,b\nimg_1,0.5,1\nimg_2,0.25,2\n")
    np.testing.assert_array_equal(read(path), [[0.5, 1], [0.25, 2]])


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("0,1,2,3\n7,7,7,7\n", {}, 1),
        ("0,1,2,3\n7,7,7,7\n", {"header": False}, 2),
        ("0,1\n7,7\n", {}, 2),
        ("0,1\n7,7\n", {"header": True}, 1),
        ("0,1,2,3\n4,5,6,7\n", {}, 2),
        ("0,1\n0.5,7\n", {}, 1),
        ("nan,1\n7,7\n", {}, 2),
    ],
)
def test_the_first_line_is_a_header_if_it_numbers_the_columns_or_if_the_caller_says_so(
    tmp_path, text, options, rows
):
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert len(read(path, **options)) == rows


@pytest.mark.parametrize("gap", ["NA", "", " ", "N/A", "null", "None", "?", "-", "<NA>", "#N/A"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_gap_in_the_first_row_is_an_error_and_not_a_header(tmp_path, gap, place):
    path = tmp_path / "x.csv"
    fields = ["1.5", "2.5", "3.5"]
    fields[place] = gap
    path.write_text(",".join(fields) + "\n4.5,5.5,6.5\n7.5,8.5,9.5\n")
    with pytest.raises(DataFileError, match=rf"first line has no value in column {place + 1} .*header=True"):
        read(path)
    assert len(read(path, header=True)) == 2


@pytest.mark.parametrize(
    ("top", "rows"),
    [
        ("a,,c", "1,2,3"),
        ("NA,b,c", "1,2,3"),
        (",0.5,1.5", "0,2,3"),
        (",0.5,1.5", "img,2,3"),
        ("a,1,2", "1,2,3"),
    ],
)
def test_names_in_the_first_line_make_it_a_header(tmp_path, top, rows):
    path = tmp_path / "x.csv"
    path.write_text(f"{top}\n{rows}\n")
    assert len(read(path)) == 1


def test_a_header_with_fractions_is_noted(tmp_path, notes):
    path = tmp_path / "x.csv"
    path.write_text("1.5,2..5,3.5\n4,5,6\n")
    assert read(path).shape == (1, 3)
    assert "taken as a header because of '2..5', though it holds 1.5" in notes.text


def test_the_caller_decides_about_the_index_column(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("9,1,2\n8,3,4\n")
    np.testing.assert_array_equal(read(path, index_column=True), [[1, 2], [3, 4]])
    path.write_text(lines(X, index=True))
    assert read(path, index_column=False).shape == (20, 6)
    path.write_text("1\n2\n")
    with pytest.raises(DataFileError, match="single column"):
        read(path, index_column=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_written_tables_are_read_back_even_if_they_look_numbered(tmp_path, dtype):
    path = tmp_path / "x.csv"
    numbered = np.arange(100).reshape(20, 5).astype(dtype)
    numbered[1:, 1:] = 3
    numbered[:, 0] = np.arange(20)
    for array in (numbered, numbered[:1], numbered[:, :1]):
        write(path, array)
        np.testing.assert_array_equal(read(path), array)


@pytest.mark.parametrize("text", ['"a\n', "\x00,1\n", "1,2\n3\n", "\n\n", "", "a,b\n"])
def test_damaged_tables_raise_a_clear_error(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match="not a table of numbers"):
        read(path)


class TestWideParquet:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "x.parquet"

    def save(self, path, columns, index=()):
        """Write a table in pandas' layout."""
        import json

        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        table = pa.table(columns)
        pq.write_table(
            table.replace_schema_metadata({"pandas": json.dumps({"index_columns": list(index)})}), path
        )

    def test_one_column_per_feature_is_accepted(self, path, notes):
        self.save(path, {str(j): X[:, j] for j in range(5)})
        np.testing.assert_array_equal(read(path), X)
        np.testing.assert_array_equal(open_vectors(path)[3:7], X[3:7])
        assert "5 columns of numbers are taken as features" in notes.text

    def test_labels_ids_text_and_the_index_of_pandas_are_left_out_with_a_note(self, path, notes):
        others = {"label": np.arange(20) % 3, "ID": np.arange(20), "name": ["x"] * 20}
        others["__index_level_0__"] = np.arange(20)
        self.save(path, {f"f{j}": X[:, j] for j in range(5)} | others, ["__index_level_0__"])
        np.testing.assert_array_equal(read(path), X)
        np.testing.assert_array_equal(read(path, key="label"), np.arange(20) % 3)
        assert "left out: label, ID, name, __index_level_0__" in notes.text
        assert read(path, index_column=False).shape == (20, 6)

    def test_types_are_promoted_and_a_null_names_its_row(self, path):
        self.save(path, {"a": WHOLE[:, 0].astype(np.int8), "b": X[:, 0].astype(np.float32)})
        assert open_vectors(path).dtype == np.float32
        self.save(path, {"a": [1.0, None], "b": [1.0, 2.0]})
        with pytest.raises(DataFileError, match="row 1 of columns a, b is null in a"):
            read(path)

    def test_a_wide_file_without_numbers_is_refused_in_a_short_message(self, path):
        self.save(path, {f"column {j}": ["x"] for j in range(400)})
        with pytest.raises(DataFileError) as raised:
            read(path)
        assert len(str(raised.value)) < 300 + len(str(path))


@pytest.mark.parametrize("field", ["5%", "1D5", "0x10", "+1_000"])
def test_a_header_that_looks_like_a_number_is_noted(tmp_path, notes, field):
    path = tmp_path / "x.csv"
    path.write_text(f"{field},2,3\n4,5,6\n")
    assert read(path).shape == (1, 3)
    assert f"the first line is taken as a header: {field!r} is not a number" in notes.text


@pytest.mark.parametrize("options", [{}, {"header": True}])
@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("a,b", "the first line has 2 fields and the rows have 3: it is taken as a header"),
        ("measured by hand", "the first line has 1 field and the rows have 3: it is taken as a header"),
        ("a,b,c,", "the first line has 4 fields and the rows have 3: it is taken as a header"),
        ("a,b,c", ""),
    ],
)
def test_a_header_of_another_width_than_the_rows_is_noted(tmp_path, notes, top, said, options):
    path = tmp_path / "x.csv"
    path.write_text(f"{top}\n1,2,3\n4,5,6\n")
    np.testing.assert_array_equal(read(path, **options), [[1, 2, 3], [4, 5, 6]])
    assert (said in notes.text) if said else not notes.text
