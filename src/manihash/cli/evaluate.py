"""manihash evaluate: recipes against each other on one data set, in one table."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from manihash.cli import _evaluation, _inputs, _settings
from manihash.cli._errors import WRONG_INPUT
from manihash.cli._output import say, show, show_json
from manihash.cli._progress import Watch, watched

if TYPE_CHECKING:
    from manihash.datasets import Dataset

_OWN = "Your own data"
_COLUMNS = {  # measure: heading, digits
    "map": ("MAP", 3),
    "map_ties": ("MAP\nties", 3),
    "precision": ("precision", 3),
    "recall": ("recall", 3),
    "f1": ("F1", 3),
    "fit_seconds": ("fit s", 2),
    "encode_us_per_row": ("µs/row", 2),
}


def evaluate(
    data: Annotated[
        str | None, typer.Option("--data", help="A set of [bold]manihash data list[/], such as digits.")
    ] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Recipes, with commas; [bold]manihash info[/] lists them.")
    ] = "imh-tsne",
    bits: Annotated[str, typer.Option("--bits", "-b", help="Lengths of the codes, with commas.")] = "64",
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors", help="One file: queries are drawn from it at random.", rich_help_panel=_OWN
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option("--train", help="Or two: the database, and ...", rich_help_panel=_OWN)
    ] = None,
    test: Annotated[str | None, typer.Option("--test", help="... the queries.", rich_help_panel=_OWN)] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Labels of --vectors or --train.", rich_help_panel=_OWN),
    ] = None,
    test_labels: Annotated[
        str | None, typer.Option("--test-labels", help="Labels of --test.", rich_help_panel=_OWN)
    ] = None,
    queries: Annotated[
        int | None, typer.Option("--queries", help="How many queries; by default at most 1,000 are drawn.")
    ] = None,
    radius: Annotated[int, typer.Option("--radius", help="Of the look-up, in bits.")] = 2,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Repeat with so many seeds: mean ± standard deviation.")
    ] = 1,
    seed: _inputs.Seed = 0,
    settings: _settings.Settings = None,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Compare recipes and code lengths on a data set, in one table.

    MAP ranks the whole database by Hamming distance, ties in the order of the
    database; MAP ties is its expectation over random order inside each tie.
    Precision, recall and F1 are of the look-up within the radius.

    A row is relevant to a query if it has its label; without labels, if it is
    among the nearest 2 % by Euclidean distance. The first line of the table is
    the exhaustive scan of the vectors themselves.

    Examples:

      manihash evaluate --data digits --recipe imh-tsne,imh-pca --bits 16,32
      manihash evaluate --vectors X.npy --labels y.npy --bits 32 --seeds 3
      manihash evaluate --train base.fvecs --test query.fvecs --bits 64 --json
    """
    trials = _planned(recipe, bits, range(seed, seed + _at_least_one(seeds)), settings)
    sources = (data, vectors, train, test, labels, test_labels)
    with watched(quiet) as watch:
        watch.begin("reading")
        dataset = _dataset(*sources, queries=queries, seed=seed)
        document = _measured(trials, dataset, radius, watch)
    if as_json:
        show_json(document)
    else:
        show(_table(document))
        show(Text(f"\n{document['protocol']}"))
    failed = [row for row in document["rows"] if "error" in row]
    for row in failed:
        say("error", f"{row['recipe']}, {row['bits']} bits: {row['error']}")
    if failed:
        raise typer.Exit(WRONG_INPUT)


def _at_least_one(seeds: int) -> int:
    from manihash.checks import positive_int

    return positive_int(seeds, "--seeds")


def _planned(
    recipes: str, lengths: str, seeds: range, settings: list[str] | None
) -> dict[tuple[str, int], list[Any]]:
    """An unfitted hasher for every seed of every line of the table: a wrong name is found before any work."""
    plan: dict[tuple[str, int], list[Any]] = {}
    for name in _split(recipes, "--recipe"):
        for text in _split(lengths, "--bits"):
            if not text.lstrip("+-").isdecimal():
                raise ValueError(
                    f"--bits {text!r} came: whole numbers with commas were wanted, such as 16,32"
                )
            made = [_settings.make_hasher(name, int(text), seed, settings) for seed in seeds]
            plan[name, int(text)] = made
    return plan


def _split(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{option} {text!r} came: at least one was wanted, several with commas between them")
    return parts


def _dataset(
    data: str | None,
    vectors: str | None,
    train: str | None,
    test: str | None,
    labels: str | None,
    test_labels: str | None,
    *,
    queries: int | None,
    seed: int,
) -> "Dataset":
    ways = [data is not None, vectors is not None, train is not None or test is not None]
    if sum(ways) != 1:
        raise typer.BadParameter("give --data NAME, or --vectors FILE, or --train FILE with --test FILE")
    if data is not None and (labels or test_labels):
        raise typer.BadParameter(
            "a set of --data brings its own labels: leave --labels and --test-labels out"
        )
    if vectors is not None and test_labels:
        raise typer.BadParameter("--test-labels belong to --test: with --vectors give --labels alone")
    if data is not None:
        return _evaluation.from_catalog(data, queries)
    if vectors is not None:
        return _evaluation.from_one_file(vectors, labels, queries, seed)
    if train is None or test is None or queries is not None:
        raise typer.BadParameter("--train and --test come together, and without --queries")
    return _evaluation.from_files(train, labels, test, test_labels)


def _measured(
    plan: dict[tuple[str, int], list[Any]], data: "Dataset", radius: int, watch: Watch
) -> dict[str, Any]:
    """The whole table as a document. A recipe that cannot be fitted has an error in its row."""
    from manihash.evaluation.truth import truth_of

    watch.begin("truth")
    truth = truth_of(data.X_test, data.X_train, data.y_test, data.y_train)
    scan = _evaluation.scan_map(data, truth)
    rows: list[dict[str, Any]] = []
    for i, ((name, bits), hashers) in enumerate(plan.items(), 1):
        row: dict[str, Any] = {"recipe": name, "bits": bits}
        watch.begin(f"{name}, {bits} bits ({i} of {len(plan)})")
        try:
            seeds = [_evaluation.measures(hasher, data, truth, radius) for hasher in hashers]
        except ValueError as error:
            rows.append(row | {"error": str(error)})
            continue
        means, spread = _evaluation.summary(seeds)
        rows.append(row | means | ({} if spread is None else {"spread": spread}))
    n_seeds = len(next(iter(plan.values())))
    return {
        "data": data.note,
        "protocol": _protocol(data, radius, n_seeds),
        "radius": radius,
        "n_seeds": n_seeds,
        "l2_scan": {"map": scan},
        "rows": rows,
    }


def _protocol(data: "Dataset", radius: int, n_seeds: int) -> str:
    from manihash.evaluation.truth import NEAREST

    relevant = (
        "a row is relevant if it has the query's label"
        if data.y_train is not None and data.y_test is not None
        else f"a row is relevant if it is among the nearest {NEAREST:.0%} by Euclidean distance"
    )
    several = f" Mean ± standard deviation of {n_seeds} seeds." if n_seeds > 1 else ""
    return (
        f"{data.note} Codes are learned from the database and searched in it; {relevant}. "
        f"Precision, recall and F1 within Hamming radius {radius}.{several}"
    )


def _table(document: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    for heading in ("bits", *(heading for heading, _ in _COLUMNS.values())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("l2 scan", "", f"{document['l2_scan']['map']:.3f}", style="dim")
    for row in document["rows"]:
        cells = [_cell(row, name, digits) for name, (_, digits) in _COLUMNS.items()]
        table.add_row(row["recipe"], str(row["bits"]), *cells)
    return table


def _cell(row: dict[str, Any], name: str, digits: int) -> str:
    if "error" in row:
        return "-"
    spread = f"\n±{row['spread'][name]:.{digits}f}" if "spread" in row else ""
    return f"{row[name]:.{digits}f}{spread}"
