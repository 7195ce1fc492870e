"""The page of the paper's reproduction: a summary of the claims, then every experiment as a section."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from manihash.paper.data_files import difference, known, result
from manihash.report import page, pictures
from manihash.report.curves import Drawn
from manihash.report.page import Html, Page, paragraph, tag
from manihash.report.section import Cell, Claim, Pictures, Plot, Row, Section, Strip, Table, Value

TITLE = "Inductive Hashing on Manifolds, reproduced"
_LEAD = (
    "Every table and figure of the paper (Shen, Shen, Shi, van den Hengel and Tang, CVPR 2013) beside ours: "
    "the same methods, axes and protocol, the paper's numbers where it prints them, and for each claim of "
    "its text whether it holds here."
)
_SHORT = {"fig": "Fig.", "tab": "Table", "thm": "Thm."}
_RESULT_CLASSES = {True: "holds", False: "fails", None: "unknown"}
_NONE = "–"


def paper_page(sections: Sequence[Section], about: Mapping[str, str], drawn: Mapping[str, Drawn]) -> Page:
    """The whole page; ``drawn`` holds the plots by their names."""
    built = Page(TITLE, _LEAD, style=files(__package__).joinpath("paper.css").read_text("utf-8"))
    if about:
        built.section("about", "The run", _about(about), link="Run")
    built.section("summary", "Which claims hold", *_summary(sections), link="Claims")
    for section in sections:
        built.section(section.id, section.title, *_section(section, drawn), link=_short(section.id))
    return built


def _short(id: str) -> str:
    """Fig. 4 for fig4, and Ours for ours."""
    match = re.fullmatch(r"(fig|tab|thm)(\d+)", id)
    return f"{_SHORT[match[1]]} {match[2]}" if match else id[:1].upper() + id[1:]


def _about(about: Mapping[str, str]) -> Html:
    return tag("dl", *(page.markup(tag("dt", name), tag("dd", text)) for name, text in about.items()))


def _summary(sections: Sequence[Section]) -> list[Html]:
    claims = [claim for section in sections for claim in section.claims]
    if not claims:
        what = "No claim was checked in this report." if sections else "No experiment is in this report."
        return [paragraph(what)]
    counted = [tag("li", tag("b", str(n)), f" {words}", class_=name) for n, words, name in _counts(claims)]
    groups = [
        (tag("a", f"{_short(section.id)} · {_held(section.claims)}", href=f"#{section.id}"), section.claims)
        for section in sections
        if section.claims
    ]
    return [
        paragraph(f"{_held(claims)}.", class_="lead"),
        tag("ul", *counted, class_="counts"),
        _claims(groups, "The claims of the paper, our figures for each, and whether it holds here"),
        _links("All claims", {"CSV": "claims.csv", "JSON": "claims.json"}),
    ]


def _held(claims: Sequence[Claim]) -> str:
    if len(claims) == 1:
        return f"The one claim {'is ' if claims[0].holds is None else ''}{result(claims[0])}"
    return f"{sum(claim.holds is True for claim in claims)} of {len(claims)} claims hold"


def _counts(claims: Sequence[Claim]) -> list[tuple[int, str, str]]:
    ways = ((True, "hold"), (False, "do not hold"), (None, "not measured"))
    return [(sum(c.holds is way for c in claims), words, _RESULT_CLASSES[way]) for way, words in ways]


def _claims(groups: Iterable[tuple[str, Sequence[Claim]]], caption: str) -> Html:
    """Claims as a table, which becomes a list of cards on a phone; a group's title spans its row."""
    head = tag(
        "tr", *(tag("th", name, scope="col") for name in ("The paper says", "Where", "We find", "Result"))
    )
    bodies = []
    for title, claims in groups:
        top = [tag("tr", tag("th", title, colspan="4", scope="rowgroup"), class_="group")] if title else []
        bodies.append(tag("tbody", *top, *map(_claim, claims)))
    return tag("table", tag("caption", caption), tag("thead", head), *bodies, class_="claims")


def _claim(claim: Claim) -> Html:
    why = [tag("p", _kept(claim.why), class_="why")] if claim.why else []
    return tag(
        "tr",
        tag("th", _kept(claim.text), scope="row"),
        tag("td", claim.place, class_="place"),
        tag("td", _kept(claim.ours) or ("" if why else _NONE), *why, class_="found"),
        tag("td", tag("span", result(claim), class_=f"result {_RESULT_CLASSES[claim.holds]}")),
    )


def _kept(text: str) -> str:
    """A number and its per cent sign stay in one line."""
    return text.replace(" %", "\u00a0%")


def _section(section: Section, drawn: Mapping[str, Drawn]) -> list[Html]:
    content = [paragraph(section.lead)]
    if section.data:
        content.append(paragraph(tag("b", "Data. "), section.data))
    if section.missing:
        missing = (tag("li", text) for text in section.missing)
        content.append(
            tag("div", tag("b", "Not in this report"), tag("ul", *missing), class_="missing", role="note")
        )
    waiting: list[Html] = []
    for item in section.items:
        if isinstance(item, Plot):
            waiting.append(_plot(item, drawn[item.name]))
            continue
        content += _beside(waiting)
        waiting = []
        content.append(_table(item) if isinstance(item, Table) else _pictures(item))
    content += _beside(waiting)
    if section.claims:
        content.append(_claims([("", section.claims)], "Claims of the paper about this experiment"))
    return content


def _beside(figures: Sequence[Html]) -> list[Html]:
    return [page.side_by_side(*figures)] if figures else []


def _links(what: str, files: Mapping[str, str]) -> Html:
    """Where the files of a item are, beside the page."""
    links = [page.markup(" ", tag("a", name, href=path)) for name, path in files.items()]
    return tag("p", f"{what}:", *links, class_="files")


def _figure_files(name: str, *kinds: str) -> dict[str, str]:
    return {kind.upper(): f"figures/{name}.{kind}" for kind in kinds}


def _plot(plot: Plot, drawn: Drawn) -> Html:
    lines = ", ".join([curve.title for curve in plot.curves] + [title for title, _ in plot.levels])
    alt = f"{plot.y_label} against {plot.x_label}, for {lines}" if lines else f"{plot.y_label}: no curve"
    image = page.image("svg+xml", drawn.svg, alt, class_="plot")
    band = any(value and value.spread is not None for curve in plot.curves for value in curve.y)
    caption = [plot.caption, *(["Bands: one standard deviation over the seeds."] if band else [])]
    return tag(
        "figure",
        image,
        tag("figcaption", " ".join(caption)),
        _links("Figure", _figure_files(plot.name, "svg", "png", "csv")),
        id=f"figure-{plot.name}",
    )


def _pictures(item: Pictures) -> Html:
    return tag(
        "figure",
        tag("div", *map(_strip, item.strips), class_="strips"),
        tag(
            "figcaption",
            item.caption,
            " First, in a heavy frame: the query. Red frame with a cross: a false answer.",
        ),
        _links("Figure", _figure_files(item.name, "svg", "png")),
        id=f"figure-{item.name}",
        class_="pictures",
    )


def _strip(strip: Strip) -> Html:
    if not strip.pictures:
        return tag("div", tag("span", strip.title, class_="title"), class_="strip")
    words = {True: "right", False: "false", None: "unjudged"}
    answers = (
        pictures.tile(
            pixels, f"answer {i}, {words[right]}", class_="tile wrong" if right is False else "tile"
        )
        for i, (pixels, right) in enumerate(zip(strip.pictures[1:], strip.right[1:], strict=True), 1)
    )
    return tag(
        "div",
        tag("span", strip.title, class_="title"),
        pictures.tile(strip.pictures[0], "query", class_="tile query"),
        tag("div", *answers, class_="ten"),
        class_="strip",
    )


def _table(table: Table) -> Html:
    digits = (table.digits,) * len(table.columns) if isinstance(table.digits, int) else table.digits
    rows = [[row.title, *map(_cell, row.cells, digits)] for row in table.rows]
    return tag(
        "div",
        page.table(
            ["", *table.columns], rows, f"{table.caption} ({table.unit})" if table.unit else table.caption
        ),
        paragraph(*_legend(table.rows), class_="note"),
        _links("Table", {"CSV": f"tables/{table.name}.csv", "JSON": f"tables/{table.name}.json"}),
        class_="figures",
        id=f"table-{table.name}",
    )


def _cell(cell: Cell | str, digits: int) -> str:
    if isinstance(cell, str):
        return cell
    ours = known(cell.ours)
    main = _NONE if ours is None else page.markup(_number(ours.mean, digits), _spread(ours, digits))
    if cell.paper is None:
        return main
    less = difference(cell)
    beside = "" if less is None else f" ({_number(less, digits, sign=True)})"
    return page.markup(main, tag("span", f"paper {_number(cell.paper, digits)}{beside}", class_="theirs"))


def _spread(value: Value, digits: int) -> Html:
    return Html("") if value.spread is None else tag("small", f" ± {_number(value.spread, digits)}")


def _number(value: float, digits: int, sign: bool = False) -> str:
    """A number as it is printed, with a true minus; a rounded zero has no sign."""
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    if float(text) == 0:
        return text.lstrip("+-")
    return text.replace("-", "−")


def _legend(rows: Sequence[Row]) -> list[str]:
    """What the figures in the cells are."""
    cells = [cell for row in rows for cell in row.cells if isinstance(cell, Cell)]
    runs = sorted({ours.n for cell in cells if (ours := known(cell.ours)) is not None})
    words = []
    if runs and runs[-1] > 1:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        words.append(f"Means over {count} runs, ± one standard deviation where there are several. ")
    if any(cell.paper is not None for cell in cells):
        words.append("Below ours the number that the paper prints, and ours less the paper's. ")
    if any(known(cell.ours) is None for cell in cells):
        words.append(f"{_NONE}: not measured here. ")
    return words
