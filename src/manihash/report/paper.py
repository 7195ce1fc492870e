"""The report of the paper's reproduction: one page, its figures and tables as files, written as a whole."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from manihash import progress
from manihash.experiments.section import Part, Pictures, Plot, Section, Table
from manihash.report import curves, data_files, sheets
from manihash.report.curves import Drawn
from manihash.report.folder import replace_files
from manihash.report.paper_page import paper_page

PAGE = "index.html"


def write_report(
    sections: Sequence[Section], folder: str | os.PathLike[str], about: Mapping[str, str]
) -> Path:
    """Write the page, figures, tables and claims into a folder, whole or not at all; gives the page's path.

    The files of an earlier report go, others in the folder stay. The same sections give the same bytes.
    """
    replace_files(folder, report_files(sections, about), PAGE)
    return Path(folder) / PAGE


def report_files(sections: Sequence[Section], about: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of the report by its path in the folder."""
    _check(sections)
    parts = [part for section in sections for part in section.parts]
    found = {
        "claims.csv": data_files.claims_csv(sections),
        "claims.json": data_files.claims_json(sections, about),
    }
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
    for table in tables:
        if not isinstance(table.digits, int) and len(table.digits) != len(table.columns):
            raise ValueError(f"{table.name} has {len(table.digits)} digits for {len(table.columns)} columns")
        for row in table.rows:
            if len(row.cells) != len(table.columns):
                raise ValueError(
                    f"row {row.title!r} of {table.name} has {len(row.cells)} cells for "
                    f"{len(table.columns)} columns: give a cell for each, Cell(None) where there is no figure"
                )


def _check_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name):
            raise ValueError(
                f"{name!r} came as the name of a {what}: small letters, digits and hyphens were wanted"
            )
        if names.count(name) > 1:
            raise ValueError(f"two {what}s of the report are named {name!r}: each needs a name of its own")
