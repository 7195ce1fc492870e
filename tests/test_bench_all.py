"""make bench-all: pieces that are current are skipped, and a failure does not stop the others."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
from doc_pages import ROOT

from manihash.hashers import LSH

if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)
sys.path += [str(ROOT / "benchmarks")]

import _models
import _ran
import _results
import run_all
from run_all import Piece


def test_each_piece_has_a_program_and_a_known_file_of_results():
    found = list(run_all.pieces())
    assert len({str(piece) for piece in found}) == len(found)
    for piece in found:
        assert piece.result in _results.BENCHMARKS
        assert (ROOT / "benchmarks" / piece.program[0]).exists()


def test_recorded_parts_are_those_of_the_pieces():
    expected = {(piece.result, part) for piece in run_all.pieces() for part in piece.parts}
    for name in ("fit", "maintenance", "scale", "baseline-speed", "quantizers", "svm"):
        assert {(name, part) for part in _results.held(name)} <= expected


def test_a_failed_piece_is_reported_and_the_others_are_measured(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    monkeypatch.setattr(run_all, "TAKEN", tmp_path / "build" / "minutes.json")
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    (tmp_path / "works.py").write_text("import sys; print('measured', sys.argv[1])")
    first = Piece("fit", ("a",), ("fails.py",), 2)
    second = Piece("fit", ("b",), ("works.py", "b"), 3, timing=True, alone=True)
    assert run_all.measure({first: 1, second: 1}, jobs=2) == [first]
    said = capfd.readouterr().out
    assert "for fit: a" in said
    assert "measured b" in said
    assert list(run_all.taken()) == ["fit: b"]


def test_minutes_are_kept_of_whole_pieces_and_replace_the_estimates(tmp_path, monkeypatch):
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    monkeypatch.setattr(run_all, "TAKEN", tmp_path / "minutes.json")
    (tmp_path / "works.py").write_text("")
    whole = Piece("fit", ("a", "b"), ("works.py",), 5)
    partial = Piece("fit", ("c", "d"), ("works.py",), 7)
    assert run_all.measure({whole: 2, partial: 1}) == []
    assert run_all.estimated([whole, partial], 1) == pytest.approx(7, abs=0.5)


@pytest.mark.parametrize(
    ("option", "kinds"), [("--timings", {True}), ("--quality", {False}), ("", {True, False})]
)
def test_timings_and_the_rest_are_measured_apart_and_current_pieces_are_skipped(option, kinds, monkeypatch):
    asked = []
    monkeypatch.setattr(run_all, "measure", lambda todo, jobs: asked.extend(todo) or [])
    monkeypatch.setattr(run_all, "drop_unused", lambda: None)
    monkeypatch.setattr(run_all, "drop_unplanned", lambda: None)
    monkeypatch.setattr(run_all, "is_current", lambda result, part, any_versions: result == "quality")
    monkeypatch.setattr(sys, "argv", ["run_all.py", *filter(None, [option])])
    with pytest.raises(SystemExit) as end:
        run_all.main()
    assert not end.value.code
    assert {piece.timing for piece in asked} == kinds
    assert "quality" not in {piece.result for piece in asked}


def test_the_list_says_which_module_made_a_result_older(monkeypatch, capsys):
    entry = {"code": "x", "machine": {}, "date": "2026-11-18"}
    monkeypatch.setattr(run_all, "held", lambda result: {"a": entry})
    monkeypatch.setattr(run_all, "reasons", lambda own: ["induction.py (abc Change it)"])
    piece = Piece("fit", ("a", "b"), ("fit.py",), 2)
    assert list(run_all.shown(piece, ["a", "b"])) == [
        "to measure  fit: a and 1 more",
        "              not measured: 1 of 2 parts",
        "              induction.py (abc Change it)",
    ]


def test_the_modules_of_a_measurement_are_those_whose_functions_ran(tmp_path):
    """A module that is imported only does not count; one that ran in a child process does."""
    program = """
import json, subprocess, sys
import _ran
_ran.start(calls=True)
import numpy as np
from manihash.hashers import LSH
_ran.forget()
LSH(8, random_state=0).fit(np.eye(9)).encode(np.eye(9))
own = _ran.modules()
code = "import numpy as np; from manihash import pack; pack(np.ones((1, 8), bool))"
_ran.forget()
subprocess.run([sys.executable, "-c", code], check=True)
print(json.dumps([sorted(own), sorted(_ran.modules())]))
"""
    paths = [str(ROOT / "benchmarks"), str(ROOT / "src")]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MANIHASH_BENCH")}
    env |= {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    own, child = json.loads(done.stdout)
    assert {"hashers/lsh.py", "hashers/_hasher.py"} <= set(own)
    assert not {"hashers/itq.py", "hashers/imh.py", "hashers/recipe_table.py"} & set(own)
    assert "codes.py" in child


def test_a_module_counts_if_one_that_ran_imports_a_constant_of_it(tmp_path):
    (tmp_path / "a.py").write_text("from manihash.b import LIMIT\nfrom manihash.c import function\n")
    (tmp_path / "b.py").write_text("LIMIT = 3\n")
    (tmp_path / "c.py").write_text("def function(): ...\n")
    assert _ran.with_constants({"a.py"}, tmp_path) == {"a.py", "b.py"}


def test_a_model_of_the_present_code_is_not_fitted_again(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 16))
    monkeypatch.setattr(_ran, "modules", lambda: {"hashers/lsh.py"})
    model, seconds = _models.fitted(LSH(8, random_state=0), X, folder=tmp_path)
    again, stored = _models.fitted(LSH(8, random_state=0), X, folder=tmp_path)
    assert stored == seconds
    assert np.array_equal(again.encode(X), model.encode(X))
    assert _models.key_of(LSH(8, random_state=1), X) != _models.key_of(LSH(8, random_state=0), X)
    assert _models.key_of(LSH(8, random_state=0), X[1:]) != _models.key_of(LSH(8, random_state=0), X)
    monkeypatch.setattr(_models, "now", lambda path: "changed")
    assert _models.fitted(LSH(8, random_state=0), X, folder=tmp_path)[1] != seconds


def test_seeds_that_are_no_longer_planned_go_when_the_others_are_measured_again(tmp_path, monkeypatch):
    entry = {"code": "x", "machine": {}, "date": "2026-11-18", "results": {}}
    parts = [f"{name}, 64 bits, seed {seed}" for name in ("mnist, itq", "mnist, lsh") for seed in range(2)]
    _results.write("quality", dict.fromkeys(parts, entry), tmp_path)
    planned = [Piece("quality", (part,), (), 1) for part in (parts[0], parts[2])]
    monkeypatch.setattr(run_all, "pieces", lambda: iter(planned))
    monkeypatch.setattr(run_all, "is_current", lambda result, part, any_versions: "itq" in part)
    assert run_all.drop_unplanned(tmp_path) == 1
    assert list(_results.held("quality", tmp_path)) == [parts[0], *parts[2:]]


def test_parts_measured_at_once_are_one_process_each_and_failures_are_named(tmp_path, monkeypatch):
    import quality

    started = []

    def run(program, env, check):
        started.append(program)
        return SimpleNamespace(returncode=int("1" in program[program.index("--seeds") + 1]))

    monkeypatch.setattr(quality.subprocess, "run", run)
    asked = Namespace(
        data="digits", method="imh-hybrid", bits=64, seeds="0,1", any_versions=False, folder=tmp_path, jobs=2
    )
    assert quality.measured_at_once(asked) == ["--data digits --method imh-hybrid --bits 64 --seeds 1"]
    assert len(started) == 2
    assert all(str(tmp_path) in program for program in started)


def test_the_report_of_the_paper_replaces_the_last_one_and_its_trials_share_their_minutes(tmp_path):
    import paper

    out, kept = tmp_path / "out", tmp_path / "kept"
    for name in ("claims.csv", "index.html", "tables/tab1.csv", "tables/tab1.json", "figures/fig2.svg"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name)
    kept.mkdir()
    (kept / "of-the-last-run.csv").write_text("old")
    paper.keep(out, kept)
    found = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert found == {"claims.csv", "tables/tab1.csv", "figures/fig2.svg"}
    trials = tmp_path / "trials"
    trials.mkdir()
    for name, jobs in (("a", "1"), ("b", "2"), ("c", "2")):
        (trials / f"{name}.json").write_text(json.dumps({"seconds": {"all": 60}, "about": {"jobs": jobs}}))
    assert paper.minutes(trials) == 2
