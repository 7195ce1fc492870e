"""The report of the paper's reproduction: one page, its figures and tables as files, written as a whole."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from manihash import progress
from manihash.paper import data_files
from manihash.paper.page import paper_page
from manihash.report import curves, sheets
from manihash.report.curves import Drawn
from manihash.report.folder import check_folder, replace_files
from manihash.report.section import Part, Pictures, Plot, Section, Table

PAGE = "index.html"
_CLAIMS = ("claims.csv", "claims.json")


def write_report(
    sections: Sequence[Section], folder: str | os.PathLike[str], about: Mapping[str, str]
) -> Path:
    """Write the page, figures, tables and claims into a folder, whole or not at all; gives the page's path.

    The files of an earlier report go, others in the folder stay. The same sections give the same bytes.
    """
    replace_files(folder, report_files(sections, about), PAGE)
    return Path(folder) / PAGE


def check_target(folder: str | os.PathLike[str]) -> None:
    """Raise where ``write_report`` could not write to the folder: to be asked before hours of work."""
    check_folder(folder, [PAGE, *_CLAIMS])


def report_files(sections: Sequence[Section], about: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of the report by its path in the folder."""
    _check(sections)
    parts = [part for section in sections for part in section.parts]
    claims = data_files.claims_csv(sections), data_files.claims_json(sections, about)
    found = dict(zip(_CLAIMS, claims, strict=True))
    drawn: dict[str, Drawn] = {}
    for i, part in enumerate(parts, 1):
        if isinstance(part, Table):
            found[f"tables/{part.name}.csv"] = data_files.table_csv(part)
            found[f"tables/{part.name}.json"] = data_files.table_json(part)
        else:
            drawn[part.name] = curves.draw(part) if isinstance(part, Plot) else sheets.draw(part)
            found |= dict(_figure_files(part, drawn[part.name]))
        progress.advance("report", i, len(parts))
    found[PAGE] = paper_page(sections, about, drawn).html().encode()
    return found


def _figure_files(part: Plot | Pictures, drawn: Drawn) -> Iterator[tuple[str, bytes]]:
    yield f"figures/{part.name}.svg", drawn.svg
    yield f"figures/{part.name}.png", drawn.png
    if isinstance(part, Plot):
        yield f"figures/{part.name}.csv", data_files.points_csv(part)


def _check(sections: Sequence[Section]) -> None:
    """Names are files and places in the page: each stands for one thing."""
    parts: list[Part] = [part for section in sections for part in section.parts]
    tables = [part for part in parts if isinstance(part, Table)]
    _check_names("section", [section.id for section in sections])
    _check_names("table", [part.name for part in tables])
    _check_names("figure", [part.name for part in parts if not isinstance(part, Table)])
    for part in parts:
        for what, given, wanted in _lengths(part):
            if given != wanted:
                raise ValueError(f"{what} of {part.name} has {given} values, and {wanted} were wanted")


def _lengths(part: Part) -> Iterator[tuple[str, int, int]]:
    """What must be as long as what."""
    if isinstance(part, Table):
        if not isinstance(part.digits, int):
            yield "the list of digits", len(part.digits), len(part.columns)
        yield from ((f"row {row.title!r}", len(row.cells), len(part.columns)) for row in part.rows)
    elif isinstance(part, Plot):
        yield from ((f"curve {curve.title!r}", len(curve.y), len(curve.x)) for curve in part.curves)
    else:
        yield from (
            (f"strip {strip.title!r}", len(strip.right), len(strip.pictures)) for strip in part.strips
        )


def _check_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name):
            raise ValueError(
                f"{name!r} came as the name of a {what}: small letters, digits and hyphens were wanted"
            )
        if names.count(name) > 1:
            raise ValueError(f"two {what}s of the report are named {name!r}: each needs a name of its own")
