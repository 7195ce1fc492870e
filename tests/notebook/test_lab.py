"""The pages inside JupyterLab, in Chromium: skipped with a message if one of the two is missing."""

import re
import shutil

import numpy as np
import pytest
from doc_pages import ROOT
from jupyter_lab import Notebook, running_lab
from sklearn.datasets import load_digits
from web.explore.pages import CHROMIUM, SOFTWARE, keep

pytestmark = pytest.mark.extra

CELLS = [
    "import threading\nimport manihash as mh\n"
    "from manihash.hashers import LSH\nfrom sklearn.datasets import load_digits\n"
    "X, y = load_digits(return_X_y=True)\nX, y = X[:300], y[:300]\n"
    "hasher = LSH(n_bits=16, random_state=0).fit(X)",
    "first = mh.explore(X, labels=y, model=hasher, height=300)",
    "texts = [f'text {i}' for i in range(300)]\n"
    "second = mh.explore(X, texts=texts, model=hasher, compare=hasher, height=500)",
    "mh.report(X, labels=y, model=hasher, name='digits')",
    "len(first.selected)",
]
CLOSE = """first.close()
second.close()
print([t.name for t in threading.enumerate() if "manihash" in t.name or "AnyIO" in t.name], second)"""


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("jupyterlab")
    pytest.importorskip("anywidget")
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it, for example apt install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)
        yield opened
        opened.close()


@pytest.fixture
def page(browser):
    """A page on which no script of a frame may fail."""
    problems = []
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    opened.set_default_timeout(90_000)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    opened.close()
    assert problems == []


def press(button):
    """Click a button of a frame. JupyterLab may be scrolling: a click at coordinates can miss it."""
    button.dispatch_event("click")


def test_the_notebook_of_the_documentation_shows_the_page_and_gets_the_marked_rows(page, tmp_path):
    shutil.copy(ROOT / "examples/explore.ipynb", tmp_path)
    with running_lab(tmp_path) as address:
        book = Notebook(page, address, "explore.ipynb")
        book.run_all()
        assert re.search(r"map\s+0\.\d{1,3}\n", book.output(2).replace("\t", " ") + "\n")
        assert "done in" in book.output(1)  # the progress bar has ended
        book.cell(1).scroll_into_view_if_needed()
        keep(page, "notebook-results")
        frame = book.frame("manihash explore")
        shown = book.cell(5).locator("iframe")
        shown.scroll_into_view_if_needed()  # a browser draws no frame that is out of view
        frame.locator("body.ready").wait_for()
        assert frame.locator("#legend .key").count() == 10
        press(frame.locator("#legend .key").nth(3))
        press(frame.locator("#marked-tab-button"))
        frame.locator("#marked-rows .tile img").first.wait_for(state="attached")
        keep(page, "notebook-explore")
        marked = [
            int(text) for text in re.findall(r"\d+", book.run(6).partition("array")[2].partition("]")[0])
        ]
        assert marked == np.flatnonzero(load_digits().target == 3).tolist()
        shown.scroll_into_view_if_needed()
        press(frame.locator("#unmark"))
        for _ in range(10):  # until the message has reached the kernel
            page.wait_for_timeout(1000)
            if "array([], dtype=int64)" in (output := book.run(6)):
                break
        assert "array([], dtype=int64)" in output
        shown.scroll_into_view_if_needed()
        press(frame.locator("#query-button"))
        frame.locator("#row-number").fill("17")
        frame.locator("#row-number").press("Enter")
        frame.locator("#by-vectors .tile").first.wait_for()
        assert frame.locator("#by-code .tile").count() == 20


def test_two_pages_of_one_kernel_are_independent_and_close_without_threads(page, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "twice.ipynb")
    with running_lab(tmp_path, theme="JupyterLab Dark") as address:
        book = Notebook(page, address, "twice.ipynb")
        book.run_all()
        first, second = (page.frame_locator("iframe[title='manihash explore']").nth(i) for i in (0, 1))
        for frame in (first, second):
            frame.locator("body.ready").wait_for()
        assert second.locator("html").get_attribute("data-theme") == "dark"
        press(second.locator("#random"))
        second.locator("#by-vectors .tile").first.wait_for()
        book.cell(2).locator("iframe").scroll_into_view_if_needed()
        keep(page, "notebook-dark")
        assert book.frame("digits").locator("h1").inner_text() == "digits: codes of 16 bits"
        book.cell(3).locator("iframe").scroll_into_view_if_needed()
        page.wait_for_timeout(1000)
        keep(page, "notebook-report")
        press(first.locator("#legend .key").nth(3))
        first.locator("#marked-rows h3").wait_for(state="attached")
        assert book.run(4).split()[-1] == str((load_digits().target[:300] == 3).sum())
        book.cell(4).locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(CLOSE)
        assert "[] ExploreView(name='X', rows=300, selected=0, is_open=False)" in book.run(4)
        page.wait_for_function("() => !document.querySelector('iframe[title=\"manihash explore\"]')")
