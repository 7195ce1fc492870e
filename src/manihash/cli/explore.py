"""manihash explore: a local page to look at rows, codes and answers."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from manihash.cli import _explored, _inputs, _options
from manihash.cli._output import file_size, print_result, progress_shown


def explore(
    file: _explored.Vectors = None,
    vectors: _explored.IndexVectors = None,
    ids: _explored.IndexIds = None,
    data: _explored.Data = None,
    model: _explored.ModelFile = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Second model file, whose answers are shown beside those of the first.",
            show_default=False,
        ),
    ] = None,
    labels: _explored.LabelFile = None,
    images: _explored.Images = None,
    image_dir: _explored.ImageFolder = None,
    texts: _explored.Texts = None,
    recipe: _options.Recipe = _options.DEFAULT_RECIPE,
    bits: _options.Bits = 64,
    seed: _options.Seed = 0,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE.html",
            help="Write the page with its data to one file instead of starting a server.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Port of the page on this machine; 0 for a free one.")
    ] = 0,
    open_page: _options.OpenPage = True,
    quiet: _options.Quiet = False,
) -> None:
    """Open a page to explore vectors: a map of all rows, queries and their answers, and the codes.

    The page is served from this machine to this machine only, until Ctrl-C.
    Without --model, a model is fitted first; an index file holds its own. With
    --export, everything is written to one HTML file that works without a
    server.

    Examples:

      manihash explore --data digits
      manihash explore items.mhx --vectors vectors.npy
      manihash explore vectors.npy --labels labels.npy --images images.npy
      manihash explore vectors.npy --model model.mhash --texts texts.txt
      manihash explore vectors.npy --model a.mhash --compare b.mhash
      manihash explore vectors.npy --export explore.html
    """
    subject = _explored.subject_of(
        file, vectors, ids, data, model, compare, labels, images, image_dir, texts, recipe, bits, seed
    )
    subject.check()
    if export is not None:
        _inputs.check_output(
            export, subject.index, subject.vectors, ids, labels, images, model, compare, texts
        )
    with progress_shown(quiet) as bar, _explored.prepared(subject, bar) as exploration:
        if export is None:
            from manihash.web.explore.application import explore_application
            from manihash.web.server import LOCAL, run
        else:
            from manihash.web.explore.export import write_file

            bar.start("writing the file")
            written = write_file(exploration, export)
    if export is not None:
        lines = [f"{export} ({file_size(export.stat().st_size)})", *written]
        print_result(Text.assemble(("page ", "bold"), "; ".join(lines)))
        return
    run(
        explore_application(exploration, LOCAL),
        port=port,
        announce=lambda url: print_result(Text.assemble(("page ", "bold"), f"{url} (Ctrl-C ends it)")),
        open_page=open_page,
    )
