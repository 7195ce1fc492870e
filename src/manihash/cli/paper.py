"""manihash paper: every table and figure of the paper, measured, beside the paper's own."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manihash.cli import _inputs
from manihash.cli import _paper_summary as summary
from manihash.cli._errors import WRONG_INPUT
from manihash.cli._output import show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from manihash.paper.settings import RunSettings

_QUICK_ROWS, _QUICK_QUERIES, _QUICK_BITS = 5000, 200, (32, 64)


def paper(
    only: Annotated[
        str | None,
        typer.Option("--only", help="Experiments, with commas, such as fig7,tab1; all by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Every experiment on 5,000 rows, at two lengths, with one seed.")
    ] = False,
    bits: Annotated[
        str | None, typer.Option("--bits", "-b", help="Code lengths, with commas.", show_default="16 to 128")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Repeat what is random with so many seeds.", show_default="3; quick 1"),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option("--queries", help="Queries of the large sets.", show_default="1,000; quick 200"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", help="Run only trials of these recipes, with commas.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Run only trials on these sets, with commas.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Trials at once; those that measure time run alone.")
    ] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the report.")] = Path("report"),
    results: Annotated[Path, typer.Option("--results", help="The folder of the trials' results.")] = Path(
        "paper-results"
    ),
    run_trials: Annotated[
        bool, typer.Option("--run/--no-run", help="Run trials, or write the report of what is finished.")
    ] = True,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the experiments and how much of each is done; run nothing.")
    ] = False,
    as_json: _inputs.Json = False,
    quiet: _inputs.Quiet = False,
) -> None:
    """Run the experiments of the paper and write a report: its tables and figures beside ours.

    A trial (data, method, length, seed) that has a result is not run again, so
    a run can be interrupted and resumed, or done in parts. Sets that are not on
    this machine are left out, and the report says so.

    Examples:

      manihash paper --quick
      manihash paper --only tab1,fig7 --seeds 1
      manihash paper --seeds 3 --jobs 2 --out report
    """
    from manihash.checks import positive_int
    from manihash.paper import catalog
    from manihash.paper.report import check_target, write_report
    from manihash.paper.run.runner import run
    from manihash.paper.run.trial import ResultFolder
    from manihash.paper.tasks import measure

    start = perf_counter()
    settings = _run_settings(quick, bits, seeds, queries)
    experiments = catalog.chosen(_names(only, "--only") if only else catalog.EXPERIMENTS)
    is_selected = _filter(methods, data)
    folder = ResultFolder(results)
    if list_only:
        summary.show_list(experiments, settings, folder, as_json)
        return
    positive_int(jobs, "--jobs")
    check_target(out)
    asked = catalog.trials_of(experiments, settings)
    with watched(quiet) as watch:
        watch.begin("paper")
        try:
            todo = [trial for trial in asked if is_selected(trial)] if run_trials else []
            if run_trials and asked and not todo:
                raise ValueError("these experiments have no trial with the selected --methods and --data")
            failures = run(todo, folder.ready(), measure, jobs=jobs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"finished trials are in {results}: run the command again to resume"
            ) from None
        watch.begin("writing the report")
        finished = folder.of(asked)
        sections = summary.with_failures(
            experiments, catalog.sections_of(experiments, finished, settings), failures, settings
        )
        write_report(sections, out, summary.about(finished, settings))
    document = summary.document(sections, finished, failures) | {
        "report": str(out / "index.html"),
        "seconds": round(perf_counter() - start, 1),
    }
    if as_json:
        show_json(document)
    else:
        summary.show_summary(sections, document, settings)
    if failures or not finished:
        raise typer.Exit(WRONG_INPUT)


def _run_settings(quick: bool, bits: str | None, seeds: int | None, queries: int | None) -> "RunSettings":
    from manihash.checks import positive_int
    from manihash.paper.catalog import available_sets
    from manihash.paper.settings import RunSettings

    settings = RunSettings(available=available_sets())
    if quick:
        limits: dict[str, Any] = {
            "rows": _QUICK_ROWS,
            "queries": _QUICK_QUERIES,
            "large_queries": _QUICK_QUERIES,
        }
        settings = replace(settings, quick=True, bits=_QUICK_BITS, seeds=1, **limits)
    if bits is not None:
        settings = replace(settings, bits=_lengths(bits))
    if seeds is not None:
        settings = replace(settings, seeds=positive_int(seeds, "--seeds"))
    if queries is not None:
        settings = replace(settings, large_queries=positive_int(queries, "--queries"))
    return settings


def _lengths(text: str) -> tuple[int, ...]:
    parts = _names(text, "--bits")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"--bits {text!r} came: whole numbers with commas were wanted, such as 32,64")
    return tuple(sorted({int(part) for part in parts}))


def _names(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{option} {text!r} came: at least one was wanted, several with commas between them")
    return parts


def _filter(methods: str | None, data: str | None) -> Any:
    """Whether a trial is of the methods and sets asked for; an unknown name lists the known ones."""
    from manihash.datasets import CATALOG
    from manihash.hashers.recipe_table import RECIPES

    def known(text: str | None, option: str, names: "Mapping[str, Any]") -> set[str] | None:
        if text is None:
            return None
        asked = _names(text, option)
        for name in asked:
            if name not in names:
                raise ValueError(f"{option} {name!r} is not known: choose among {', '.join(names)}")
        return set(asked)

    of_method, of_data = known(methods, "--methods", RECIPES), known(data, "--data", CATALOG)
    return lambda t: (of_method is None or t.method in of_method) and (of_data is None or t.data in of_data)
