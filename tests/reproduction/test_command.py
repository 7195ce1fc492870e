"""manihash paper: its errors, and a small run from end to end."""

import json
import sys

import pytest
from command import invoke, run, stderr_line

from manihash.cli._output import ProgressLines
from reproduction.paper import catalog
from reproduction.paper.figures import fig4, fig7
from reproduction.paper.run.trial import ResultFolder


@pytest.fixture
def on_digits(monkeypatch):
    """Run Figures 4 and 7 on the digits of scikit-learn, which are small enough for a test."""
    pytest.importorskip("matplotlib")
    for module in (fig4, fig7):
        monkeypatch.setattr(module, "DATA", "digits")
        own = catalog.EXPERIMENTS[module.EXPERIMENT.id]
        changed = type(own)(own.id, own.title, ("digits",), own.trials, own.section)
        monkeypatch.setitem(catalog.EXPERIMENTS, own.id, changed)


def test_an_unknown_experiment_lists_the_known_ones():
    text = stderr_line(run("paper", "--only", "fig77", code=2))
    assert "did you mean 'fig7'" in text
    assert "fig10, thm1, ours" in text


@pytest.mark.parametrize(
    ("option", "known"), [("--methods", "imh-tsne, imh-tsne-turned"), ("--data", "digits, mnist")]
)
def test_an_unknown_method_or_dataset_lists_the_known_ones(option, known):
    text = stderr_line(run("paper", option, "nonsense", code=2))
    assert "'nonsense'" in text
    assert known in text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--bits", "32,x"], "--bits '32,x'"),
        (["--bits", "0"], "--bits '0'"),
        (["--seeds", "0"], "--seeds"),
        (["--queries", "0"], "--queries"),
        (["--jobs", "0"], "--jobs"),
        (["--only", ","], "--only"),
    ],
)
def test_invalid_numbers_are_rejected_before_any_work(args, expected, tmp_path):
    assert expected in stderr_line(run("paper", *args, "--results", str(tmp_path / "r"), code=2))
    assert not list(tmp_path.iterdir())


def test_an_unwritable_report_folder_is_rejected_before_any_work(tmp_path):
    (tmp_path / "report").write_text("a file")
    stderr_line(run("paper", "--out", str(tmp_path / "report"), "--results", str(tmp_path / "r"), code=2))
    assert not (tmp_path / "r").exists()


def test_the_list_shows_finished_trials_and_missing_datasets(empty_home, tmp_path):
    rows = json.loads(run("paper", "--list", "--json", "--results", str(tmp_path)).stdout)["experiments"]
    assert [row["id"] for row in rows] == list(catalog.EXPERIMENTS)
    assert not any(row["here"] for row in rows)
    assert "(not available)" in run("paper", "--list", "--results", str(tmp_path)).stdout


def test_without_data_the_command_says_at_once_how_to_get_them(empty_home, tmp_path):
    pytest.importorskip("matplotlib")
    args = ["paper", "--quick", "--out", str(tmp_path / "report"), "--results", str(tmp_path / "r")]
    text = stderr_line(run(*args, code=2))
    assert "need one of the datasets mnist, cifar10-gist" in text
    assert "manihash data get mnist" in text
    assert not (tmp_path / "report").exists()


def test_a_quick_report_says_that_it_does_not_test_the_claims(on_digits, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["reproduction.paper.command"], "_QUICK_ROWS", 1000)
    out = tmp_path / "report"
    args = ["--only", "fig4", "--methods", "pcah", "--out", str(out), "--results", str(tmp_path / "r")]
    assert "quick run: at most 1,000 rows" in stderr_line(run("paper", "--quick", *args))
    assert "no test of the paper" in (out / "index.html").read_text("utf-8")


def test_the_running_trial_and_the_time_left_are_shown_without_a_terminal(on_digits, tmp_path, monkeypatch):
    monkeypatch.setattr(ProgressLines, "interval", 0.0)
    args = ["--only", "fig4", "--methods", "pcah,itq", "--bits", "8,16", "--seeds", "1"]
    ran = run("paper", *args, "--out", str(tmp_path / "o"), "--results", str(tmp_path / "r"))
    lines = [line for line in ran.stderr.splitlines() if line.startswith("paper: trials: ")]
    assert "(running retrieval, digits," in lines[1]
    assert any("of 4, about" in line and "left" in line for line in lines)


def test_a_long_trial_is_named_while_it_runs(on_digits, tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.paper.run.runner._SECONDS_BETWEEN_REPORTS", 0.01)
    monkeypatch.setattr(sys.modules["reproduction.paper.command"], "_FIRST_WAIT", 0.1)
    args = ["--only", "fig4", "--methods", "pcah", "--bits", "8", "--seeds", "1"]
    ran = run("paper", *args, "--out", str(tmp_path / "o"), "--results", str(tmp_path / "r"))
    assert "paper: trials: 0 of 1 (running retrieval, digits, pcah, 8 bits, seed 0)" in ran.stderr


def test_options_that_select_no_trial_are_rejected(on_digits, tmp_path):
    args = [
        "--only",
        "fig7",
        "--methods",
        "ksh",
        "--out",
        str(tmp_path / "o"),
        "--results",
        str(tmp_path / "r"),
    ]
    assert "these experiments have no trial" in stderr_line(run("paper", *args, code=2))


def test_finished_trials_are_not_run_again(on_digits, tmp_path, monkeypatch):
    args = ["paper", "--only", "fig7,fig4", "--bits", "8,16", "--seeds", "2", "--json"]
    args += ["--methods", "imh-le,itq,pcah"]
    args += ["--out", str(tmp_path / "report"), "--results", str(tmp_path / "r")]
    found = json.loads(run(*args).stdout)
    assert found["experiments"] == ["fig4", "fig7"]
    assert found["failed"] == {}
    assert found["trials"] == 10  # three methods at two lengths, all but PCAH with two seeds
    assert (tmp_path / "report/figures/fig7-map.svg").is_file()
    claims = json.loads((tmp_path / "report/claims.json").read_text("utf-8"))
    assert "fig7-best" in json.dumps(claims)

    def never(*args, **options):
        raise AssertionError("a finished trial was run again")

    monkeypatch.setattr("reproduction.paper.run.runner._Worker", never)
    assert json.loads(run(*args).stdout)["trials"] == 10
    assert json.loads(run(*args, "--no-run").stdout)["trials"] == 10


def test_a_failed_trial_is_listed_in_the_report(on_digits, tmp_path):
    out = tmp_path / "report"
    args = ["--only", "fig4", "--bits", "80", "--seeds", "1", "--methods", "pcah"]
    ran = invoke(["paper", *args, "--out", str(out), "--results", str(tmp_path / "r"), "--json"])
    assert ran.exit_code == 2
    found = json.loads(ran.stdout)
    assert "80" in found["failed"]["retrieval, digits, pcah, 80 bits, seed 0"]
    assert "pcah, 80 bits" in (out / "index.html").read_text("utf-8")
    assert not [path for path in (tmp_path / "r").rglob("*") if path.is_file()]


def test_a_full_disk_gives_an_error_and_no_partial_report(on_digits, tmp_path, monkeypatch):
    def full(self, kept):
        raise OSError(28, "No space left on device", "result.json")

    monkeypatch.setattr(ResultFolder, "put", full)
    args = ["--only", "fig7", "--bits", "8", "--seeds", "1", "--methods", "pcah"]
    out = tmp_path / "report"
    text = stderr_line(run("paper", *args, "--out", str(out), "--results", str(tmp_path / "r"), code=2))
    assert "result.json: No space left" in text
    assert not (out / "index.html").exists()


def test_an_interrupt_names_the_folder_of_finished_trials(on_digits, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("reproduction.paper.run.runner.run", interrupted)
    kept = tmp_path / "r"
    text = stderr_line(run("paper", "--out", str(tmp_path / "report"), "--results", str(kept), code=130))
    assert f"finished trials are in {kept}" in text
