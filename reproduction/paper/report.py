"""The report of the paper's reproduction: one page, with its figures and tables as files."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from manihash import progress
from manihash.pages import curves
from manihash.pages.curves import Drawn, Plot
from manihash.pages.folder import check_folder, replace_files
from reproduction.paper import data_files, sheets
from reproduction.paper.page import RESERVED, paper_page
from reproduction.paper.section import Item, Pictures, Section, Table

PAGE = "index.html"
_CLAIMS = ("claims.csv", "claims.json")


def write_report(
    sections: Sequence[Section], folder: str | os.PathLike[str], about: Mapping[str, str]
) -> Path:
    """Write the page, figures, tables and claims into a folder atomically, and return the page's path.

    Files of an earlier report are removed, other files are kept. The same sections give the same bytes.
    """
    replace_files(folder, report_files(sections, about), PAGE)
    return Path(folder) / PAGE


def check_target(folder: str | os.PathLike[str]) -> None:
    """Raise if ``write_report`` could not write to the folder; called before hours of work."""
    check_folder(folder, [PAGE, *_CLAIMS])


def report_files(sections: Sequence[Section], about: Mapping[str, str]) -> dict[str, bytes]:
    """The content of every file of the report, by its path in the folder."""
    _check(sections)
    items = [item for section in sections for item in section.items]
    claims = data_files.claims_csv(sections), data_files.claims_json(sections, about)
    found = dict(zip(_CLAIMS, claims, strict=True))
    drawn: dict[str, Drawn] = {}
    for i, item in enumerate(items, 1):
        if isinstance(item, Table):
            found[f"tables/{item.name}.csv"] = data_files.table_csv(item)
            found[f"tables/{item.name}.json"] = data_files.table_json(item)
        else:
            drawn[item.name] = curves.draw(item) if isinstance(item, Plot) else sheets.draw(item)
            found |= dict(_figure_files(item, drawn[item.name]))
        progress.advance("report", i, len(items))
    found[PAGE] = paper_page(sections, about, drawn).encode()
    return found


def _figure_files(item: Plot | Pictures, drawn: Drawn) -> Iterator[tuple[str, bytes]]:
    yield f"figures/{item.name}.svg", drawn.svg
    yield f"figures/{item.name}.png", drawn.png
    if isinstance(item, Plot):
        yield f"figures/{item.name}.csv", data_files.points_csv(item)


def _check(sections: Sequence[Section]) -> None:
    """Raise if names are not unique or values are missing: names are files and anchors of the page."""
    items: list[Item] = [item for section in sections for item in section.items]
    tables = [item for item in items if isinstance(item, Table)]
    _check_names("section", [section.id for section in sections])
    for section in sections:
        if section.id in RESERVED:
            raise ValueError(f"a section of the report cannot be named {section.id!r}: the name is reserved")
    _check_names("table", [item.name for item in tables])
    _check_names("figure", [item.name for item in items if not isinstance(item, Table)])
    for item in items:
        for what, given, expected in _lengths(item):
            if given != expected:
                raise ValueError(f"{what} of {item.name} has {given} values, expected {expected}")


def _lengths(item: Item) -> Iterator[tuple[str, int, int]]:
    """Sequences with their length and their expected length."""
    if isinstance(item, Table):
        if not isinstance(item.digits, int):
            yield "the list of digits", len(item.digits), len(item.columns)
        yield from ((f"row {row.title!r}", len(row.cells), len(item.columns)) for row in item.rows)
    elif isinstance(item, Plot):
        yield from ((f"curve {curve.title!r}", len(curve.y), len(curve.x)) for curve in item.curves)
    else:
        yield from (
            (f"strip {strip.title!r}", len(strip.right), len(strip.pictures)) for strip in item.strips
        )


def _check_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name):
            raise ValueError(
                f"got {name!r} as the name of a {what}: use lower-case letters, digits and hyphens"
            )
        if names.count(name) > 1:
            raise ValueError(f"two {what}s of the report are named {name!r}: names must be unique")
