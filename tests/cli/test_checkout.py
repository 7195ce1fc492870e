"""The commands whose code is in the source checkout."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from manihash.cli._command import Group
from manihash.cli.checkout import add_commands


@pytest.mark.parametrize("arguments", [["demo"], ["demo", "--out", "x"], ["paper", "--quick", "--seeds=1"]])
def test_an_installed_package_says_where_demo_and_paper_are(arguments: list[str], tmp_path: Path) -> None:
    app = typer.Typer(cls=Group)
    add_commands(app, tmp_path / "site-packages" / "manihash")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert f"run make {arguments[0]} in the checkout" in " ".join(result.output.split())


def test_a_checkout_has_the_options_of_the_demo() -> None:
    app = typer.Typer(cls=Group)
    add_commands(app)
    result = CliRunner().invoke(app, ["demo", "--help"])
    assert result.exit_code == 0
    assert "--data" in result.output
