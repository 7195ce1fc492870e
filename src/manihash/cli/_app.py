"""The commands put together, with what belongs to all of them."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from manihash import __version__
from manihash.cli._errors import reported
from manihash.cli.data import data
from manihash.cli.dedup import dedup
from manihash.cli.demo import demo
from manihash.cli.encode import encode
from manihash.cli.evaluate import evaluate
from manihash.cli.export import export
from manihash.cli.fit import fit
from manihash.cli.index import index
from manihash.cli.info import info
from manihash.cli.paper import paper
from manihash.cli.search import search
from manihash.cli.stats import stats

_ORDER = [
    "demo",
    "data",
    "fit",
    "encode",
    "index",
    "search",
    "dedup",
    "stats",
    "export",
    "evaluate",
    "paper",
    "info",
]


class _Group(TyperGroup):
    """Every command runs inside ``reported``, in a terminal and in tests alike."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in _ORDER if name in self.commands]

    def invoke(self, ctx: Any) -> Any:
        with reported():
            return super().invoke(ctx)


app = typer.Typer(
    name="manihash",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data, name="data")
for command in (demo, fit, encode, index, search, dedup, stats, export, evaluate, paper, info):
    app.command()(command)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"manihash {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compact binary codes that keep the neighbors of the manifold your vectors lie on.

    A first round, from vectors to answers:

      manihash fit vectors.npy --recipe imh-tsne --bits 64 -o model.mhash
      manihash encode model.mhash vectors.npy -o codes.npy
      manihash search model.mhash codes.npy queries.npy -k 10

    Without data at hand: [bold]manihash demo[/], or

      manihash evaluate --data digits --recipe imh-tsne,imh-pca --bits 16,32

    Exit codes: 0 done; 1 a fault of manihash itself; 2 something to put right
    in what was given; 130 interrupted, 143 terminated. Results go to stdout, all
    else to stderr.
    """
