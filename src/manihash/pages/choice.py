"""The page of a choice: the advice, the trade-off between size, time and quality, and all candidates."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from manihash import __version__
from manihash.advice.choice import Choice
from manihash.advice.scores import LOOK_UPS
from manihash.pages import curves, page
from manihash.pages.curves import Curve, Plot, Value

_SECTIONS = {"advice": "Advice", "trade-off": "Trade-off", "candidates": "Candidates", "facts": "Protocol"}
_QUALITY = {  # key of a record: heading, format
    "score": ("score", "{:.3f}"),
    "error": ("±", "{:.3f}"),
    "behind": ("behind", "{:.3f}"),
    "labels": ("labels", "{}"),
    "rows": ("rows", "{:,}"),
    "map": ("MAP", "{:.3f}"),
    "nearest_map": ("MAP, nearest", "{:.3f}"),
    "precision_at_10": ("P@10", "{:.3f}"),
    "nearest_precision_at_10": ("P@10, nearest", "{:.3f}"),
    "recall_at_10": ("R@10", "{:.3f}"),
    "recall_at_10_reranked": ("R@10 re-ranked", "{:.3f}"),
    "recall_at_100": ("R@100", "{:.3f}"),
    "recall_at_100_reranked": ("R@100 re-ranked", "{:.3f}"),
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
    measured = [
        row | ({"labels": "seen"} if row["uses_labels"] else {})
        for row in choice.table
        if row["score"] is not None
    ]
    return page.render(
        "manihash.pages",
        "choice.html",
        title=f"{choice.recipe}, {choice.n_bits} bits, for {name}",
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
        labels=", y" if choice.uses_labels else "",
        radius=choice.radius if choice.goal in LOOK_UPS else None,
        reranks=choice.goal == "neighbors",
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
    """The quality of the recommended recipe by size, and of all candidates by time."""
    label = f"score for the goal {choice.goal}"
    timed = [row for row in measured if row["final"] and "fit_seconds" in row]
    size = choice.best["bytes_per_row"]
    recommended = f"{size} {'byte is' if size == 1 else 'bytes are'} recommended"
    caption = (
        f"Bytes against quality of {choice.recipe}, on a few rows; {recommended}, as the advice explains."
    )
    by_size = [row | {"recipe": choice.recipe} for row in choice.curve]
    return [
        _plot(by_size, "bytes_per_row", "bytes per row", label, caption),
        _plot(
            timed,
            "fit_seconds",
            "seconds to fit the sample",
            label,
            "The candidates that were fitted to the whole sample. Up and to the left is better.",
        ),
    ]


def _plot(
    rows: Sequence[dict[str, Any]], key: str, x_label: str, y_label: str, caption: str
) -> dict[str, Any]:
    names = list(dict.fromkeys(row["recipe"] for row in rows))
    drawn = []
    for name in names:
        points = sorted((row["n_bits"], row[key], row["score"]) for row in rows if row["recipe"] == name)
        drawn.append(
            Curve(name, name, tuple(x for _, x, _ in points), tuple(Value(score) for _, _, score in points))
        )
    plot = Plot(key, "", x_label, y_label, tuple(drawn), log_x=True, own_colors=True)
    alt = f"{y_label} against {x_label}; the numbers are in the table below"
    return {"svg": curves.draw(plot).svg, "alt": alt, "caption": caption}
