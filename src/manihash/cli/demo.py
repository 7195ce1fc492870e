"""manihash demo: the variants of IMH on pictures, in a table and on a page to look at."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from manihash.cli import _inputs, _settings
from manihash.cli._output import say, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from manihash.demo.measure import Demo, Material, Scan, Score

_PAGE = "index.html"


def demo(
    data: Annotated[str, typer.Option("--data", help="The set: digits, or mnist.")] = "digits",
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write index.html to.")] = Path(
        "demo"
    ),
    bits: Annotated[
        str | None,
        typer.Option("--bits", "-b", help="Code lengths, with commas.", show_default="four, by the set"),
    ] = None,
    seed: _inputs.Seed = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Learn codes of handwritten digits, compare them with the pixels, and write a page to look at.

    The digits come with scikit-learn, so this works offline, in less than a
    minute. The page is one file that needs nothing beside it.

    Examples:

      manihash demo
      manihash demo --data mnist --out mnist-demo --bits 16,32,64 --open
    """
    from manihash.demo import measure

    start = perf_counter()
    measure.check_pictured(data)
    _settings.make_hasher(measure.SHOWN_METHOD, 1, seed)
    lengths = measure.default_lengths(data) if bits is None else _lengths(bits)
    target = _target(out)
    result = _measured(data, lengths, seed, table=not as_json, quiet=quiet)
    _write(result, target)
    document = _document(result) | {"page": str(target), "seconds": round(perf_counter() - start, 1)}
    if as_json:
        show_json(document)
    else:
        _show_end(result, document)
    if open_page:
        typer.launch(str(target))


def _lengths(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"--bits {text!r} came: whole numbers with commas were wanted, such as 16,32")
    return tuple(sorted({int(part) for part in parts}))


def _target(out: Path) -> Path:
    """The page to write, in a folder that is there and can be written to before any work is done."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            f"cannot make the folder {out}: {error.strerror}. Give another one with --out"
        ) from error
    _inputs.check_target(out / _PAGE)
    return out / _PAGE


def _measured(data: str, lengths: tuple[int, ...], seed: int, *, table: bool, quiet: bool) -> "Demo":
    """All trials; with ``table``, each line is shown as soon as its numbers are there."""
    from manihash.demo import measure

    with watched(quiet) as watch:
        watch.begin("reading")
        material = measure.load(data, seed)
        watch.begin("scanning the pixels")
        scan = measure.scan(material)
    if table:
        _show_head(material, lengths, scan)
    scores: list[Score] = []
    for method in measure.METHODS:
        with watched(quiet) as watch:
            line = []
            for n_bits in lengths:
                watch.begin(f"{method}, {n_bits} bits")
                line.append(measure.score(material, method, n_bits))
        if table:
            show(_line(line[0].title, [score.map for score in line], [score.f1 for score in line]))
        scores += line
    with watched(quiet) as watch:
        watch.begin("looking at answers")
        return measure.finish(material, lengths, scan, scores)


def _write(result: "Demo", target: Path) -> None:
    from datetime import date

    from manihash.demo.page import demo_page

    demo_page(result, date.today()).write(target)


def _show_head(material: "Material", lengths: tuple[int, ...], scan: "Scan") -> None:
    show(Text(material.data.note))
    gap, width = " " * 4, 7 * len(lengths)
    show(Text(f"\n{'':22}{'MAP, %':>{width}}{gap}{'F1 within radius 2, %':>{width}}", "bold"))
    heads = "".join(f"{n_bits:>7}" for n_bits in lengths)
    show(Text(f"{'bits':22}{heads}{gap}{heads}", "bold"))
    for name, value in (("l2 scan, raw pixels", scan.raw), ("l2 scan, unit length", scan.unit)):
        show(_line(name, [value] * len(lengths), [None] * len(lengths)))


def _line(name: str, *groups: list[float | None]) -> Text:
    cells = ("".join(f"{'–' if v is None else format(100 * v, '.1f'):>7}" for v in group) for group in groups)
    return Text(f"{name:22}{(' ' * 4).join(cells)}")


def _show_end(result: "Demo", document: dict[str, Any]) -> None:
    from manihash.demo.page import headline

    for text in dict.fromkeys(f"{score.title}: {score.reason}" for score in result.scores if score.reason):
        say("note", text, "yellow")
    show(Text(f"\n{headline(result)}"))
    show(Text.assemble(("page ", "bold"), f"{document['page']} (written after {document['seconds']:.0f} s)"))


def _document(result: "Demo") -> dict[str, Any]:
    material = result.material
    rows = [
        {"recipe": score.method, "bits": score.n_bits}
        | (
            {"error": score.reason}
            if score.reason
            else {"map": score.map, "f1": score.f1, "seconds": score.seconds}
        )
        for score in result.scores
    ]
    return {
        "data": material.data.note,
        "seed": material.seed,
        "base_size": len(material.base),
        "l2_scan": {"map": result.scan.raw, "map_unit_length": result.scan.unit},
        "rows": rows,
    }
