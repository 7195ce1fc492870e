"""The contents of the report as plain values: tables, curves, pictures and claims."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from manihash.pages.curves import Plot, Value


@dataclass(frozen=True)
class Cell:
    """Our number and the paper's; either may be missing."""

    ours: Value | None
    paper: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table; ``method`` is the recipe's name if the row is about one."""

    title: str
    cells: tuple[Cell | str, ...]
    method: str | None = None


@dataclass(frozen=True)
class Table:
    """A table; ``name`` is that of its CSV and JSON files, ``unit`` that of its numbers.

    ``digits`` is the number of decimals, for all columns or one per column.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unit: str
    digits: int | tuple[int, ...] = 2


@dataclass(frozen=True)
class Strip:
    """A row of images, gray (h, w) or color (h, w, 3); those with ``right`` False are framed."""

    title: str
    pictures: tuple[NDArray[Any], ...]
    right: tuple[bool | None, ...]


@dataclass(frozen=True)
class Pictures:
    """Answers to a query as rows of images; a strip's first image is the query (its ``right`` is None)."""

    name: str
    caption: str
    strips: tuple[Strip, ...]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our numbers for it, and whether it holds; None if it was not measured."""

    id: str
    place: str
    text: str
    ours: str
    holds: bool | None
    why: str = ""


Item = Table | Plot | Pictures


@dataclass(frozen=True)
class Section:
    """An experiment in the report; ``missing`` lists what is not available, and how to get it."""

    id: str
    title: str
    lead: str
    data: str
    items: tuple[Item, ...] = ()
    claims: tuple[Claim, ...] = ()
    missing: tuple[str, ...] = ()
