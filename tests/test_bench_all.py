"""make bench-all: pieces that are current are skipped, and a failure does not stop the others."""

import sys

import pytest
from doc_pages import ROOT

if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)
sys.path += [str(ROOT / "benchmarks")]

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
    expected = {(piece.result, piece.part) for piece in run_all.pieces()}
    for name in ("fit", "maintenance", "scale", "baseline-speed"):
        assert {(name, part) for part in _results.held(name)} <= expected


def test_a_failed_piece_is_reported_and_the_others_are_measured(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    (tmp_path / "works.py").write_text("import sys; print('measured', sys.argv[1])")
    first = Piece("seeds", "a", ("fails.py",), 2)
    second = Piece("seeds", "b", ("works.py", "b"), 3)
    assert run_all.measure([first, second]) == [first]
    said = capfd.readouterr().out
    assert "1 of 2, about 5 minutes left: seeds: a" in said
    assert "measured b" in said


@pytest.mark.parametrize(
    ("option", "kinds"), [("--timings", {True}), ("--quality", {False}), ("", {True, False})]
)
def test_timings_and_the_rest_are_measured_apart_and_current_pieces_are_skipped(option, kinds, monkeypatch):
    asked = []
    monkeypatch.setattr(run_all, "measure", lambda todo: asked.extend(todo) or [])
    monkeypatch.setattr(run_all, "is_current", lambda result, part: result == "seeds")
    monkeypatch.setattr(sys, "argv", ["run_all.py", *filter(None, [option])])
    with pytest.raises(SystemExit) as end:
        run_all.main()
    assert not end.value.code
    assert {piece.timing for piece in asked} == kinds
    assert "seeds" not in {piece.result for piece in asked}
