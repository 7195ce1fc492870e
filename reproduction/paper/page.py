"""The page of the paper's reproduction: a summary of the claims, then every experiment as a section."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from manihash.pages import page
from manihash.pages.curves import Drawn, Plot
from reproduction.paper.data_files import difference, known, result
from reproduction.paper.section import Cell, Claim, Item, Section, Table

TITLE = "Inductive Hashing on Manifolds, reproduced"
RESERVED = ("about", "summary")  # sections that are not experiments
_LEAD = (
    "Every table and figure of the paper (Shen, Shen, Shi, van den Hengel and Tang, CVPR 2013) next to ours: "
    "the same methods, axes and protocol, the paper's numbers where it prints them, and for each claim of "
    "its text whether it holds here."
)
_SHORT = {"fig": "Fig.", "tab": "Table", "thm": "Thm."}
_VERDICT_CLASSES = {True: "holds", False: "fails", None: "unknown"}
_ANSWER_WORDS = {True: "correct", False: "wrong", None: "not judged"}


def paper_page(sections: Sequence[Section], about: Mapping[str, str], drawn: Mapping[str, Drawn]) -> str:
    """The whole page as HTML; ``drawn`` has the plots by name."""
    claims = [claim for section in sections for claim in section.claims]
    first = {"about": "Run"} if about else {}
    navigation = first | {"summary": "Claims"} | {section.id: _short(section.id) for section in sections}
    return page.render(
        "reproduction.paper",
        "paper.html",
        _FILTERS,
        title=TITLE,
        lead=_LEAD,
        navigation=navigation.items(),
        about=about,
        summary=_held(claims) if claims else "",
        counts=_counts(claims),
        groups=[_group(section) for section in sections if section.claims],
        sections=sections,
        drawn=drawn,
        verdict_class=_VERDICT_CLASSES,
        answer_words=_ANSWER_WORDS,
    )


def _short(id: str) -> str:
    """Fig. 4 for fig4, and Ours for ours."""
    match = re.fullmatch(r"(fig|tab|thm)(\d+)", id)
    return f"{_SHORT[match[1]]} {match[2]}" if match else id[:1].upper() + id[1:]


def _group(section: Section) -> dict[str, Any]:
    return {
        "link": section.id,
        "title": f"{_short(section.id)} · {_held(section.claims)}",
        "claims": section.claims,
    }


def _held(claims: Sequence[Claim]) -> str:
    if len(claims) == 1:
        return f"The one claim {'is ' if claims[0].holds is None else ''}{result(claims[0])}"
    return f"{sum(claim.holds is True for claim in claims)} of {len(claims)} claims hold"


def _counts(claims: Sequence[Claim]) -> list[tuple[int, str, str]]:
    ways = ((True, "hold"), (False, "do not hold"), (None, "not measured"))
    return [(sum(c.holds is way for c in claims), words, _VERDICT_CLASSES[way]) for way, words in ways]


def _unbroken(text: str) -> str:
    """The text with a number and its percent sign in one line."""
    return text.replace(" %", "\u00a0%")


def _grouped(section: Section) -> list[tuple[str, list[Item]]]:
    """The items of a section in order, with neighboring plots together."""
    found: list[tuple[str, list[Item]]] = []
    for is_plot, items in groupby(section.items, lambda item: isinstance(item, Plot)):
        if is_plot:
            found.append(("plots", list(items)))
        else:
            found += [("table" if isinstance(item, Table) else "pictures", [item]) for item in items]
    return found


def _alt_text(plot: Plot) -> str:
    names = ", ".join([curve.title for curve in plot.curves] + [title for title, _ in plot.levels])
    return f"{plot.y_label} against {plot.x_label}, for {names}" if names else f"{plot.y_label}: no curve"


def _caption(item: Plot | Table) -> str:
    if isinstance(item, Table):
        return f"{item.caption} ({item.unit})" if item.unit else item.caption
    band = any(value and value.spread is not None for curve in item.curves for value in curve.y)
    return f"{item.caption} Bands: one standard deviation over the seeds." if band else item.caption


def _rows(table: Table) -> list[tuple[Any, ...]]:
    return [(row.title, *row.cells) for row in table.rows]


def _digits_of(table: Table, column: int) -> int:
    return table.digits if isinstance(table.digits, int) else table.digits[column]


def _number(value: float, digits: int, sign: bool = False) -> str:
    """A number with a proper minus sign; a rounded zero has no sign."""
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    if float(text) == 0:
        return text.lstrip("+-")
    return text.replace("-", "−")


def _legend(table: Table) -> str:
    """What the numbers in the cells are."""
    cells = [cell for row in table.rows for cell in row.cells if isinstance(cell, Cell)]
    runs = sorted({ours.n for cell in cells if (ours := known(cell.ours)) is not None})
    words = []
    if runs and runs[-1] > 1:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        words.append(f"Means over {count} runs, ± one standard deviation if there are several.")
    if any(cell.paper is not None for cell in cells):
        words.append("Below ours: the number that the paper prints, and ours minus the paper's.")
    if any(known(cell.ours) is None for cell in cells):
        words.append("–: not measured here.")
    return " ".join(words)


_FILTERS: dict[str, Callable[..., Any]] = {
    "unbroken": _unbroken,
    "verdict": result,
    "grouped": _grouped,
    "alt_text": _alt_text,
    "caption": _caption,
    "rows": _rows,
    "digits_of": _digits_of,
    "number": _number,
    "legend": _legend,
    "known": known,
    "difference": difference,
}
