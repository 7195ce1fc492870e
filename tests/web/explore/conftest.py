"""A small exploration of digits for the tests of the page."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from web.explore.pages import CHROMIUM, SOFTWARE

from manihash import IMH
from manihash.base import KMeansBase
from manihash.hashers import LSH
from manihash.pages.thumbnails import ArrayImages
from manihash.web.explore.exploration import Exploration, prepare
from manihash.web.explore.rows import explored_rows

ROWS = 400


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Digits (400, 64) and their classes; the last row equals the first."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:ROWS].astype(np.float32), y[:ROWS].copy()
    X[-1], y[-1] = X[0], y[0]
    return X, y


@pytest.fixture(scope="session")
def exploration(digits) -> Exploration:
    """The digits with an IMH of 20 bits and an LSH of 70 bits."""
    X, y = digits
    pictures = ArrayImages(X.reshape(-1, 8, 8), ink=True)
    known = np.arange(ROWS) % 50 != 3  # some rows have no label
    rows = explored_rows("digits", X, labels=y, known=known, pictures=pictures)
    imh = IMH(20, base=KMeansBase(60), normalize=True, random_state=0).fit(X)
    lsh = LSH(70, random_state=0).fit(X)
    return prepare(rows, [("imh", imh), ("lsh", lsh)], seed=0)


@pytest.fixture(scope="session")
def folder(digits, exploration, tmp_path_factory) -> Path:
    """Files of the digits: X.npy, y.npy, images.npy, texts.txt, a.mhash and b.mhash."""
    X, y = digits
    target = tmp_path_factory.mktemp("explore")
    np.save(target / "X.npy", X)
    np.save(target / "y.npy", y)
    np.save(target / "images.npy", (X.reshape(-1, 8, 8) * 15).astype(np.uint8))
    (target / "texts.txt").write_text("".join(f"text of row {i} <b>&amp;\n" for i in range(ROWS)), "utf-8")
    for name, model in zip(("a", "b"), exploration.models, strict=True):
        model.hasher.save(target / f"{name}.mhash")
    return target


@pytest.fixture(scope="module")
def browser():
    """Chromium; without it, tests are skipped with a message."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it, for example apt install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open an address; at the end there must be no error on the console and no request to another host."""
    opened, problems, hosts = [], [], set()

    def go(url, width=1280, height=860, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.set_default_timeout(20_000)
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2].split(":")[0]))
        opened.append(page)
        page.goto(url)
        page.wait_for_selector("body.ready")
        return page

    yield go
    for page in opened:
        page.close()
    assert problems == []
    assert hosts <= {"127.0.0.1", ""}
