"""The values of one method at several code lengths, or along another axis: for plots and for claims."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from manihash.hashers.recipe_table import RECIPES
from manihash.pages.curves import Curve, Plot, Value
from manihash.search.faiss_baselines import BASELINE_TITLES
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.settings import RunSettings

_SHOWN = 16  # values of a series that a claim shows


class NotMeasured(Exception):
    """A value that a claim needs has no result."""


@dataclass(frozen=True)
class Series:
    """Values of one method by their place on the horizontal axis; None where there is no result."""

    title: str
    method: str
    at: dict[float, Value | None]

    def __getitem__(self, x: float) -> float:
        value = self.at.get(x)
        if value is None:
            raise NotMeasured(f"{self.title} at {x}")
        return value.mean

    @property
    def xs(self) -> list[float]:
        """The places that have a value, at least one."""
        found = [x for x, value in self.at.items() if value is not None]
        if not found:
            raise NotMeasured(self.title)
        return found

    def curve(self) -> Curve:
        """The series as a curve of a plot."""
        return Curve(self.title, self.method, tuple(self.at), tuple(self.at.values()))


def along_bits(
    results: Results,
    settings: RunSettings,
    data: str,
    method: str,
    figure: str,
    task: str = "retrieval",
    **more: Any,
) -> Series:
    """A metric of a method in percent, at every code length of the settings (or at ``lengths``)."""
    lengths = more.pop("lengths", settings.bits)
    at = {
        float(bits): mean(results, settings.seeded(task, data, method, bits, **more), figure, 100)
        for bits in lengths
    }
    return Series(title(method), method, at)


def title(method: str) -> str:
    """The printed name of a method."""
    return RECIPES[method].title if method in RECIPES else BASELINE_TITLES.get(method, method)


def plot(name: str, caption: str, y_label: str, series: Iterable[Series], **more: Any) -> Plot:
    """A plot of series against code length, or against ``x_label``."""
    x_label = more.pop("x_label", "code length, bits")
    return Plot(name, caption, x_label, y_label, tuple(each.curve() for each in series), **more)


def by_method(series: Iterable[Series]) -> dict[str, Series]:
    """Series by the names of their methods."""
    return {each.method: each for each in series}


def describe(series: Sequence[Series], unit: str = "bits", digits: int = 1) -> str:
    """All values of the series as text, followed by their places."""
    xs = [x for x in series[0].at if any(each.at.get(x) is not None for each in series)][:_SHOWN]
    if not xs:
        return "not measured"

    def text(one: Series) -> str:
        values = (one.at.get(x) for x in xs)
        return " / ".join("–" if value is None else f"{value.mean:.{digits}f}" for value in values)

    places = " / ".join(f"{x:g}" for x in xs)
    return "; ".join(f"{each.title} {text(each)}" for each in series) + f" (at {places} {unit})"


def mean(results: Results, trials: Iterable[Trial], name: str, factor: float = 1.0) -> Value | None:
    """The mean of a number over the trials that have it in their result."""
    figures = [results[each].figures for each in trials if each in results]
    found = [factor * each[name] for each in figures if each.get(name) is not None]
    return average(found) if found else None


def mean_curve(results: Results, trials: Iterable[Trial], x: str, y: str) -> dict[float, Value | None]:
    """The mean of a curve in percent, at each of its places, over the trials that have a result."""
    found = [results[each].figures for each in trials if each in results]
    if not found:
        return {}
    columns = zip(*(figures[y] for figures in found), strict=True)
    return {
        float(at): average([100 * v for v in column]) for at, column in zip(found[0][x], columns, strict=True)
    }


def average(values: Sequence[float]) -> Value:
    """The mean of the values and, if there are several, their sample standard deviation."""
    return Value(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
