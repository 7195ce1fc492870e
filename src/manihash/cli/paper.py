"""manihash paper: every table and figure of the paper, measured, beside the paper's own."""

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from manihash.cli import _inputs
from manihash.cli._errors import WRONG_INPUT
from manihash.cli._output import say, show, show_json
from manihash.cli._progress import watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from manihash.experiments.experiment import Experiment
    from manihash.experiments.scope import Held, Scope
    from manihash.experiments.section import Section
    from manihash.experiments.trial import Results, Trial

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
    a run can be interrupted and gone on with, or made piece by piece. Sets that
    are not on this machine are left out, and the report says so.

    Examples:

      manihash paper --quick
      manihash paper --only tab1,fig7 --seeds 1
      manihash paper --seeds 3 --jobs 2 --out report
    """
    from manihash.checks import positive_int
    from manihash.experiments import catalogue
    from manihash.experiments.runner import run
    from manihash.experiments.tasks import measure
    from manihash.experiments.trial import Results
    from manihash.report.paper import check_target, write_report

    start = perf_counter()
    scope = _scope(quick, bits, seeds, queries)
    experiments = catalogue.chosen(_names(only, "--only") if only else catalogue.EXPERIMENTS)
    wanted = _filter(methods, data)
    kept = Results(results)
    if list_only:
        _show_list(experiments, scope, kept, as_json)
        return
    positive_int(jobs, "--jobs")
    check_target(out)
    asked = catalogue.trials_of(experiments, scope)
    with watched(quiet) as watch:
        watch.begin("paper")
        try:
            todo = [trial for trial in asked if wanted(trial)] if run_trials else []
            failures = run(todo, kept.ready(), measure, jobs=jobs)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"what is finished is kept in {results}: run it again to go on") from None
        watch.begin("writing the report")
        held = kept.of(asked)
        sections = _told_failures(
            experiments, catalogue.sections_of(experiments, held, scope), failures, scope
        )
        write_report(sections, out, _about(held, scope))
    document = _document(sections, held, failures) | {
        "report": str(out / "index.html"),
        "seconds": round(perf_counter() - start, 1),
    }
    if as_json:
        show_json(document)
    else:
        _show_summary(sections, document)
    if failures:
        raise typer.Exit(WRONG_INPUT)


def _scope(quick: bool, bits: str | None, seeds: int | None, queries: int | None) -> "Scope":
    from manihash.checks import positive_int
    from manihash.experiments.catalogue import sets_at_hand
    from manihash.experiments.scope import Scope

    scope = Scope(at_hand=sets_at_hand())
    if quick:
        limits: dict[str, Any] = {
            "rows": _QUICK_ROWS,
            "queries": _QUICK_QUERIES,
            "large_queries": _QUICK_QUERIES,
        }
        scope = replace(scope, quick=True, bits=_QUICK_BITS, seeds=1, **limits)
    if bits is not None:
        scope = replace(scope, bits=_lengths(bits))
    if seeds is not None:
        scope = replace(scope, seeds=positive_int(seeds, "--seeds"))
    if queries is not None:
        scope = replace(scope, large_queries=positive_int(queries, "--queries"))
    return scope


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
    from manihash.datasets import CATALOGUE
    from manihash.hashers.recipes import RECIPES

    def known(text: str | None, option: str, names: "Mapping[str, Any]") -> set[str] | None:
        if text is None:
            return None
        asked = _names(text, option)
        for name in asked:
            if name not in names:
                raise ValueError(f"{option} {name!r} is not known: choose among {', '.join(names)}")
        return set(asked)

    of_method, of_data = known(methods, "--methods", RECIPES), known(data, "--data", CATALOGUE)
    return lambda t: (of_method is None or t.method in of_method) and (of_data is None or t.data in of_data)


def _told_failures(
    experiments: "Sequence[Experiment]",
    sections: "list[Section]",
    failures: "Mapping[Trial, str]",
    scope: "Scope",
) -> "list[Section]":
    """The sections, each with a line for every trial of it that failed."""
    found = []
    for experiment, section in zip(experiments, sections, strict=True):
        own = dict.fromkeys(experiment.trials(scope)) if failures else {}
        lines = tuple(f"{trial}: {failures[trial]}" for trial in own if trial in failures)
        found.append(replace(section, missing=(*section.missing, *lines)))
    return found


def _about(held: "Held", scope: "Scope") -> dict[str, str]:
    """Where, when and with what the figures of a report were measured."""
    from manihash.experiments.provenance import machine, now

    def all_of(name: str) -> str:
        return ", ".join(sorted({result.about.get(name, "unknown") for result in held.values()})) or "none"

    here = machine()
    dates = sorted(result.about.get("date", "") for result in held.values())
    return {
        "processor": all_of("processor"),
        "cores": all_of("cores"),
        "measured": f"{dates[0]} to {dates[-1]}" if dates else "nothing",
        "commit": all_of("commit"),
        "seeds": f"{scope.seeds} for what is random",
        "code lengths": ", ".join(map(str, scope.bits)),
        "trials": f"{len(held):,}",
        "versions": ", ".join(f"{name} {here[name]}" for name in ("manihash", "python", "numpy", "scipy")),
        "written": now(),
    }


def _document(sections: "Sequence[Section]", held: "Held", failures: "Mapping[Trial, str]") -> dict[str, Any]:
    claims = [claim for section in sections for claim in section.claims]
    return {
        "experiments": [section.id for section in sections],
        "missing": {section.id: list(section.missing) for section in sections if section.missing},
        "trials": len(held),
        "failed": {str(trial): reason for trial, reason in failures.items()},
        "claims": {claim.id: claim.holds for claim in claims},
        "hold": sum(claim.holds is True for claim in claims),
        "do_not_hold": sum(claim.holds is False for claim in claims),
        "not_measured": sum(claim.holds is None for claim in claims),
    }


def _show_summary(sections: "Sequence[Section]", document: dict[str, Any]) -> None:
    table = Table("experiment", "claims that hold", "what is missing", header_style="bold", box=None)
    for section in sections:
        judged = [claim.holds for claim in section.claims if claim.holds is not None]
        table.add_row(section.id, f"{sum(judged)} of {len(judged)}", str(len(section.missing) or ""))
    show(table)
    for claim in (claim for section in sections for claim in section.claims if claim.holds is False):
        show(Text(f"does not hold: {claim.text} ({claim.place})"))
    show(
        Text(
            f"\n{document['hold']} claims hold, {document['do_not_hold']} do not, "
            f"{document['not_measured']} not measured; {document['trials']:,} trials."
        )
    )
    for name, reason in document["failed"].items():
        say("error", f"{name}: {reason}")
    show(Text.assemble(("report ", "bold"), f"{document['report']} (after {document['seconds']:.0f} s)"))


def _show_list(
    experiments: "Sequence[Experiment]", scope: "Scope", results: "Results", as_json: bool
) -> None:
    """What there is to run, what of it is done, and what cannot be run here."""
    from manihash.experiments.catalogue import is_possible, trials_of

    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        trials = trials_of([experiment], scope)
        done = sum(results.path(trial).is_file() for trial in trials)
        rows.append(
            {
                "id": experiment.id,
                "title": experiment.title,
                "data": list(experiment.data),
                "here": is_possible(experiment, scope),
                "trials": len(trials),
                "done": done,
            }
        )
    if as_json:
        show_json({"experiments": rows})
        return
    table = Table("id", "trials", "done", "data", "what it is", header_style="bold", box=None, pad_edge=False)
    for row in rows:
        data = " or ".join(row["data"]) + ("" if row["here"] else " (not here)")
        table.add_row(row["id"], str(row["trials"]), str(row["done"]), data, row["title"])
    show(table)
