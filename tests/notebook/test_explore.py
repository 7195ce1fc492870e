"""``manihash.explore`` and ``manihash.report``: what they take, show and return, without a notebook."""

import asyncio
import json
import sys
import threading
import webbrowser
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

pytest.importorskip("starlette")

import manihash as mh
from manihash.hashers import LSH
from manihash.notebook import widget
from manihash.notebook.requests import answered
from manihash.notebook.subject import exploration_of
from manihash.web.explore.application import explore_application
from manihash.web.explore.rows import Selection

OCTETS = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=60)
    return (5 * rng.normal(size=(3, 6))[y] + rng.normal(size=(60, 6))).astype(np.float32), y


@pytest.fixture(scope="module")
def hasher(rows):
    return LSH(n_bits=16, random_state=0).fit(rows[0])


@pytest.fixture
def opened(monkeypatch):
    """The addresses that the browser was asked to open."""
    addresses = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


def post(url, body, headers=OCTETS):
    with urlopen(Request(f"{url}/api/selected", body, headers)) as answer:
        return json.load(answer)


def test_outside_a_notebook_the_browser_opens_and_the_marked_rows_come_back(rows, hasher, opened):
    before = threading.active_count()
    for _ in range(2):
        with mh.explore(rows[0], labels=rows[1], model=hasher, name="rows") as view:
            assert opened[-1] == view.url
            summary = json.load(urlopen(f"{view.url}/api/summary"))
            assert (summary["title"], summary["rows"], summary["selects"]) == ("rows", 60, True)
            assert view.selected.tolist() == []
            assert post(view.url, np.array([17, 3, 17], "<u4").tobytes()) == {"selected": 2}
            assert view.selected.tolist() == [3, 17]
            assert repr(view).startswith(
                "ExploreView(name='rows', rows=60, selected=2, url='http://127.0.0.1:"
            )
            url = view.url
        assert view.selected.tolist() == [3, 17]
        assert "is_open=False" in repr(view)
        with pytest.raises(OSError, match="refused"):
            urlopen(url)
        with pytest.raises(ValueError, match="this view is closed"):
            view.show()
        view.close()
        view.wait()
    assert threading.active_count() == before
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\x00\x00\x00", OCTETS, 400),
        (np.array([60], "<u4").tobytes(), OCTETS, 400),
        (b"\x00\x00\x00\x00", {"content-type": "text/plain"}, 415),  # another site may send this
    ],
)
def test_a_wrong_selection_is_refused(rows, hasher, opened, body, headers, status):
    with mh.explore(rows[0], model=hasher) as view:
        with pytest.raises(HTTPError) as refused:
            post(view.url, body, headers)
        assert refused.value.code == status
        assert view.selected.tolist() == []


@pytest.fixture(scope="module")
def exploration(rows, hasher):
    return made(rows[0], labels=rows[1], models=[hasher])


def made(X, **options):
    given = {"labels": None, "images": None, "texts": None, "models": [], "recipe": "lsh", "n_bits": 16}
    return exploration_of(X, random_state=0, name="X", verbose=False, **{**given, **options})


def test_the_page_of_the_command_keeps_no_selection(exploration):
    app = explore_application(exploration)
    assert json.loads(asyncio.run(answered(app, "GET", "api/summary")).body)["selects"] is False
    assert asyncio.run(answered(app, "POST", "api/selected", b"")).status == 404


def test_requests_of_a_notebook_are_answered_without_a_server(exploration, rows):
    selection = Selection()
    app = explore_application(exploration, None, selection)
    found = asyncio.run(answered(app, "GET", "api/nearest?row=3&k=5"))
    assert (found.status, found.type) == (200, "application/json")
    assert len(json.loads(found.body)["ids"]) == 5
    picture = asyncio.run(answered(app, "GET", "api/pictures/7.png"))
    assert (picture.type, picture.body[:4]) == ("image/png", b"\x89PNG")
    assert asyncio.run(answered(app, "GET", "api/arrays/labels")).body == rows[1].astype("<u2").tobytes()
    assert asyncio.run(answered(app, "POST", "api/selected", b"\x05\0\0\0")).status == 200
    assert selection.rows.tolist() == [5]
    vector = " ".join(map(str, rows[0][4])).encode()
    asked = json.loads(asyncio.run(answered(app, "POST", "api/query?k=1", vector)).body)
    assert asked["nearest"]["ids"] == [4]
    assert asyncio.run(answered(app, "GET", "api/nothing")).status == 404


def test_an_application_that_fails_is_answered(caplog):
    async def app(scope, receive, send):
        assert (await receive())["body"] == b""
        assert (await receive())["type"] == "http.disconnect"

    assert asyncio.run(answered(app, "GET", "api/x")).status == 500


class FakeWidget:
    """A widget whose front end is this test."""

    def __init__(self, page, height):
        self.page, self.height, self.sent, self.is_open = page, height, [], True

    def on_msg(self, heard):
        self.heard = heard

    def send(self, message, buffers):
        self.sent.append((message, buffers))

    def close(self):
        self.is_open = False


def test_in_a_notebook_messages_of_the_widget_are_requests(rows, hasher, monkeypatch):
    shown = []
    shell = SimpleNamespace(kernel=object())
    display = SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(widget, "_widget_class", lambda: FakeWidget)
    view = mh.explore(rows[0], model=hasher, height=300)
    (page,) = shown
    assert view.url is None
    assert page.height == 300
    assert 'id="kernel"' in page.page
    asked = {"id": "a-1", "method": "POST", "path": "api/selected"}
    page.heard(page, {**asked, "id": "a-0", "method": "GET", "path": "api/texts"}, [])  # without a loop

    async def of_a_loop():
        page.heard(page, asked, [memoryview(b"\x02\0\0\0")])
        assert view.selected.tolist() == [2]  # at once: a cell may be next
        page.heard(page, {**asked, "id": "a-2", "method": "GET", "path": "api/summary"}, [])
        while len(page.sent) < 3:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(of_a_loop(), 20))
    assert [message["id"] for message, _ in page.sent] == ["a-0", "a-1", "a-2"]
    assert json.loads(page.sent[2][1][0])["rows"] == 60
    assert view.selected.tolist() == [2]
    view.show()
    assert shown == [page, page]
    view.close()
    assert not page.is_open


@pytest.mark.extra
def test_the_widget_holds_the_page():
    pytest.importorskip("anywidget")
    made = widget.page_widget("<html></html>", None, 200)
    assert (made.page, made.height) == ("<html></html>", 200)
    made.close()


def test_without_anywidget_the_error_says_what_to_install(rows, hasher, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget_class.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'manihash\[notebook\]'"):
        mh.explore(rows[0], model=hasher, where="notebook")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"where": "paper"}, ValueError, "where must be one of auto, notebook, browser, not 'paper'"),
        ({"compare": "b.mhash"}, ValueError, "give the first one as model"),
        ({"model": 3}, TypeError, "expected a fitted hasher"),
        ({"texts": ["a"], "images": np.zeros((60, 2, 2))}, ValueError, "give one of them"),
        ({"texts": ["a"]}, ValueError, "got 1 texts for the 60 rows of X"),
        ({"labels": np.zeros((60, 2))}, ValueError, r"labels have the shape \(60, 2\)"),
        ({"height": 0}, ValueError, "height"),
    ],
)
def test_invalid_arguments_are_refused(rows, opened, options, error, message):
    with pytest.raises(error, match=message):
        mh.explore(rows[0], **options)
    assert opened == []


def test_models_are_hashers_indexes_and_files_and_fitted_if_there_is_none(rows, hasher, tmp_path):
    X = rows[0]
    hasher.save(tmp_path / "a.mhash")
    hasher.index(X).save(tmp_path / "a.mhx")
    given = [hasher, hasher.index(X), tmp_path / "a.mhash", str(tmp_path / "a.mhx")]
    found = made(X, models=given).models
    assert [model.name for model in found] == ["LSH", "LSH", "a.mhash", "LSH"]
    assert all(np.array_equal(model.codes, found[0].codes) for model in found)
    (fitted,) = made(X.tolist(), labels=[None, *rows[1][1:]]).models
    assert (fitted.name, fitted.n_bits) == ("lsh", 16)


def test_labels_may_be_missing(rows):
    X = rows[0]
    for labels in ([None, "a"] * 30, [float("nan"), 1.0] * 30, [-1, 4] * 30):
        assert made(X, labels=labels).rows.labels.counts.tolist() == [30]


def test_images_are_arrays_files_and_folders(rows, tmp_path):
    image = pytest.importorskip("PIL.Image")
    X = rows[0]
    pixels = np.random.default_rng(0).integers(256, size=(60, 4, 4), dtype=np.uint8)
    paths = [tmp_path / f"{i:02d}.png" for i in range(60)]
    for path, each in zip(paths, pixels, strict=True):
        image.fromarray(each).save(path)
    for images in (pixels, pixels.tolist(), paths, [str(path) for path in paths], tmp_path):
        drawn = made(X, images=images).rows.pictures
        assert np.array_equal(np.asarray(drawn.pixels(17)).reshape(4, 4, -1)[:, :, 0], pixels[17])


def test_a_report_is_a_page_that_is_saved_and_opened(rows, hasher, opened, tmp_path):
    pytest.importorskip("matplotlib")
    report = mh.report(rows[0], labels=rows[1], model=hasher, name="a <b> name")
    assert opened[0].startswith("file://")
    assert repr(report).startswith("Report(name='a <b> name', characters=")
    assert "explore.html" not in report.html
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8") == report.html
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox="" title="a &lt;b&gt; name"')
    assert shown.count("<") == 2  # the page is an attribute
    with urlopen(opened[0]) as file:
        assert file.read().decode() == report.html
    report.close()
    report.close()
    with pytest.raises(OSError, match="No such file"):
        urlopen(opened[0])
