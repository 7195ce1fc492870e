"""One self-contained file: the page with its data, which works without a server and without a network."""

import re
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from manihash.evaluation.truth import nearest_euclidean
from manihash.files.atomic import atomic_write
from manihash.pages import pictures
from manihash.types import Floats, Ids
from manihash.web.explore.application import static_text
from manihash.web.explore.exploration import COSINES, Exploration

PICTURE_BUDGET = 12 * 2**20  # bytes of all pictures
TEXT_BUDGET = 8 * 2**20
_SIDES = (48, 32, 24, 16)  # of a picture in pixels, the first that fits
_PER_SHEET, _COLUMNS = 1024, 32
_QUALITY = 70
_MOST_NEIGHBOR_ROWS, _NEIGHBORS = 20_000, 20  # beyond that many rows, answers by vectors are left out
_MOST_DUPLICATE_ROWS = 200_000
_SAMPLED_SHEETS = 3
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_PRELOAD = re.compile(r'<link rel="modulepreload" href="[^"]*">\n')
_EXPORT = re.compile(r"^export (?:async )?(?:class|function|const) (\w+)", re.MULTILINE)


def write_file(exploration: Exploration, path: Path) -> list[str]:
    """Write the page to a file; returns what was left out, as sentences without a period."""
    html, notes = file_text(exploration)
    with atomic_write(path) as part:
        part.write_text(html, "utf-8")
    return notes


def file_text(exploration: Exploration) -> tuple[str, list[str]]:
    """The page with its data as HTML, and what was left out."""
    content, arrays, notes = _content(exploration)
    scripts = [_data_script("content", "application/json", _json_text(content))]
    scripts += [
        _data_script(f"array-{name}", "text/plain", b64encode(array).decode())
        for name, array in arrays.items()
    ]
    return _page_text(exploration.rows.name, scripts), notes


def kernel_page_text(title: str) -> str:
    """The page without data as HTML: it asks the kernel of the notebook whose output it is in."""
    page = _page_text(title, [_data_script("kernel", "text/plain", "")])
    return page.replace("Loading the rows …", "Waiting for the Python kernel …")


def _page_text(title: str, scripts: list[str]) -> str:
    """The page as one HTML document, with scripts that say where its data are."""
    html = static_text("index.html")
    icon = b64encode(static_text("icon.svg").encode()).decode()
    html = html.replace('href="static/icon.svg"', f'href="data:image/svg+xml;base64,{icon}"')
    style = f"<style>\n{static_text('style.css')}</style>"
    html = html.replace('<link rel="stylesheet" href="static/style.css">', style)
    html = _PRELOAD.sub("", html)
    html = html.replace("<title>manihash explore</title>", f"<title>{escape(title)}</title>")
    scripts.append(f'<script type="module">\n{bundled("main.js")}</script>')
    return html.replace('<script type="module" src="static/main.js"></script>', "\n".join(scripts))


def bundled(main: str) -> str:
    """A module with all modules it imports as one script: each is a function that returns its exports."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        text = static_text(name)
        for _, imported in _IMPORT.findall(text):
            if imported not in parts:
                add(imported)
        exports = ", ".join(_EXPORT.findall(text))
        body = _EXPORT.sub(lambda found: found[0].removeprefix("export "), _IMPORT.sub(_taken, text))
        parts[name] = f"const {_variable(name)} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"

    add(main)
    return "\n".join(parts.values()).replace("</script", "<\\/script")


def _variable(name: str) -> str:
    return f"module_{name.removesuffix('.js')}"


def _taken(found: re.Match[str]) -> str:
    return f"const {{{found[1]}}} = {_variable(found[2])};\n"


def _json_text(content: Any) -> str:
    """JSON that cannot end the script element it is in."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY).decode().replace("<", "\\u003c")


def _data_script(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _content(exploration: Exploration) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """The JSON document and the arrays of the file, and notes about what was left out."""
    notes: list[str] = []
    arrays = dict(exploration.arrays)
    near = _neighbors(exploration)
    if near is None:
        notes.append(f"answers by vectors are left out (more than {_MOST_NEIGHBOR_ROWS:,} rows)")
    else:
        arrays["neighbors"], arrays["apart"] = (
            near[0].astype("<u4").tobytes(),
            near[1].astype("<f4").tobytes(),
        )
    models = exploration.models
    content = {
        "summary": exploration.summary,
        "nearest": None if near is None else {"k": near[0].shape[1]},
        "bits": [[exploration.bit(model, bit) for bit in range(model.n_bits)] for model in models],
        "means": _means(exploration),
        "duplicates": _duplicates(exploration),
        "sheets": _sheets(exploration, notes),
        "texts": _texts(exploration, notes),
    }
    return content, arrays, notes


def _duplicates(exploration: Exploration) -> list[list[dict[str, Any]]]:
    """Groups of near-duplicates for each model and cosine; for the first only if there are many rows."""
    cosines = COSINES if len(exploration.rows) <= _MOST_DUPLICATE_ROWS else COSINES[:1]
    return [[exploration.duplicates(model, cosine) for cosine in cosines] for model in exploration.models]


def _neighbors(exploration: Exploration) -> tuple[Ids, Floats] | None:
    """Ids and distances of the nearest rows of each row by vectors, without itself; None if rows are many."""
    rows = exploration.rows
    n = len(rows)
    if n > _MOST_NEIGHBOR_ROWS:
        return None
    X = rows.vectors(np.arange(n))
    k = min(_NEIGHBORS, n - 1)
    found = nearest_euclidean(X, X, k + 1)
    own = found == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True  # a row that has many equal rows may not be among its own nearest
    ids = found[~own].reshape(n, k)
    wide = X.astype(np.float64)
    apart = np.stack([np.sqrt(np.square(wide[ids[i]] - wide[i]).sum(axis=1)) for i in range(n)])
    return ids, apart


def _means(exploration: Exploration) -> dict[str, Any] | None:
    """The mean pictures of both sides of each bit, as one sheet per model."""
    files, shape = [], None
    for model in exploration.models:
        drawn = [exploration.bit_mean(model, bit, side) for bit in range(model.n_bits) for side in (0, 1)]
        known = [each for each in drawn if each is not None]
        if not known:
            return None
        shape = known[0].shape[:2]
        blank = np.full(shape, 255, np.uint8)
        files.append(pictures.sheet([blank if each is None else each for each in drawn], shape, _COLUMNS))
    assert shape is not None
    return {
        "files": [_uri("png", pictures.png(each)) for each in files],
        "width": shape[1],
        "height": shape[0],
        "columns": _COLUMNS,
    }


def _sheets(exploration: Exploration, notes: list[str]) -> dict[str, Any] | None:
    """Pictures of the rows as sheets of 1,024, within the budget: smaller if needed, then only the first."""
    rows = exploration.rows
    if rows.kind == "text":
        return None
    n_sheets = -(-len(rows) // _PER_SHEET)
    side, n_kept = _fitting(exploration, n_sheets)
    shape = _shape(rows.pictures.pixels(0).shape[:2], side)
    files, size = [], 0
    for number in range(n_kept):
        made = _sheet(exploration, number, shape)
        if size + len(made[1]) > PICTURE_BUDGET:
            break
        size += len(made[1])
        files.append(_uri(*made))
    if len(files) < n_sheets:
        kept = len(files) * _PER_SHEET
        notes.append(f"pictures of the first {kept:,} rows only ({PICTURE_BUDGET // 2**20} MB of pictures)")
    return {
        "files": files,
        "width": shape[1],
        "height": shape[0],
        "columns": _COLUMNS,
        "per_sheet": _PER_SHEET,
    }


def _fitting(exploration: Exploration, n_sheets: int) -> tuple[int, int]:
    """The side of pictures at which all sheets fit the budget, and how many sheets to try."""
    first = exploration.rows.pictures.pixels(0).shape[:2]
    some = sorted({i * n_sheets // _SAMPLED_SHEETS for i in range(min(_SAMPLED_SHEETS, n_sheets))})
    for side in _SIDES:
        sizes = [len(_sheet(exploration, number, _shape(first, side))[1]) for number in some]
        if n_sheets * sum(sizes) / len(sizes) <= PICTURE_BUDGET:
            return side, n_sheets
    return _SIDES[-1], n_sheets


def _shape(shape: tuple[int, ...], side: int) -> tuple[int, int]:
    """Height and width of a picture with the longer side reduced to ``side``."""
    scale = min(1.0, side / max(shape))
    return max(1, round(shape[0] * scale)), max(1, round(shape[1] * scale))


def _sheet(exploration: Exploration, number: int, shape: tuple[int, int]) -> tuple[str, bytes]:
    """A sheet of pictures: PNG if it is small, otherwise WebP."""
    rows = exploration.rows
    ids = range(number * _PER_SHEET, min((number + 1) * _PER_SHEET, len(rows)))
    drawn = pictures.sheet([rows.pictures.pixels(i) for i in ids], shape, _COLUMNS)
    if max(shape) <= 16:
        return "png", pictures.png(drawn)
    return "webp", pictures.webp(drawn, _QUALITY)


def _texts(exploration: Exploration, notes: list[str]) -> list[str]:
    """The texts of the rows, up to the budget."""
    kept: list[str] = []
    size = 0
    if exploration.rows.kind != "text":
        return kept
    for row in range(len(exploration.rows)):
        text = exploration.rows.text(row)
        size += len(text.encode())
        if size > TEXT_BUDGET:
            notes.append(f"texts of the first {row:,} rows only ({TEXT_BUDGET // 2**20} MB of texts)")
            break
        kept.append(text)
    return kept


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
