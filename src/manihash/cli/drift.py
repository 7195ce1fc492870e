"""manihash drift: compare new vectors with the training vectors of a model."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from manihash.cli import _inputs, _options
from manihash.cli._output import (
    key_values,
    print_json,
    print_message,
    print_notes,
    print_result,
    progress_shown,
)

if TYPE_CHECKING:
    from manihash.maintenance import Drift

DRIFTED = 3  # exit code
_SHOWN = 5
_TESTS = {
    "distance": "distance to the nearest landmark (Kolmogorov-Smirnov)",
    "center": "distance to the mean of the landmarks (Kolmogorov-Smirnov)",
    "outside": "rows outside the training range (Fisher)",
    "usage": "rows nearest to each landmark (chi-squared)",
    "sides": "rows nearer to one landmark than to another (Fisher)",
}


def drift(
    model: _options.Model,
    vectors: Annotated[
        str,
        typer.Argument(
            metavar="VECTORS",
            help="File of new vectors, at least 30; with --record the training vectors of the model.",
        ),
    ],
    level: Annotated[
        float, typer.Option("--level", help="Probability of a false alarm, between 0 and 1.")
    ] = 0.01,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Folder for drift.json and a plot of the distances.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Add the statistics of VECTORS, the training vectors, to the model file, and test nothing. "
            "For models of earlier versions.",
        ),
    ] = False,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Test whether new vectors still look like those that a model was fitted to.

    The model file holds a few training vectors (landmarks) and statistics of the
    others: distances to the landmarks and their use. Five tests compare the new
    vectors with them. The exit code is 0 without drift and 3 with drift, whatever
    the advice: read the field advice of --json if a script must know what to do.

    The advice is one of: nothing; update (add base points, [bold]manihash
    update[/]); refit (train anew and keep most bits: [bold]manihash refit[/];
    otherwise [bold]manihash fit[/]). With drift, "nothing" means that only the
    proportions seem to have changed. New classes whose vectors lie among known
    ones are not recognized.

    Examples:

      manihash drift model.mhash new.npy
      manihash drift model.mhash new.npy --out report/ --json
      manihash drift old.mhash vectors.npy --record
    """
    _inputs.check_inputs(vectors, model=model)
    hasher = _inputs.load_hasher(model)
    with progress_shown(quiet) as bar:
        if record:
            bar.start("computing statistics")
            if out is not None:
                raise typer.BadParameter("--record writes the model file only: omit --out")
            _inputs.check_output(model)
            hasher.record_statistics(_inputs.read_vectors(vectors)).save(model)
            print_message("written", f"statistics of {vectors} to {model}", "green")
            return
        bar.start("comparing with the training vectors")
        if out is not None:
            from manihash.pages.folder import check_folder

            check_folder(out, _FILES)
        found = hasher.drift(_inputs.read_vectors(vectors), level=level)
    result = {"model": str(model), "vectors": vectors, "drifted": found.drifted, **_plain(found)}
    if out is not None:
        _write(out, result, found)
    if as_json:
        print_json(result)
    else:
        _show(result, found)
    if found.drifted:
        raise typer.Exit(DRIFTED)


def _plain(found: "Drift") -> dict[str, Any]:
    """Return the fields of a result as JSON values."""
    return {**asdict(found), "quantiles": found.quantiles.tolist()}


def _show(result: dict[str, Any], found: "Drift") -> None:
    word = f"yes: p {_shown(found.p_value)}, below the level {found.level:g}"
    calm = f"no: p {_shown(found.p_value)}, level {found.level:g}"
    print_result(
        key_values(
            {
                "vectors": f"{found.n_rows:,} rows of {result['vectors']}",
                "drift": word if found.drifted else calm,
                "outside": f"{found.outside:.1%} of the rows, outside the training range (1 % without drift)",
                "advice": f"{found.advice}: {found.reason}",
            }
        )
    )
    if found.drifted and found.advice == "nothing":
        print_notes(
            [
                "new classes that lie among known rows are not recognized: if you expect some, update the "
                "model or fit a new one"
            ]
        )
    table = Table("test", "p", box=None, header_style="bold")
    for name, p in found.tests.items():
        table.add_row(_TESTS[name], _shown(p).removeprefix("= "))
    print_result(table)
    if not found.drifted:
        return
    changes = Table("most changed", "number", "training", "now", box=None, header_style="bold")
    for what, rows, percent in (
        ("base point gained", found.gained, True),
        ("base point lost", found.lost, True),
        ("mean of bit", found.bits, False),
    ):
        for i, before, now in rows[:_SHOWN]:
            texts = (f"{before:.2%}", f"{now:.2%}") if percent else (f"{before:.3f}", f"{now:.3f}")
            changes.add_row(what, str(i), *texts)
    print_result(changes)


_FILES = ("drift.json", "drift.svg", "drift.png")


def _shown(p: float) -> str:
    """Return a p-value as text, with the sign before it; smaller ones say no more."""
    return "< 1e-300" if p < 1e-300 else f"= {p:.2g}"


def _write(out: Path, result: dict[str, Any], found: "Drift") -> None:
    """Write the result and the plot of the distances."""
    from manihash.pages.drift import drift_plot
    from manihash.pages.folder import replace_files

    drawn = drift_plot(found)
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    contents = dict(zip(_FILES, (text.encode(), drawn.svg, drawn.png), strict=True))
    replace_files(out, contents, "drift.json")
    print_message("written", f"{', '.join(_FILES)} to {out}", "green")
