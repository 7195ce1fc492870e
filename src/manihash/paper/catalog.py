"""The table of experiments, and what can be said of all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from manihash.datasets import CATALOG
from manihash.paper.experiment import Experiment
from manihash.paper.figures import (
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    ours,
    tab1,
    tab2,
    thm1,
)
from manihash.paper.notes import how_to_get
from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Plot, Section

_IN_ORDER = (fig1, fig2, fig3, tab1, fig4, fig5, fig6, fig7, tab2, fig8, fig9, fig10, thm1, ours)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.id: module.EXPERIMENT for module in _IN_ORDER}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Experiments by their names, in the order of the paper; an unknown one is an error that lists all."""
    asked = list(names)
    for name in asked:
        if name not in EXPERIMENTS:
            close = get_close_matches(name, EXPERIMENTS, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(
                f"no experiment is called {name!r}{hint}: the experiments are {', '.join(EXPERIMENTS)}"
            )
    return [experiment for name, experiment in EXPERIMENTS.items() if name in asked]


def sets_at_hand() -> frozenset[str]:
    """The data sets whose files are on this machine; nothing is fetched."""
    return frozenset(name for name, entry in CATALOG.items() if entry.is_here)


def is_possible(experiment: Experiment, scope: Scope) -> bool:
    """Whether a set that the experiment can be run on is here."""
    return any(name in scope.at_hand for name in experiment.data)


def trials_of(experiments: Sequence[Experiment], scope: Scope) -> list[Trial]:
    """The trials of all experiments that can be run, each once; those on one set stand together."""
    found = [t for each in experiments if is_possible(each, scope) for t in each.trials(scope)]
    first = {data: i for i, data in reversed(list(enumerate(t.data for t in found)))}
    return sorted(dict.fromkeys(found), key=lambda t: first[t.data])


def sections_of(experiments: Sequence[Experiment], held: Held, scope: Scope) -> list[Section]:
    """The section of every experiment; one that cannot be run says what it lacks."""
    return [
        _without_blanks(each.section(held, scope)) if is_possible(each, scope) else _missing(each)
        for each in experiments
    ]


def _without_blanks(section: Section) -> Section:
    """The section without plots that have no point to draw; a line says which."""
    blank = [part.name for part in section.parts if isinstance(part, Plot) and not _has_points(part)]
    if not blank:
        return section
    parts = tuple(part for part in section.parts if part.name not in blank)
    line = f"No trial of {', '.join(blank)} has a result yet."
    return replace(section, parts=parts, missing=(*section.missing, line))


def _has_points(plot: Plot) -> bool:
    return any(value is not None for curve in plot.curves for value in curve.y)


def _missing(experiment: Experiment) -> Section:
    return Section(experiment.id, experiment.title, "", "", missing=(how_to_get(experiment.data),))
