"""The self-contained file: complete, compact, and without any request."""

import json
import re
from base64 import b64decode

import numpy as np
import pytest

from manihash.web.explore import export
from manihash.web.explore.exploration import prepare
from manihash.web.explore.rows import explored_rows


@pytest.fixture(scope="module")
def page(exploration, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "explore.html"
    notes = export.write_file(exploration, path)
    assert notes == []
    return path.read_text("utf-8")


def content(page):
    return json.loads(re.search(r'id="content">(.*?)</script>', page, re.DOTALL)[1])


def test_the_file_requests_nothing(page):
    assert re.findall(r'(?:src|href)="(?!data:)[^"]*"', page) == []
    assert re.findall(r"^(?:import|export) ", page, re.MULTILINE) == []
    assert set(re.findall(r"https?://[^\s\"'`)]*", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_file_holds_the_arrays_of_the_page(page, exploration):
    for name, array in exploration.arrays.items():
        text = re.search(rf'id="array-{name}">(.*?)</script>', page, re.DOTALL)[1]
        assert b64decode(text) == array


def test_the_file_holds_the_nearest_rows_by_vectors(page, exploration, digits):
    k = content(page)["nearest"]["k"]
    text = re.search(r'id="array-neighbors">(.*?)</script>', page, re.DOTALL)[1]
    neighbors = np.frombuffer(b64decode(text), "<u4").reshape(-1, k)
    for row in (0, 17, 399):
        np.testing.assert_array_equal(neighbors[row], exploration.rows.nearest(digits[0][row], k, row)[0])


def test_every_bit_has_both_sides(page):
    for model, n_bits in zip(content(page)["bits"], (20, 70), strict=True):
        assert [bit["bit"] for bit in model] == list(range(n_bits))


def test_pictures_beyond_the_budget_are_left_out_with_a_note(exploration, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "PICTURE_BUDGET", 1000)
    notes = export.write_file(exploration, tmp_path / "small.html")
    assert notes == ["pictures of the first 0 rows only (0 MB of pictures)"]


def test_texts_cannot_end_the_script(exploration, digits, tmp_path):
    rows = explored_rows("digits", digits[0], texts=["</script><script>alert(1)</script>"] * 400)
    models = [("lsh", exploration.models[1].hasher)]
    export.write_file(prepare(rows, models, seed=0), tmp_path / "texts.html")
    page = (tmp_path / "texts.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert content(page)["texts"][0] == "</script><script>alert(1)</script>"
