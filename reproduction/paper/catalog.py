"""The experiments of the paper by name, their trials, and their sections of the report."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from manihash.datasets import CATALOG
from manihash.pages.curves import Plot
from reproduction.paper.experiment import Experiment, how_to_get
from reproduction.paper.figures import fig1, fig2, fig3, fig4, fig5, fig6, fig7, fig10, ours, tab1, tab2, thm1
from reproduction.paper.figures.large_sets import FIG8, FIG9
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Section
from reproduction.paper.settings import RunSettings

_BEFORE = (fig1, fig2, fig3, tab1, fig4, fig5, fig6, fig7, tab2)
_AFTER = (fig10, thm1, ours)
EXPERIMENTS: dict[str, Experiment] = {
    each.id: each for each in (*(m.EXPERIMENT for m in _BEFORE), FIG8, FIG9, *(m.EXPERIMENT for m in _AFTER))
}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names, in the order of the paper; an unknown name is an error."""
    requested = list(names)
    for name in requested:
        if name not in EXPERIMENTS:
            close = get_close_matches(str(name).lower(), EXPERIMENTS, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(
                f"no experiment is called {name!r}{hint}: the experiments are {', '.join(EXPERIMENTS)}"
            )
    return [experiment for name, experiment in EXPERIMENTS.items() if name in requested]


def available_sets() -> frozenset[str]:
    """The datasets whose files are on this machine; nothing is downloaded."""
    return frozenset(name for name, entry in CATALOG.items() if entry.is_here)


def is_possible(experiment: Experiment, settings: RunSettings) -> bool:
    """Whether a set that the experiment can be run on is on this machine."""
    return any(name in settings.available for name in experiment.data)


def trials_of(experiments: Sequence[Experiment], settings: RunSettings) -> list[Trial]:
    """The trials of all experiments that can be run, without duplicates, grouped by dataset."""
    found = [t for each in experiments if is_possible(each, settings) for t in each.trials(settings)]
    first = {data: i for i, data in reversed(list(enumerate(t.data for t in found)))}
    return sorted(dict.fromkeys(found), key=lambda t: first[t.data])


def missing_data(experiments: Sequence[Experiment]) -> str:
    """How to get the datasets of experiments, none of which is on this machine."""
    names = list(dict.fromkeys(name for each in experiments for name in each.data))
    return (
        f"these experiments need one of the datasets {', '.join(names)}, and none is on this machine: "
        f"get one, for example with manihash data get {names[0]}"
    )


def sections_of(experiments: Sequence[Experiment], results: Results, settings: RunSettings) -> list[Section]:
    """The section of every experiment; one that cannot be run says what is missing."""
    return [
        _without_blanks(each.section(results, settings)) if is_possible(each, settings) else _missing(each)
        for each in experiments
    ]


def _without_blanks(section: Section) -> Section:
    """The section without its empty plots, which are listed as missing."""
    blank = [item.name for item in section.items if isinstance(item, Plot) and not _has_points(item)]
    if not blank:
        return section
    items = tuple(item for item in section.items if item.name not in blank)
    line = f"No trial of {', '.join(blank)} has a result yet."
    return replace(section, items=items, missing=(*section.missing, line))


def _has_points(plot: Plot) -> bool:
    return any(value is not None for curve in plot.curves for value in curve.y)


def _missing(experiment: Experiment) -> Section:
    return Section(experiment.id, experiment.title, "", "", missing=(how_to_get(experiment.data),))
