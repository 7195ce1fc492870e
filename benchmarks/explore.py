"""Time to the first picture of the page of MNIST, and frames per second when panning: ``make bench-explore``.

The server runs in a process of its own, and Chromium draws without a window. The first picture is measured
from the request for the page to the first frame with all points, with a model given and the server ready.
Frames are counted while the map of 100,000 points is panned in every frame for some seconds. Without a GPU
the page writes pixels, since WebGL in software is slower; ``webgl`` is what that would give.
``draw_milliseconds`` is the time to draw one frame, that of the fastest tenth of the frames. ``load`` is the
number of processes that wanted a core during the measurement: times grow with it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _results import record
from playwright.sync_api import sync_playwright

from manihash import load_dataset, recipe
from manihash.hashers import LSH

REPEATS, PAN_SECONDS = 5, 5
POINTS = 100_000
BARE = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
FIRST_PICTURE = """() => new Promise((resolve) => {
  const isDrawn = () => window.explore?.map.scatter.frames > 0;
  const look = () => (isDrawn() ? resolve(performance.now()) : requestAnimationFrame(look));
  look();
})"""
PAN = """(seconds) => new Promise((resolve) => {
  const { scatter } = window.explore.map;
  const [start, before, times] = [performance.now(), scatter.frames, []];
  const pixel = new Uint8Array(4);
  const draw = scatter.renderer.draw.bind(scatter.renderer);
  scatter.renderer.draw = (...view) => {
    const begun = performance.now();
    draw(...view);
    scatter.renderer.gl?.readPixels(0, 0, 1, 1, 6408, 5121, pixel); // wait until the frame is drawn
    times.push(performance.now() - begun);
  };
  const step = () => {
    const at = performance.now() - start;
    if (at > 1000 * seconds) {
      const rate = (1000 * (scatter.frames - before)) / at;
      return resolve([rate, times.sort((a, b) => a - b)[Math.floor(times.length / 10)]]);
    }
    scatter.panBy(at % 1000 < 500 ? 4 : -4, 0);
    requestAnimationFrame(step);
  };
  step();
})"""
RENDERER = """() => {
  const gl = window.explore.map.scatter.renderer.gl;
  const debug = gl?.getExtension("WEBGL_debug_renderer_info");
  return gl ? gl.getParameter(debug ? debug.UNMASKED_RENDERER_WEBGL : gl.RENDERER) : "pixels";
}"""


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Run manihash explore in a process of its own; yields its address when it is ready."""
    command = [sys.executable, "-m", "manihash", "explore", *arguments, "--no-open", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = next(text for text in server.stdout if "http://" in text)
            yield re.findall(r"http://\S+", line)[0]
        finally:
            server.terminate()


def first_picture(browser: Any, url: str) -> list[float]:
    """Seconds from the request to the first frame, in new windows."""
    seconds = []
    for _ in range(REPEATS):
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(url, wait_until="commit")
        seconds.append(page.evaluate(FIRST_PICTURE) / 1000)
        page.close()
    return seconds


def panning(browser: Any, url: str) -> dict[str, Any]:
    """Frames per second when the map is panned, as the page draws here and with WebGL, and what drew them."""
    found = {}
    for name, address in (("page", url), ("webgl", f"{url}?renderer=webgl")):
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(address)
        page.wait_for_selector("body.ready")
        rates, times = zip(*(page.evaluate(PAN, PAN_SECONDS) for _ in range(REPEATS)), strict=True)
        found[name] = {
            "frames_per_second": round(median(rates), 1),
            "draw_milliseconds": round(median(times), 1),
            "renderer": page.evaluate(RENDERER),
        }
        page.close()
    return found


def write_mnist(folder: Path) -> list[str]:
    """Files of all 70,000 images of MNIST and a model; returns the arguments of explore."""
    data = load_dataset("mnist")
    X = np.concatenate([data.X_train, data.X_test])
    np.save(folder / "X.npy", X)
    np.save(folder / "images.npy", X.reshape(-1, 28, 28))
    np.save(folder / "y.npy", np.concatenate([data.y_train, data.y_test]))
    recipe("imh-tsne", n_bits=64, random_state=0).fit(X).save(folder / "model.mhash")
    arguments = {"--model": "model.mhash", "--labels": "y.npy", "--images": "images.npy"}
    return [str(folder / "X.npy"), *(f"{option}={folder / name}" for option, name in arguments.items())]


def write_points(folder: Path) -> list[str]:
    """Files of 100,000 rows in 50 groups and a model; returns the arguments of explore."""
    rng = np.random.default_rng(0)
    X = (3 * rng.normal(size=(50, 16))[rng.integers(50, size=POINTS)] + rng.normal(size=(POINTS, 16))).astype(
        np.float32
    )
    np.save(folder / "points.npy", X)
    LSH(64, random_state=0).fit(X).save(folder / "lsh.mhash")
    return [str(folder / "points.npy"), f"--model={folder / 'lsh.mhash'}"]


def main() -> None:
    """Measure both and write docs/results/explore.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="let Chromium draw with the GPU")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        mnist, points = write_mnist(folder), write_points(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=BARE[:1] if options.gpu else BARE)
        with served(*mnist) as url:
            seconds = first_picture(browser, url)
        with served(*points) as url:
            pan = panning(browser, url)
        version = browser.version
    found = {
        "first_picture": {
            "rows": 70_000,
            "seconds": round(median(seconds), 2),
            "all": np.round(seconds, 2).tolist(),
        },
        "panning": {"points": POINTS, **pan},
        "load": round(os.getloadavg()[0], 1),
        "browser": f"Chromium {version}",
    }
    record("explore", "page", found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
