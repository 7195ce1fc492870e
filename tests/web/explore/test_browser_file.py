"""The self-contained file, and rows that are texts, in a real browser."""

import pytest
from web.explore.pages import ask, keep, rows_in
from web.serving import running

from manihash import HammingIndex

pytestmark = pytest.mark.extra


@pytest.mark.parametrize("model", ["a", "b", "hybrid"])
def test_the_file_works_without_a_server(visit, folder, tmp_path, exploration, digits, model):
    from command import run

    from manihash import IMH, Hybrid, load
    from manihash.base import KMeansBase
    from manihash.hashers import ITQ

    file = folder / f"{model}.mhash"
    if model == "hybrid":
        hybrid = Hybrid(n_bits=24, first=IMH(base=KMeansBase(60)), second=ITQ(), random_state=0)
        hybrid.fit(digits[0]).save(file)
    target = tmp_path / "explore.html"
    run("explore", str(folder / "X.npy"), f"--model={file}", f"--export={target}", "--quiet")
    page = visit(target.as_uri())
    ask(page, 17)
    hasher = load(file)
    layout = {"layout": hasher.layout_}
    codes = hasher.encode(digits[0])
    index = HammingIndex(codes, hasher.n_bits_, **layout)
    ids = index.search(codes[17:18], 21)[1][0]
    assert rows_in(page, "#by-code") == ids[ids != 17][:20].tolist()
    assert rows_in(page, "#by-vectors") == exploration.rows.nearest(digits[0][17], 20, 17)[0].tolist()
    page.keyboard.press("Escape")
    page.click("#codes-button")
    page.wait_for_selector("#duplicates .group, #duplicates .empty")
    page.click("#bits .bit:nth-child(3)")
    page.wait_for_selector("#bit-sides :text('bit 2 is 1')")
    assert page.is_hidden("#new-query")


def test_a_file_without_vectors_says_so(visit, folder, tmp_path, exploration, monkeypatch):
    from manihash.web.explore import export

    monkeypatch.setattr(export, "_MOST_NEIGHBOR_ROWS", 100)
    notes = export.write_file(exploration, tmp_path / "explore.html")
    assert notes == ["answers by vectors are left out (more than 100 rows)"]
    page = visit((tmp_path / "explore.html").as_uri())
    page.click("#random")
    page.wait_for_selector("#by-vectors .empty:has-text('This file has no original vectors')")
    page.wait_for_selector("#by-code .tile")


def test_texts_are_shown_as_texts(visit, folder, tmp_path):
    arguments = [str(folder / "X.npy"), f"--model={folder / 'a.mhash'}", f"--texts={folder / 'texts.txt'}"]
    with running("-m", "manihash", "explore", *arguments, "--no-open", "--quiet") as server:
        page = visit(server.url)
        ask(page, 17)
        first = rows_in(page, "#by-code")[0]
        assert page.inner_text("#by-code .tile >> nth=0").startswith(f"text of row {first} <b>&amp;")
        assert page.locator("#legend .scale").count() == 1  # without labels, colored by bucket size
        keep(page, "texts")
