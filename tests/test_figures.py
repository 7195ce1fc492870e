"""The tables and numbers of README and docs are those of docs/results, and marked if the code has changed."""

import json
import re
import sys

import pytest
from doc_pages import PAGES, ROOT, prose

if not (ROOT / "docs" / "_ext").is_dir():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)
sys.path += [str(ROOT / "docs" / "_ext"), str(ROOT / "benchmarks")]

import _results
import figures

SHOWN = [page for page in PAGES if page.parent != ROOT or page.name == "README.md"]
RESULTS = sorted(path.stem for path in _results.FOLDER.glob("*.json") if path.stem in _results.BENCHMARKS)


@pytest.mark.parametrize("page", figures.pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_shows_its_results(page):
    text = page.read_text("utf-8")
    assert figures.without_marks(figures.written(text, page)) == figures.without_marks(text), (
        "run: make figures"
    )


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_regions_of_a_page_are_closed_and_numbers_stand_inside_sentences(page):
    text = page.read_text("utf-8")
    starts = len(re.findall(r"^<!-- table: |<!-- value: ", text, re.MULTILINE))
    assert starts == len(figures.REGION.findall(text)) == text.count("<!-- end -->")
    at_start = r"^\s*([-*] |\d+\. )?<!-- value"  # Markdown takes the rest of such a line as HTML
    assert not re.search(at_start, text, re.MULTILINE)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_measured_tables_are_written_from_results(page):
    rest = prose(figures.REGION.sub("", page.read_text("utf-8")))
    for said, table in re.findall(r"(<!-- not measured: .+ -->\n)?((?:^\|.*\n?)+)", rest, re.MULTILINE):
        cells = [cell for row in table.splitlines()[2:] for cell in row.split("|")]
        numbers = [cell for cell in cells if re.match(r"\s*\**\d+\.\d", cell)]
        assert said or len(numbers) < 2, (
            f"{table}\nCONTRIBUTING.md says how a table is written from docs/results"
        )


@pytest.mark.parametrize("name", RESULTS)
def test_each_part_of_a_result_has_commit_code_date_and_machine(name):
    for part, entry in _results.held(name).items():
        assert set(entry) == {"commit", "code", "date", "machine", "results"}, part
        assert re.match(r"20\d\d-\d\d-\d\d", entry["date"]), part
        assert "processor" in entry["machine"] or "card" in entry["machine"], part


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_names_its_command_and_the_code_that_it_measures(name):
    benchmark = _results.BENCHMARKS[name]
    assert benchmark.command.removeprefix("make ") + ":" in (ROOT / "Makefile").read_text("utf-8")
    for path in benchmark.measures:
        assert (ROOT / "src" / "manihash" / path).exists(), path


def test_recording_a_part_keeps_the_others(tmp_path):
    _results.record("seeds", "first", {"MAP": [0.5]}, folder=tmp_path)
    _results.record("seeds", "second", {"MAP": [0.25]}, folder=tmp_path, machine={"card": "a GPU"})
    held = json.loads((tmp_path / "seeds.json").read_text("utf-8"))
    assert [entry["results"]["MAP"] for entry in held.values()] == [[0.5], [0.25]]
    assert held["first"]["code"] == _results.fingerprint("seeds")
    assert {"processor", "instructions", "threads", "numpy"} <= set(held["first"]["machine"])
    assert held["second"]["machine"]["card"] == "a GPU"
    assert [path.name for path in tmp_path.iterdir()] == ["seeds.json"]


CODE = 'def double(x):\n    """Twice x."""\n    return 2 * x  # a comment\n'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (CODE.replace("Twice x.", "Two\n    times x."), True),
        (CODE.replace("  # a comment", ""), True),
        (CODE.replace("\n", "\r\n"), True),
        ("# more\n\n" + CODE, True),
        (CODE.replace("2 *", "3 *"), False),
        (CODE.replace("2 * x", "'# 2'"), False),
    ],
)
def test_the_fingerprint_follows_code_and_neither_comments_nor_docstrings(text, same):
    assert (_results.bare_code(text) == _results.bare_code(CODE)) == same


def recorded(folder, monkeypatch, code):
    """A source with two parts of a benchmark, the second with the given fingerprint."""
    for part in ("a", "b"):
        _results.record("seeds", part, {"MAP": [0.5, 0.25]}, folder=folder)
    held = json.loads((folder / "seeds.json").read_text("utf-8"))
    held["b"]["code"] = code
    monkeypatch.setattr(figures, "held", lambda name: held)
    return figures.Source("seeds")


def test_a_table_is_marked_if_the_code_has_changed_since_its_measurement(tmp_path, monkeypatch):
    source = recorded(tmp_path, monkeypatch, "other")
    assert source["a"]["MAP"] == [0.5, 0.25]
    page = ROOT / "docs" / "guide" / "page.md"
    assert "has changed" not in source.origin(page)
    assert "[results](../results/seeds.json), `make bench-seeds`" in source.origin(page)
    assert source["b"] == source["a"]
    assert source.origin(page).endswith(" The code of 1 of 2 parts has changed since then.")
    assert figures.without_marks(source.origin(page)) == source.origin(page).partition(" The code")[0]


def test_a_part_that_was_not_measured_is_named():
    with pytest.raises(
        KeyError, match=r"seeds.json has no part 'imh-tsne, 8 bits': it has imh-tsne, 16 bits"
    ):
        figures.Source("seeds")["imh-tsne, 8 bits"]


def test_a_number_is_the_mean_of_its_seeds(tmp_path, monkeypatch):
    recorded(tmp_path, monkeypatch, "other")
    text = "A MAP of <!-- value: seeds a MAP:.2f -->0<!-- end -->."
    expected = "A MAP of <!-- value: seeds a MAP:.2f -->0.38<!-- end -->."
    assert figures.written(text, ROOT / "README.md") == expected
