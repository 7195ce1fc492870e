"""manihash evaluate: compare recipes and code lengths on one dataset, in one table."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from manihash.cli import _evaluation, _inputs, _options, _settings
from manihash.cli._command import INVALID_INPUT, hints
from manihash.cli._output import print_json, print_message, print_notes, print_result, progress_shown

if TYPE_CHECKING:
    from manihash.datasets import Dataset

_OWN_DATA = "Your own data"


def evaluate(
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="NAME",
            help="Dataset, such as digits; [bold]manihash data list[/] shows the names.",
            show_default=False,
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe",
            "-r",
            metavar="NAME,NAME,...",
            help="Recipes, separated by commas; [bold]manihash info[/] lists them. To compare with FAISS: "
            "faiss-pq, faiss-opq, faiss-rabitq.",
        ),
    ] = _options.DEFAULT_RECIPE,
    bits: Annotated[
        str,
        typer.Option("--bits", "-b", metavar="N,N,...", help="Code lengths in bits, separated by commas."),
    ] = "64",
    vectors: Annotated[
        str | None,
        typer.Option(
            "--vectors",
            metavar="FILE",
            help="File of vectors; the queries are a random sample of its rows.",
            show_default=False,
            rich_help_panel=_OWN_DATA,
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train",
            metavar="FILE",
            help="File of the database vectors; needs --test.",
            show_default=False,
            rich_help_panel=_OWN_DATA,
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            "--test",
            metavar="FILE",
            help="File of the query vectors; needs --train.",
            show_default=False,
            rich_help_panel=_OWN_DATA,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Labels of --vectors or --train, one per row.",
            show_default=False,
            rich_help_panel=_OWN_DATA,
        ),
    ] = None,
    test_labels: Annotated[
        str | None,
        typer.Option(
            "--test-labels",
            metavar="FILE",
            help="Labels of --test, one per row.",
            show_default=False,
            rich_help_panel=_OWN_DATA,
        ),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            "--queries",
            help="Number of queries.",
            show_default="that of the dataset; a tenth of --vectors, at most 1,000",
        ),
    ] = None,
    radius: Annotated[
        int, typer.Option("--radius", help="Hamming radius of precision, recall and F1, in bits.")
    ] = 2,
    symmetric: Annotated[
        bool,
        typer.Option(
            "--symmetric", help="Rank by the distance of two codes: Hamming, if they are signs, as in papers."
        ),
    ] = False,
    seeds: Annotated[
        int,
        typer.Option("--seeds", help="Number of seeds; above 1 the table shows mean ± standard deviation."),
    ] = 1,
    seed: _options.Seed = 0,
    settings: _options.Settings = None,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Compare recipes and code lengths on a dataset, in one table.

    MAP is the mean average precision of the ranking of the whole database. It
    is the ranking of manihash search: by the real values of the query and the
    codes of the rows or, with --symmetric, by the distance of two codes, for
    which MAP ties is the expected MAP if rows at the same distance are in
    random order. Precision, recall and F1 are those of all rows within the
    Hamming radius, for codes of two parts that of the first part. P@10 and R@10
    are precision and recall of the first ten answers; for recall, the ten
    nearest rows by Euclidean distance count.

    A row is relevant to a query if both have the same label or, without labels,
    if it is among the nearest 2 % by Euclidean distance. The first line of the
    table is the baseline: an exhaustive scan of the original vectors.

    With --symmetric, hybrid codes whose parts are both signs have a second line,
    plain: the Hamming distance of all bits, as a database would compare them.

    faiss-pq, faiss-opq and faiss-rabitq are quantizers of FAISS of the same
    number of bits. They rank by estimated Euclidean distance and have no
    look-up within a radius.

    Examples:

      manihash evaluate --data digits --recipe imh-tsne,imh-pca --bits 16,32
      manihash evaluate --data digits --recipe imh-tsne,itq --symmetric
      manihash evaluate --vectors X.npy --labels y.npy --bits 32 --seeds 3
      manihash evaluate --data mnist --recipe imh-hybrid,faiss-pq --bits 64
      manihash evaluate --train base.fvecs --test query.fvecs --bits 64 --json
    """
    from manihash.checks import positive_int

    sources = (data, vectors, train, test, labels, test_labels)
    _check_sources(*sources, queries=queries)
    positive_int(radius, "--radius", least=0)
    _inputs.check_inputs(*sources[1:])
    plan = _planned(recipe, bits, range(seed, seed + positive_int(seeds, "--seeds")), settings)
    with progress_shown(quiet) as bar:
        bar.start("reading vectors")
        dataset = _dataset(*sources, queries=queries, seed=seed)
        bar.start("ground truth")
        truth, neighbors, scan = _evaluation.truths_and_scan(dataset)
    if not as_json:
        _print(_evaluation.head([name for name, _ in plan], scan))
    measures = partial(
        _evaluation.measures,
        data=dataset,
        truth=truth,
        neighbors=neighbors,
        radius=radius,
        symmetric=symmetric,
    )
    notes: list[str] = []
    rows = list(_measured_rows(plan, measures, quiet, notes, shown=not as_json))
    print_notes(notes)
    document: dict[str, Any] = {
        "data": dataset.note,
        "protocol": _evaluation.protocol(dataset, radius, seeds, rows, symmetric=symmetric),
        "symmetric": symmetric,
        "radius": radius,
        "n_seeds": seeds,
        "l2_scan": scan,
        "rows": rows,
    }
    print_json(document) if as_json else _print(["", document["protocol"]])
    _report_failures(rows)


def _report_failures(rows: list[dict[str, Any]]) -> None:
    """Print the errors of the rows that could not be measured, and exit with an error if there are any."""
    failed = [row for row in rows if "error" in row]
    for row in failed:
        print_message("error", f"{row['recipe']}, {row['bits']} bits: {row['error']}")
    options = {"--bits", "--set", "--labels"}
    for hint in dict.fromkeys(hint for row in failed for hint in hints(row["error"], options)):
        print_message("hint", hint, "yellow")
    if failed:
        raise typer.Exit(INVALID_INPUT)


def _planned(
    recipes: str, lengths: str, seeds: range, settings: list[str] | None
) -> dict[tuple[str, int], list[Any]]:
    """Return the unfitted hashers of every row of the table, one per seed; raise if a name is unknown."""
    plan: dict[tuple[str, int], list[Any]] = {}
    for name in _inputs.comma_separated(recipes, "--recipe"):
        for bits in _inputs.code_lengths(lengths):
            plan[name, bits] = [_made(name, bits, seed, settings) for seed in seeds]
    return plan


def _made(name: str, bits: int, seed: int, settings: list[str] | None) -> Any:
    """Return an unfitted hasher, or a quantizer of FAISS, which has no settings."""
    from manihash.search.faiss_baselines import BASELINES, FaissQuantizer

    if name in BASELINES:
        return FaissQuantizer(BASELINES[name], bits, random_state=seed)
    return _settings.make_hasher(name, bits, seed, settings)


def _check_sources(
    data: str | None,
    vectors: str | None,
    train: str | None,
    test: str | None,
    labels: str | None,
    test_labels: str | None,
    *,
    queries: int | None,
) -> None:
    """Raise if the options do not name exactly one source of vectors."""
    sources = [data is not None, vectors is not None, train is not None or test is not None]
    if sum(sources) != 1:
        raise typer.BadParameter(
            "give exactly one of --data NAME, --vectors FILE, or --train FILE with --test FILE"
        )
    if data is not None and (labels or test_labels):
        raise typer.BadParameter(
            "--labels and --test-labels cannot be used with --data: the dataset has its own labels"
        )
    if vectors is not None and test_labels:
        raise typer.BadParameter("--test-labels belongs to --test: with --vectors give only --labels")
    if (train is None) != (test is None):
        raise typer.BadParameter("--train and --test must be given together")
    if test is not None and queries is not None:
        raise typer.BadParameter(
            "--queries cannot be used with --test, whose rows are all queries: omit --queries or, to draw "
            "the queries at random, give one file with --vectors"
        )


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
    if data is not None:
        return _evaluation.from_catalog(data, queries)
    if vectors is not None:
        return _evaluation.from_one_file(vectors, labels, queries, seed)
    return _evaluation.from_files(str(train), labels, str(test), test_labels)


def _measured_rows(
    plan: dict[tuple[str, int], list[Any]],
    measures: Callable[[Any], dict[str, float]],
    quiet: bool,
    notes: list[str],
    *,
    shown: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table; print each as soon as it is measured. A row may be an error."""
    width = _evaluation.name_width([name for name, _ in plan])
    for i, ((name, bits), hashers) in enumerate(plan.items(), 1):
        row: dict[str, Any] = {"recipe": name, "bits": bits}
        with progress_shown(quiet, notes) as bar:
            bar.start(f"{name}, {bits} bits ({i} of {len(plan)})")
            try:
                seeds = [measures(hasher) for hasher in hashers]
            except ValueError as error:
                row |= {"error": str(error)}
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"{i - 1} of {len(plan)} rows were measured") from None
            else:
                means, spread = _evaluation.summary(seeds)
                row |= (
                    dict.fromkeys(_evaluation.COLUMNS)
                    | _evaluation.nested(means)
                    | ({} if spread is None else {"spread": _evaluation.nested(spread)})
                )
        if shown:
            _print(_evaluation.lines(row, width))
        yield row


def _print(lines: list[str]) -> None:
    for line in lines:
        print_result(Text(line))
