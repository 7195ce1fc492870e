"""What an experiment gives to the report: tables, curves, pictures and claims, as plain values."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Value:
    """The mean of some trials, with their sample standard deviation where there are several."""

    mean: float
    spread: float | None = None
    n: int = 1


@dataclass(frozen=True)
class Cell:
    """Our figure, and the one that the paper prints for it; either may be missing."""

    ours: Value | None
    paper: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table; ``method`` is the recipe's name where the row is about one."""

    title: str
    cells: tuple[Cell | str, ...]
    method: str | None = None


@dataclass(frozen=True)
class Table:
    """A table; its name is that of its CSV and JSON files, ``unit`` that of its figures.

    ``digits`` after the point are shown: one number for all columns, or one for each.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unit: str
    digits: int | tuple[int, ...] = 2


@dataclass(frozen=True)
class Curve:
    """A measure of one method along the horizontal axis; None where there is no figure."""

    title: str
    method: str
    x: tuple[float, ...]
    y: tuple[Value | None, ...]


@dataclass(frozen=True)
class Plot:
    """Curves over one pair of axes; ``levels`` hold along the whole of the horizontal one."""

    name: str
    caption: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    levels: tuple[tuple[str, float], ...] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Strip:
    """A line of pictures, gray (h, w) or color (h, w, 3) of bytes; one with right False is framed."""

    title: str
    pictures: tuple[NDArray[Any], ...]
    right: tuple[bool | None, ...]


@dataclass(frozen=True)
class Pictures:
    """A query's results as lines of pictures; a strip's first picture is the query (its right is None)."""

    name: str
    caption: str
    strips: tuple[Strip, ...]


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, our figures for it, and whether it holds; None: not measured."""

    id: str
    place: str
    text: str
    ours: str
    holds: bool | None
    why: str = ""


Item = Table | Plot | Pictures


@dataclass(frozen=True)
class Section:
    """An experiment in the report; ``missing`` says what was not at hand, and how to get it."""

    id: str
    title: str
    lead: str
    data: str
    items: tuple[Item, ...] = ()
    claims: tuple[Claim, ...] = ()
    missing: tuple[str, ...] = ()
