"""The table that ``manihash choose`` prints: what the score is made of, then what every user asks."""

from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

if TYPE_CHECKING:
    from manihash.advice import Choice

_SHOWN = 12


class _Column(NamedTuple):
    heading: str
    form: str
    meaning: str


_COLUMNS = {  # key of a record
    "score": _Column("score", ".3f", "the measure of the goal, named above"),
    "error": _Column("±", ".3f", "standard error of the score"),
    "map": _Column("MAP", ".3f", "relevant rows in the whole ranking"),
    "nearest_map": _Column("near MAP", ".3f", "the nearest 2 % of the rows in the whole ranking"),
    "precision_at_10": _Column("P@10", ".3f", "relevant rows among the first ten"),
    "nearest_precision_at_10": _Column("near P@10", ".3f", "the nearest 2 % among the first ten"),
    "f1": _Column("F1", ".3f", "of the relevant rows within the radius"),
    "nearest_f1": _Column("near F1", ".3f", "of the nearest 2 % within the radius"),
    "copies_found": _Column("copies", ".3f", "planted copies within the radius"),
    "recall_at_10": _Column("R@10", ".3f", "the ten nearest rows among the first ten"),
    "recall_at_10_rescored": _Column("rescored", ".3f", "the ten nearest rows among the first hundred"),
    "radius": _Column("radius", "", "for look-ups"),
    "returned": _Column("found", ",.0f", "rows of the sample within the radius"),
    "lookup_recall": _Column("recall", ".3f", "share of the ten nearest among them"),
    "empty": _Column("empty", ".2f", "queries without an answer"),
    "bytes_per_row": _Column("bytes", "", "per row"),
    "fit_seconds": _Column("fit s", ".1f", "of the rows of the sample"),
    "rows": _Column("rows", ",", "that it was fitted to; scores on other numbers of rows are others"),
}
_PARTS = {  # columns that only the score of some goals is made of
    "map": ("auto", "ranking"),
    "nearest_map": ("auto", "ranking"),
    "precision_at_10": ("auto", "first"),
    "nearest_precision_at_10": ("auto", "first"),
    "f1": ("group",),
    "nearest_f1": ("group",),
    "empty": ("group",),
    "radius": ("group", "duplicates"),
    "returned": ("group", "duplicates"),
    "lookup_recall": ("group", "duplicates"),
}


def choice_table(choice: "Choice", *, has_page: bool) -> Table:
    """Return a table of the best candidates; the recommended one is marked."""
    columns = _columns(choice)
    table = Table("", "recipe", "bits", box=None, header_style="bold")
    saw = any(row["uses_labels"] for row in choice.table)
    if saw:
        table.add_column("labels")
    for column in columns.values():
        table.add_column(column.heading, justify="right")
    measured = [row for row in choice.table if row["score"] is not None]
    best = choice.best
    shown = measured[:_SHOWN] if best in measured[:_SHOWN] else [*measured[: _SHOWN - 1], best]
    for row in shown:
        cells = (format(row[key], column.form) if key in row else "-" for key, column in columns.items())
        labels = ["seen" if row["uses_labels"] else ""] if saw else []
        table.add_row("→" if row is best else "", row["recipe"], str(row["n_bits"]), *labels, *cells)
    left = len(choice.table) - len(shown)
    if left:
        where = "in the page" if has_page else "use --json or --out"
        table.caption = f"{left} more candidates, and times to encode and search: {where}"
    return table


def legend(choice: "Choice") -> str:
    """Return what the columns of the table mean."""
    meanings = [f"{column.heading}: {column.meaning}" for column in _columns(choice).values()]
    if any(row["uses_labels"] for row in choice.table):
        meanings.insert(0, "labels: whether the method has seen some")
    return "; ".join(meanings)


def _columns(choice: "Choice") -> dict[str, _Column]:
    """Return the columns for the goal that some candidate has a value in."""
    return {
        key: column
        for key, column in _COLUMNS.items()
        if choice.goal in _PARTS.get(key, (choice.goal,)) and any(key in row for row in choice.table)
    }
