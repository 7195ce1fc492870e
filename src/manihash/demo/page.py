"""The page of the demo: a section for each thing it shows, drawn from results already computed."""

from collections.abc import Callable, Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

from manihash import __version__
from manihash.codes import n_bytes
from manihash.demo.measure import DEPTHS, RADIUS, Demo, Found, Material, Score
from manihash.hashers.recipe_table import RECIPES
from manihash.report import page, pictures, plots
from manihash.report.page import Html, Page, paragraph, tag

_OWN = """\
from manihash import IMH, HammingIndex

hasher = IMH(n_bits=64, normalize=True, random_state=0).fit(X)  # X: your vectors, one a row
index = HammingIndex(hasher.encode(X), n_bits=64)               # 8 bytes a vector
distances, ids = index.search(hasher.encode(Q), k=10)           # Q: queries, never seen before
hasher.save("model.mhash")                                      # manihash.load reads it again"""
_LEGEND = (
    "MAP: the whole database is ranked by distance, ties in database order; 100 if all images of the "
    "query's class come first. F1: of the precision and recall of what lies within the radius. Raw and unit: "
    "pixels as they are, and scaled to unit length as the codes see them. Bold: the best of a column. Time: "
    "to fit and to encode all rows, all lengths together, on the machine that made this page; the base set, "
    "learned in {seconds:.2f} s once for all variants but the large one, which has its own, comes on top."
)

Value = Callable[[Score], float | None]


def demo_page(demo: Demo, made: date) -> Page:
    """The whole page."""
    built = Page(f"manihash on {demo.material.data.name}: images found by a few bytes", headline(demo))
    built.section("results", "Codes beside a scan of the pixels", *_results(demo))
    built.section("curves", "MAP and F1 against length", *_curves(demo))
    built.section("base-set", "The base set", *_base_set(demo))
    built.section("plane", "The base set in two dimensions", *_plane(demo))
    built.section("answers", "Queries and their answers", *_answers(demo))
    built.section("own", "On your own vectors", page.code(_OWN))
    built.section("facts", "How it was measured", _facts(demo, made))
    return built


def headline(demo: Demo) -> str:
    """The result in one sentence."""
    raw, shown = demo.material.data.X_train[0].nbytes, demo.shown
    scan = f"ranking by the raw pixels ({raw} bytes an image) reaches {_percent(demo.scan.raw)} %"
    if shown.map is None:
        return f"{scan[0].upper()}{scan[1:]} MAP; {shown.title} gave no codes of {shown.n_bits} bits."
    return (
        f"{shown.title} with {shown.n_bits} bits ({n_bytes(shown.n_bits)} bytes an image) reaches "
        f"{_percent(shown.map)} % MAP; {scan}. No label was used to learn the codes."
    )


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _results(demo: Demo) -> list[Html]:
    reasons = _reasons(demo.scores)
    lengths = [str(bits) for bits in demo.lengths]
    scans = [
        (f"l2 scan, {rows}", *[_percent(value)] * len(lengths))
        for rows, value in (("raw", demo.scan.raw), ("unit", demo.scan.unit))
    ]
    by_map = _score_rows(demo, lambda score: score.map, reasons)
    by_f1 = [
        (*row, _seconds(demo, method))
        for row, method in zip(_score_rows(demo, lambda s: s.f1, reasons), _methods(demo), strict=True)
    ]
    captions = ("MAP, by code length in bits", f"F1 within Hamming radius {RADIUS}, by code length in bits")
    return [
        page.side_by_side(
            page.table(["MAP, %", *lengths], [*scans, *by_map], captions[0]),
            page.table(["F1, %", *lengths, "time, s"], by_f1, captions[1]),
        ),
        paragraph(_LEGEND.format(seconds=demo.material.base_seconds), class_="note"),
        *(paragraph(tag("sup", str(i)), f" {text}", class_="note") for text, i in reasons.items()),
    ]


def _reasons(scores: Sequence[Score]) -> dict[str, int]:
    """Why a cell is empty, numbered; a method's lengths with the same reason share a note."""
    return {text: i for i, text in enumerate(dict.fromkeys(filter(None, map(_reason, scores))), 1)}


def _reason(score: Score) -> str:
    return f"No {score.title} here: {score.reason}." if score.reason else ""


def _methods(demo: Demo) -> list[str]:
    return list(dict.fromkeys(score.method for score in demo.scores))


def _score_rows(demo: Demo, value: Value, reasons: dict[str, int]) -> list[tuple[str, ...]]:
    best = {
        bits: max(
            (_percent(v) for s in demo.scores if s.n_bits == bits and (v := value(s)) is not None),
            key=float,
            default="",
        )
        for bits in demo.lengths
    }

    def cell(score: Score) -> str:
        number = value(score)
        if number is None:
            return page.markup("–", tag("sup", str(reasons[_reason(score)])))
        text = _percent(number)
        return tag("strong", text) if text == best[score.n_bits] else text

    return [
        (RECIPES[method].title, *(cell(score) for score in demo.scores if score.method == method))
        for method in _methods(demo)
    ]


def _seconds(demo: Demo, method: str) -> str:
    seconds = [score.seconds for score in demo.scores if score.method == method and score.seconds is not None]
    return f"{sum(seconds):.1f}" if seconds else "–"


def _curves(demo: Demo) -> list[Html]:
    drawn = page.side_by_side(
        _plot(
            plots.against_length(_lines(demo, lambda s: s.map), "MAP, %", {"l2 scan": 100 * demo.scan.raw}),
            "MAP against code length, one line a method; the numbers are in the table above",
            "MAP of the ranking. Dashed: the l2 scan of the raw pixels, which has no code length.",
        ),
        _plot(
            plots.against_length(_lines(demo, lambda s: s.f1), f"F1 within radius {RADIUS}, %"),
            "F1 against code length, one line a method; the numbers are in the table above",
            f"F1 of the look-up within Hamming radius {RADIUS}: what a hash table answers at once.",
        ),
    )
    absent = [
        RECIPES[m].title for m in _methods(demo) if all(s.map is None for s in demo.scores if s.method == m)
    ]
    note = f"Without a line: {', '.join(absent)}; the notes under the table say why."
    return [drawn, *([paragraph(note, class_="note")] if absent else [])]


def _lines(demo: Demo, value: Value) -> list[plots.Line]:
    lines = []
    for method in _methods(demo):
        points = [
            (s.n_bits, 100 * v) for s in demo.scores if s.method == method and (v := value(s)) is not None
        ]
        if points:
            bits, values = zip(*points, strict=True)
            lines.append(plots.Line(method, RECIPES[method].title, bits, values))
    return lines


def _plot(svg: bytes, alt: str, caption: str) -> Html:
    return page.figure(page.image("svg+xml", svg, alt, class_="plot"), caption)


def _base_set(demo: Demo) -> list[Html]:
    material = demo.material
    rows = []
    for name in np.unique(demo.base_classes):
        members = material.base[demo.base_classes == name]
        drawn = [pictures.ink(point, material.shape) for point in members[_along_main_axis(members)]]
        title = tag("span", tag("b", str(name)), f" {len(members)} centers")
        rows.append(
            tag("div", title, pictures.tiles(drawn, f"{len(members)} centers of {name}"), class_="class-row")
        )
    text = (
        f"The {len(material.base)} k-means centers that all codes but those of the large variant are made "
        "from: a code is the sign of a weighted mean of the embeddings of its nearest centers. The rows "
        "below sort the centers by the class that most of their images have; learning saw no class."
    )
    return [paragraph(text), *rows]


def _along_main_axis(points: NDArray[np.floating]) -> NDArray[np.int64]:
    """The order of points along their first principal axis, so that neighbors look alike."""
    axis = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
    axis = axis * np.sign(axis[np.abs(axis).argmax()])
    return np.argsort(points @ axis, kind="stable")


def _plane(demo: Demo) -> list[Html]:
    base_names, query_names = map(str, demo.base_classes), map(str, demo.material.y_test)
    svg = plots.plane(demo.base_plane, list(base_names), demo.query_plane, list(query_names), "t-SNE")
    return [
        _plot(
            svg,
            "Scatter of the base set in two dimensions by t-SNE, with the queries placed by induction",
            f"The {len(demo.base_plane)} centers, each drawn as the class of most of its images. "
            f"The dots are the {len(demo.query_plane):,} queries in the color of their class: none of them "
            "was there when t-SNE ran, each was placed by induction from its five nearest centers.",
        )
    ]


def _answers(demo: Demo) -> list[Html]:
    titles = ("by pixels: l2 distance", f"by code: {demo.shown.title}, {demo.shown.n_bits} bits")
    material = demo.material
    rows = [pictures.answers_head("query", *titles)]
    for query in demo.shown_queries:
        drawn = pictures.ink(material.data.X_test[query], material.shape)
        ways = [
            _answer(material, by, found, query)
            for by, found in (("by pixels", demo.by_pixels), ("by code", demo.by_code))
        ]
        rows.append(pictures.answers_row(drawn, str(material.y_test[query]), ways))
    text = (
        "The first query of each class in the order of the test set, not chosen for its answers. Nearest "
        "first, equal distances in database order. A red frame with a cross: an answer of another class. "
        "The table below counts over all queries, and further down than ten: MAP asks for the whole class."
    )
    return [paragraph(text), *rows, _depths(demo, titles)]


def _answer(material: Material, by: str, found: Found, query: int) -> pictures.Answers:
    ids = found.ids[query, :10]
    drawn = [pictures.ink(row, material.shape) for row in material.data.X_train[ids]]
    return pictures.Answers(by, drawn, [str(y) for y in material.y_train[ids]], list(found.right[query, :10]))


def _depths(demo: Demo, titles: tuple[str, str]) -> Html:
    """How many answers are right, over all queries: the rows above are few."""
    queries, depth = demo.by_code.right.shape
    depths = [d for d in DEPTHS if d <= depth]
    rows = [
        (title, *(_percent(float(found.right[:, :d].mean())) for d in depths))
        for title, found in zip(titles, (demo.by_pixels, demo.by_code), strict=True)
    ]
    caption = f"Right answers in per cent, mean over all {queries:,} queries"
    return tag("div", page.table(["among the first", *map(str, depths)], rows, caption), class_="narrow")


def _facts(demo: Demo, made: date) -> Html:
    material = demo.material
    n, width = material.data.X_train.shape
    pairs = {
        "Data": material.data.note,
        "Sizes": f"{n:,} rows of {width} pixels to learn from and to search, "
        f"{len(material.y_test):,} queries",
        "Right": "an answer of the query's class; classes were used to measure, never to learn",
        "Settings": f"the recipes' defaults: rows of unit length, {len(material.base)} k-means centers and 5 "
        "neighbors as in the paper. The rotated and the large variant are not in the paper",
        "Seed": f"{material.seed}; one run, so differences of two or three points are within chance",
        "Made": f"by manihash {__version__} on {made.isoformat()} with: manihash demo --data "
        f"{material.data.name} --bits {','.join(map(str, demo.lengths))} --seed {material.seed}",
    }
    return tag("dl", *(page.markup(tag("dt", name), tag("dd", text)) for name, text in pairs.items()))
