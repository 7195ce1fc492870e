"""What all plots share: settings, the look of each method, and their files; and scatter plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.display import matplotlib, matplotlib_figure
from manihash.hashers.recipes import recipe_names

# Okabe and Ito's colors with a darker yellow, and two dark ones of Tol's: distinct with any color vision.
_COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"),
    *("#56B4E9", "#6B6B6B", "#A08A00", "#882255", "#332288"),
)
_MORE_COLORS = ("#44AA99", "#AA4499", "#661100", "#88CC00", "#000000")  # for plots of more curves
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "d", "p")
INK = "#1b1f24"
_SETTINGS = {
    "svg.hashsalt": "manihash",
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6470",
    "axes.labelcolor": INK,
    "xtick.color": "#3a424c",
    "ytick.color": "#3a424c",
}


@dataclass(frozen=True)
class Look:
    """How a method is drawn in every plot."""

    color: str
    marker: str


# The paper's methods: those in one plot differ from each other in color and in marker.
_OF_THE_PAPER = {
    "imh-tsne": Look("#0072B2", "o"),
    "imh-le": Look("#009E73", "^"),
    "imh-le-b": Look("#E69F00", "p"),
    "imh-sne": Look("#A08A00", "D"),
    "imh-ee": Look("#882255", ">"),
    "imh-lle": Look("#CC79A7", "v"),
    "imh-isomap": Look("#6B6B6B", "P"),
    "imh-dm": Look("#332288", "X"),
    "imh-pca": Look("#56B4E9", "d"),
    "pcah": Look("#D55E00", "*"),
    "lsh": Look("#CC79A7", "h"),
    "itq": Look("#56B4E9", "X"),
    "sh": Look("#6B6B6B", "<"),
    "agh": Look("#882255", "v"),
    "sph": Look("#332288", "s"),
    "bre": Look("#E69F00", "P"),
    "sth": Look("#A08A00", ">"),
}
UNKNOWN = Look(INK, "h")


def look(method: str) -> Look:
    """The look of a recipe in all plots: no two recipes have the same color and marker."""
    return _looks().get(method, UNKNOWN)


@cache
def _looks() -> dict[str, Look]:
    """The look of every recipe; one that is not the paper's gets the next free look."""
    looks, free = dict(_OF_THE_PAPER), zip(cycle(_COLORS), cycle(_MARKERS), strict=False)
    for name in recipe_names():
        while name not in looks:
            if (next_look := Look(*next(free))) not in looks.values():
                looks[name] = next_look
    return looks


def in_own_colors(looks: Sequence[Look]) -> list[Look]:
    """The looks, with another color for each whose color an earlier one has, while there are colors."""
    free = [color for color in (*_COLORS, *_MORE_COLORS) if color not in {look.color for look in looks}]
    used: set[str] = set()
    found = []
    for look in looks:
        color = free.pop(0) if look.color in used and free else look.color
        used.add(color)
        found.append(Look(color, look.marker))
    return found


def plane(
    base: NDArray[Any],
    base_names: Sequence[str],
    queries: NDArray[Any],
    query_names: Sequence[str],
    axis: str,
) -> bytes:
    """An embedding in two dimensions: base points (m, 2) drawn as their class, queries (q, 2) as dots."""
    with settings():
        figure, axes = _figure(6.4, 5.2)
        classes = sorted({*base_names, *query_names})
        for i, name in enumerate(classes):
            color = _COLORS[i % len(_COLORS)]
            dots = queries[np.array(query_names) == name]
            axes.scatter(*dots.T, s=20, color=color, alpha=0.45, lw=0, zorder=1)
            points = base[np.array(base_names) == name]
            axes.scatter(
                *points.T, s=58, color=color, marker=_text_marker(name), lw=0.2, zorder=2, label=name
            )
        axes.scatter([], [], s=20, color="#5b6470", alpha=0.6, lw=0, label="query")
        axes.set_xlabel(f"{axis}, dimension 1")
        axes.set_ylabel(f"{axis}, dimension 2")
        axes.legend(
            title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, handletextpad=0.2
        )
        return svg(figure, bbox_inches="tight")


def _text_marker(name: str) -> str:
    """A marker that shows the letters and digits of a class's name."""
    plain = "".join(letter for letter in name if letter.isalnum())
    return rf"$\mathrm{{{plain}}}$" if plain else "o"


def check_installed() -> None:
    """Raise unless the library that draws the plots is installed."""
    matplotlib()


def settings() -> Any:
    """The settings of every drawing, for a ``with`` block."""
    return matplotlib().rc_context(_SETTINGS)


def new_figure(width: float, height: float, **options: Any) -> Any:
    """An empty figure, in inches."""
    return matplotlib_figure().Figure(figsize=(width, height), **options)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    figure = new_figure(width, height)
    return figure, figure.subplots()


def svg(figure: Any, **options: Any) -> bytes:
    """The figure as an SVG file, the same bytes for the same figure."""
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, **options)
    return file.getvalue()


def png(figure: Any) -> bytes:
    """The figure as a PNG file, at twice the pixels of a screen."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=192, metadata={"Software": None})
    return file.getvalue()


def places(points: NDArray[Any], numbers: NDArray[Any] | None, names: Sequence[str]) -> bytes:
    """Many points (n, 2) in two dimensions as SVG, with the points as an image.

    Colors and markers of the legend are by ``numbers`` (n,), positions in ``names``; those beyond the names
    are gray and below the others.
    """
    with settings():
        figure, axes = _figure(7.2, 6.0)
        size = min(14.0, max(0.5, 40_000 / len(points)))
        groups = np.full(len(points), -1) if numbers is None else np.where(numbers < len(names), numbers, -1)
        for number in (-1, *range(len(names))):
            own = points[groups == number]
            if not len(own):
                continue
            color = _COLORS[number % len(_COLORS)] if number >= 0 else "#b9c0c9" if names else _COLORS[0]
            axes.scatter(*own.T, s=size, color=color, lw=0, alpha=0.8, rasterized=True, zorder=number + 2)
            title = names[number] if number >= 0 else "other"
            axes.scatter([], [], s=40, color=color, lw=0, label=title)
        axes.set_aspect("equal")
        axes.set_axis_off()
        if names:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, handletextpad=0.2)
        return svg(figure, bbox_inches="tight", dpi=200)
