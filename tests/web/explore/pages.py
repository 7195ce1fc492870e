"""Helpers for the tests of the page in a browser."""

import os
import shutil
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SOFTWARE = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
SCREENSHOTS = os.environ.get("MANIHASH_SCREENSHOTS")  # a folder to look at the pages afterwards


def ask(page, row):
    page.fill("#row-number", str(row))
    page.press("#row-number", "Enter")
    page.wait_for_selector(f"#query-card :text('row {row}')")
    page.wait_for_selector("#by-vectors .tile")


def rows_in(page, selector):
    return [
        int(value)
        for value in page.eval_on_selector_all(f"{selector} .tile", "all => all.map(e => e.dataset.row)")
    ]


def expected_by_code(model, row, k):
    _, ids = model.index.search(model.codes[row : row + 1], k + 1)
    return [i for i in ids[0].tolist() if i != row][:k]


def keep(page, name):
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")
