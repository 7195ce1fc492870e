"""The page of a choice: the advice, the trade-off between size, time and quality, and all candidates."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from manihash import __version__
from manihash.advice.choice import Choice
from manihash.pages import curves, page
from manihash.pages.section import Curve, Plot, Value

_SECTIONS = {"advice": "Advice", "trade-off": "Trade-off", "candidates": "Candidates", "facts": "Protocol"}
_QUALITY = {  # key of a record: heading, format
    "score": ("score", "{:.3f}"),
    "map": ("MAP", "{:.3f}"),
    "nearest_map": ("MAP, nearest", "{:.3f}"),
    "precision_at_10": ("P@10", "{:.3f}"),
    "nearest_precision_at_10": ("P@10, nearest", "{:.3f}"),
    "recall_at_10": ("R@10", "{:.3f}"),
    "recall_at_10_rescored": ("R@10 rescored", "{:.3f}"),
    "recall_at_100": ("R@100", "{:.3f}"),
    "recall_at_100_rescored": ("R@100 rescored", "{:.3f}"),
}
_COST = {
    "radius": ("radius", "{}"),
    "returned": ("rows within", "{:,.0f}"),
    "lookup_recall": ("recall within", "{:.3f}"),
    "empty": ("empty", "{:.2f}"),
    "f1": ("F1", "{:.3f}"),
    "nearest_f1": ("F1, nearest", "{:.3f}"),
    "copies_found": ("copies", "{:.3f}"),
    "bytes_per_row": ("bytes", "{}"),
    "fit_seconds": ("fit, s", "{:.1f}"),
    "encode_us_per_row": ("encode, µs", "{:.1f}"),
    "search_us_per_query": ("search, µs", "{:.1f}"),
}


def choice_page(choice: Choice, name: str, made: date) -> str:
    """The page as HTML; ``name`` is that of the vectors."""
    measured = [row for row in choice.table if row["score"] is not None]
    return page.render(
        "manihash.pages",
        "choice.html",
        title=f"Which codes for {name}?",
        lead=choice.reasons[0],
        navigation=_SECTIONS.items(),
        reasons=choice.reasons[1:],
        plots=_plots(choice, measured),
        quality=_table(choice, measured, _QUALITY),
        cost=_table(choice, measured, _COST),
        left_out=[
            f"{row['recipe']}, {row['n_bits']} bits: {row['reason']}"
            for row in choice.table
            if "reason" in row
        ],
        recipe=choice.recipe,
        n_bits=choice.n_bits,
        facts={
            "Vectors": name,
            "Sample": f"{choice.sample}; seed {choice.random_state}",
            "Goal": choice.goal,
            "Relevant rows": choice.relevance,
            "Made": f"by manihash {__version__} on {made.isoformat()}",
        },
    )


def _table(
    choice: Choice, measured: Sequence[dict[str, Any]], columns: dict[str, tuple[str, str]]
) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table of all candidates, with the columns that were measured."""
    shown = {key: column for key, column in columns.items() if any(key in row for row in measured)}
    head = ["candidate", *(heading for heading, _ in shown.values())]
    return head, [_row(choice, row, shown) for row in measured]


def _row(choice: Choice, row: dict[str, Any], shown: dict[str, tuple[str, str]]) -> list[str]:
    mark = " ←" if (row["recipe"], row["n_bits"]) == (choice.recipe, choice.n_bits) else ""
    cells = [
        format_.format(row[key]) if row.get(key) is not None else "–" for key, (_, format_) in shown.items()
    ]
    return [f"{row['recipe']}, {row['n_bits']} bits{mark}", *cells]


def _plots(choice: Choice, measured: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    label = f"score for the goal {choice.goal}"
    return [
        _plot(measured, "bytes_per_row", "bytes per row", label, log_x=False),
        _plot(measured, "fit_seconds", "seconds to fit the sample", label, log_x=True),
    ]


def _plot(
    measured: Sequence[dict[str, Any]], key: str, x_label: str, y_label: str, *, log_x: bool
) -> dict[str, Any]:
    names = list(dict.fromkeys(row["recipe"] for row in measured))
    drawn = []
    for name in names:
        points = sorted((row["n_bits"], row[key], row["score"]) for row in measured if row["recipe"] == name)
        drawn.append(
            Curve(name, name, tuple(x for _, x, _ in points), tuple(Value(score) for _, _, score in points))
        )
    plot = Plot(key, "", x_label, y_label, tuple(drawn), log_x=log_x, own_colors=True)
    caption = "One curve per candidate, one point per code length. Up and to the left is better."
    alt = f"{y_label} against {x_label}; the numbers are in the table below"
    return {"svg": curves.draw(plot).svg, "alt": alt, "caption": caption}
