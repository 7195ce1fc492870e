"""The paper's nine methods by code length: what figures 4, 7, 8 and 9 are drawn from."""

from collections.abc import Callable
from typing import Any

from manihash.paper.lines import Line, along_bits, plot
from manihash.paper.run.trial import Trial
from manihash.paper.scope import NINE, Held, Scope
from manihash.report.section import Plot

Options = Callable[[str], dict[str, Any]]


def as_they_are(method: str) -> dict[str, Any]:
    """No option beyond those of the recipe."""
    return {}


def trials(scope: Scope, data: str, options: Options = as_they_are) -> list[Trial]:
    """Every method at every length."""
    return [
        t
        for method in NINE
        for bits in scope.bits
        for t in scope.seeded("retrieval", data, method, bits, **options(method))
    ]


def lines_of(held: Held, scope: Scope, data: str, figure: str, options: Options = as_they_are) -> list[Line]:
    """A figure of every method at every length."""
    return [along_bits(held, scope, data, method, figure, **options(method)) for method in NINE]


def map_plot(name: str, lines: list[Line]) -> Plot:
    """The plot of MAP."""
    return plot(f"{name}-map", "Hamming ranking of the whole database.", "MAP, %", lines)


def lookup_plot(name: str, measure: str, lines: list[Line]) -> Plot:
    """The plot of a measure of the look-up within radius 2."""
    return plot(f"{name}-{measure.lower()}", "Look-up within Hamming radius 2.", f"{measure}, %", lines)
