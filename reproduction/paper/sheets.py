"""Queries and their answers as images, in SVG and PNG; wrong answers have a frame and a cross."""

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.pages import plots
from manihash.pages.curves import Drawn
from reproduction.paper.section import Pictures, Strip

_TILE, _GAP, _APART = 34, 4, 12  # points: side of an image, gap between images, gap after the query
_TITLE, _BELOW = 17, 9
_ACROSS = 10  # answers per line
_MARGIN = 8
_RED = "#d1001f"
_PIXELS = 96  # at least, per side of an image: its pixels are repeated
_LEGEND = "First, in a black frame: the query.  Red frame with a cross: a wrong answer."


def draw(pictures: Pictures) -> Drawn:
    """Draw all strips below each other, in two columns if there are many."""
    columns = 2 if len(pictures.strips) > 6 else 1
    lines = max((ceil((len(strip.pictures) - 1) / _ACROSS) for strip in pictures.strips), default=1)
    across = min(_ACROSS, max((len(strip.pictures) - 1 for strip in pictures.strips), default=1))
    width = _TILE + _APART + max(across, 6) * (_TILE + _GAP)
    height = _TITLE + max(1, lines) * (_TILE + _GAP) + _BELOW
    rows = ceil(len(pictures.strips) / columns)
    whole = 2 * _MARGIN + columns * width + (columns - 1) * 2 * _APART, 2 * _MARGIN + rows * height + _TITLE
    with plots.settings():
        figure = plots.new_figure(whole[0] / 72, whole[1] / 72)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        for i, strip in enumerate(pictures.strips):
            left = _MARGIN + (i % columns) * (width + 2 * _APART)
            _draw_strip(axes, strip, left, _MARGIN + (i // columns) * height)
        axes.text(_MARGIN, whole[1] - _MARGIN, _LEGEND, size=9, color="#5b6470", va="bottom")
        axes.set(xlim=(0, whole[0]), ylim=(whole[1], 0), aspect="auto")
        return Drawn(plots.svg(figure), plots.png(figure))


def _draw_strip(axes: Any, strip: Strip, left: float, top: float) -> None:
    axes.text(left, top + _TITLE - 5, strip.title, size=11, color=plots.INK, va="baseline", parse_math=False)
    for i, ((x, y), pixels, right) in enumerate(
        zip(_places(left, top + _TITLE), strip.pictures, strip.right, strict=False)
    ):
        box = (x, x + _TILE, y + _TILE, y)
        axes.imshow(_enlarged(pixels), extent=box, interpolation="none", aspect="auto", zorder=1)
        if i == 0:
            _frame(axes, box, plots.INK, 2.0)
        elif right is False:
            _frame(axes, box, _RED, 2.0)
            _cross(axes, box)
        else:
            _frame(axes, box, "#c9cfd7", 0.6)


def _places(left: float, top: float) -> Iterator[tuple[float, float]]:
    """Upper left corners of the query and of its answers."""
    yield left, top
    i = 0
    while True:
        x = left + _TILE + _APART + (i % _ACROSS) * (_TILE + _GAP)
        yield x, top + (i // _ACROSS) * (_TILE + _GAP)
        i += 1


def _enlarged(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """RGB with repeated pixels, so that viewers do not blur it."""
    gray = np.asarray(pixels, np.uint8)
    color = np.repeat(gray[:, :, None], 3, axis=2) if gray.ndim == 2 else gray
    times = ceil(_PIXELS / min(color.shape[:2]))
    return color.repeat(times, axis=0).repeat(times, axis=1)


def _frame(axes: Any, box: tuple[float, ...], color: str, width: float) -> None:
    left, right, bottom, top = box
    axes.plot(
        [left, right, right, left, left],
        [top, top, bottom, bottom, top],
        color=color,
        lw=width,
        solid_joinstyle="miter",
        zorder=2,
    )


def _cross(axes: Any, box: tuple[float, ...]) -> None:
    """A white cross on red in the upper right corner, visible without color."""
    _, right, _, top = box
    axes.plot([right - 3.5], [top + 3.5], marker="s", ms=9, color=_RED, mew=0, zorder=3)
    axes.plot([right - 3.5], [top + 3.5], marker="x", ms=5, color="white", mew=1.3, zorder=4)
