"""The versions of dependencies that are tested are those that the package allows."""

import tomllib

import pytest
from doc_pages import ROOT


def numbers(version):
    """The numbers of a version, without zeros at the end: 2.0.0 and 2.0 are equal."""
    return tuple(map(int, version.removesuffix(".0").removesuffix(".0").split(".")))


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="this is not a checkout")
def test_the_oldest_versions_that_are_tested_are_the_oldest_that_are_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = dict(dependency.split(">=") for dependency in project["dependencies"])
    lines = (ROOT / "tests/oldest-versions.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, version in allowed.items():
        assert numbers(tested[name]) == numbers(version), name
