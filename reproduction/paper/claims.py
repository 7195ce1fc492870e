"""The paper's numbers and claims, and how a claim is checked against our results."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

from reproduction.paper.section import Claim
from reproduction.paper.series import NotMeasured, Series
from reproduction.paper.settings import RunSettings

FAR = 1.1  # "far above", "by a large margin": at least 10 % more


@cache
def paper() -> dict[str, Any]:
    """The paper's numbers by table or figure, and its claims with their places."""
    return _read("paper.json")


@cache
def reasons() -> dict[str, str]:
    """Our explanation of each claim that did not hold in our full run."""
    return _read("why.json")


def number(table: str, kind: str, method: str, bits: int) -> float | None:
    """A number of a table of the paper; None if the paper does not print it."""
    printed = paper()[table]
    if method not in printed[kind] or bits not in printed["bits"]:
        return None
    return float(printed[kind][method][printed["bits"].index(bits)])


def claim(name: str, ours: str, holds: Callable[[], bool], settings: RunSettings) -> Claim:
    """A claim of the paper, checked; with our explanation if it fails in a full run."""
    place, text = paper()["claims"][name]
    try:
        verdict = holds()
    except NotMeasured:
        return Claim(name, place, text, ours, None)
    why = reasons().get(name, "") if verdict is False and not settings.quick else ""
    return Claim(name, place, text, ours, bool(verdict), why)


def means(series: Iterable[Series]) -> dict[str, float]:
    """The mean of each series over the places that all of them have values for, by method."""
    series = list(series)
    shared = [x for x in series[0].xs if all(each.at.get(x) is not None for each in series)]
    if not shared:
        raise NotMeasured("no place that all series have a value for")
    return {each.method: fmean(each[x] for x in shared) for each in series}


def ranked(series: Iterable[Series], x: float) -> list[str]:
    """The methods by their values at one place, smallest first."""
    return [each.method for each in sorted(series, key=lambda each: each[x])]


def above(a: Series, b: Series, by: float = 1.0) -> bool:
    """Whether the mean of a is above ``by`` times the mean of b, where both have values."""
    found = means([a, b])
    return found[a.method] > by * found[b.method]


def everywhere_above(a: Series, b: Series) -> bool:
    """Whether a is above b at every place where a has a value."""
    return all(a[x] > b[x] for x in a.xs)


def falls(one: Series) -> bool:
    """Whether the last value is below the first."""
    if len(one.xs) < 2:
        raise NotMeasured(f"{one.title} at two lengths")
    return one[one.xs[-1]] < one[one.xs[0]]


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(__package__) / name).read_text("utf-8"))
    return found
