"""manihash paper: reproduce the tables and figures of the paper."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs, _options
from manihash.cli._command import INVALID_INPUT
from manihash.cli._output import print_json, progress_shown
from manihash.errors import MissingDataError
from reproduction.paper import summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reproduction.paper.settings import RunSettings

_QUICK_ROWS, _QUICK_QUERIES, _QUICK_BITS = 5000, 200, (32, 64)
_FIRST_WAIT = 2.0  # seconds before the first line of progress if stderr is not a terminal


def paper(
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="ID,ID,...",
            help="Experiments to run, separated by commas, such as fig7,tab1.",
            show_default="all",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run on at most 5,000 rows, with two code lengths and one seed.")
    ] = False,
    bits: Annotated[
        str | None,
        typer.Option(
            "--bits",
            "-b",
            metavar="N,N,...",
            help="Code lengths in bits, separated by commas.",
            show_default="16 to 128",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Number of seeds of random methods.", show_default="3; 1 with --quick"),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            "--queries",
            help="Number of queries on the large datasets.",
            show_default="1,000; 200 with --quick",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="NAME,NAME,...",
            help="Run only trials of these recipes, separated by commas.",
            show_default="all",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="NAME,NAME,...",
            help="Run only trials on these datasets, separated by commas.",
            show_default="all",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", help="Number of parallel trials; trials that measure time run alone."),
    ] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the report.")] = Path(
        "report"
    ),
    results: Annotated[
        Path, typer.Option("--results", metavar="FOLDER", help="Folder of the results of trials.")
    ] = Path("paper-results"),
    run_trials: Annotated[
        bool,
        typer.Option("--run/--no-run", help="Run trials, or only write the report of the finished ones."),
    ] = True,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments and their progress; run nothing.")
    ] = False,
    as_json: _options.Json = False,
    quiet: _options.Quiet = False,
) -> None:
    """Run the experiments of the paper and write a report that compares our results with the paper's.

    A trial (dataset, method, code length, seed) that has a result is not run
    again, so an interrupted run can be resumed, and a long run can be split
    into several. Datasets that are not on this machine are skipped, and the
    report lists them.

    Examples:

      manihash paper --quick
      manihash paper --only tab1,fig7 --seeds 1
      manihash paper --seeds 3 --jobs 2 --out report
    """
    from manihash.checks import positive_int
    from manihash.pages import plots
    from reproduction.paper import catalog
    from reproduction.paper.report import check_target, write_report
    from reproduction.paper.run.runner import run
    from reproduction.paper.run.trial import ResultFolder
    from reproduction.paper.tasks import measure

    start = perf_counter()
    settings = _run_settings(quick, bits, seeds, queries)
    experiments = catalog.chosen(_inputs.comma_separated(only, "--only") if only else catalog.EXPERIMENTS)
    is_selected = _filter(methods, data)
    folder = ResultFolder(results)
    if list_only:
        summary.show_list(experiments, settings, folder, as_json)
        return
    positive_int(jobs, "--jobs")
    plots.check_installed()
    check_target(out)
    trials = catalog.trials_of(experiments, settings)
    if not trials:
        raise MissingDataError(catalog.missing_data(experiments))
    with progress_shown(quiet, first_wait=_FIRST_WAIT) as bar:
        bar.start("paper")
        try:
            todo = [trial for trial in trials if is_selected(trial)] if run_trials else []
            if run_trials and trials and not todo:
                raise ValueError("these experiments have no trial with the selected --methods and --data")
            failures = run(todo, folder.ready(), measure, jobs=jobs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"finished trials are in {results}: run the command again to resume"
            ) from None
        bar.start("writing the report")
        finished = folder.of(trials)
        sections = summary.with_failures(
            experiments, catalog.sections_of(experiments, finished, settings), failures, settings
        )
        write_report(sections, out, summary.about(finished, settings))
    document = summary.document(sections, finished, failures) | {
        "report": str(out / "index.html"),
        "seconds": round(perf_counter() - start, 1),
    }
    if as_json:
        print_json(document)
    else:
        summary.show_summary(sections, document, settings)
    if failures or not finished:
        raise typer.Exit(INVALID_INPUT)


def _run_settings(quick: bool, bits: str | None, seeds: int | None, queries: int | None) -> "RunSettings":
    from manihash.checks import positive_int
    from reproduction.paper.catalog import available_sets
    from reproduction.paper.settings import RunSettings

    settings = RunSettings(available=available_sets())
    if quick:
        limits: dict[str, Any] = {
            "rows": _QUICK_ROWS,
            "queries": _QUICK_QUERIES,
            "large_queries": _QUICK_QUERIES,
        }
        settings = replace(settings, quick=True, bits=_QUICK_BITS, seeds=1, **limits)
    if bits is not None:
        settings = replace(settings, bits=tuple(sorted({*_inputs.code_lengths(bits)})))
    if seeds is not None:
        settings = replace(settings, seeds=positive_int(seeds, "--seeds"))
    if queries is not None:
        settings = replace(settings, large_queries=positive_int(queries, "--queries"))
    return settings


def _filter(methods: str | None, data: str | None) -> Any:
    """Return a function that says whether a trial has one of the given methods and datasets."""
    from manihash.datasets import CATALOG
    from manihash.hashers.recipe_table import RECIPES

    def known(text: str | None, option: str, names: "Mapping[str, Any]") -> set[str] | None:
        if text is None:
            return None
        values = _inputs.comma_separated(text, option)
        for name in values:
            if name not in names:
                raise ValueError(f"unknown name {name!r} in {option}: expected one of {', '.join(names)}")
        return set(values)

    of_method, of_data = known(methods, "--methods", RECIPES), known(data, "--data", CATALOG)
    return lambda t: (of_method is None or t.method in of_method) and (of_data is None or t.data in of_data)
