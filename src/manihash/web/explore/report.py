"""The report: what the page to explore shows, as a static page that can be printed."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from manihash import __version__
from manihash.pages import curves, page, plots
from manihash.pages.curves import Curve, Plot, Value
from manihash.types import Ids
from manihash.web.explore.coded import CodedRows
from manihash.web.explore.exploration import Exploration
from manihash.web.explore.measure import (
    AnswerShares,
    RadiusCounts,
    answers_by_code,
    first_answers,
    radius_counts,
    sampled_queries,
)
from manihash.web.explore.rows import NO_LABEL

SECTIONS = {
    "map": "Map",
    "answers": "Answers",
    "radius": "Radius",
    "statistics": "Statistics",
    "bits": "Bits",
    "buckets": "Buckets",
    "duplicates": "Near-duplicates",
    "facts": "How it was made",
}
_LABELS, _QUERIES, _ANSWERS, _GROUPS, _TILES = 10, 10, 10, 12, 18
_VALUES = 6  # of a row that are shown
_RADII = (0, 1, 2, 3, 4, 6, 8, 12, 16)
_DUPLICATE_COSINE = 0.99


def report_page(
    exploration: Exploration, made: date, command: str, explore_file: str | None = "explore.html"
) -> str:
    """The report of the first model as HTML; ``command`` is what makes it again.

    ``explore_file`` is the name of the page to explore, if it is beside the report.
    """
    model, rows = exploration.models[0], exploration.rows
    queries = sampled_queries(rows) if exploration.held_out is None else exploration.held_out
    # Codes without signs have no Hamming radius.
    counts = radius_counts(exploration, model, queries) if model.look_up_bits else None
    first = first_answers(exploration, model, queries)
    return page.render(
        "manihash.web.explore",
        "report.html",
        title=f"{rows.name}: codes of {model.n_bits} bits",
        lead=_lead(exploration, model, first, len(queries)),
        navigation=SECTIONS.items(),
        explore_file=explore_file,
        map=_map(exploration),
        kind="image" if rows.kind == "image" else "text",
        shown=[_shown(exploration, model, int(row)) for row in _shown_queries(exploration)],
        first=_first_table(exploration, first, len(queries)),
        radius=[] if counts is None else _radius_plots(counts),
        radius_table=None if counts is None else _radius_table(counts, model.look_up_bits, len(queries)),
        look_up_bits=model.layout.look_up_bits if model.layout.has_two_parts else None,
        statistics=_statistics(model),
        warnings=model.stats.warnings,
        doubts=model.doubts,
        bits=[_bit(exploration, model, bit) for bit in range(model.n_bits)],
        buckets=[_group(exploration, b.ids, f"{len(b.ids):,} rows") for b in model.largest_buckets(_GROUPS)],
        duplicates=_duplicates(exploration, model),
        facts=_facts(exploration, model, made, command, len(queries)),
    )


def _lead(exploration: Exploration, model: CodedRows, first: AnswerShares, queries: int) -> str:
    """The result in two sentences, with intervals; it says if the model was fitted to the queries, too."""
    rows, depth = exploration.rows, first.depths[0]
    size = f"{len(rows):,} vectors of {rows.width:,} columns have codes of {model.codes.shape[1]} bytes."
    asked = f"{queries} held-out queries"
    if exploration.held_out is None:
        asked = f"{queries} queries, which the model may have been fitted to,"
    by_code, by_vectors, shared = (
        f"{_percent(shares[0])} ± {_percent(error)} %"
        for shares, error in zip(
            (first.right_by_code or (np.nan,), first.right_by_vectors or (np.nan,), first.shared),
            first.errors,
            strict=True,
        )
    )
    if first.right_by_code:
        return (
            f"{size} Of the first {depth} answers to {asked} {by_code} have the label of the query by code, "
            f"and {by_vectors} by the vectors."
        )
    answers = f"The first {depth} answers by code to {asked}"
    return f"{size} {answers} contain {shared} of the {depth} nearest vectors."


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


def _map(exploration: Exploration) -> dict[str, Any]:
    """The map, colored by the most frequent labels."""
    labels, names, numbers = exploration.rows.labels, [], None
    if labels is not None:
        order = np.argsort(-labels.counts, kind="stable")[:_LABELS]
        order = np.sort(order) if len(labels.names) <= _LABELS else order
        names = [labels.names[i] for i in order]
        rank = np.full(NO_LABEL + 1, NO_LABEL)
        rank[order] = np.arange(len(order))
        numbers = rank[labels.numbers]
    return {
        "svg": plots.places(exploration.steps / 65535, numbers, names),
        "alt": "Scatter plot of all rows in two dimensions",
        "caption": "All rows in two dimensions: t-SNE of base points, and every row at the weighted mean of "
        "its nearest base points. Near rows are similar; distances between groups have no meaning.",
    }


def _shown_queries(exploration: Exploration) -> Ids:
    """The first row of each of the most frequent labels, or rows at equal distances."""
    labels = exploration.rows.labels
    if labels is None:
        return sampled_queries(exploration.rows, _QUERIES)
    order = np.sort(np.argsort(-labels.counts, kind="stable")[:_QUERIES])
    return np.array([int(np.flatnonzero(labels.numbers == label)[0]) for label in order])


def _shown(exploration: Exploration, model: CodedRows, row: int) -> dict[str, Any]:
    """A query with its first answers by vectors and by code."""
    rows = exploration.rows
    near = rows.nearest(rows.vectors([row])[0], _ANSWERS, without=row)[0]
    searches = (("by vectors", near), ("by code", answers_by_code(model, row, _ANSWERS)))
    return {
        "query": _item(exploration, row, row),
        "searches": [
            {"name": name, "answers": [_item(exploration, int(i), row) for i in ids]}
            for name, ids in searches
        ],
    }


def _item(exploration: Exploration, row: int, query: int) -> dict[str, Any]:
    """What is shown of a row, and whether it is a right answer to a query."""
    rows = exploration.rows
    labels = rows.labels
    known = labels is not None and NO_LABEL not in labels.numbers[[row, query]]
    return {
        "row": row,
        "pixels": rows.pictures.pixels(row) if rows.kind == "image" else None,
        "text": rows.text(row) if rows.kind == "text" else _values(exploration, row),
        "class": _label(exploration, row),
        "relevant": not known or labels is None or labels.numbers[row] == labels.numbers[query],
    }


def _values(exploration: Exploration, row: int) -> str:
    """A row without picture and text, as text: its number, its label and its first values."""
    rows = exploration.rows
    label = "" if rows.labels is None else f", label {_label(exploration, row)}"
    values = ", ".join(f"{value:.3g}" for value in rows.vectors([row])[0][:_VALUES])
    return f"row {row:,}{label}: {values}{', …' if rows.width > _VALUES else ''}"


def _label(exploration: Exploration, row: int) -> str:
    labels = exploration.rows.labels
    number = NO_LABEL if labels is None else int(labels.numbers[row])
    return "unknown" if labels is None or number == NO_LABEL else labels.names[number]


def _first_table(exploration: Exploration, first: AnswerShares, queries: int) -> dict[str, Any]:
    named = (
        ("by code: label of the query, %", first.right_by_code),
        ("by vectors: label of the query, %", first.right_by_vectors),
        ("by code: also among as many nearest vectors, %", first.shared),
    )
    return {
        "head": ["among the first", *map(str, first.depths)],
        "rows": [(name, *map(_percent, shares)) for name, shares in named if shares],
        "caption": f"Shares of the first answers, means over {queries} rows as queries",
    }


def _radius_plots(counts: RadiusCounts) -> list[dict[str, Any]]:
    """Precision and recall, and the number of answers, against the radius."""
    last = int(np.argmax(counts.answers >= counts.answers[-1])) or len(counts.answers) - 1
    radii = tuple(range(last + 1))

    def curve(title: str, method: str, values: Any, scale: float) -> Curve:
        return Curve(title, method, radii, tuple(Value(scale * float(v)) for v in values[: last + 1]))

    drawn = [
        (
            "answers, mean",
            [curve("answers", "lsh", counts.answers, 1)],
            "Rows within the radius, per query.",
            True,
        )
    ]
    if not np.isnan(counts.recall).all():
        two = [
            curve("precision", "imh-tsne", counts.precision, 100),
            curve("recall", "pcah", counts.recall, 100),
        ]
        text = (
            "Precision: share of the answers with the query's label. Recall: share of the rows of the label."
        )
        drawn.insert(0, ("%, mean", two, text, False))
    plotted = []
    for label, shown, caption, log in drawn:
        plot = Plot("radius", caption, "Hamming radius, bits", label, tuple(shown), log_y=log)
        plotted.append(
            {"svg": curves.draw(plot).svg, "alt": f"{label} against the radius", "caption": caption}
        )
    return plotted


def _radius_table(counts: RadiusCounts, n_bits: int, queries: int) -> dict[str, Any]:
    radii = [radius for radius in _RADII if radius <= n_bits]
    rows: list[tuple[Any, ...]] = [("answers", *(f"{counts.answers[r]:,.1f}" for r in radii))]
    if not np.isnan(counts.recall).all():
        rows.append(("precision, %", *(_percent(counts.precision[r]) for r in radii)))
        rows.append(("recall, %", *(_percent(counts.recall[r]) for r in radii)))
    caption = (
        f"All rows within a radius, means over {queries} rows as queries; precision over those with answers"
    )
    return {"head": ["radius", *map(str, radii)], "rows": rows, "caption": caption}


def _statistics(model: CodedRows) -> dict[str, str]:
    stats = model.stats
    return {
        "Distinct codes": f"{stats.distinct_codes:,} of {stats.rows:,} rows",
        "Entropy": f"{stats.entropy:.2f} bits",
        "Bucket size": f"mean {stats.mean_bucket:.1f}, median {stats.median_bucket:,.0f}, largest "
        f"{stats.largest_bucket:,}",
        "Effective bits": f"{stats.effective_bits:.1f} of {stats.n_bits}",
        "Constant bits": ", ".join(map(str, stats.constant_bits)) or "none",
        "Correlated bits": ", ".join(f"{i} and {j}" for i, j in stats.correlated_bits) or "none",
    }


def _bit(exploration: Exploration, model: CodedRows, bit: int) -> dict[str, Any]:
    """Both sides of a bit: share of rows, mean picture, most frequent labels, and the most typical rows."""
    sides, rows = [], exploration.rows
    for value, side in enumerate(model.sides(bit)):
        labels = rows.labels
        frequent = [] if labels is None else labels.shares(side.sampled)[:3]
        sides.append(
            {
                "share": f"{_percent(side.count / len(exploration.rows))} %",
                "mean": exploration.bit_mean(model, bit, value) if rows.kind == "image" else None,
                "rows": ", ".join(f"{i:,}" for i in side.ids[:3]) if rows.kind == "row" else "",
                "labels": ", ".join(labels.names[number] for number, _ in frequent) if labels else "",
                "items": [_item(exploration, int(i), int(i)) for i in side.ids[:3]],
            }
        )
    return {"bit": bit, "sides": sides}


def _group(exploration: Exploration, ids: Ids, title: str, note: str = "") -> dict[str, Any]:
    """Rows that belong together: what they look like, and their labels."""
    labels = exploration.rows.labels
    shares = [] if labels is None else labels.shares(ids)
    named = [f"{labels.names[number]}: {count:,}" for number, count in shares[:4]] if labels else []
    return {
        "title": title,
        "note": note,
        "labels": ", ".join([*named, *(["…"] if len(shares) > 4 else [])]),
        "items": [_item(exploration, int(i), int(i)) for i in ids[:_TILES]],
    }


def _duplicates(exploration: Exploration, model: CodedRows) -> dict[str, Any]:
    found = exploration.duplicates(model, _DUPLICATE_COSINE)
    groups: Sequence[dict[str, Any]] = found["shown"][:_GROUPS]
    return {
        "groups": f"{found['groups']:,}",
        "rows": f"{found['rows']:,}",
        "cosine": f"{_DUPLICATE_COSINE:g}",
        "shown": [
            _group(exploration, np.array(g["ids"]), f"{g['size']:,} rows", f"up to {g['apart']:.3g} apart")
            for g in groups
        ],
    }


def _facts(
    exploration: Exploration, model: CodedRows, made: date, command: str, queries: int
) -> dict[str, str]:
    rows = exploration.rows
    known = (
        "the model may have been fitted to them" if exploration.held_out is None else "held out of the fit"
    )
    return {
        "Rows": f"{rows.name}: {len(rows):,} vectors of {rows.width:,} columns",
        "Model": f"{model.name}: {type(model.hasher).__name__}, {model.n_bits} bits",
        "Queries": f"{queries} rows at equal distances in the file, {known}; a query is not among its own "
        "answers",
        "Right answers": "rows with the label of the query"
        if rows.labels
        else "not known: there are no labels",
        "Made": f"by manihash {__version__} on {made.isoformat()} with: {command}",
    }
