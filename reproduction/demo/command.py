"""manihash demo: compare variants of IMH on images, in a table and on a web page."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from manihash.cli import _inputs, _options, _settings
from manihash.cli._output import print_json, print_message, print_notes, print_result, progress_shown

if TYPE_CHECKING:
    from reproduction.demo.measure import Demo, Scan, Score, Setup

_PAGE = "index.html"


def demo(
    data: Annotated[str, typer.Option("--data", metavar="NAME", help="Dataset: digits or mnist.")] = "digits",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the page index.html.")
    ] = Path("demo"),
    bits: Annotated[
        str | None,
        typer.Option(
            "--bits",
            "-b",
            metavar="N,N,...",
            help="Code lengths in bits, separated by commas.",
            show_default="four lengths that suit the dataset",
        ),
    ] = None,
    seed: _options.Seed = 0,
    open_page: _options.OpenPage = False,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Learn codes of handwritten digits, evaluate them, and write a web page with the results.

    The digits are included in scikit-learn, so the demo works offline; it takes
    less than a minute. The page is one self-contained file.

    Examples:

      manihash demo
      manihash demo --data mnist --out mnist-demo --bits 16,32,64 --open
    """
    from manihash.pages import plots
    from reproduction.demo import measure

    plots.check_installed()
    start = perf_counter()
    measure.check_pictured(data)
    _settings.make_hasher(measure.SHOWN_METHOD, 1, seed)
    lengths = measure.default_lengths(data) if bits is None else tuple(sorted({*_inputs.code_lengths(bits)}))
    page = _page(out)
    result = _measured(data, lengths, seed, table=not as_json, quiet=quiet)
    _write(result, page)
    document = _document(result) | {"page": str(page), "seconds": round(perf_counter() - start, 1)}
    if as_json:
        print_json(document)
    else:
        _show_end(result, document)
    if open_page:
        typer.launch(str(page))


def _page(out: Path) -> Path:
    """Return the path of the page, after creating its folder and checking that it is writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            f"cannot create the folder {out}: {error.strerror}. Give another folder with --out"
        ) from error
    _inputs.check_output(out / _PAGE)
    return out / _PAGE


def _measured(data: str, lengths: tuple[int, ...], seed: int, *, table: bool, quiet: bool) -> "Demo":
    """Measure all recipes and lengths; with ``table``, print each row as soon as it is measured."""
    from manihash.search.faiss_baselines import installed_baselines
    from reproduction.demo import measure

    baselines = installed_baselines()
    with progress_shown(quiet) as bar:
        bar.start("reading images")
        setup = measure.load(data, seed)
        bar.start("exhaustive l2 scan of the pixels")
        scan = measure.scan(setup)
    if table:
        _show_head(setup, lengths, scan)
    scores: list[Score] = []
    notes: list[str] = []
    for method in (*measure.METHODS, *baselines):
        with progress_shown(quiet, notes) as bar:
            line = []
            for n_bits in lengths:
                bar.start(f"{method}, {n_bits} bits")
                line.append(measure.score(setup, method, n_bits))
        if table:
            print_result(_line(line[0].method, [score.map for score in line], [score.f1 for score in line]))
        scores += line
    if table:
        _show_first_answers(lengths, scan, scores)
    if not baselines:
        notes.append("without the quantizers of FAISS, which is not installed: pip install 'manihash[faiss]'")
    print_notes(notes)
    with progress_shown(quiet, notes) as bar:
        bar.start("searching examples")
        return measure.finish(setup, lengths, scan, scores)


def _write(result: "Demo", target: Path) -> None:
    from datetime import date

    from manihash.pages.page import write
    from reproduction.demo.page import demo_page

    write(target, demo_page(result, date.today()))


def _show_head(setup: "Setup", lengths: tuple[int, ...], scan: "Scan") -> None:
    print_result(Text(setup.data.note))
    _show_headings(lengths, "MAP, %", "F1 within radius 2, %")
    for name, found in (("l2 scan, raw pixels", scan.raw), ("l2 scan, unit length", scan.unit)):
        print_result(_line(name, [found.map] * len(lengths), [None] * len(lengths)))


def _show_first_answers(lengths: tuple[int, ...], scan: "Scan", scores: list["Score"]) -> None:
    """Print the second table: how many of the first ten answers are correct, and are the nearest rows."""
    _show_headings(lengths, "correct of the first 10, %", "found of the nearest 10, %")
    for name, found in (("l2 scan, raw pixels", scan.raw), ("l2 scan, unit length", scan.unit)):
        values = found.precision_at_10, found.recall_at_10
        print_result(_line(name, *([value] * len(lengths) for value in values)))
    for method in dict.fromkeys(score.method for score in scores):
        line = [score for score in scores if score.method == method]
        precision, recall = [s.precision_at_10 for s in line], [s.recall_at_10 for s in line]
        print_result(_line(line[0].method, precision, recall))


def _show_headings(lengths: tuple[int, ...], *groups: str) -> None:
    gap, width = " " * 4, 7 * len(lengths)
    print_result(Text(f"\n{'':22}{gap.join(f'{group:>{width}}' for group in groups)}", "bold"))
    heads = "".join(f"{n_bits:>7}" for n_bits in lengths)
    print_result(Text(f"{'bits':22}{gap.join(heads for _ in groups)}", "bold"))


def _line(name: str, *groups: list[float | None]) -> Text:
    cells = ("".join(f"{'–' if v is None else format(100 * v, '.1f'):>7}" for v in group) for group in groups)
    return Text(f"{name:22}{(' ' * 4).join(cells)}")


def _show_end(result: "Demo", document: dict[str, Any]) -> None:
    from reproduction.demo.page import headline

    for text in dict.fromkeys(f"{score.method}: {score.reason}" for score in result.scores if score.reason):
        print_message("note", text, "yellow")
    print_result(Text(f"\n{headline(result)}"))
    print_result(
        Text.assemble(("page ", "bold"), f"{document['page']} (written in {document['seconds']:.0f} s)")
    )
    text = "each row is a recipe: manihash fit VECTORS --recipe NAME, or recipe(NAME) in Python"
    print_result(Text.assemble(("use  ", "bold"), text))
    name = result.setup.data.name
    print_result(
        Text.assemble(("next ", "bold"), f"manihash explore --data {name} opens a page to explore them")
    )


def _document(result: "Demo") -> dict[str, Any]:
    setup = result.setup
    rows = [
        {"recipe": score.method, "bits": score.n_bits}
        | (
            {"error": score.reason}
            if score.reason
            else {
                "map": score.map,
                "f1": score.f1,
                "precision_at_10": score.precision_at_10,
                "recall_at_10": score.recall_at_10,
                "seconds": score.seconds,
            }
        )
        for score in result.scores
    ]
    return {
        "data": setup.data.note,
        "seed": setup.seed,
        "base_size": len(setup.base),
        "l2_scan": {
            "map": result.scan.raw.map,
            "precision_at_10": result.scan.raw.precision_at_10,
            "map_unit_length": result.scan.unit.map,
            "precision_at_10_unit_length": result.scan.unit.precision_at_10,
        },
        "rows": rows,
    }
