"""make release-check finds what stands against a release."""

import sys

import pytest
from doc_pages import ROOT

if not (ROOT / ".ci").is_dir():
    pytest.skip("this is not a checkout", allow_module_level=True)
sys.path += [str(ROOT / ".ci")]

import release_check

ENTRY = {"code": "x", "commit": "0123abc", "date": "2026-11-18", "machine": {}, "results": {}}


def project(folder, version="0.2.0", code="0.2.0", heading="0.2.0 (2026-11-18)", citation="0.2.0"):
    """The files that name a version."""
    (folder / "src" / "manihash").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (folder / "src" / "manihash" / "__init__.py").write_text(f'__version__ = "{code}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.1.0 (2026-11-01)\n")
    (folder / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {citation}\n")
    return folder


def test_versions_that_agree_are_no_problem(tmp_path):
    assert list(release_check.agreement(project(tmp_path))) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"code": "0.1.0"}, "__init__.py has 0.1.0, pyproject.toml 0.2.0"),
        ({"heading": "0.2.0 (unreleased)"}, 'the first heading of CHANGELOG.md is "0.2.0 (unreleased)"'),
        ({"heading": "0.1.0 (2026-11-18)"}, "0.1.0 (2026-11-18)"),
        ({"citation": "0.1.0"}, "CITATION.cff has 0.1.0, pyproject.toml 0.2.0"),
    ],
)
def test_a_version_that_disagrees_is_named(tmp_path, wrong, said):
    (problem,) = release_check.agreement(project(tmp_path, **wrong))
    assert said in problem.text
    assert problem.remedy


def test_older_and_uncommitted_results_and_unknown_files_are_named(monkeypatch):
    monkeypatch.setattr(release_check, "is_older", lambda entry: entry["code"] == "old")
    monkeypatch.setattr(
        release_check, "reasons", lambda entry, any_versions: ["induction.py (abc Change it)"]
    )
    assert list(release_check.parts("page", "fit", {"a": ENTRY})) == []
    (older,) = release_check.parts("page", "fit", {"a": ENTRY, "b": ENTRY | {"code": "old"}})
    assert "1 of 2 results of fit.json are older" in older.text
    assert "induction.py (abc Change it)" in older.text
    assert older.remedy == "make bench-fit, then make figures"
    for commit in ("0123abc-dirty", "unknown"):
        (dirty,) = release_check.parts("page", "fit", {"a": ENTRY | {"commit": commit}})
        assert "uncommitted" in dirty.text
    (unknown,) = release_check.parts("page", "earlier", {"a": ENTRY})
    assert "no command repeats earlier.json" in unknown.text


def test_a_command_that_fails_is_a_problem_with_its_last_lines():
    (problem,) = release_check.ran("the step", "echo wrong; exit 3", "correct it")
    assert problem.text == "the step fails:\n      wrong"
    assert problem.remedy == "correct it; echo wrong; exit 3 repeats it"
    assert list(release_check.ran("the step", "true", "correct it")) == []


def test_all_problems_are_listed_and_the_status_is_1(monkeypatch, capsys):
    found = [release_check.Problem("first", "do this"), release_check.Problem("second", "do that")]
    monkeypatch.setattr(release_check, "QUICK", (lambda: iter(found),))
    monkeypatch.setattr(sys, "argv", ["release_check.py", "--quick"])
    with pytest.raises(SystemExit) as end:
        release_check.main()
    assert end.value.code == 1
    assert capsys.readouterr().out == (
        "1. first\n    to do: do this\n2. second\n    to do: do that\n2 problems\n"
    )
