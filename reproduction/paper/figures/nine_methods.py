"""The paper's nine methods by code length: what figures 4, 5, 7, 8 and 9 have in common."""

from collections.abc import Callable, Iterable
from typing import Any

from manihash.pages.curves import Plot
from reproduction.paper.experiment import data_note
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Claim, Section
from reproduction.paper.series import Series, along_bits, mean_curve, plot, title
from reproduction.paper.settings import PAPER_METHODS, RunSettings

Options = Callable[[str], dict[str, Any]]


def no_options(method: str) -> dict[str, Any]:
    """The options of a method that is run with its recipe's defaults."""
    return {}


def trials(settings: RunSettings, data: str, options: Options = no_options) -> list[Trial]:
    """Every method at every length."""
    return [
        t
        for method in PAPER_METHODS
        for bits in settings.bits
        for t in settings.seeded("retrieval", data, method, bits, **options(method))
    ]


def series_of(
    results: Results, settings: RunSettings, data: str, figure: str, options: Options = no_options
) -> list[Series]:
    """A metric of every method at every length."""
    return [
        along_bits(results, settings, data, method, figure, **options(method)) for method in PAPER_METHODS
    ]


def along_curve(
    results: Results, settings: RunSettings, data: str, bits: int, figure: str, x: str = "ranks"
) -> list[Series]:
    """A curve of every method at one length, in percent."""
    return [
        Series(title(m), m, mean_curve(results, settings.seeded("retrieval", data, m, bits), x, figure))
        for m in PAPER_METHODS
    ]


def map_plot(name: str, series: list[Series]) -> Plot:
    """The plot of MAP."""
    return plot(f"{name}-map", "Hamming ranking of the whole database.", "MAP, %", series)


def lookup_plot(name: str, metric: str, series: list[Series]) -> Plot:
    """The plot of a metric of the look-up within radius 2."""
    return plot(f"{name}-{metric.lower()}", "Look-up within Hamming radius 2.", f"{metric}, %", series)


def map_and_f1_section(
    name: str,
    heading: str,
    lead: str,
    results: Results,
    settings: RunSettings,
    data: str,
    claims: Callable[[list[Series], list[Series]], Iterable[Claim]],
    more: Iterable[Plot] = (),
) -> Section:
    """Figures 4 and 7: plots of MAP and F1, ``more`` plots, and the claims about MAP and F1."""
    by_map, by_f1 = (series_of(results, settings, data, figure) for figure in ("map", "f1"))
    items = (map_plot(name, by_map), lookup_plot(name, "F1", by_f1), *more)
    return Section(name, heading, lead, data_note(data, settings), items, tuple(claims(by_map, by_f1)))
