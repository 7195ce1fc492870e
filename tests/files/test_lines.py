"""Lines of text files end where editors end them."""

import pytest

from manihash.cli._inputs import read_labels
from manihash.errors import DataFileError
from manihash.files.csv import read_lines
from manihash.files.id_files import read_ids

WITHIN = ["a\u2028b", "c\x0cd", "e\x1cf\x1dg\x1eh", "i\x85j\u2029k\x0bl", "m\rn", ""]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_only_line_feeds_end_a_line(tmp_path, end, last):
    path = tmp_path / "texts.txt"
    path.write_bytes(
        (b"\xef\xbb\xbf" if last else b"") + end.join([*WITHIN, "z"]).encode() + end.encode() * last
    )
    assert read_lines(path) == [*WITHIN, "z"]
    assert read_ids(str(path)).tolist() == [*WITHIN, "z"]
    assert len(read_labels(str(path), 7)) == 7


def test_carriage_returns_end_lines_if_there_are_no_line_feeds(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a\rb\x0cc\r")
    assert read_lines(path) == ["a", "b\x0cc"]
    path.write_bytes(b"")
    assert read_lines(path) == []


def test_text_that_is_not_utf_8_is_refused_with_its_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(b"a\nb\xff\n")
    with pytest.raises(DataFileError, match="line 2 is not valid UTF-8"):
        read_lines(path)
