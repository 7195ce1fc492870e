"""The tables, curves and claims of a report as CSV and JSON files, with unrounded values."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from manihash.pages.curves import Plot, Value
from reproduction.paper.section import Cell, Claim, Section, Table


def result(claim: Claim) -> str:
    """Whether a claim holds, in words."""
    if claim.holds is None:
        return "not measured"
    return "holds" if claim.holds else "does not hold"


def known(value: Value | None) -> Value | None:
    """The value, if it is a number."""
    return value if value is not None and math.isfinite(value.mean) else None


def difference(cell: Cell) -> float | None:
    """Ours minus the paper's, if there are both."""
    ours = known(cell.ours)
    return None if ours is None or cell.paper is None else ours.mean - cell.paper


def _value(value: Value | None) -> dict[str, Any]:
    found = known(value)
    if found is None:
        return {"ours": None, "spread": None, "n": 0}
    spread = found.spread if found.spread is not None and math.isfinite(found.spread) else None
    return {"ours": found.mean, "spread": spread, "n": found.n}


def _cell(cell: Cell | str) -> dict[str, Any]:
    if isinstance(cell, str):
        return {"text": cell}
    return {**_value(cell.ours), "paper": cell.paper, "difference": difference(cell)}


def table_json(table: Table) -> bytes:
    """A table as one JSON document."""
    rows = [
        {"title": row.title, "method": row.method, "cells": [_cell(cell) for cell in row.cells]}
        for row in table.rows
    ]
    return _json(
        {
            "name": table.name,
            "caption": table.caption,
            "unit": table.unit,
            "columns": list(table.columns),
            "rows": rows,
        }
    )


def table_csv(table: Table) -> bytes:
    """A table with one line per cell, ready to be filtered and pivoted."""
    head = ["row", "method", "column", "ours", "spread", "n", "paper", "difference", "text", "unit"]
    lines = [
        {"row": row.title, "method": row.method, "column": column, "unit": table.unit, **_cell(cell)}
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]
    return _csv(head, lines)


def points_csv(plot: Plot) -> bytes:
    """The points of a plot, one per line; a level has no x."""
    points: list[dict[str, Any]] = [
        {"curve": curve.title, "method": curve.method, "x": x, **_value(value)}
        for curve in plot.curves
        for x, value in zip(curve.x, curve.y, strict=True)
    ]
    points += [{"curve": title, "ours": level} for title, level in plot.levels]
    lines = [
        {"x_label": plot.x_label, "y_label": plot.y_label, "y": point.pop("ours"), **point}
        for point in points
    ]
    return _csv(["curve", "method", "x", "y", "spread", "n", "x_label", "y_label"], lines)


def _claims(sections: Iterable[Section]) -> list[dict[str, Any]]:
    return [
        {
            "id": claim.id,
            "section": section.id,
            "place": claim.place,
            "claim": claim.text,
            "ours": claim.ours,
            "result": result(claim),
            "why": claim.why,
        }
        for section in sections
        for claim in section.claims
    ]


def claims_csv(sections: Iterable[Section]) -> bytes:
    """All claims, one per line."""
    return _csv(["id", "section", "place", "claim", "ours", "result", "why"], _claims(sections))


def claims_json(sections: Iterable[Section], about: Mapping[str, str]) -> bytes:
    """All claims, the number that hold, and the run that they come from."""
    claims = _claims(sections)
    counts = {
        words: sum(claim["result"] == words for claim in claims)
        for words in ("holds", "does not hold", "not measured")
    }
    return _json({"about": dict(about), "counts": counts, "claims": claims})


def _json(document: Any) -> bytes:
    return (json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def _csv(head: Sequence[str], lines: Iterable[dict[str, Any]]) -> bytes:
    text = StringIO()
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in line.items()} for line in lines)
    return text.getvalue().encode()
