"""The tables and numbers of README and docs are those of docs/results, and marked if the code has changed."""

import json
import os
import re
import subprocess
import sys

import pytest
from doc_pages import PAGES, ROOT, prose

if not (ROOT / "docs" / "_ext").is_dir():
    pytest.skip("the documentation is not part of this installation", allow_module_level=True)
sys.path += [str(ROOT / "docs"), str(ROOT / "docs" / "_ext"), str(ROOT / "benchmarks")]

import _results
import figures
import tables_of_methods

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
def test_each_result_names_its_command_and_code_that_exists(name):
    benchmark = _results.BENCHMARKS[name]
    assert benchmark.command.removeprefix("make ") + ":" in (ROOT / "Makefile").read_text("utf-8")
    for path in (*benchmark.measures, *benchmark.files):
        assert _results.file_of(path).exists(), path


def test_each_file_of_results_has_a_command():
    others = {_results.MODULES, "references"}
    assert {path.stem for path in _results.FOLDER.glob("*.json")} - others <= set(_results.BENCHMARKS)


def test_recording_a_part_keeps_the_others(tmp_path):
    _results.record("fit", "first", {"MAP": [0.5]}, folder=tmp_path)
    _results.record("fit", "second", {"MAP": [0.25]}, folder=tmp_path, machine={"card": "a GPU"})
    held = json.loads((tmp_path / "fit.json").read_text("utf-8"))
    assert [entry["results"]["MAP"] for entry in held.values()] == [[0.5], [0.25]]
    assert {"processor", "instructions", "threads", "numpy", "blas"} <= set(held["first"]["machine"])
    assert held["second"]["machine"]["card"] == "a GPU"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fit.json", "modules.json"]


def test_a_result_names_the_hash_of_each_module(tmp_path):
    _results.record("fit", "first", {}, folder=tmp_path)
    hashes = _results.held(_results.MODULES, tmp_path)[_results.held("fit", tmp_path)["first"]["code"]]
    assert hashes["induction.py"] == _results.now("induction.py")
    assert not any(path.startswith("cli/") for path in hashes)
    assert "__init__.py" not in hashes  # a new version makes no result older


def test_processes_that_record_at_once_lose_no_part(tmp_path):
    program = "import sys, _results\nfrom pathlib import Path\n"
    program += (
        "for i in range(20): _results.record('fit', f'{sys.argv[1]} {i}', {}, folder=Path(sys.argv[2]))"
    )
    paths = [str(ROOT / "benchmarks"), str(ROOT / "src")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MANIHASH_COMMIT": "abc"}
    started = [
        subprocess.Popen([sys.executable, "-c", program, name, str(tmp_path)], env=env) for name in "abc"
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(_results.held("fit", tmp_path)) == 60
    assert {entry["commit"] for entry in _results.held("fit", tmp_path).values()} == {"abc"}


def test_results_of_another_machine_are_merged_if_they_are_newer(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, parts in ((here, ("a", "b")), (there, ("b", "c"))):
        for part in parts:
            _results.record("fit", part, {"from": folder.name}, folder=folder)
    old, new = _results.held("fit", here), _results.held("fit", there)
    old["b"]["date"], new["b"]["date"] = "2026-11-17", "2026-11-16"
    _results.write("fit", old, here)
    _results.write("fit", new, there)
    assert _results.merge(there, here) == 1
    merged = _results.held("fit", here)
    assert {part: own["results"]["from"] for part, own in merged.items()} == {
        "a": "here",
        "b": "here",
        "c": "there",
    }
    assert not any(_results.is_older(own, here) for own in merged.values())


CODE = 'def double(x):\n    """Twice x."""\n    return 2 * x  # a comment\n'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (CODE.replace("Twice x.", "Two\n    times x."), True),
        (CODE.replace("  # a comment", ""), True),
        (CODE.replace("\n", "\r\n"), True),
        ("# more\n\n" + CODE, True),
        (CODE.replace("2 * x", "2*x"), True),
        (CODE.replace("2 *", "3 *"), False),
        (CODE.replace("2 * x", "'# 2'"), False),
    ],
)
def test_the_fingerprint_follows_code_and_neither_comments_nor_docstrings(text, same):
    assert (_results.bare_code(text) == _results.bare_code(CODE)) == same


def recorded(folder, monkeypatch):
    """A source with two parts of a benchmark; a module of the second has changed since then."""
    for part in ("a", "b"):
        _results.record("fit", part, {"MAP": [0.5, 0.25]}, folder=folder)
    parts, modules = _results.held("fit", folder), _results.held(_results.MODULES, folder)
    parts["b"]["code"] = "other"
    modules["other"] = modules[parts["a"]["code"]] | {"induction.py": "of another time"}
    _results.write("fit", parts, folder)
    _results.write(_results.MODULES, modules, folder)
    monkeypatch.setattr(figures, "held", lambda name: _results.held(name, folder))
    monkeypatch.setattr(figures, "is_older", lambda entry: _results.is_older(entry, folder))
    return figures.Source("fit")


def test_a_table_is_marked_if_the_code_has_changed_since_its_measurement(tmp_path, monkeypatch):
    source = recorded(tmp_path, monkeypatch)
    assert source["a"]["MAP"] == [0.5, 0.25]
    page = ROOT / "docs" / "guide" / "page.md"
    assert "has changed" not in source.origin(page)
    assert "[results](../results/fit.json), `make bench-fit`" in source.origin(page)
    assert source["b"] == source["a"]
    assert source.origin(page).endswith(" The code of 1 of 2 parts has changed since then.")
    assert figures.without_marks(source.origin(page)) == source.origin(page).partition(" The code")[0]


def test_the_reasons_name_the_changed_module_and_other_versions(tmp_path, monkeypatch):
    recorded(tmp_path, monkeypatch)
    parts = _results.held("fit", tmp_path)
    assert _results.reasons(parts["a"], tmp_path) == []
    (reason,) = _results.reasons(parts["b"], tmp_path)
    assert reason.startswith("induction.py (")
    parts["a"]["machine"]["numpy"] = "1.0"
    (reason,) = _results.reasons(parts["a"], tmp_path)
    assert reason.startswith("numpy: 1.0, now ")
    assert _results.reasons(parts["a"], tmp_path, any_versions=True) == []
    assert _results.reasons(parts["a"] | {"code": "of 2026"}, tmp_path)[0] == _results.UNKNOWN


def test_a_part_that_was_not_measured_is_named():
    with pytest.raises(KeyError, match=r"scale.json has no part 'imh-tsne, 8 bits': it has fit, encode"):
        figures.Source("scale")["imh-tsne, 8 bits"]


def test_a_number_is_the_mean_of_its_seeds(tmp_path, monkeypatch):
    recorded(tmp_path, monkeypatch)
    text = "A MAP of <!-- value: fit a MAP:.2f -->0<!-- end -->."
    expected = "A MAP of <!-- value: fit a MAP:.2f -->0.38<!-- end -->."
    assert figures.written(text, ROOT / "README.md") == expected


def test_a_number_of_a_fit_is_the_mean_of_all_its_seeds(tmp_path, monkeypatch):
    for seed, value in enumerate((0.5, 0.25, 0.75)):
        _results.record(
            "fit", f"mnist, itq, 64 bits, seed {seed}", {"codes": {"MAP": value}}, folder=tmp_path
        )
    _results.record("fit", "mnist, itq, 64 bits, seed 0, AVX2", {"codes": {"MAP": 9.0}}, folder=tmp_path)
    monkeypatch.setattr(figures, "held", lambda name: _results.held(name, tmp_path))
    assert figures.value(ROOT / "README.md", "fit", "mnist, itq, 64 bits", "codes", "MAP") == "0.500"


@pytest.mark.parametrize("figure", tables_of_methods.FIGURES)
def test_the_plots_that_compare_methods_show_the_results(figure):
    pytest.importorskip("matplotlib")
    import compared

    assert f"values {compared.hash_of(figure)}" in compared.file_of(figure).read_text("utf-8"), (
        "run: python docs/compared.py"
    )


def test_the_first_paragraph_says_where_our_word_is_behind(monkeypatch):
    """The sentences follow the figures: a method that becomes better appears in them."""
    asked = {"MAP": 0.5, "precision@10": 0.6, "recall@10": 0.7}

    def source(pq):
        own = {"results": {"asymmetric": asked, "reranked": {"recall@10": 0.9}}}
        parts = {f"digits, {name}, 64 bits, seed 0": own for name in ("imh-hybrid", "itq")}
        better = {"results": {"asymmetric": asked | pq, "reranked": {"recall@10": 0.8}}}
        monkeypatch.setattr(figures, "held", lambda name: parts | {"digits, pq, 64 bits, seed 0": better})
        found = figures.Source("quality")
        return "\n".join(tables_of_methods.where_we_lose(lambda name: found))

    text = source({"recall@10": 0.75})
    assert "- recall@10 on all datasets (most on digits: 0.700, `pq` 0.750)." in text
    assert "- MAP on all datasets (most on digits: 0.500, `pq` 0.500)," in text
    text = source({"MAP": 0.9})
    assert "- MAP on all datasets (most on digits: 0.500, `pq` 0.900)." in text
    assert "is not behind a method that is not ours in any figure." in source({})
