"""A method's figures along code lengths, or along anything: what curves are drawn and claims checked from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from manihash.hashers.recipes import RECIPES
from manihash.paper.printed import paper, reasons
from manihash.paper.scope import Held, Scope, mean
from manihash.report.section import Claim, Curve, Plot, Value

FAR = 1.1  # "far above", "by a large margin": at least a tenth more
_SHOWN = 16  # values of a line shown in a claim


class NotMeasured(Exception):
    """A figure that a claim needs has no result."""


@dataclass(frozen=True)
class Line:
    """Figures of one method; ``at`` holds None where there is no result."""

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
        """Where there are figures; at least one."""
        found = [x for x, value in self.at.items() if value is not None]
        if not found:
            raise NotMeasured(self.title)
        return found

    def curve(self) -> Curve:
        """The line as the report draws it."""
        return Curve(self.title, self.method, tuple(self.at), tuple(self.at.values()))


def along_bits(
    held: Held, scope: Scope, data: str, method: str, figure: str, task: str = "retrieval", **more: Any
) -> Line:
    """A figure of a method in percent, at every length of the scope (or of ``bits``)."""
    lengths = more.pop("lengths", scope.bits)
    at = {
        float(bits): mean(held, scope.seeded(task, data, method, bits, **more), figure, 100)
        for bits in lengths
    }
    return Line(title(method), method, at)


def title(method: str) -> str:
    """A method's name in print."""
    return RECIPES[method].title if method in RECIPES else method


def plot(name: str, caption: str, y_label: str, lines: Iterable[Line], **more: Any) -> Plot:
    """Lines over code lengths, or over what ``x_label`` says."""
    x_label = more.pop("x_label", "code length, bits")
    return Plot(name, caption, x_label, y_label, tuple(line.curve() for line in lines), **more)


def means(lines: Iterable[Line]) -> dict[str, float]:
    """The mean of each line where all of them have figures, by method."""
    lines = list(lines)
    shared = [x for x in lines[0].xs if all(line.at.get(x) is not None for line in lines)]
    if not shared:
        raise NotMeasured("nothing in common")
    return {line.method: fmean(line[x] for x in shared) for line in lines}


def ranked(lines: Iterable[Line], x: float) -> list[str]:
    """The methods by their figures at one place, the least first."""
    return [line.method for line in sorted(lines, key=lambda line: line[x])]


def above(a: Line, b: Line, by: float = 1.0) -> bool:
    """Whether the mean of a is above that of b (times ``by``), where both have figures."""
    found = means([a, b])
    return found[a.method] > by * found[b.method]


def everywhere_above(a: Line, b: Line) -> bool:
    """Whether a is above b wherever either has a figure."""
    return all(a[x] > b[x] for x in a.xs)


def falls(line: Line) -> bool:
    """Whether the last figure is below the first."""
    if len(line.xs) < 2:
        raise NotMeasured(f"{line.title} at two lengths")
    return line[line.xs[-1]] < line[line.xs[0]]


def by_method(lines: Iterable[Line]) -> dict[str, Line]:
    """Lines by the names of their methods."""
    return {line.method: line for line in lines}


def told(lines: Sequence[Line], unit: str = "bits", digits: int = 1) -> str:
    """Lines in words: every figure of each, and where they stand."""
    xs = [x for x in lines[0].at if any(line.at.get(x) is not None for line in lines)][:_SHOWN]
    if not xs:
        return "not measured"

    def one(line: Line) -> str:
        values = (line.at.get(x) for x in xs)
        return " / ".join("–" if value is None else f"{value.mean:.{digits}f}" for value in values)

    where = " / ".join(f"{x:g}" for x in xs)
    return "; ".join(f"{line.title} {one(line)}" for line in lines) + f" (at {where} {unit})"


def claim(name: str, ours: str, holds: Callable[[], bool], scope: Scope) -> Claim:
    """A claim of the paper, checked; where it fails in a full run, why we think so."""
    place, text = paper()["claims"][name]
    try:
        verdict = holds()
    except NotMeasured:
        return Claim(name, place, text, ours, None)
    why = reasons().get(name, "") if verdict is False and not scope.quick else ""
    return Claim(name, place, text, ours, bool(verdict), why)
