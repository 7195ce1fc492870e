"""The summary of ``manihash paper``, and its list of experiments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from manihash.cli._output import print_json, print_message, print_result

if TYPE_CHECKING:
    from reproduction.paper.experiment import Experiment
    from reproduction.paper.run.trial import ResultFolder, Results, Trial
    from reproduction.paper.section import Section
    from reproduction.paper.settings import RunSettings


QUICK = (
    "at most {rows} rows per dataset, two code lengths, one seed: this shows that everything works, and is "
    "no test of the paper's claims, many of which need the whole dataset; omit --quick for that"
)


def with_failures(
    experiments: Sequence["Experiment"],
    sections: list["Section"],
    failures: Mapping["Trial", str],
    settings: "RunSettings",
) -> list["Section"]:
    """Return the sections, each with one line per failed trial."""
    found = []
    for experiment, section in zip(experiments, sections, strict=True):
        own = dict.fromkeys(experiment.trials(settings)) if failures else {}
        lines = tuple(f"{trial}: {failures[trial]}" for trial in own if trial in failures)
        found.append(replace(section, missing=(*section.missing, *lines)))
    return found


def about(results: "Results", settings: "RunSettings") -> dict[str, str]:
    """Return where, when and with which versions the results of a report were measured."""
    from reproduction.paper.run.provenance import machine, now

    def all_of(name: str) -> str:
        return ", ".join(sorted({result.about.get(name, "unknown") for result in results.values()})) or "none"

    here = machine()
    quick = {"quick run": QUICK.format(rows=f"{settings.rows:,}")} if settings.quick else {}
    dates = sorted(result.about.get("date", "") for result in results.values())
    return quick | {
        "processor": all_of("processor"),
        "cores": all_of("cores"),
        "measured": f"{dates[0]} to {dates[-1]}" if dates else "nothing",
        "commit": all_of("commit"),
        "seeds": f"{settings.seeds} for random methods",
        "code lengths": ", ".join(map(str, settings.bits)),
        "trials": f"{len(results):,}",
        "versions": ", ".join(f"{name} {here[name]}" for name in ("manihash", "python", "numpy", "scipy")),
        "written": now(),
    }


def document(
    sections: Sequence["Section"], results: "Results", failures: Mapping["Trial", str]
) -> dict[str, Any]:
    claims = [claim for section in sections for claim in section.claims]
    return {
        "experiments": [section.id for section in sections],
        "missing": {section.id: list(section.missing) for section in sections if section.missing},
        "trials": len(results),
        "failed": {str(trial): reason for trial, reason in failures.items()},
        "claims": {claim.id: claim.holds for claim in claims},
        "hold": sum(claim.holds is True for claim in claims),
        "do_not_hold": sum(claim.holds is False for claim in claims),
        "not_measured": sum(claim.holds is None for claim in claims),
    }


def show_summary(sections: Sequence["Section"], found: dict[str, Any], settings: "RunSettings") -> None:
    """Print one row per experiment, the claims that fail, what is missing, and the path of the report."""
    table = Table("experiment", "claims that hold", "missing", header_style="bold", box=None)
    for section in sections:
        judged = [claim.holds for claim in section.claims if claim.holds is not None]
        table.add_row(section.id, f"{sum(judged)} of {len(judged)}", str(len(section.missing) or ""))
    print_result(table)
    for claim in (claim for section in sections for claim in section.claims if claim.holds is False):
        print_result(Text(f"does not hold: {claim.text} ({claim.place})"))
    print_result(
        Text(
            f"\n{found['hold']} claims hold, {found['do_not_hold']} do not, "
            f"{found['not_measured']} were not measured; {found['trials']:,} trials."
        )
    )
    if settings.quick:
        print_message("quick run", QUICK.format(rows=f"{settings.rows:,}"), "yellow")
    failed = [f"{trial}: {reason}" for trial, reason in found["failed"].items()]
    for line in dict.fromkeys(line for lines in found["missing"].values() for line in lines):
        if line not in failed:
            print_message("missing", line.replace("`", ""), "yellow")
    for name, reason in found["failed"].items():
        print_message("error", f"{name}: {reason}")
    print_result(
        Text.assemble(("report ", "bold"), f"{found['report']} (written in {found['seconds']:.0f} s)")
    )


def show_list(
    experiments: Sequence["Experiment"], settings: "RunSettings", folder: "ResultFolder", as_json: bool
) -> None:
    """Print the experiments, how many of their trials are finished, and which cannot be run here."""
    from reproduction.paper.catalog import is_possible, trials_of

    rows: list[dict[str, Any]] = []
    for experiment in experiments:
        trials = trials_of([experiment], settings)
        done = sum(folder.path(trial).is_file() for trial in trials)
        rows.append(
            {
                "id": experiment.id,
                "title": experiment.title,
                "data": list(experiment.data),
                "here": is_possible(experiment, settings),
                "trials": len(trials),
                "done": done,
            }
        )
    if as_json:
        print_json({"experiments": rows})
        return
    table = Table("id", "trials", "done", "data", "title", header_style="bold", box=None, pad_edge=False)
    for row in rows:
        data = " or ".join(row["data"]) + ("" if row["here"] else " (not available)")
        table.add_row(row["id"], str(row["trials"]), str(row["done"]), data, row["title"])
    print_result(table)
