"""manihash data: list and download datasets, and compute GIST descriptors of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from manihash.cli import _inputs, _options
from manihash.cli._command import Command, Group
from manihash.cli._output import key_values, print_json, print_result, progress_shown

if TYPE_CHECKING:
    from manihash.datasets.catalog import Entry

data = typer.Typer(
    cls=Group, no_args_is_help=True, help="List and download datasets; compute GIST descriptors of images."
)


@data.command("list", cls=Command)
def list_sets(as_json: _options.Json = False) -> None:
    """List the datasets that --data accepts, and whether they are on this machine.

    Files are searched in the folder named by the environment variable
    MANIHASH_DATA, then in the cache.

    Example:

      manihash data list
    """
    from manihash.datasets.catalog import CATALOG
    from manihash.datasets.locations import cache_folder, data_folder

    entries = CATALOG.values()
    folders = {"data_folder": _text(data_folder()), "cache": _text(cache_folder())}
    if as_json:
        print_json({"sets": [_document(entry) for entry in entries], **folders})
        return
    table = Table("name", "available", "source", "description", header_style="bold", box=None, pad_edge=False)
    for entry in entries:
        available = Text("yes", "green") if entry.is_here else Text("no", "dim")
        table.add_row(entry.name, available, _source(entry), entry.description)
    print_result(table)
    print_result("")
    print_result(
        key_values(
            {"MANIHASH_DATA": folders["data_folder"] or "not set", "cache": folders["cache"] or "none"}
        )
    )


@data.command(cls=Command)
def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of a dataset; [bold]manihash data list[/] shows the names."
        ),
    ],
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Download a dataset to the cache, verify it, and show its size.

    A dataset that is available already is only verified. If the download fails,
    the message says where to put a copy of the file.

    Example:

      manihash data get mnist
    """
    from manihash.datasets import CATALOG, load_dataset

    with progress_shown(quiet) as bar:
        bar.start(f"getting {name}")
        try:
            dataset = load_dataset(name, shuffle=False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("files that were complete are kept") from None
    document = {
        "name": name,
        "database": list(dataset.X_train.shape),
        "queries": list(dataset.X_test.shape),
        "labels": dataset.y_train is not None,
        "note": CATALOG[name].description,
    }
    if as_json:
        print_json(document)
        return
    rows = "{:,} x {:,}".format
    labels = "labels" if document["labels"] else "no labels"
    print_result(
        key_values(
            {
                "dataset": name,
                "database": f"{rows(*dataset.X_train.shape)}, {labels}",
                "queries": rows(*dataset.X_test.shape),
                "description": CATALOG[name].description,
            }
        )
    )


@data.command(cls=Command)
def gist(
    images: Annotated[
        str,
        typer.Argument(
            metavar="IMAGES",
            help="Folder of image files, or an array (n, h, w) or (n, h, w, 3) of pixels from 0 to 255: npy, "
            "npz, idx or HDF5.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="File of descriptors to write, such as gist.npy."),
    ],
    color: Annotated[
        bool,
        typer.Option(
            "--color", help="Describe the three colors (960 numbers) instead of their mean (512 numbers)."
        ),
    ] = False,
    names: Annotated[
        Path | None,
        typer.Option(
            "--names",
            metavar="FILE.txt",
            help="Write the names of the files of a folder, one per line, for [bold]manihash index --ids[/].",
            show_default=False,
        ),
    ] = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Compute GIST descriptors of images, which can be used as vectors.

    Each image is resized to 32 x 32 pixels. A descriptor holds the mean
    responses of oriented filters in each block of a 4 x 4 grid. The files of
    a folder are described in the order of their names.

    Examples:

      manihash data gist photos/ -o vectors.npy --names names.txt
      manihash data gist images.npy -o gist.npy
    """
    from manihash import datasets
    from manihash.files.atomic import atomic_write
    from manihash.pages.image_folder import image_paths, small_images

    is_folder = Path(images).is_dir()
    if names is not None and not is_folder:
        raise typer.BadParameter(f"--names needs a folder of image files, got {images}")
    _inputs.check_output(out, images)
    if names is not None:
        _inputs.check_output(names, images, out)
    paths = image_paths(images) if is_folder else []
    with progress_shown(quiet) as bar:
        bar.start("computing descriptors")
        pixels = small_images(paths) if is_folder else datasets.read(images)
        descriptors = datasets.gist(pixels, color=color)
        datasets.write(out, descriptors)
        if names is not None:
            with atomic_write(names) as part:
                part.write_text("".join(f"{path.name}\n" for path in paths), encoding="utf-8")
    n, width = descriptors.shape
    if as_json:
        print_json({"descriptors": str(out), "rows": n, "width": width})
    else:
        print_result(key_values({"descriptors": str(out), "rows": f"{n:,} vectors of {width} columns"}))


def _source(entry: "Entry") -> str:
    if not entry.files:
        return "scikit-learn"
    return "download" if entry.is_public else "your copy"


def _document(entry: "Entry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "here": entry.is_here,
        "from": _source(entry),
        "description": entry.description,
    }


def _text(folder: Path | None) -> str | None:
    return None if folder is None else str(folder)
