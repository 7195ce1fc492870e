"""manihash choose: recommend a recipe, a code length and a radius for a file of vectors."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from manihash.cli import _inputs, _options
from manihash.cli._output import print_json, print_message, print_result, progress_shown

if TYPE_CHECKING:
    from collections.abc import Generator

    from manihash.advice import Choice


def choose(
    vectors: Annotated[
        str, typer.Argument(metavar="VECTORS", help=f"File of vectors: {_options.VECTOR_FILES}.")
    ],
    bits: Annotated[
        int | None,
        typer.Option("--bits", "-b", help="Largest code length in bits.", show_default="64"),
    ] = None,
    code_bytes: Annotated[
        int | None,
        typer.Option("--bytes", help="Largest code length in bytes, instead of --bits.", show_default=False),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            metavar="GOAL",
            help="What the codes are for: auto, first, group, ranking, neighbors or duplicates.",
        ),
    ] = "auto",
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Labels of the vectors, one per row; -1 or an empty field for none.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", help="Largest number of rows to measure with.")] = 10_000,
    max_candidates: Annotated[
        int | None,
        typer.Option(
            "--max-candidates",
            help="Number of rows that a look-up may return on average.",
            show_default="mean number of rows with one label; without labels 1 % of the rows, at least 100; "
            "10 for duplicates",
        ),
    ] = None,
    max_fit_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-fit-seconds",
            help="Longest time to fit the model to all rows, estimated from the sample.",
            show_default="no limit",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Write the page index.html here.", show_default=False
        ),
    ] = None,
    seed: _options.Seed = 0,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Recommend a recipe, a code length and a radius for your vectors.

    Candidates are fitted to some rows of a random sample and measured with
    held-out queries, and the best of them to the whole sample. The winner for
    the goal is recommended:

      first       the ten best answers (precision@10)
      group       everything of the same kind, within a small radius (F1)
      ranking     relevant rows before others (MAP)
      neighbors   the nearest rows (recall@10 after re-ranking 100 rows)
      duplicates  copies within a radius that returns at most ten rows
      auto        a good ranking with good first answers (MAP and precision@10)

    With --labels, methods that learn from labels are candidates, too: they see
    the labels of half of the rows, and are judged on other rows. Without,
    relevant rows are those of the query's cluster in the neighbor graph, and
    the nearest rows.

    Examples:

      manihash choose vectors.npy --bytes 8 --out choice/
      manihash choose vectors.npy --labels labels.npy --max-fit-seconds 120
      manihash choose vectors.npy --goal neighbors --bits 128 --json
    """
    from manihash.advice.scores import checked_goal

    _inputs.check_inputs(vectors, labels)
    checked_goal(goal)
    n_bits = _code_length(bits, code_bytes)
    if out is not None:
        from manihash.pages.folder import check_folder

        check_folder(out, [_PAGE])
    start = perf_counter()
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        from manihash.advice.choose import choosing
        from manihash.cli import _tables
        from manihash.files.formats import open_vectors

        X = open_vectors(vectors, **_tables.keywords())
        y = None if labels is None else _inputs.read_labels(labels, X.shape[0])
        steps = choosing(
            X,
            n_bits,
            goal,
            y,
            seed,
            sample=sample,
            max_candidates=max_candidates,
            max_fit_seconds=max_fit_seconds,
        )
        step = next(steps)  # arguments are checked before it
        if not quiet:
            _announce(min(sample, X.shape[0]), X.shape[1])
        choice = _finished(step, steps, bar)
        if out is not None:
            _write(choice, vectors, out)
    seconds = perf_counter() - start
    _show(choice, vectors, labels, seconds, as_json=as_json, has_page=out is not None)
    if out is not None:
        print_message("written", str(out / _PAGE), "green")


_PAGE = "index.html"
_LONG = 1_000_000  # numbers in a sample that is measured for a minute or longer
_FEWER = 4_000  # rows from which on a smaller sample is worth a hint


def _code_length(bits: int | None, code_bytes: int | None) -> int:
    """Return the largest code length in bits, from the one of two options that is given."""
    from manihash.checks import positive_int

    if bits is not None and code_bytes is not None:
        raise typer.BadParameter("got both --bits and --bytes: give one of the two")
    if code_bytes is not None:
        return 8 * positive_int(code_bytes, "--bytes")
    return 64 if bits is None else positive_int(bits, "--bits", least=2)


def _announce(rows: int, columns: int) -> None:
    """Say before the work starts that it takes minutes, if it does, and what makes it faster."""
    if rows * columns >= _LONG:
        where = f"on up to {rows:,} rows of {columns} columns"
        text = f"measuring about 20 candidates {where} takes a minute or more"
        hint = f"; --sample {rows // 4} takes less" if rows >= _FEWER else ""
        print_message("note", text + hint, "bold yellow")


def _finished(step: str, steps: "Generator[str, None, Choice]", bar: Any) -> "Choice":
    """Return the choice after a step and all further ones, each named in the progress bar."""
    try:
        while True:
            bar.start(step)
            step = next(steps)
    except StopIteration as done:
        return done.value
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped at: {step}; nothing was written") from None


def _write(choice: "Choice", vectors: str, out: Path) -> None:
    from datetime import date

    from manihash.pages.choice import choice_page
    from manihash.pages.folder import replace_files

    html = choice_page(choice, Path(vectors).name, date.today())
    replace_files(out, {_PAGE: html.encode()}, _PAGE)


def _show(
    choice: "Choice", vectors: str, labels: str | None, seconds: float, *, as_json: bool, has_page: bool
) -> None:
    document: dict[str, Any] = {
        "vectors": vectors,
        "recipe": choice.recipe,
        "n_bits": choice.n_bits,
        "radius": choice.radius,
        "goal": choice.goal,
        "relevance": choice.relevance,
        "uses_labels": choice.uses_labels,
        "curve": choice.curve,
        "knee": choice.knee,
        "sample": choice.sample,
        "reasons": choice.reasons,
        "table": choice.table,
        "seconds": round(seconds, 1),
    }
    if as_json:
        print_json(document)
        return
    print_result(Text(f"{choice.reasons[0]}\n", style="bold"))
    print_result(choice_table(choice, has_page=has_page))
    print_result(Text(legend(choice), style="dim"))
    print_result(Text("\n" + "\n".join(choice.reasons[1:]) + "\n"))
    print_result(Text("\n".join(_commands(choice, vectors, labels))))


def _commands(choice: "Choice", vectors: str, labels: str | None) -> list[str]:
    """Return the commands that build the recommendation and search it as its score was measured."""
    from manihash.advice.scores import LOOK_UPS

    given = f" --labels {labels}" if choice.uses_labels else ""
    asked = f"--radius {choice.radius}" if choice.goal in LOOK_UPS else "-k 10"
    ranked = f" --rerank {vectors}" if choice.goal == "neighbors" else ""
    return [
        f"manihash build {vectors}{given} --recipe {choice.recipe} --bits {choice.n_bits} -o items.mhx",
        f"manihash search items.mhx queries.npy {asked}{ranked}",
    ]


_SHOWN = 12


class _Column(NamedTuple):
    heading: str
    form: str
    meaning: str


_COLUMNS = {  # key of a record
    "score": _Column("score", ".3f", "for the goal, as said above"),
    "error": _Column("±", ".3f", "standard error of the score"),
    "map": _Column("MAP", ".3f", "relevant rows in the whole ranking"),
    "nearest_map": _Column("near MAP", ".3f", "the nearest 2 % of the rows in the whole ranking"),
    "precision_at_10": _Column("P@10", ".3f", "relevant rows among the first ten"),
    "nearest_precision_at_10": _Column("near P@10", ".3f", "the nearest 2 % among the first ten"),
    "f1": _Column("F1", ".3f", "of the relevant rows within the radius"),
    "nearest_f1": _Column("near F1", ".3f", "of the nearest 2 % within the radius"),
    "copies_found": _Column("copies", ".3f", "planted copies within the radius"),
    "recall_at_10": _Column("R@10", ".3f", "the ten nearest rows among the first ten"),
    "recall_at_10_reranked": _Column("re-ranked", ".3f", "the ten nearest rows among the first hundred"),
    "radius": _Column("radius", "", "for look-ups"),
    "returned": _Column("found", ",.0f", "rows of the sample within the radius"),
    "lookup_recall": _Column("recall", ".3f", "share of the ten nearest among them"),
    "empty": _Column("empty", ".2f", "queries without an answer"),
    "bytes_per_row": _Column("bytes", "", "per row"),
    "fit_seconds": _Column("fit s", ".1f", "of the rows of the sample"),
    "rows": _Column("rows", ",", "that it was fitted to; compare scores of the same number only"),
}
_PARTS = {  # columns that only the score of some goals is made of
    "map": ("auto", "ranking"),
    "nearest_map": ("auto", "ranking"),
    "precision_at_10": ("auto", "first"),
    "nearest_precision_at_10": ("auto", "first"),
    "f1": ("group",),
    "nearest_f1": ("group",),
    "empty": ("group",),
    "radius": ("group", "duplicates"),
    "returned": ("group", "duplicates"),
    "lookup_recall": ("group", "duplicates"),
}


def choice_table(choice: "Choice", *, has_page: bool) -> Table:
    """Return a table of the best candidates; the recommended one is marked."""
    columns = _columns(choice)
    table = Table("", "recipe", "bits", box=None, header_style="bold")
    saw = any(row["uses_labels"] for row in choice.table)
    if saw:
        table.add_column("labels")
    for column in columns.values():
        table.add_column(column.heading, justify="right")
    measured = [row for row in choice.table if row["score"] is not None]
    best = choice.best
    shown = measured[:_SHOWN] if best in measured[:_SHOWN] else [*measured[: _SHOWN - 1], best]
    few = next((row for row in shown if row["rows"] < shown[0]["rows"]), None)
    for row in shown:
        if row is few:
            table.add_row("", Text(f"on {row['rows']:,} rows only:", style="dim"))
        cells = (format(row[key], column.form) if key in row else "-" for key, column in columns.items())
        labels = ["seen" if row["uses_labels"] else ""] if saw else []
        table.add_row("→" if row is best else "", row["recipe"], str(row["n_bits"]), *labels, *cells)
    left = len(choice.table) - len(shown)
    if left:
        where = "in the page" if has_page else "use --json or --out"
        table.caption = f"{left} more candidates, and times to encode and search: {where}"
    return table


def legend(choice: "Choice") -> str:
    """Return what the columns of the table mean."""
    meanings = [f"{column.heading}: {column.meaning}" for column in _columns(choice).values()]
    if any(row["uses_labels"] for row in choice.table):
        meanings.insert(0, "labels: whether the method has seen some")
    return "; ".join(meanings)


def _columns(choice: "Choice") -> dict[str, _Column]:
    """Return the columns for the goal that some candidate has a value in."""
    return {
        key: column
        for key, column in _COLUMNS.items()
        if choice.goal in _PARTS.get(key, (choice.goal,)) and any(key in row for row in choice.table)
    }
