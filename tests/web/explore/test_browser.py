"""The page in a real browser: Chromium, by Playwright. Skipped with a message if there is no Chromium."""

import json
import socket
from urllib.request import urlopen

import numpy as np
import pytest
from web.explore.pages import ask, expected_by_code, keep, rows_in
from web.serving import running

pytestmark = pytest.mark.extra

# The colors on the canvas at the places of rows, beside the colors of their labels.
PIXELS = """(rows) => {
  const { map, session } = explore;
  const { width, height } = map.canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const context = copy.getContext("2d");
  context.drawImage(map.canvas, 0, 0);
  return rows.map((row) => {
    const [x, y] = map.scatter.pixelOf(...map.scatter.placeOf(row)).map(Math.floor);
    const color = session.labels[row] === 65535 ? "#c9cfd7" : map.labelColor(session.labels[row]);
    const expected = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    return [[...context.getImageData(x, y, 1, 1).data.slice(0, 3)], expected];
  });
}"""


@pytest.fixture(scope="module")
def url(folder):
    arguments = [str(folder / "X.npy"), f"--model={folder / 'a.mhash'}", f"--compare={folder / 'b.mhash'}"]
    arguments += [f"--labels={folder / 'y.npy'}", f"--images={folder / 'images.npy'}"]
    with running("-m", "manihash", "explore", *arguments, "--no-open", "--quiet") as server:
        yield server.url


@pytest.mark.parametrize("row", [0, 17, 250])
def test_the_answers_shown_are_those_of_the_library(visit, url, exploration, digits, row):
    page = visit(url)
    ask(page, row)
    assert rows_in(page, "#by-code") == expected_by_code(exploration.models[0], row, 20)
    assert rows_in(page, "#by-vectors") == exploration.rows.nearest(digits[0][row], 20, row)[0].tolist()
    wrong = [i for i in rows_in(page, "#by-code") if digits[1][i] != digits[1][row]]
    shown = page.eval_on_selector_all("#by-code .tile.wrong", "all => all.map(e => Number(e.dataset.row))")
    assert shown == wrong


def test_the_query_is_kept_in_the_address(visit, url):
    page = visit(url)
    ask(page, 17)
    assert "row=17" in page.url
    again = visit(page.url)
    again.wait_for_selector("#by-code .tile")
    assert again.evaluate("explore.session.query.row") == 17
    assert rows_in(again, "#by-code") == rows_in(page, "#by-code")


def test_the_radius_shows_counts_precision_and_recall_of_the_library(visit, url, exploration, digits):
    page = visit(url)
    ask(page, 17)
    model, y = exploration.models[0], digits[1]
    for radius in (0, 3, 7):
        page.eval_on_selector(
            "#radius-slider", f"e => {{ e.value = {radius}; e.dispatchEvent(new Event('input')) }}"
        )
        found = model.index.within(model.codes[17:18], radius)[2]
        found = found[found != 17]
        right = (y[found] == y[17]).sum()
        shown = page.eval_on_selector_all("#radius dd", "all => all.map(e => e.textContent)")
        percent = f"{100 * right / len(found):.1f} %" if len(found) else "–"
        assert shown == [str(len(found)), percent, f"{100 * right / ((y == y[17]).sum() - 1):.1f} %"]
    page.click("#mark-radius")
    assert page.inner_text("#marked span") == f"{len(found)} rows marked: within radius 7"


def test_a_click_on_the_map_asks_for_the_row_under_it(visit, url, exploration):
    page = visit(url)
    x, y = page.evaluate("() => explore.map.scatter.pixelOf(...explore.map.scatter.placeOf(42))")
    expected = page.evaluate(f"() => explore.map.scatter.rowAt({x}, {y})")
    page.click("#points", position={"x": x, "y": y})
    page.wait_for_selector(f"#query-card :text('row {expected}')")
    assert (exploration.steps[expected] == exploration.steps[42]).all() or expected == 42


def test_every_color_is_drawn_with_its_legend(visit, url):
    page = visit(url)
    assert page.locator("#legend .key").count() == 10
    before = page.locator("#points").screenshot()
    for kind, text in (
        ("bucket", "rows with the same code"),
        ("bit", "bit 0 is 1"),
        ("distance", "Choose a row"),
    ):
        page.select_option("#color-kind", kind)
        page.wait_for_timeout(200)
        assert text in page.inner_text("#legend")
        after = page.locator("#points").screenshot()
        assert after != before
        before = after
    ask(page, 5)
    assert "distance to row 5" in page.inner_text("#legend")


@pytest.mark.parametrize("renderer", ["webgl", "flat"])
def test_both_renderers_draw_a_row_in_the_color_of_its_label(visit, url, renderer, exploration):
    page = visit(f"{url}?renderer={renderer}")
    page.wait_for_timeout(300)
    places = exploration.steps.astype(float)
    apart = np.square(places[:, None] - places[None]).sum(axis=2) + np.diag(np.full(400, np.inf))
    lonely = np.argsort(-apart.min(axis=1))[:20]
    found = page.evaluate(PIXELS, [int(row) for row in lonely])
    wrong = [row for row, (drawn, expected) in zip(lonely, found, strict=True) if _far(drawn, expected)]
    assert len(wrong) <= 2  # a point may be partly covered by the name of a label


def _far(drawn, expected):
    return np.abs(np.subtract(drawn, expected)).max() > 50


def test_zoom_pan_and_lasso(visit, url):
    page = visit(url)
    page.focus("#points")
    view = "() => ({...explore.map.scatter.view})"
    first = page.evaluate(view)
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(view)["scale"] > first["scale"]
    assert page.evaluate(view)["x"] > first["x"]
    page.keyboard.press("0")
    assert page.evaluate(view) == first
    page.keyboard.press("l")
    box = page.locator("#points").bounding_box()
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    points = [(box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in corners]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=4)
    page.mouse.up()
    assert page.inner_text("#marked span") == "400 rows marked: lasso"
    assert page.is_visible("#marked-rows .tile")
    assert "Bits that set them apart" in page.inner_text("#marked-rows")
    page.keyboard.press("Escape")
    assert page.is_hidden("#marked")
    assert "No rows are marked" in page.inner_text("#marked-rows")


def test_the_codes_panel_shows_statistics_bits_buckets_and_duplicates(visit, url, exploration):
    page = visit(url)
    page.keyboard.press("2")
    page.wait_for_selector("#duplicates .group")
    model = exploration.models[0]
    assert f"{model.stats.distinct_codes} of 400 rows" in page.inner_text("#statistics")
    for warning in model.stats.warnings:
        assert warning in page.inner_text("#statistics")
    largest = model.largest_buckets()[0]
    assert page.inner_text("#buckets .group h4 >> nth=0") == f"{len(largest.ids)} rows"
    assert rows_in(page, "#buckets .group:first-child") == largest.ids[:10].tolist()
    page.click("#buckets .group:first-child button:text('Mark')")
    assert page.inner_text("#marked span").startswith(f"{len(largest.ids)} rows marked")
    page.click("#bits .bit:nth-child(8)")
    page.wait_for_selector("#bit-sides :text('bit 7 is 1')")
    zero, one = model.sides(7)
    assert rows_in(page, "#bit-sides .side:first-child") == zero.ids[:10].tolist()
    assert rows_in(page, "#bit-sides .side:last-child") == one.ids[:10].tolist()
    assert page.locator("#bit-sides .mean img").count() == 2
    page.click("#duplicate-cosine label:nth-child(3)")
    groups = len(model.duplicates(0.98))
    page.wait_for_selector(f"#duplicates :text('{groups} groups')")


def test_two_models_are_compared_on_the_same_query(visit, url, exploration):
    page = visit(url)
    ask(page, 17)
    page.keyboard.press("Escape")
    page.click("#compare-button")
    page.wait_for_selector("#comparison .answers")
    found = [expected_by_code(model, 17, 20) for model in exploration.models]
    for number, ids in enumerate(found):
        assert rows_in(page, f"#comparison .answers >> nth={number} >> css=.tiles") == ids
    shared = set(found[0]) & set(found[1])
    marked = page.eval_on_selector_all(
        "#comparison .tile.shared", "all => all.map(e => Number(e.dataset.row))"
    )
    assert set(marked) == shared
    page.click("#models label:nth-child(2)")
    page.click("#query-button")
    page.wait_for_selector("#by-code .tile")
    assert rows_in(page, "#by-code") == found[1]


def test_a_new_vector_and_an_image_are_queries(visit, url, digits, folder, exploration):
    page = visit(url)
    page.click("#new-query summary")
    page.fill("#vector", ", ".join(map(str, digits[0][17])))
    page.click("#vector-form button")
    page.wait_for_selector("#query-card :text('pasted vector')")
    page.wait_for_selector("#by-code .tile")
    model = exploration.models[0]
    expected = model.index.search(model.codes[17:18], 20)[1][0].tolist()
    assert rows_in(page, "#by-code") == expected
    page.set_input_files("#upload", {"name": "q.npy", "mimeType": "", "buffer": _npy(digits[0][3])})
    page.wait_for_selector("#query-card :text('q.npy')")
    assert rows_in(page, "#by-vectors")[0] == 3


def _npy(array):
    from io import BytesIO

    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_invalid_queries_are_explained(browser, url):
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("body.ready")
    for given, said in (
        ("400", "no row 400: rows are numbered from 0 to 399"),
        ("", "no row without a number"),
    ):
        page.fill("#row-number", given)
        page.press("#row-number", "Enter")
        assert said in page.inner_text("#query-error")
    page.click("#new-query summary")
    page.fill("#vector", "1, 2, 3")
    page.click("#vector-form button")
    page.wait_for_selector("#query-error:has-text('got 3 numbers, expected 64')")
    page.close()


def test_a_panel_says_that_the_server_is_gone_and_tries_again(browser, url):
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("body.ready")
    page.route("**/api/nearest*", lambda route: route.abort())
    ask_code_only(page, 17)
    page.wait_for_selector("#by-vectors .error:has-text('server does not answer')")
    page.unroute("**/api/nearest*")
    page.click("#by-vectors button:text('Try again')")
    page.wait_for_selector("#by-vectors .tile")
    page.close()


def ask_code_only(page, row):
    page.fill("#row-number", str(row))
    page.press("#row-number", "Enter")
    page.wait_for_selector("#by-code .tile")


def test_the_server_goes_on_after_a_browser_disconnects(url):
    host, port = url.removeprefix("http://").split(":")
    requests = [
        b"GET /api/arrays/codes-0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /api/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n1 2 3",
        b"GET /api/nearest?row=1",
    ]
    for request in requests * 3:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(request)
    with urlopen(f"{url}/api/nearest?row=17&k=3") as answer:
        assert len(json.load(answer)["ids"]) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_wide_and_narrow_screens_in_light_and_dark(visit, url, width, scheme):
    page = visit(url, width, 860, scheme)
    assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
    for tab in ("query", "codes", "marked-tab", "compare"):
        page.click(f"#{tab}-button")
        if tab == "query":
            ask(page, 17)
        page.wait_for_timeout(300)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        keep(page, f"{tab}-{width}-{scheme}")
    page.click("#theme")
    assert page.evaluate("() => document.documentElement.dataset.theme") != scheme
