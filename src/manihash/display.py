"""How results are shown: a short text, a table in notebooks, data frames, and the axes of plots."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from math import isfinite
from numbers import Integral, Real
from typing import Any

_LISTED = 5  # values of a list that are shown
_ROWS = 12  # of a table that are shown
_LEFT = ' style="text-align: left"'


class Shown:
    """Base class of results: a short text with few digits, and a table in notebooks.

    A result shows the fields of its dataclass, or what ``_facts`` returns.
    """

    def __repr__(self) -> str:
        return text(type(self).__name__, self._facts())

    def _repr_html_(self) -> str:
        return html(type(self).__name__, self._facts())

    def _facts(self) -> dict[str, Any]:
        """The names and values to show."""
        shown: Any = self
        return {each.name: getattr(shown, each.name) for each in fields(shown) if each.repr}


def number(value: Any) -> str:
    """Return a number with at most three digits that matter; whole numbers in full."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, Integral):
        return str(int(value))
    size = abs(float(value))
    if not isfinite(size) or (0 < size < 0.0005):
        return f"{float(value):.2g}"
    if size >= 1000:
        return f"{float(value):.0f}"
    return f"{float(value):.{3 if size < 10 else 1}f}".rstrip("0").rstrip(".")


def file_size(n_bytes: int) -> str:
    """Return a size as text: 12,345 bytes are ``12.3 kB``."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def shown(value: Any) -> str:
    """Return a value as text: few digits, the first parts of a list, and the shape of an array."""
    if isinstance(value, Real):
        return number(value)
    if getattr(value, "shape", ()):
        return f"array of shape {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + _some([f"{key}: {shown(part)}" for key, part in value.items()]) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        parts = [shown(part) if not isinstance(part, str) else repr(part) for part in value]
        return f"({_some(parts)})" if isinstance(value, tuple) else f"[{_some(parts)}]"
    return str(value)


def _some(parts: Sequence[str]) -> str:
    """The first parts, and how many more there are."""
    more = [f"… {len(parts) - _LISTED} more"] if len(parts) > _LISTED else []
    return ", ".join([*parts[:_LISTED], *more])


def text(name: str, facts: Mapping[str, Any]) -> str:
    """Return a line such as ``Update(n_rows=200, changed=0.012)``."""
    values = (
        f"{key}={value!r}" if isinstance(value, str) else f"{key}={shown(value)}"
        for key, value in facts.items()
    )
    return f"{name}({', '.join(values)})"


def html(
    name: str,
    facts: Mapping[str, Any],
    notes: Iterable[str] = (),
    table: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return names and values as an HTML table, with sentences above and a table of records below it."""
    parts = [f"<p><strong>{escape(name)}</strong></p>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    if facts:
        rows = (
            f"<tr><th{_LEFT}>{escape(key)}</th><td{_LEFT}>{escape(shown(value))}</td></tr>"
            for key, value in facts.items()
        )
        parts.append(f"<table><tbody>{''.join(rows)}</tbody></table>")
    if table:
        parts.append(_records(table))
    return f"<div>{''.join(parts)}</div>"


def _records(table: Sequence[Mapping[str, Any]]) -> str:
    """Records as an HTML table with their names as its head; the first rows of a long one."""
    head = list(dict.fromkeys(key for record in table for key in record))
    rows = [f"<tr>{''.join(f'<th>{escape(key)}</th>' for key in head)}</tr>"]
    for record in table[:_ROWS]:
        cells = ("" if record.get(key) is None else escape(shown(record[key])) for key in head)
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    more = f"<p>… {len(table) - _ROWS} more rows</p>" if len(table) > _ROWS else ""
    return f"<table><thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>{more}"


def frame(records: Any, index: Any = None) -> Any:
    """Return records, or columns by name, as a data frame of pandas."""
    from manihash.checks import extra

    return extra("pandas", "notebook").DataFrame(records, index=index)


def axes(ax: Any, x_label: str, y_label: str) -> Any:
    """Return axes with labels: those given, or new ones."""
    ax = pyplot().subplots()[1] if ax is None else ax
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    return ax


def matplotlib() -> Any:
    """Return the package matplotlib."""
    from manihash.checks import extra

    return extra("matplotlib", "plot")


def matplotlib_figure() -> Any:
    """Return the module of figures that no window shows."""
    from manihash.checks import extra

    return extra("matplotlib.figure", "plot")


def pyplot() -> Any:
    """Return the module of figures that notebooks and windows show."""
    from manihash.checks import extra

    return extra("matplotlib.pyplot", "plot")
