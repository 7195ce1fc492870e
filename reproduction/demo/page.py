"""The page of the demo: its numbers, plots and pictures, as the values of a template."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from manihash import __version__
from manihash.codes import n_bytes
from manihash.hashers.recipe_table import RECIPES
from manihash.pages import curves, page, pictures, plots
from manihash.pages.curves import Curve, Plot, Value
from manihash.types import Floats, Ints
from reproduction.demo.drawn_codes import codes_of_queries, nearest_codes
from reproduction.demo.measure import DEPTHS, RADIUS, Demo, Score, Setup, ShownAnswers

SECTIONS = {
    "answers": "Answers",
    "codes": "Codes",
    "plane": "Two dimensions",
    "base-set": "Base set",
    "curves": "Curves",
    "results": "Tables",
    "own": "Your own vectors",
    "facts": "Protocol",
}
_POINTS_SHOWN = 40  # base points of a class

Metric = Callable[[Score], float | None]


@dataclass(frozen=True)
class _ScoreCell:
    """A number as text, or the number of the note that says why there is none."""

    text: str = ""
    best: bool = False
    note: int | None = None


def demo_page(demo: Demo, made: date) -> str:
    """The whole page as HTML."""
    notes = _notes(demo.scores)
    titles = ("by pixels: l2 distance", f"by code: {demo.shown.method}, {demo.shown.n_bits} bits")
    return page.render(
        "reproduction.demo",
        "demo.html",
        title=f"manihash on {demo.setup.data.name}: image search with a few bytes per image",
        lead=headline(demo),
        navigation=SECTIONS.items(),
        score_tables=_score_tables(demo, notes),
        base_seconds=f"{demo.setup.base_seconds:.2f}",
        notes=notes,
        curves=_curves(demo),
        absent=[m for m in _methods(demo) if _has_no_score(demo, m)],
        baselines=[m for m in _methods(demo) if m not in RECIPES],
        n_base=len(demo.base),
        shared_base=len(demo.setup.base),
        shown_method=demo.shown.method,
        base_rows=_base_rows(demo),
        plane=_plane(demo),
        search_titles=titles,
        shown=_shown(demo),
        depths=_depths(demo, titles),
        codes=demo.codes,
        codes_of_queries=codes_of_queries(demo),
        nearest_codes=nearest_codes(demo),
        facts=_facts(demo, made),
    )


def headline(demo: Demo) -> str:
    """The result in one sentence."""
    raw, shown = demo.setup.data.X_train[0].nbytes, demo.shown
    scan = (
        f"ranking by the raw pixels ({raw} bytes per image) reaches {_percent(demo.scan.raw.map)} % and "
        f"{_percent(demo.scan.raw.precision_at_10)} %"
    )
    if shown.map is None or shown.precision_at_10 is None:
        return f"{scan[0].upper()}{scan[1:]} MAP; {shown.method} gave no codes of {shown.n_bits} bits."
    return (
        f"{shown.method} with {shown.n_bits} bits ({n_bytes(shown.n_bits)} bytes per image) reaches "
        f"{_percent(shown.map)} % MAP, and {_percent(shown.precision_at_10)} % of its first ten answers are "
        f"correct; {scan}. No label was used to learn the codes."
    )


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _score_tables(demo: Demo, notes: Sequence[str]) -> list[dict[str, Any]]:
    """The tables of MAP, of F1 and of the first ten answers."""
    raw, unit = demo.scan.raw, demo.scan.unit
    scans = {
        "MAP": (raw.map, unit.map),
        "precision@10": (raw.precision_at_10, unit.precision_at_10),
        "recall@10": (raw.recall_at_10, unit.recall_at_10),
    }
    metrics: list[tuple[str, str, Metric]] = [
        ("MAP", "MAP", lambda score: score.map),
        ("F1", f"F1 within Hamming radius {RADIUS}", lambda score: score.f1),
        ("precision@10", "Precision@10: correct among the first ten", lambda score: score.precision_at_10),
        ("recall@10", "Recall@10: found of the ten nearest by pixels", lambda score: score.recall_at_10),
    ]
    rows_of_scans = {name: _scan_rows(demo, *values) for name, values in scans.items()}
    return [
        {
            "head": [f"{name}, %", *map(str, demo.lengths), *(["time, s"] if name == "F1" else [])],
            "rows": [*rows_of_scans.get(name, []), *_score_rows(demo, metric, notes, timed=name == "F1")],
            "caption": f"{caption}, by code length in bits",
        }
        for name, caption, metric in metrics
    ]


def _scan_rows(demo: Demo, raw: float | None, unit: float | None) -> list[tuple[Any, ...]]:
    """The rows of the exhaustive scans, which have no code length."""
    return [
        (f"l2 scan, {rows}", *[_ScoreCell(_percent(value))] * len(demo.lengths))
        for rows, value in (("raw", raw), ("unit", unit))
        if value is not None
    ]


def _notes(scores: Sequence[Score]) -> list[str]:
    """Why cells are empty, without duplicates."""
    return list(dict.fromkeys(filter(None, map(_note, scores))))


def _note(score: Score) -> str:
    return f"No {score.method} here: {score.reason}." if score.reason else ""


def _methods(demo: Demo) -> list[str]:
    return list(dict.fromkeys(score.method for score in demo.scores))


def _has_no_score(demo: Demo, method: str) -> bool:
    return all(score.map is None for score in demo.scores if score.method == method)


def _score_rows(demo: Demo, metric: Metric, notes: Sequence[str], *, timed: bool) -> list[tuple[Any, ...]]:
    """The rows of the methods that have this metric; with ``timed``, the last cell is their time."""
    best = {
        bits: max(
            (_percent(v) for s in demo.scores if s.n_bits == bits and (v := metric(s)) is not None),
            key=float,
            default="",
        )
        for bits in demo.lengths
    }

    def cell(score: Score) -> _ScoreCell:
        number = metric(score)
        if number is None:
            return _ScoreCell(note=notes.index(_note(score)) + 1)
        return _ScoreCell(_percent(number), _percent(number) == best[score.n_bits])

    rows = []
    for method in _methods(demo):
        scores = [score for score in demo.scores if score.method == method]
        if any(score.reason or metric(score) is not None for score in scores):
            time = [_ScoreCell(_seconds(demo, method))] if timed else []
            rows.append((method, *map(cell, scores), *time))
    return rows


def _seconds(demo: Demo, method: str) -> str:
    seconds = [score.seconds for score in demo.scores if score.method == method and score.seconds is not None]
    return f"{sum(seconds):.1f}" if seconds else "–"


def _curves(demo: Demo) -> list[dict[str, Any]]:
    scan = (("l2 scan", 100 * demo.scan.raw.map),)
    return [
        _length_plot(
            _method_curves(demo, lambda s: s.map),
            "MAP, %",
            "MAP of the ranking. Dashed: the l2 scan of the raw pixels, which has no code length.",
            scan,
        ),
        _length_plot(
            _method_curves(demo, lambda s: s.f1),
            f"F1 within radius {RADIUS}, %",
            f"F1 of the look-up within Hamming radius {RADIUS}, which a hash table answers directly.",
        ),
    ]


def _length_plot(
    drawn: tuple[Curve, ...], label: str, caption: str, levels: tuple[tuple[str, float], ...] = ()
) -> dict[str, Any]:
    plot = Plot("curves", caption, "code length, bits", label, drawn, levels)
    alt = f"{label} against code length, one curve per method; the numbers are in the table above"
    return {"svg": curves.draw(plot).svg, "alt": alt, "caption": caption}


def _method_curves(demo: Demo, metric: Metric) -> tuple[Curve, ...]:
    found = []
    for method in filter(RECIPES.__contains__, _methods(demo)):
        points = [
            (s.n_bits, Value(100 * v))
            for s in demo.scores
            if s.method == method and (v := metric(s)) is not None
        ]
        if points:
            bits, values = zip(*points, strict=True)
            found.append(Curve(method, method, bits, values))
    return tuple(found)


def _base_rows(demo: Demo) -> list[tuple[str, int, list[pictures.Image]]]:
    """The base points of each class: their number, and pictures of some of them."""
    rows = []
    for name in np.unique(demo.base_classes):
        members = demo.base[demo.base_classes == name]
        ordered = members[_along_main_axis(members)]
        some = np.unique(np.linspace(0, len(ordered) - 1, min(_POINTS_SHOWN, len(ordered))).astype(np.int64))
        drawn = [pictures.ink(point, demo.setup.shape) for point in ordered[some]]
        rows.append((str(name), len(members), drawn))
    return rows


def _along_main_axis(points: Floats) -> Ints:
    """The order of points along their first principal axis, so that neighbors look alike."""
    axis = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
    axis = axis * np.sign(axis[np.abs(axis).argmax()])
    return np.argsort(points @ axis, kind="stable")


def _plane(demo: Demo) -> dict[str, Any]:
    base_names, query_names = map(str, demo.base_classes), map(str, demo.setup.y_test)
    return {
        "svg": plots.plane(demo.base_plane, list(base_names), demo.query_plane, list(query_names), "t-SNE"),
        "alt": "Scatter plot of the base set in two dimensions by t-SNE, with queries placed by induction",
        "caption": (
            f"The {len(demo.base_plane):,} base points of {demo.shown.method}, each drawn as the most "
            "frequent class of the images nearest to it. "
            f"The dots are the {len(demo.query_plane):,} queries in the color of their class. t-SNE saw none "
            "of them: each was placed by induction from its five nearest base points."
        ),
    }


def _shown(demo: Demo) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The queries shown, each with its first answers by pixels and by code."""
    setup = demo.setup
    searches = (("by pixels", demo.by_pixels), ("by code", demo.by_code))
    return [
        (
            {"pixels": pictures.ink(setup.data.X_test[query], setup.shape), "class": setup.y_test[query]},
            [{"name": name, "answers": _answers(setup, found, query)} for name, found in searches],
        )
        for query in demo.shown_queries
    ]


def _answers(setup: Setup, found: ShownAnswers, query: int) -> list[dict[str, Any]]:
    return [
        {
            "pixels": pictures.ink(setup.data.X_train[i], setup.shape),
            "class": setup.y_train[i],
            "relevant": relevant,
        }
        for i, relevant in zip(found.ids[query, :10], found.relevant[query, :10], strict=True)
    ]


def _depths(demo: Demo, titles: tuple[str, str]) -> dict[str, Any]:
    """The table of precision at several depths, over all queries."""
    queries, depth = demo.by_code.relevant.shape
    depths = [d for d in DEPTHS if d <= depth]
    rows = [
        (title, *(_percent(float(found.relevant[:, :d].mean())) for d in depths))
        for title, found in zip(titles, (demo.by_pixels, demo.by_code), strict=True)
    ]
    caption = f"Correct answers in percent, mean over all {queries:,} queries"
    return {"head": ["among the first", *map(str, depths)], "rows": rows, "caption": caption}


def _facts(demo: Demo, made: date) -> dict[str, str]:
    setup = demo.setup
    n, width = setup.data.X_train.shape
    return {
        "Data": setup.data.note,
        "Sizes": f"{n:,} rows of {width} pixels to learn from and to search, {len(setup.y_test):,} queries",
        "Correct": "an answer of the query's class; classes were used to measure, never to learn",
        "Methods": "the names in tables and plots are those of the recipes: recipe('imh-tsne') in Python, "
        "manihash fit --recipe imh-tsne on the command line",
        "Settings": f"the recipes' defaults: rows of unit length, {len(setup.base)} k-means centers and 5 "
        "neighbors as in the paper. The hybrid (bits of the graph and a product quantizer), the graph, the "
        "rotated and the large variant are not in the paper; itq and pq need no base set",
        "Seed": f"{setup.seed}; one run, so differences of two or three points may be random",
        "Made": f"by manihash {__version__} on {made.isoformat()} with: manihash demo --data "
        f"{setup.data.name} --bits {','.join(map(str, demo.lengths))} --seed {setup.seed}",
    }
