"""manihash data: the sets that are known by name, and descriptors of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from manihash.cli import _inputs
from manihash.cli._output import facts, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from manihash.datasets.catalog import Entry

data = typer.Typer(no_args_is_help=True, help="List and fetch data sets; GIST descriptors of images.")


@data.command("list")
def list_sets(as_json: _inputs.Json = False) -> None:
    """List the data sets that --data knows by name, and whether they are on this machine.

    Files are looked for in the folder that the variable MANIHASH_DATA names,
    then in the cache.

    Example:

      manihash data list
    """
    from manihash.datasets.catalog import CATALOG
    from manihash.datasets.locations import cache_folder, data_folder

    entries = CATALOG.values()
    folders = {"data_folder": _text(data_folder()), "cache": _text(cache_folder())}
    if as_json:
        show_json({"sets": [_document(entry) for entry in entries], **folders})
        return
    table = Table("name", "here", "from", "what it is", header_style="bold", box=None, pad_edge=False)
    for entry in entries:
        here = Text("yes", "green") if entry.is_here else Text("no", "dim")
        table.add_row(entry.name, here, _home(entry), entry.description)
    show(table)
    show("")
    show(facts({"MANIHASH_DATA": folders["data_folder"] or "not set", "cache": folders["cache"] or "none"}))


@data.command()
def get(
    name: Annotated[str, typer.Argument(help="A name of [bold]manihash data list[/].")],
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Fetch a data set into the cache, check it, and say what it holds.

    A set that is here already is only checked. Without a network the message
    says which file to put where.

    Example:

      manihash data get mnist
    """
    from manihash.datasets import CATALOG, load_dataset

    with watched(quiet) as watch:
        watch.begin(name)
        try:
            held = load_dataset(name, shuffle=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("files that were already whole are kept") from None
    document = {
        "name": name,
        "database": list(held.X_train.shape),
        "queries": list(held.X_test.shape),
        "labels": held.y_train is not None,
        "note": CATALOG[name].description,
    }
    if as_json:
        show_json(document)
        return
    rows = "{:,} x {:,}".format
    labels = "labels" if document["labels"] else "no labels"
    show(
        facts(
            {
                "set": name,
                "database": f"{rows(*held.X_train.shape)}, {labels}",
                "queries": rows(*held.X_test.shape),
                "about": CATALOG[name].description,
            }
        )
    )


@data.command()
def gist(
    images: Annotated[
        str, typer.Argument(help="Images (n, h, w) or (n, h, w, 3), pixels 0 to 255: npy, npz, idx or HDF5.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The descriptors to write, such as gist.npy.")],
    color: Annotated[
        bool, typer.Option("--color", help="960 numbers of the three colors, not 512 of their mean.")
    ] = False,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Compute GIST descriptors of images: vectors to learn codes from.

    Each image is scaled to 32 x 32; a descriptor is what oriented filters
    answer in each block of a 4 x 4 grid.

    Example:

      manihash data gist images.npy -o gist.npy
    """
    from manihash import datasets

    _inputs.check_target(out, images)
    with watched(quiet) as watch:
        watch.begin("describing images")
        descriptors = datasets.gist(datasets.read(images), color=color)
        datasets.write(out, descriptors)
    n, width = descriptors.shape
    if as_json:
        show_json({"descriptors": str(out), "rows": n, "width": width})
    else:
        show(facts({"descriptors": str(out), "rows": f"{n:,} of {width} numbers"}))


def _home(entry: "Entry") -> str:
    if not entry.files:
        return "scikit-learn"
    return "download" if entry.is_public else "your copy"


def _document(entry: "Entry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "here": entry.is_here,
        "from": _home(entry),
        "description": entry.description,
    }


def _text(folder: Path | None) -> str | None:
    return None if folder is None else str(folder)
