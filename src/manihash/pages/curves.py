"""Curves as SVG and PNG: distinct without color, and named next to the axes."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from manihash.pages import plots

_WIDTH, _HEIGHT = 5.4, 3.9  # inches
_NAME_SIZE = 10.5
_NAME_LETTERS = 20  # longer names need a wider figure
_NAME_GAP = 0.062  # between two names, as a fraction of the axis's height
_FEW_POINTS = 12  # longer curves have markers at some of their points only
_SIZES = {
    "o": 5.5,
    "s": 5.5,
    "D": 5.5,
    "*": 8.5,
    "d": 7,
    "P": 7,
    "X": 7,
}  # markers that would otherwise look larger or smaller than the others
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_LEVEL_DASHES = ((0, (6, 3)), (0, (2, 2)), (0, (8, 2, 2, 2)))


@dataclass(frozen=True)
class Value:
    """The mean of n trials, with their sample standard deviation if there are several."""

    mean: float
    spread: float | None = None
    n: int = 1


@dataclass(frozen=True)
class Curve:
    """A metric of one method along the horizontal axis; None where there is no value."""

    title: str
    method: str
    x: tuple[float, ...]
    y: tuple[Value | None, ...]


@dataclass(frozen=True)
class Plot:
    """Curves in one pair of axes; ``levels`` are named horizontal lines."""

    name: str
    caption: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    levels: tuple[tuple[str, float], ...] = ()
    log_x: bool = False
    log_y: bool = False
    own_colors: bool = False  # two curves of the plot never have one color


@dataclass(frozen=True)
class Drawn:
    """A figure as SVG and as PNG."""

    svg: bytes
    png: bytes


@dataclass(frozen=True)
class _Style:
    """How one curve of a plot is drawn; the second of a method is dashed, with hollow markers."""

    color: str
    marker: str
    dash: Any
    hollow: bool = False

    def options(self) -> dict[str, Any]:
        face = "white" if self.hollow else self.color
        return {
            "color": self.color,
            "marker": self.marker,
            "ls": self.dash,
            "lw": 1.6,
            "ms": _SIZES.get(self.marker, 6.5),
            "mfc": face,
            "mec": self.color if self.hollow else "white",
            "mew": 1.2 if self.hollow else 0.4,
        }


@dataclass(frozen=True)
class _Name:
    """A name next to the axes, for a curve that ends at (x, y) in fractions of the axes."""

    title: str
    x: float
    y: float
    options: dict[str, Any]


def draw(plot: Plot) -> Drawn:
    """Draw a plot: means, with a band of one standard deviation if there are several seeds."""
    with plots.settings():
        figure = plots.new_figure(*_size(plot), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
        axes = figure.subplots()
        styles = _styles(plot.curves, own_colors=plot.own_colors)
        for i, (curve, style) in enumerate(zip(plot.curves, styles, strict=True)):
            _draw_curve(axes, curve, style, i, len(plot.curves), plot.log_y)
        level_styles = [{"color": plots.INK, "ls": dash, "lw": 1.2} for dash in _LEVEL_DASHES]
        for i, (_, level) in enumerate(plot.levels):
            axes.axhline(level, zorder=2, **level_styles[i % len(level_styles)])
        _scale(axes, plot)
        ends = [
            _Name(curve.title, *_place(axes, *end), style.options())
            for curve, style in zip(plot.curves, styles, strict=True)
            if (end := _end(curve, plot)) is not None
        ]
        ends += [
            _Name(title, 1.0, _place(axes, _right(axes), level)[1], level_styles[i % len(level_styles)])
            for i, (title, level) in enumerate(plot.levels)
        ]
        _write_names(axes, ends)
        return Drawn(plots.svg(figure), plots.png(figure))


def _size(plot: Plot) -> tuple[float, float]:
    """Width and height in inches: the same for all plots, and larger if names are long or many."""
    names = [curve.title for curve in plot.curves] + [title for title, _ in plot.levels]
    letters = max(map(len, names), default=0)
    more = max(0, letters - _NAME_LETTERS) * 0.6 * _NAME_SIZE / 72
    return _WIDTH + more, max(_HEIGHT, 0.8 + len(names) * _NAME_GAP * 3.2)


def _styles(curves: Sequence[Curve], *, own_colors: bool = False) -> list[_Style]:
    """The style of each curve; with ``own_colors``, a color of the plot belongs to one curve."""
    seen: Counter[plots.Look] = Counter()
    styles = []
    looks = [plots.look(curve.method) for curve in curves]
    for look in plots.in_own_colors(looks) if own_colors else looks:
        again = seen[look]
        seen[look] += 1
        styles.append(_Style(look.color, look.marker, _DASHES[again % len(_DASHES)], again % 2 == 1))
    return styles


def _shown(value: Value | None, log: bool = False) -> bool:
    return value is not None and math.isfinite(value.mean) and (value.mean > 0 or not log)


def _draw_curve(axes: Any, curve: Curve, style: _Style, i: int, n: int, log: bool) -> None:
    """Draw one curve; the first of a plot is on top."""
    y = [value.mean if value is not None and _shown(value, log) else math.nan for value in curve.y]
    every: Any = None
    if len(curve.x) > _FEW_POINTS:  # markers of different curves are at different points
        step = len(curve.x) / 8
        every = sorted({min(len(curve.x) - 1, int((k + i / n) * step)) for k in range(8)})
    axes.plot(curve.x, y, zorder=3 + (n - i) / n, markevery=every, **style.options())
    for run in _runs(curve):
        low = [v.mean - s for _, v, s in run]
        high = [v.mean + s for _, v, s in run]
        if log:
            low = [max(bottom, v.mean / 10) for bottom, (_, v, _) in zip(low, run, strict=True)]
        axes.fill_between([x for x, _, _ in run], low, high, color=style.color, alpha=0.16, lw=0, zorder=1.5)


def _runs(curve: Curve) -> Iterator[list[tuple[float, Value, float]]]:
    """Runs of neighboring points that have a spread."""
    run: list[tuple[float, Value, float]] = []
    for x, value in zip(curve.x, curve.y, strict=True):
        if value is not None and _shown(value) and value.spread is not None and math.isfinite(value.spread):
            run.append((x, value, value.spread))
            continue
        if len(run) > 1:
            yield run
        run = []
    if len(run) > 1:
        yield run


def _scale(axes: Any, plot: Plot) -> None:
    """Set labels, a grid, and ticks at the points if there are few."""
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        low, high = axes.get_ylim()
        lowest = min((v.mean for c in plot.curves for v in c.y if v is not None and _shown(v)), default=low)
        if 0 <= lowest < high / 3:
            axes.set_ylim(bottom=0)
    axes.set_xlabel(fill(plot.x_label, 48), parse_math=False)
    axes.set_ylabel(fill(plot.y_label, 38), parse_math=False)
    axes.grid(axis="y", color="#e3e7ec", lw=0.8)
    axes.set_axisbelow(True)
    ticks = sorted({x for curve in plot.curves for x in curve.x})
    if 0 < len(ticks) <= _FEW_POINTS:
        shown = _apart(axes, ticks)
        axes.set_xticks(shown, labels=[_number(x) for x in shown])
        axes.set_xticks([], minor=True)
    elif not plot.log_x:
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,g}")


def _number(x: float) -> str:
    """The number of a tick; fractions have three digits."""
    if x >= 1e6:
        return f"{x:.0e}"
    return f"{x:,g}" if x == int(x) else f"{x:,.3g}"


def _apart(axes: Any, ticks: Sequence[float]) -> list[float]:
    """The ticks whose numbers do not overlap, including the last."""
    shown: list[float] = []
    edge = math.inf
    for tick in reversed(ticks):
        half = (0.3 + 0.5 * len(_number(tick))) * 0.038  # of the axis's width
        place = _place(axes, tick, axes.get_ylim()[0])[0]
        if place + half <= edge:
            shown.append(tick)
            edge = place - half
    return shown[::-1]


def _place(axes: Any, x: float, y: float) -> tuple[float, float]:
    """A data point in fractions of the axes, which later layout does not change."""
    across, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    return float(across), float(up)


def _right(axes: Any) -> float:
    return float(axes.get_xlim()[1])


def _end(curve: Curve, plot: Plot) -> tuple[float, float] | None:
    """The last point of a curve, or None if it has no point."""
    for x, value in reversed(list(zip(curve.x, curve.y, strict=True))):
        if value is not None and _shown(value, plot.log_y):
            return x, value.mean
    return None


def _write_names(axes: Any, names: Sequence[_Name]) -> None:
    """Write names at the right in the order of the ends, each with a sample of its line."""
    ordered = sorted(names, key=lambda name: name.y)
    heights = spread([name.y for name in ordered], _NAME_GAP, 0.0, 1.0)
    for name, height in zip(ordered, heights, strict=True):
        outside = {"transform": axes.transAxes, "clip_on": False, "zorder": 5}
        if name.x > 0.9:
            axes.plot(
                [name.x, 1.045],
                [name.y, height],
                color=name.options["color"],
                lw=0.6,
                alpha=0.7,
                **outside | {"zorder": 1},
            )
        axes.plot([1.05, 1.085, 1.12], [height] * 3, markevery=[1], **name.options | outside)
        axes.text(
            *(1.14, height, name.title),
            color=plots.INK,
            va="center_baseline",
            size=_NAME_SIZE,
            parse_math=False,
            **outside,
        )


def spread(desired: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending places close to the desired ones, at least a gap apart, from low to high."""
    places: list[float] = []
    for value in desired:
        places.append(max(value, places[-1] + gap if places else low))
    ceiling = high
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - gap
    return places
