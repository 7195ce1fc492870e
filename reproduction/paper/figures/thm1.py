"""Theorem 1: the error of the prototype algorithm and its bound, as n' grows, on real rows."""

from itertools import pairwise

from manihash.pages.curves import Value
from reproduction.paper.claims import claim
from reproduction.paper.experiment import Experiment, data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Section
from reproduction.paper.series import NotMeasured, Series, average, describe, plot
from reproduction.paper.settings import RunSettings
from reproduction.paper.tasks.prototypes import DRAWS, QUERIES, ROWS

DATA = "mnist"
DIMENSIONS = 16
CHANCE = 0.03  # of draws: what a share of 1,000 of them may be off by


def trials(settings: RunSettings) -> list[Trial]:
    """One trial for each seed."""
    return settings.seeded("prototypes", DATA, "imh-tsne", DIMENSIONS)


def section(results: Results, settings: RunSettings) -> Section:
    """Error and bound against n'."""
    found = [results[t].figures for t in trials(settings) if t in results]
    error, bound = (Series(name, method, _along(found, key)) for name, method, key in _LINES)
    worst = max((v for figures in found for v in figures["violations"]), default=None)

    def bounded() -> bool:
        if worst is None:
            raise NotMeasured("prototypes")
        return worst <= CHANCE and all(error[x] <= bound[x] for x in error.xs)

    def shrinks() -> bool:
        values = [error[x] for x in error.xs]
        return all(a > b for a, b in pairwise(values))

    seen = describe([error, bound], "embeddings used", 3)
    beyond = "" if worst is None else f"; largest share of draws beyond t less the bound: {worst:.3f}"
    lead = (
        f"{QUERIES} queries, {DRAWS} draws each, for t-SNE's embedding of {ROWS:,} rows into {DIMENSIONS} "
        "dimensions. The bound shown is sqrt(2 / n') ε, which the theorem puts on the root mean square."
    )
    drawn = plot(
        "thm1-error",
        "Root mean square of |ŷ - y|, and the theorem's bound.",
        "error",
        [error, bound],
        x_label="embeddings used, n'",
        log_x=True,
        log_y=True,
    )
    claims = (
        claim("thm1-bound", seen + beyond, bounded, settings),
        claim("thm1-grows", seen, shrinks, settings),
    )
    return Section("thm1", EXPERIMENT.title, lead, data_note(DATA, settings), (drawn,), claims)


_LINES = (("error", "imh-tsne", "error"), ("bound of theorem 1", "bound", "bound"))


def _along(found: list[dict[str, list[float]]], key: str) -> dict[float, Value | None]:
    if not found:
        return {}
    columns = zip(*(figures[key] for figures in found), strict=True)
    places = zip(*(figures["n_used"] for figures in found), strict=True)
    return {
        round(average(place).mean, 1): average(column) for place, column in zip(places, columns, strict=True)
    }


EXPERIMENT = Experiment("thm1", "Theorem 1: the prototype algorithm", (DATA,), trials, section)
