"""The paper's report: every item on the page and in its files, and a folder that is never half a report."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import paper_sample
import pytest
from html_elements import Elements

from manihash.hashers.recipes import recipe_names
from manihash.pages import curves, folder, plots
from manihash.pages.curves import Curve, Plot, Value
from reproduction.paper import report as paper
from reproduction.paper.data_files import points_csv
from reproduction.paper.report import report_files, write_report
from reproduction.paper.section import Cell, Claim, Pictures, Row, Section, Strip, Table

pytest.importorskip("matplotlib")

SECTIONS = paper_sample.sections()
SMALL = (Section("tab1", "Table 1", "lead", "data", claims=(Claim("c", "Table 1", "text", "ours", True),)),)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return report_files(SECTIONS, paper_sample.ABOUT)


@pytest.fixture(scope="module")
def html(files: dict[str, bytes]) -> str:
    return files["index.html"].decode()


def _rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(content.decode().splitlines()))


def _tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def _curve(n: int) -> Curve:
    return Curve("ITQ", "itq", (16.0,), (Value(1),) * n)


def _page(*sections: Section) -> str:
    return report_files(sections, {})["index.html"].decode()


def _with(table: Table) -> Section:
    return Section("tab1", "Table 1", "lead", "data", (table,))


def test_the_page_needs_nothing_but_itself_and_links_only_to_its_own_files(
    html: str, files: dict[str, bytes]
) -> None:
    elements = Elements(html)
    ids = {attributes["id"] for _, attributes in elements.found if "id" in attributes}
    for tag, attributes in elements.found:
        assert tag not in ("link", "script", "iframe", "object")
        assert attributes.get("src", "data:image/").startswith("data:image/")
        target = attributes.get("href", "#fig1")
        assert target[1:] in ids if target.startswith("#") else target in files
    assert "http" not in html
    assert "url(" not in html
    assert "@import" not in html


def test_every_file_of_the_report_is_linked_to(html: str, files: dict[str, bytes]) -> None:
    links = {attributes["href"] for tag, attributes in Elements(html).found if tag == "a"}
    assert set(files) - links == {"index.html"}


def test_an_experiment_is_a_section_under_its_id_and_in_the_navigation(html: str) -> None:
    elements = Elements(html)
    wanted = ["about", "summary", *(section.id for section in SECTIONS)]
    assert [a["id"] for tag, a in elements.found if tag == "section"] == wanted
    nav = html[html.index("<nav") : html.index("</nav>")]
    assert re.findall('href="#([^"]+)"', nav) == wanted
    assert ">Fig. 4</a>" in nav
    assert ">Table 1</a>" in nav
    assert ">Thm. 1</a>" in nav
    assert ">Ours</a>" in nav
    assert elements.open == []
    every = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(set(every)) == len(every)


def test_every_part_is_on_the_page_and_in_the_folder(html: str, files: dict[str, bytes]) -> None:
    text = Elements(html).text.replace("\u00a0", " ")
    for name, value in paper_sample.ABOUT.items():
        assert name in text
        assert value in text
    for section in SECTIONS:
        for words in (section.title, section.lead, section.data, *section.missing):
            assert words in text
        for claim in section.claims:
            for words in (claim.text, claim.place, claim.ours, claim.why):
                assert text.count(words) >= 2, "in the summary and in its section"
        for item in section.items:
            assert item.caption in text
            kinds = ("csv", "json") if isinstance(item, Table) else ("svg", "png")
            place = "tables" if isinstance(item, Table) else "figures"
            assert all(f"{place}/{item.name}.{kind}" in files for kind in kinds)
    assert 'role="note"' in html


def test_every_image_is_described(html: str) -> None:
    images = [attributes for tag, attributes in Elements(html).found if tag == "img"]
    assert images
    assert all(attributes["alt"] for attributes in images)


def test_text_from_outside_is_escaped_everywhere() -> None:
    evil = '<script>alert("x")</script>&'
    blank = np.zeros((4, 4), np.uint8)
    table = Table("t", evil, (evil,), (Row(evil, (evil,)),), evil)
    plot = Plot("p", evil, "x", "y", (Curve("<b>", "itq", (1.0,), (Value(1),)),))
    sheet = Pictures("s", evil, (Strip(evil, (blank, blank), (None, False)),))
    section = Section(
        "fig1", evil, evil, evil, (table, plot, sheet), (Claim("c", evil, evil, evil, None, evil),)
    )
    html = report_files([replace(section, missing=(evil,))], {evil: evil})["index.html"].decode()
    assert "<script" not in html
    assert not any(tag in ("script", "b") and a for tag, a in Elements(html).found)
    assert Elements(html).text.count(evil) >= 18
    assert unescape(html).count(evil) > Elements(html).text.count(evil), "in attributes too"


def test_the_summary_counts_the_claims(html: str, files: dict[str, bytes]) -> None:
    claims = [claim for section in SECTIONS for claim in section.claims]
    held = sum(claim.holds is True for claim in claims)
    assert f"{held} of {len(claims)} claims hold." in Elements(html).text
    document = json.loads(files["claims.json"])
    assert document["about"] == paper_sample.ABOUT
    assert document["counts"]["holds"] == held
    assert sum(document["counts"].values()) == len(claims)
    words = {True: "holds", False: "does not hold", None: "not measured"}
    wanted = [(c.id, c.place, c.text, c.ours, words[c.holds], c.why) for c in claims]
    keys = ("id", "place", "claim", "ours", "result", "why")
    for rows in (document["claims"], _rows(files["claims.csv"])):
        assert [tuple(row[key] for key in keys) for row in rows] == wanted
        assert rows[0]["section"] == "fig2"


def test_a_result_is_shown_in_words_and_not_by_color_alone(html: str) -> None:
    found = re.findall('<span class="result ([a-z]+)">([^<]+)</span>', html)
    assert set(found) == {("holds", "holds"), ("fails", "does not hold"), ("unknown", "not measured")}
    assert len(found) == 2 * sum(len(section.claims) for section in SECTIONS)


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        (True, "The one claim holds."),
        (False, "The one claim does not hold."),
        (None, "The one claim is not measured."),
    ],
)
def test_one_claim_makes_a_sentence(holds: bool | None, words: str) -> None:
    claim = Claim("c", "Table 1", "text", "ours", holds)
    assert words in _page(Section("tab1", "Table 1", "lead", "data", claims=(claim,)))


def test_tables_hold_the_values_in_full(files: dict[str, bytes]) -> None:
    table = next(item for section in SECTIONS for item in section.items if item.name == "tab2")
    assert isinstance(table, Table)
    document = json.loads(files["tables/tab2.json"])
    lines = iter(_rows(files["tables/tab2.csv"]))
    assert document["columns"] == list(table.columns)
    assert document["unit"] == "seconds"
    for row, written in zip(table.rows, document["rows"], strict=True):
        assert (written["title"], written["method"]) == (row.title, row.method)
        for column, cell, found in zip(table.columns, row.cells, written["cells"], strict=True):
            line = next(lines)
            assert (line["row"], line["column"], line["unit"]) == (row.title, column, "seconds")
            if isinstance(cell, str):
                assert found == {"text": cell}
                assert line["text"] == cell
                continue
            ours = cell.ours
            mean, spread, n = (ours.mean, ours.spread, ours.n) if ours else (None, None, 0)
            less = None if ours is None or cell.paper is None else ours.mean - cell.paper
            wanted = {"ours": mean, "spread": spread, "n": n, "paper": cell.paper, "difference": less}
            assert found == wanted
            assert {key: float(line[key]) if line[key] else None for key in wanted} == wanted
    assert next(lines, None) is None


def test_the_points_of_a_plot_are_in_its_csv_file() -> None:
    curve = Curve("ITQ", "itq", (16.0, 32.0), (Value(1 / 3, 0.25, 3), None))
    rows = _rows(points_csv(Plot("p", "", "bits", "MAP", (curve,), (("scan", 13.4),))))
    keys = ("curve", "method", "x", "y", "spread", "n")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("ITQ", "itq", "16.0", repr(1 / 3), "0.25", "3"),
        ("ITQ", "itq", "32.0", "", "", "0"),
        ("scan", "", "", "13.4", "", ""),
    ]


def test_a_cell_shows_ours_the_papers_number_and_the_difference() -> None:
    def shown(cell: Cell | str, digits: int = 2) -> str:
        table = Table("t", "caption", ("c",), (Row("r", (cell,)),), "%", digits)
        (found,) = re.findall("<td>(.*?)</td>", _page(_with(table)))
        return re.sub("<[^>]+>", "|", found)

    assert shown(Cell(Value(19.216, 0.314, 3), 19.5)) == "19.22| ± 0.31||paper 19.50 (−0.28)|"
    assert shown(Cell(Value(19.216), 19.0)) == "19.22|paper 19.00 (+0.22)|"
    assert shown(Cell(Value(19.216, 0.0, 3))) == "19.22| ± 0.00|"
    assert shown(Cell(None, 7.25), 1) == "–|paper 7.2|"
    assert shown(Cell(None)) == "–"
    assert shown(Cell(Value(float("nan")), 1.0)) == "–|paper 1.00|"
    assert shown(Cell(Value(1.0000001), 1.0)) == "1.00|paper 1.00 (0.00)|"
    assert shown("as text") == "as text"


def test_each_column_has_its_digits() -> None:
    cells = (Cell(Value(0.00052, 1e-6, 2)), Cell(Value(1.06)))
    found = _page(_with(Table("t", "caption", ("a", "b"), (Row("r", cells),), "s", (6, 1))))
    assert "0.000520<small> ± 0.000001</small>" in found
    assert "<td>1.1</td>" in found


def test_a_table_explains_its_numbers() -> None:
    def legend(*cells: Cell) -> str:
        columns = tuple("abc"[: len(cells)])
        return _page(_with(Table("t", "caption", columns, (Row("r", cells),), "%")))

    assert "Means over 3 runs" in legend(Cell(Value(1, 0.1, 3)))
    assert "Means over 1 to 5 runs" in legend(Cell(Value(1)), Cell(Value(1, 0.1, 5)))
    assert "Means over" not in legend(Cell(Value(1)))
    assert (
        "the paper prints" in legend(Cell(Value(1), 2.0)),
        "the paper prints" in legend(Cell(Value(1))),
    ) == (
        True,
        False,
    )
    assert "not measured here" in legend(Cell(None))


def test_the_same_report_gives_the_same_bytes(files: dict[str, bytes]) -> None:
    some = [section for section in SECTIONS if section.id in ("fig3", "fig6", "tab1")]
    again = report_files(some, paper_sample.ABOUT)
    assert again == report_files(some, paper_sample.ABOUT)
    same = [name for name in again if name.startswith(("figures/", "tables/"))]
    assert same
    assert all(again[name] == files[name] for name in same)


def test_the_page_stays_small(html: str) -> None:
    assert len(html) < 3_000_000


def test_a_report_without_claims_or_sections_says_so() -> None:
    assert "No experiment is in this report" in _page()
    bare = _page(Section("fig1", "Figure 1", "lead", ""))
    assert "No claim was checked" in bare
    assert "<b>Data. </b>" not in bare


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ((SMALL[0], SMALL[0]), "two sections of the report are named 'tab1'"),
        ((Section("../x", "", "", ""),), "got '../x' as the name of a section"),
        ((Section("summary", "", "", ""),), "cannot be named 'summary'"),
        ((_with(Table("a/b", "", (), (), "")),), "got 'a/b' as the name of a table"),
        (
            (_with(Table("t", "", ("c",), (Row("r", ()),), "")),),
            "row 'r' of t has 0 values, expected 1",
        ),
        ((_with(Table("t", "", ("c",), (), "", (1, 2))),), "the list of digits of t has 2 values"),
        (
            (Section("fig2", "", "", "", (Plot("p", "", "", "", (_curve(2),)),)),),
            "curve 'ITQ' of p has 2 values, expected 1",
        ),
        (
            (Section("fig6", "", "", "", (Pictures("p", "", (Strip("s", (), (None,)),)),)),),
            "strip 's' of p has 1 values, expected 0",
        ),
    ],
)
def test_invalid_sections_are_refused_before_anything_is_written(
    sections: tuple[Section, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        write_report(sections, tmp_path / "out", {})
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_written_and_its_page_named(tmp_path: Path, files: dict[str, bytes]) -> None:
    page = write_report(SMALL, tmp_path / "new" / "out", {"Date": "today"})
    assert page == tmp_path / "new" / "out" / "index.html"
    found = _tree(page.parent)
    assert set(found) == {"index.html", "claims.csv", "claims.json", "files.json"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]
    assert page.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_new_report_takes_the_place_of_the_old_and_leaves_the_users_files(tmp_path: Path) -> None:
    folder.replace_files(
        tmp_path, {"index.html": b"1", "figures/a.svg": b"1", "tables/t.csv": b"1"}, "index.html"
    )
    (tmp_path / "figures" / "mine.txt").write_text("mine")
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "x.json").write_text("{}")
    folder.replace_files(tmp_path, {"index.html": b"2", "figures/b.svg": b"2"}, "index.html")
    found = _tree(tmp_path)
    assert json.loads(found.pop("files.json"))["files"] == ["figures/b.svg", "index.html"]
    assert found == {
        "index.html": b"2",
        "figures/b.svg": b"2",
        "figures/mine.txt": b"mine",
        "trials/x.json": b"{}",
    }
    assert not (tmp_path / "tables").exists()
    assert not list(tmp_path.glob(".report*"))


@pytest.mark.parametrize("name", ["index.html", "figures/a.svg", "files.json"])
def test_a_file_that_is_not_ours_is_not_overwritten(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    target.parent.mkdir(exist_ok=True)
    target.write_text("mine")
    with pytest.raises(FileExistsError, match="choose another folder"):
        folder.replace_files(tmp_path, {"index.html": b"1", "figures/a.svg": b"1"}, "index.html")
    assert _tree(tmp_path) == {name: b"mine"}


def test_a_list_that_points_outside_the_folder_moves_nothing_there(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other.txt"
    out.mkdir()
    other.write_text("other")
    listed = ["../other.txt", str(other), "index.html"]
    (out / "files.json").write_text(json.dumps({"files": listed}))
    folder.replace_files(out, {"index.html": b"2"}, "index.html")
    assert other.read_text() == "other"
    assert (out / "index.html").read_bytes() == b"2"


def _failing_at(step: int, error: BaseException) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Let a function fail when it is called for the step-th time, and only then."""
    calls = iter(range(10_000))

    def failing(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if next(calls) == step:
                raise error
            return function(*arguments, **options)

        return call

    return failing


OLD = {"index.html": b"old", "claims.csv": b"old", "figures/a.svg": b"old", "tables/t.csv": b"old"}
NEW = {"index.html": b"new", "claims.csv": b"new", "figures/a.svg": b"new", "figures/b.svg": b"new"}
ERRORS = [OSError(28, "No space left on device"), KeyboardInterrupt()]


@pytest.mark.parametrize("error", ERRORS, ids=["full disk", "interrupt"])
@pytest.mark.parametrize("where", ["fsync", "rename", "replace", "mkdir"])
def test_the_old_report_is_complete_whichever_step_fails(
    where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    folder.replace_files(tmp_path, OLD, "index.html")
    before = _tree(tmp_path)
    home = os if where == "fsync" else Path
    for step in range(100):
        with monkeypatch.context() as patch:
            patch.setattr(home, where, _failing_at(step, error)(getattr(home, where)))
            caught_error = None
            try:
                folder.replace_files(tmp_path, NEW, "index.html")
            except type(error) as caught:
                caught_error = caught
        if caught_error is None:
            break
        assert _tree(tmp_path) == before
        assert isinstance(caught_error, KeyboardInterrupt) or f"report to {tmp_path}: No space left" in str(
            caught_error
        )
    assert step > 0, "it failed at least once"
    found = _tree(tmp_path)
    found.pop("files.json")
    assert found == NEW | {"mine.txt": b"mine"}


@pytest.mark.parametrize("error", ERRORS, ids=["full disk", "interrupt"])
@pytest.mark.parametrize("where", ["fsync", "rename"])
@pytest.mark.parametrize("made", [False, True], ids=["no folder", "empty folder"])
def test_a_first_report_that_fails_leaves_nothing(
    made: bool, where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if made:
        out.mkdir()
    home = os if where == "fsync" else Path
    with monkeypatch.context() as patch:
        patch.setattr(home, where, _failing_at(0, error)(getattr(home, where)))
        with pytest.raises(type(error)):
            folder.replace_files(out, NEW, "index.html")
    assert list(tmp_path.rglob("*")) == ([out] if made else [])


KILLED = """
import os, sys
from pathlib import Path
from manihash.pages import folder

left = int(sys.argv[2])

def until(move):
    def call(self, goal):
        global left
        if not left:
            os._exit(9)  # nothing runs after it: neither the undoing nor the removal of what was staged
        left -= 1
        return move(self, goal)
    return call

Path.rename, Path.replace = until(Path.rename), until(Path.replace)
folder.replace_files(sys.argv[1], {new!r}, "index.html")
"""


def test_a_process_killed_during_the_swap_leaves_one_complete_report_or_no_page(tmp_path: Path) -> None:
    def shown() -> dict[str, bytes]:
        hidden = ("files.json", ".report.")
        return {name: content for name, content in _tree(out).items() if not name.startswith(hidden)}

    pages = []
    for step in range(20):
        out = tmp_path / str(step)
        folder.replace_files(out, OLD, "index.html")
        killed = subprocess.run([sys.executable, "-c", KILLED.replace("{new!r}", repr(NEW)), out, str(step)])
        page = out / "index.html"
        pages.append(page.read_bytes() if page.exists() else None)
        if pages[-1] is not None:
            assert shown() == (OLD if pages[-1] == b"old" else NEW)
        folder.replace_files(out, NEW, "index.html")
        assert shown() == NEW
        if killed.returncode == 0:
            break
    assert killed.returncode == 0
    assert pages[0] == b"old"
    assert pages[-1] == b"new"
    assert None in pages


@pytest.mark.parametrize("name", ["index.html", "claims.csv"])
def test_a_folder_is_checked_before_the_work(name: str, tmp_path: Path) -> None:
    paper.check_target(tmp_path / "new" / "out")
    paper.check_target(tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_report(SMALL, tmp_path / "out", {})
    paper.check_target(tmp_path / "out")
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match=f"{name} was not written by a report"):
        paper.check_target(tmp_path)
    with pytest.raises(OSError, match=r"cannot write the report to .*choose another folder"):
        paper.check_target(tmp_path / name / "out")


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OSError, match=r"cannot write the report to .*out.*choose another folder"):
        write_report(SMALL, tmp_path / "out", {})
    assert (tmp_path / "out").read_text() == "mine"


def _texts(plot: Plot, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(plots._SETTINGS, "svg.fonttype", "none")
    return curves.draw(plot).svg.decode()


def test_a_plot_names_its_axes_curves_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    for section in SECTIONS:
        for plot in section.items:
            if not isinstance(plot, Plot) or plot.name not in ("fig2", "fig5-recall", "thm1"):
                continue
            svg = " ".join(unescape(re.sub("<[^>]+>", " ", _texts(plot, monkeypatch))).split())
            titles = [curve.title for curve in plot.curves] + [title for title, _ in plot.levels]
            for name in (plot.x_label, *plot.y_label.split(), *titles):
                assert name in svg


def test_a_band_is_drawn_only_where_there_is_a_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    def bands(*spreads: float | None) -> int:
        points = tuple(Value(10.0 + i, spread, 3) for i, spread in enumerate(spreads))
        curve = Curve("ITQ", "itq", tuple(16.0 * (i + 1) for i in range(len(points))), points)
        return _texts(Plot("p", "", "x", "y", (curve,)), monkeypatch).count('id="FillBetweenPolyCollection')

    assert bands(None, None, None) == 0
    assert bands(1.0, 1.0, 1.0) == 1
    assert bands(1.0, 1.0, None, 1.0, 1.0) == 2
    assert bands(None, 1.0, None) == 0


@pytest.mark.parametrize(
    "plot",
    [
        Plot("p", "", "x", "y", ()),
        Plot("p", "", "x", "y", (Curve("none", "itq", (16.0, 32.0), (None, None)),)),
        Plot("p", "", "x", "y", (Curve("one", "itq", (16.0,), (Value(0.0, 0.0, 3),)),)),
        Plot("p", "", "x", "y", (Curve("zero", "itq", (1.0, 2.0), (Value(0), Value(1))),), log_y=True),
        Plot("p", "", "x", "y", (Curve("$a_ <& $", "new", (1.0, 2.0), (Value(float("nan")), Value(-1))),)),
        Plot("p", "", "x", "y", (), (("level", 3.0),), log_x=True, log_y=True),
    ],
    ids=["no curve", "no value", "one point", "zero on a log axis", "odd", "level alone"],
)
def test_unusual_plots_are_drawn(plot: Plot) -> None:
    drawn = curves.draw(plot)
    assert drawn.svg.startswith(b"<?xml")
    assert drawn.png.startswith(b"\x89PNG")


def test_methods_compared_in_one_plot_differ_in_color_and_in_mark() -> None:
    for methods in (
        paper_sample.METHODS,
        ("lsh", *paper_sample.METHODS),
        (*paper_sample.EMBEDDINGS, "pcah"),
    ):
        looks = [plots.look(method) for method in methods]
        assert len({look.color for look in looks}) == len(looks)
        assert len({look.marker for look in looks}) == len(looks)
    assert plots.UNKNOWN not in map(plots.look, recipe_names())


def test_two_curves_of_one_method_differ_in_one_plot() -> None:
    points = (Value(1), Value(2))
    same = [Curve(str(i), "itq", (1.0, 2.0), points) for i in range(4)]
    styles = curves._styles(same)
    assert len({(str(style.dash), style.hollow) for style in styles}) == 4


def test_wrong_answers_have_a_frame_and_a_cross_on_the_page(html: str) -> None:
    wrong = sum(
        right is False
        for section in SECTIONS
        for item in section.items
        if isinstance(item, Pictures)
        for strip in item.strips
        for right in strip.right[1:]
    )
    elements = Elements(html)
    assert elements.classes("wrong") == wrong > 0
    assert sum(a.get("alt", "").endswith(", wrong") for _, a in elements.found) == wrong


def test_a_sheet_shows_every_picture_unchanged_and_frames_the_wrong_ones() -> None:
    image = pytest.importorskip("matplotlib.image")
    from io import BytesIO

    from reproduction.paper import sheets

    gray = [np.full((8, 8), 100 + 20 * i, np.uint8) for i in range(4)]
    color = np.zeros((8, 8, 3), np.uint8) + np.array([10, 200, 90], np.uint8)
    pictures = Pictures("p", "", (Strip("title", (*gray, color), (None, True, False, None, True)),))
    seen = np.round(255 * image.imread(BytesIO(sheets.draw(pictures).png)))[:, :, :3].astype(int)
    for level in (100, 120, 140, 160):
        assert (seen == level).all(axis=2).sum() > 500
    assert (seen == [10, 200, 90]).all(axis=2).sum() > 500
    assert (seen == [0xD1, 0, 0x1F]).all(axis=2).sum() > 100

    right = Pictures("p", "", (Strip("title", tuple(gray), (None, True, True, True)),))
    seen = np.round(255 * image.imread(BytesIO(sheets.draw(right).png)))[:, :, :3].astype(int)
    assert not (seen == [0xD1, 0, 0x1F]).all(axis=2).any()


def test_strips_without_pictures_are_drawn() -> None:
    empty = Section("fig1", "Figure 1", "", "", (Pictures("fig1", "", (Strip("none", (), ()),)),))
    assert "none" in _page(empty)
    assert "figures/fig1.png" in report_files([replace(empty, items=(Pictures("fig1", "", ()),))], {})


def test_writing_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []
    monkeypatch.setattr(paper.progress, "advance", lambda _, done, total: steps.append((done, total)))
    few = [section for section in SECTIONS if section.id in ("tab1", "tab2")]
    report_files(few, {})
    assert steps == [(1, 2), (2, 2)]
