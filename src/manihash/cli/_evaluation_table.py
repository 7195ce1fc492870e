"""The table of ``manihash evaluate`` as text: each row is printed when it is measured."""

from collections.abc import Sequence
from typing import Any

COLUMNS = {  # measure: heading, digits, width
    "map": ("MAP", 3, 7),
    "map_ties": ("ties", 3, 7),
    "precision": ("prec.", 3, 7),
    "recall": ("recall", 3, 8),
    "f1": ("F1", 3, 7),
    "precision_at_10": ("P@10", 3, 7),
    "recall_at_10": ("R@10", 3, 7),
    "fit_seconds": ("fit s", 2, 7),
    "encode_us_per_row": ("µs/row", 2, 8),
}


def head(recipes: Sequence[str], scan: dict[str, float]) -> list[str]:
    """Return the headings and the row of the exhaustive scan."""
    width = name_width(recipes)
    above = f"{'':{width + 13}}{'MAP':>7}"
    headings = "".join(f"{heading:>{columns}}" for heading, _, columns in COLUMNS.values())
    return [above, f"{'recipe':{width}}{'bits':>6}{headings}", f"{'l2 scan':{width}}{'':6}{_cells(scan, '')}"]


def name_width(recipes: Sequence[str]) -> int:
    """Return the width of the column of recipes."""
    return max(map(len, [*recipes, "l2 scan"]))


def lines(row: dict[str, Any], width: int) -> list[str]:
    """Return a row of the table: its values, and its standard deviations below if there are several seeds.

    Below hybrid codes are their values by plain Hamming distance.
    """
    first = f"{row['recipe']:{width}}{row['bits']:>6}"
    if "error" in row:
        return [first + "".join(f"{'-':>{columns}}" for _, _, columns in COLUMNS.values())]
    spread = row.get("spread", {})
    found = _values(first, row, spread, width)
    if "plain" in row:
        found += _values("  plain", row["plain"], spread.get("plain", {}), width)
    return found


def _values(name: str, means: dict[str, Any], spread: dict[str, Any], width: int) -> list[str]:
    """Return a line of values after a name and, if there is a spread, a line of it."""
    cells = [_cells(means, "")] + ([_cells(spread, "±")] if spread else [])
    return [f"{name if i == 0 else '':{width + 6}}{line}" for i, line in enumerate(cells)]


def _cells(values: dict[str, Any], sign: str) -> str:
    """Return the values of a line as text; a measure that it does not have is blank."""
    line = ""
    for name, (_, digits, width) in COLUMNS.items():
        line += f"{f'{sign}{values[name]:.{digits}f}' if values.get(name) is not None else '':>{width}}"
    return line.rstrip()
