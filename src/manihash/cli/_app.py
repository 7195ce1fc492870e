"""The command line application: all commands together."""

from typing import Annotated

import typer

from manihash import __version__
from manihash.cli._command import Command, Group
from manihash.cli._tables import reads_tables
from manihash.cli.bridge import bridge
from manihash.cli.build import build
from manihash.cli.checkout import add_commands
from manihash.cli.choose import choose
from manihash.cli.data import data
from manihash.cli.dedup import dedup
from manihash.cli.drift import drift
from manihash.cli.encode import encode
from manihash.cli.evaluate import evaluate
from manihash.cli.explore import explore
from manihash.cli.export import export
from manihash.cli.fit import fit
from manihash.cli.index import index
from manihash.cli.info import info
from manihash.cli.onnx import onnx
from manihash.cli.refit import refit
from manihash.cli.report import report
from manihash.cli.search import search
from manihash.cli.serve import serve
from manihash.cli.stats import stats
from manihash.cli.update import update

_ORDER = [
    "demo",
    "data",
    "choose",
    "build",
    "search",
    "serve",
    "fit",
    "encode",
    "index",
    "dedup",
    "stats",
    "explore",
    "report",
    "drift",
    "update",
    "refit",
    "bridge",
]
_ORDER += ["export", "onnx", "evaluate", "paper", "info"]


class _App(Group):
    """All commands, in the order in which a new user needs them."""

    def list_commands(self, ctx: object) -> list[str]:
        return _ORDER


app = typer.Typer(
    name="manihash",
    cls=_App,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data, name="data")
add_commands(app)
app.command(cls=Command)(info)
for reader in (
    choose,
    build,
    fit,
    encode,
    index,
    search,
    serve,
    dedup,
    stats,
    explore,
    report,
    drift,
    update,
    refit,
    bridge,
    export,
    onnx,
    evaluate,
):
    app.command(cls=Command)(reads_tables(reader))


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"manihash {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Learn compact binary codes that preserve the neighborhoods of your vectors, and search them.

    Learn codes of your vectors, search them, and look at them:

      manihash build vectors.npy --bits 64 -o items.mhx
      manihash search items.mhx queries.npy -k 10
      manihash explore items.mhx --vectors vectors.npy

    The same in steps, with a file between each two: fit, encode, index.

    Try it without data of your own:

      manihash demo
      manihash evaluate --data digits --recipe imh-tsne,imh-pca --bits 16,32

    Results are printed to stdout, messages and progress to stderr.

    Exit codes: 0 success, 1 internal error, 2 invalid input, 3 drift was found
    (drift) or the bridge would lose too much (bridge), 130 interrupted (Ctrl-C),
    143 terminated (SIGTERM). Set MANIHASH_DEBUG=1 to see tracebacks.
    """
