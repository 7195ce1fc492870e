"""Reports: pages without outside resources, pictures, plots, and the measurements of the demo."""

import json
import re
import sys
from dataclasses import replace
from datetime import date
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from command import invoke
from html_elements import Elements

from manihash.advice.candidates import MANIFOLD, OTHER
from manihash.code_layout import CodeLayout
from manihash.codes import pack, unpack
from manihash.datasets import Dataset, load_dataset
from manihash.evaluation import evaluate
from manihash.hashers.recipes import recipe, recipe_names
from manihash.pages import curves, page, pictures, plots
from manihash.pages.curves import Curve, Plot, Value
from manihash.search import faiss_baselines
from reproduction.demo import measure
from reproduction.demo.drawn_codes import draw, nearest_codes
from reproduction.demo.measure import Demo, ShownCodes
from reproduction.demo.page import demo_page, headline

METHODS = ("imh-hybrid", "imh-tsne", "imh-le", "imh-pca")
LENGTHS = (8, 64)  # PCA of 16 dimensions gives no 64 bits
LENGTH_PLOT = Plot(
    "p",
    "",
    "code length, bits",
    "MAP, %",
    (Curve("IMH-tSNE", "imh-tsne", (16, 32), (Value(80.0), Value(85.0))),),
    (("l2 scan", 66.0),),
)


def rendered(source: str, **values: object) -> str:
    """A piece of a template that uses the macros of all pages."""
    start = '{% import "macros.html" as macros %}'
    return str(page.environment("reproduction.demo").from_string(start + source).render(values))


@pytest.fixture(scope="module")
def result() -> Demo:
    """The demo of 300 blurred pictures of three classes, 4 x 4 pixels each."""
    rng = np.random.default_rng(0)
    y = np.arange(330) % 3
    X = (rng.integers(0, 60, (330, 16)) + 120 * np.eye(3, 16, dtype=int)[y]).astype(np.uint8)
    data = Dataset("blots", X[30:], y[30:], X[:30], y[:30], "Blots, <made> up.", (4, 4))
    setup = measure.prepare(data, seed=0, base_size=70)
    scores = [measure.score(setup, method, bits) for method in METHODS for bits in LENGTHS]
    return measure.finish(setup, LENGTHS, measure.scan(setup), scores)


@pytest.fixture(scope="module")
def html(result: Demo) -> str:
    pytest.importorskip("matplotlib")
    return demo_page(result, date(2026, 1, 2))


def test_a_page_refers_to_nothing_outside_itself(html: str) -> None:
    for tag, attributes in Elements(html).found:
        assert tag not in ("link", "script", "iframe", "object")
        for name in ("src", "href", "srcset", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:image/"))
    assert "http" not in html
    assert "url(" not in html
    assert "@import" not in html


def test_every_section_has_an_id_and_is_linked_to(html: str) -> None:
    elements = Elements(html)
    ids = [attributes["id"] for tag, attributes in elements.found if tag == "section"]
    assert ids == ["answers", "codes", "plane", "base-set", "curves", "results", "own", "facts"]
    assert [a["href"] for tag, a in elements.found if tag == "a"] == [f"#{id}" for id in ids]
    assert elements.open == []


def test_every_image_of_the_page_is_described_or_described_with_its_group(html: str) -> None:
    pattern = r'<span class="tiles" role="img" aria-label="[^"]+">(?:<span class="tile">.*?</span>)*</span>'
    ungrouped = re.sub(pattern, "", html)
    assert all(attributes["alt"] for tag, attributes in Elements(ungrouped).found if tag == "img")


def test_text_is_escaped_everywhere(result: Demo) -> None:
    pytest.importorskip("matplotlib")
    evil = '<b onclick="x">&\'</b>'
    blank = np.zeros((4, 4), np.uint8)
    macros = (
        "{% call macros.section(t, t) %}{{ t }}{% endcall %}{{ macros.table([t], [[t, t]], t) }}"
        "{{ macros.plot(svg, t, t) }}{{ macros.definitions({t: t}) }}{{ macros.tile(pixels, t) }}"
        "{{ macros.tiles([pixels], t) }}"
    )
    elements = Elements(rendered(macros, t=evil, svg=b"", pixels=blank))
    assert not any(tag == "b" for tag, _ in elements.found)
    assert elements.text.count(evil) == 9
    data = replace(result.setup.data, name=evil, note=evil)
    no = dict.fromkeys(("map", "f1", "precision_at_10", "recall_at_10"))
    scores = tuple(replace(score, **no, reason=evil) for score in result.scores)
    evil_demo = replace(result, setup=replace(result.setup, data=data), scores=scores)
    html = demo_page(evil_demo, date(2026, 1, 2))
    assert "<b onclick" not in html
    assert Elements(html).text.count(evil) >= 5


def test_a_page_is_written_atomically(tmp_path: Path) -> None:
    page.write(tmp_path / "index.html", "<h1>ünï</h1>")
    assert (tmp_path / "index.html").read_text("utf-8") == "<h1>ünï</h1>"
    assert [file.name for file in tmp_path.iterdir()] == ["index.html"]


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (28, 28), (5, 7), (5, 7, 3)])
def test_a_png_has_the_pixels_it_was_made_of(shape: tuple[int, ...]) -> None:
    image = pytest.importorskip("matplotlib.image")
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    assert np.array_equal(np.round(255 * image.imread(BytesIO(pictures.png(pixels)))), pixels)


def test_ink_is_black_where_a_row_is_largest_and_white_where_it_is_zero() -> None:
    assert pictures.ink(np.array([0, 8, 16, 4]), (2, 2)).tolist() == [[255, 128], [0, 191]]
    assert pictures.ink(np.zeros(4), (2, 2)).tolist() == [[255, 255], [255, 255]]


def test_wrong_answers_are_framed_and_say_so(html: str) -> None:
    blank = np.zeros((8, 8), np.uint8)
    answers = [{"pixels": blank, "class": c, "relevant": c == "4"} for c in ("4", "9", "4")]
    query, searches = {"pixels": blank, "class": "4"}, [{"name": "by code", "answers": answers}]
    elements = Elements(rendered("{{ macros.answers_row(query, searches) }}", query=query, searches=searches))
    assert elements.classes("wrong") == 1
    alts = [attributes["alt"] for tag, attributes in elements.found if tag == "img"]
    assert alts == ["query of class 4", "class 4", "class 9, wrong", "class 4"]
    assert re.search(r"\.tile\.wrong \{ border-color: var\(--wrong\)", html)
    assert re.search(r'\.tile\.wrong::after \{ content: "\\2715"', html), "a cross, visible without color"


def test_the_page_frames_exactly_the_wrong_answers(result: Demo, html: str) -> None:
    shown = result.shown_queries
    wrong = sum(int((~found.relevant[shown, :10]).sum()) for found in (result.by_pixels, result.by_code))
    wrong += int((~result.by_code.relevant[shown[:2], :8]).sum())  # again beside their codes
    assert Elements(html).classes("wrong") == wrong


def test_the_page_shows_the_codes_of_queries_and_of_their_answers(result: Demo, html: str) -> None:
    codes, (query, *_) = result.codes, result.shown_queries
    layout = codes.layout
    assert layout.has_two_parts
    assert layout.has_fields
    drawn = nearest_codes(result)[0]
    first, second = layout.look_up_bits // 4, layout.look_up_bits % 4
    own = codes.queries[query].tobytes().hex()
    assert drawn[0]["code"].digits.replace(" ", "") == own
    assert drawn[0]["code"].digits == (own if second else f"{own[:first]} {own[first:]}")
    for shown, i in zip(drawn[1:], result.by_code.ids[query], strict=False):
        bits = unpack(np.stack([codes.queries[query], codes.rows[i]]), layout.n_bits)
        differ = bits[0] != bits[1]
        assert shown["code"].marks.count("M") == differ.sum()
        near = int(differ[: layout.look_up_bits].sum())
        assert shown["code"].about == f"{near} bits of the first part differ"
        filled = (shown["code"].first + shown["code"].second).count("M")
        assert filled == bits[1].sum() == layout.n_bits - shown["code"].zeros.count("M")
    assert f"code {drawn[0]['code'].digits}" in html


def test_a_code_of_one_part_has_no_gap_and_counts_bits() -> None:
    code, query = pack([[1, 0, 1, 1, 0, 0, 0, 1]]), pack([[1, 1, 1, 1, 0, 0, 0, 0]])
    drawn = draw(ShownCodes(code, query, CodeLayout(8)), code[0], query[0])
    assert (drawn.width, drawn.digits, drawn.about, drawn.second) == (8, "b1", "2 bits differ", "")


def test_first_answers_are_those_of_an_evaluation(result: Demo) -> None:
    setup, data = result.setup, result.setup.data
    found = next(score for score in result.scores if (score.method, score.n_bits) == ("imh-pca", 8))
    hasher = recipe("imh-pca", 8, 0, base=setup.base).fit(data.X_train)
    codes, queries = hasher.encode(data.X_train), hasher.encode(data.X_test)
    expected = evaluate(queries, codes, setup.truth, 8, neighbors=setup.neighbors)
    assert found.precision_at_10 == expected.precision_at_10
    assert found.recall_at_10 == expected.recall_at_10


def test_a_quantizer_of_faiss_is_a_row_without_a_look_up(result: Demo) -> None:
    pytest.importorskip("faiss")
    found = [measure.score(result.setup, "faiss-pq", bits) for bits in LENGTHS]
    assert all(score.f1 is None and score.reason is None and score.map is not None for score in found)
    page_with = demo_page(replace(result, scores=(*result.scores, *found)), date(2026, 1, 2))
    tables = re.findall(r"<table>.*?</table>", page_with, re.DOTALL)
    assert ["faiss-pq" in table for table in tables[-4:]] == [True, False, True, True]


def test_tables_are_folded_and_pictures_come_first(html: str) -> None:
    assert html.index('id="answers"') < html.index('id="codes"') < html.index('id="results"')
    start, end = html.index("<details>"), html.index("</details>")
    assert "MAP, by code length in bits" in html[start:end]
    assert html.count("<table>") - html[start:end].count("<table>") == 1  # of the answers


def test_the_base_points_shown_are_those_of_the_headline(result: Demo) -> None:
    hasher = recipe("imh-hybrid", result.shown.n_bits, 0).fit(result.setup.data.X_train)
    assert len(result.base) == len(hasher.first_.base_points_)
    assert len(result.base_plane) == len(result.base_classes) == len(result.base)
    U = result.setup.U  # few rows: each is a base point, and is shown as it is
    distance = ((U[:, None] - result.base) ** 2).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(distance, 0, atol=1e-6)


@pytest.mark.parametrize("method", ["itq", "pq", "imh-graph"])
def test_methods_without_the_shared_base_set_are_measured(result: Demo, method: str) -> None:
    assert method in measure.METHODS
    found = measure.score(result.setup, method, 8)
    assert found.reason is None
    assert found.map is not None
    assert (found.f1 is None) == (method == "pq")


def test_without_faiss_the_demo_has_no_rows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_baselines, "find_spec", lambda _: None)
    assert faiss_baselines.installed_baselines() == ()


def test_right_answers_are_those_of_the_querys_class(result: Demo) -> None:
    setup = result.setup
    for found in (result.by_pixels, result.by_code):
        for query, ids in enumerate(found.ids):
            same = [setup.y_train[i] == setup.y_test[query] for i in ids]
            assert found.relevant[query].tolist() == same


def test_the_queries_shown_are_the_first_of_each_class(result: Demo) -> None:
    assert result.shown_queries.tolist() == [0, 1, 2]


def test_a_method_that_cannot_give_a_length_says_why_on_the_page(result: Demo, html: str) -> None:
    pca = [score for score in result.scores if score.method == "imh-pca"]
    assert pca[0].map is not None
    assert pca[1].map is None
    assert pca[1].reason is not None
    assert "at most 16" in pca[1].reason
    text = Elements(html).text
    assert pca[1].reason in text
    assert text.count("–1") == 4, "once per table"
    assert text.count(pca[1].reason) == 1


def test_the_headline_holds_the_numbers_measured(result: Demo) -> None:
    own = next(score for score in result.scores if (score.method, score.n_bits) == ("imh-hybrid", 64))
    assert own is result.shown
    assert own.map is not None
    assert own.precision_at_10 is not None
    raw = result.scan.raw
    for value in (own.map, own.precision_at_10, raw.map, raw.precision_at_10):
        assert f"{100 * value:.1f} %" in headline(result)
    assert "8 bytes" in headline(result)
    assert "16 bytes per image" in headline(result)
    none = replace(result, shown=measure.Score("imh-tsne", 64, reason="no"))
    assert "imh-tsne gave no codes of 64 bits" in headline(none)


def test_base_points_take_the_class_of_most_of_their_rows(result: Demo) -> None:
    setup = result.setup
    distance = ((setup.U[:, None] - result.base) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1)
    for j, name in enumerate(result.base_classes):
        counts = np.bincount(setup.y_train[nearest == j], minlength=3)
        assert counts[name] == counts.max()


def test_the_same_results_give_the_same_page(result: Demo, html: str) -> None:
    assert demo_page(result, date(2026, 1, 2)) == html
    assert "2026-01-02" in html


def test_every_recipe_has_a_look_of_its_own() -> None:
    looks = [plots.look(name) for name in recipe_names()]
    assert len(set(looks)) == len(looks)
    assert plots.look("imh-tsne") == looks[recipe_names().index("imh-tsne")]


def test_no_two_curves_of_a_plot_have_one_color_if_it_asks_for_that() -> None:
    looks = [plots.look(name) for name in (*faiss_baselines.BASELINES, *MANIFOLD, *OTHER)]
    own = plots.in_own_colors(looks)
    assert len({look.color for look in looks}) < len(looks) == len({look.color for look in own})
    assert [look.marker for look in own] == [look.marker for look in looks]


def test_names_of_lines_keep_their_distance_and_their_order() -> None:
    places = curves.spread([0.1, 0.2, 50, 50, 99.5, 100], 6, 0, 100)
    assert all(b - a >= 6 - 1e-9 for a, b in pairwise(places))
    assert places[0] >= 0
    assert places[-1] <= 100
    assert curves.spread([10, 40, 80], 6, 0, 100) == [10, 40, 80]


def test_plots_name_their_axes_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(plots._SETTINGS, "svg.fonttype", "none")
    svg = curves.draw(LENGTH_PLOT).svg.decode()
    for name in ("code length, bits", "MAP, %", "IMH-tSNE", "l2 scan"):
        assert f"{name}</text>" in svg
    points = np.random.default_rng(0).normal(size=(4, 2))
    svg = plots.plane(points, ["cat", "dog", "cat", "$%"], points[:1], ["cat"], "t-SNE").decode()
    for name in ("t-SNE, dimension 1", "t-SNE, dimension 2", "class", "query", "dog"):
        assert f"{name}</text>" in svg


def test_drawing_leaves_the_users_settings_of_matplotlib_alone() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    curves.draw(LENGTH_PLOT)
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_a_plot_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"manihash\[plot\]"):
        curves.draw(LENGTH_PLOT)


def _run(*arguments: str) -> tuple[int, str, str]:
    pytest.importorskip("matplotlib")
    done = invoke(["demo", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_writes_a_page_and_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = load_dataset("digits", n_train=600)
    monkeypatch.setattr(measure, "load", lambda _, seed: measure.prepare(few, seed, base_size=150))
    monkeypatch.setattr(measure, "METHODS", ("imh-tsne", "imh-pca"))
    monkeypatch.setattr(faiss_baselines, "installed_baselines", tuple)
    code, out, _ = _run("--out", str(tmp_path / "new" / "demo"), "--bits", "65,8", "--json")
    assert code == 0
    document = json.loads(out)
    assert [row["bits"] for row in document["rows"]] == [8, 65, 8, 65]
    assert "at most 64" in document["rows"][3]["error"]
    assert document["rows"][1]["map"] > document["l2_scan"]["map"]
    assert 0 < document["rows"][1]["recall_at_10"] < document["rows"][1]["precision_at_10"] < 1
    assert Path(document["page"]).read_text("utf-8").startswith("<!doctype html>")


def test_the_command_prints_the_table_and_where_the_page_is(
    result: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {(score.method, score.n_bits): score for score in result.scores}
    monkeypatch.setattr(measure, "METHODS", METHODS)
    monkeypatch.setattr(faiss_baselines, "installed_baselines", tuple)
    monkeypatch.setattr(measure, "load", lambda *_: result.setup)
    monkeypatch.setattr(measure, "scan", lambda _: result.scan)
    monkeypatch.setattr(measure, "score", lambda _, method, bits: known[method, bits])
    monkeypatch.setattr(measure, "finish", lambda *_: result)
    code, out, error = _run("--out", str(tmp_path), "--bits", "8,64")
    assert code == 0
    lines = [(line[:22].strip(), line[22:].split()) for line in out.splitlines()]
    assert [cells for name, cells in lines if name == "bits"] == [["8", "64", "8", "64"]] * 2
    scans = [cells[1] for name, cells in lines if name == "l2 scan, raw pixels"]
    assert scans == [f"{100 * v:.1f}" for v in (result.scan.raw.map, result.scan.raw.precision_at_10)]
    empty = [(cells[1], cells[3]) for name, cells in lines if name == "imh-pca"]
    assert empty == [("–", "–")] * 2
    assert error.count("note: imh-pca: 64 dimensions") == 1
    assert error.count("FAISS, which is not installed") == 1
    assert "manihash explore --data blots" in out
    assert headline(result) in " ".join(out.split())
    assert f"page {tmp_path / 'index.html'}".replace(" ", "") in "".join(
        out.split()
    )  # a long path breaks lines
    assert (tmp_path / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "sift1m"), "choose digits or mnist"),
        (("--data", "nothing"), "choose digits or mnist"),
        (("--bits", "16;32"), "integers separated by commas"),
        (("--bits", "0"), "integers separated by commas"),
        (("--seed", "-1"), "--seed"),
        (("--out", __file__), "Give another folder with --out"),
    ],
)
def test_invalid_options_are_refused_before_the_work(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "load", lambda *_: pytest.fail("work was begun"))
    code, out, error = _run(*arguments)
    assert code == 2
    assert message in " ".join(error.split())
    assert out == ""
