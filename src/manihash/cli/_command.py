"""The classes of all commands: how they show their help and run."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from manihash.cli._errors import reported
from manihash.cli._output import without_passwords

_UsageError: Any = typer.BadParameter.__base__  # of click, or of the copy of it in newer versions of typer


@contextmanager
def _parsing() -> Iterator[None]:
    """Report an interrupt, and hide passwords in errors about the command line, which repeat it."""
    try:
        with reported():
            yield
    except _UsageError as error:
        error.message = without_passwords(error.message)
        raise


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Return the parameters, with flags shown as ``--json``: typer would show ``--json <bool>``."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose errors are reported in one line, with hints about its own options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the help shows them."""
        return _without_flag_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line, with required arguments as ``MODEL``, not ``{MODEL}``."""
        return [re.sub(r"^\{(.*)\}(\.\.\.)?$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line."""
        with _parsing():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {name for param in self.params for name in param.opts}
        with reported(options):
            return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands, listed in the order in which they were added."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters as the help shows them."""
        return _without_flag_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to the name of a command."""
        with _parsing():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the command line names."""
        with _parsing():
            return super().resolve_command(ctx, args)
