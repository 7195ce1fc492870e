"""manihash report: what explore shows, as a static page."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from manihash.cli import _explored, _options
from manihash.cli._output import file_size, print_result, progress_shown

_PAGE, _FILE = "index.html", "explore.html"


def report(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", help="Folder for index.html and explore.html."),
    ],
    file: _explored.Vectors = None,
    vectors: _explored.IndexVectors = None,
    ids: _explored.IndexIds = None,
    data: _explored.Data = None,
    model: _explored.ModelFile = None,
    labels: _explored.LabelFile = None,
    images: _explored.Images = None,
    image_dir: _explored.ImageFolder = None,
    texts: _explored.Texts = None,
    recipe: _options.Recipe = _options.DEFAULT_RECIPE,
    bits: _options.Bits = 64,
    seed: _options.Seed = 0,
    quiet: _options.Quiet = False,
) -> None:
    """Write a report about vectors and their codes: a page that can be read, printed and sent.

    It has a map of all rows, queries with their answers, precision and recall
    for every radius, statistics of the codes, and what buckets and bits
    contain. Beside it, explore.html is the same content to click through.

    Examples:

      manihash report --data digits -o report
      manihash report items.mhx --vectors vectors.npy -o report
      manihash report vectors.npy --labels labels.npy --images images.npy -o report
      manihash report vectors.npy --model model.mhash --texts texts.txt -o report
    """
    subject = _explored.subject_of(
        file, vectors, ids, data, model, None, labels, images, image_dir, texts, recipe, bits, seed
    )
    subject.check()
    from manihash.pages.folder import check_folder, replace_files

    check_folder(out, [_PAGE, _FILE])
    with progress_shown(quiet) as bar, _explored.prepared(subject, bar, hold_out=True) as exploration:
        from datetime import date

        from manihash.web.explore.export import file_text
        from manihash.web.explore.report import report_page

        bar.start("writing the report")
        text = report_page(exploration, date.today(), _command())
        whole, notes = file_text(exploration)
        replace_files(out, {_PAGE: text.encode(), _FILE: whole.encode()}, _PAGE)
    sizes = [f"{out / name} ({file_size((out / name).stat().st_size)})" for name in (_PAGE, _FILE)]
    print_result(Text.assemble(("report ", "bold"), "; ".join([*sizes, *notes])))


def _command() -> str:
    """The command line, as it can be typed again."""
    return shlex.join(["manihash", *sys.argv[1:]])
