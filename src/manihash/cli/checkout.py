"""manihash demo and manihash paper: their code is in the source checkout, beside the package."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from manihash.cli._command import Command

_PACKAGE = Path(__file__).parents[1]


def add_commands(app: typer.Typer, package: Path = _PACKAGE) -> None:
    """Add the commands of the checkout that a package is part of, or commands that say where to find them."""
    checkout = package.parents[1]
    is_checkout = package.parent.name == "src" and (checkout / "reproduction").is_dir()
    if is_checkout and str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    for name in ("demo", "paper"):
        if is_checkout:
            app.command(cls=Command)(getattr(import_module(f"reproduction.{name}.command"), name))
        else:
            about = f"Not part of the installed package: run make {name} in the source checkout."
            any_option = {"ignore_unknown_options": True}
            app.command(name, cls=Command, help=about, context_settings=any_option)(_absent(name))


def _absent(name: str) -> Callable[..., None]:
    def absent(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        raise ValueError(
            f"manihash {name} is part of the source checkout, not of the installed package: "
            f"run make {name} in the checkout"
        )

    return absent
