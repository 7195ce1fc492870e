"""Helpers for the tests in JupyterLab: start it on a free port, open a notebook and run its cells."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.request import urlopen

START_SECONDS = 180
OPTIONS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},  # all cells are in the document
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@contextmanager
def running_lab(folder, theme="JupyterLab Light"):
    """Run JupyterLab on the notebooks of a folder, with settings of its own; yields its address."""
    own = folder / ".jupyter"
    options = {**OPTIONS, "@jupyterlab/apputils-extension/themes": {"theme": theme}}
    for name, values in options.items():
        file = own / f"settings/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    environment = {**os.environ, **{name: str(own / place) for name, place in places.items()}}
    arguments = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    arguments += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    with (folder / ".jupyter/log").open("w") as log:
        lab = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *arguments], env=environment, stdout=log, stderr=log
        )
    try:
        _wait_until_answered(f"http://127.0.0.1:{port}/api", lab)
        yield f"http://127.0.0.1:{port}"
    finally:
        lab.terminate()
        lab.wait(START_SECONDS)


def _wait_until_answered(url, process):
    for _ in range(5 * START_SECONDS):
        assert process.poll() is None, "JupyterLab has ended"
        try:
            urlopen(url).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("JupyterLab does not answer")


class Notebook:
    """A notebook that is open in JupyterLab."""

    def __init__(self, page, address, name):
        self.page = page
        page.goto(f"{address}/lab/tree/{name}")
        page.wait_for_selector(".jp-Notebook")
        page.wait_for_selector("text=Python 3 (ipykernel) | Idle")

    def run_all(self):
        """Run all cells, and wait for the last."""
        self.page.click(".lm-MenuBar-itemLabel:text-is('Run')")
        self.page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
        self.wait()

    def wait(self):
        """Wait until no cell is waiting or running."""
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')]"
            ".every((each) => /\\[\\d+\\]/.test(each.textContent))"
        )

    def cell(self, number):
        """A code cell, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(number)

    def run(self, number):
        """Run a cell again and return the text of its output."""
        self.cell(number).locator(".cm-content").click()
        before = self.cell(number).locator(".jp-InputArea-prompt").inner_text()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            "([number, before]) => { const prompt = document.querySelectorAll('.jp-CodeCell')[number]"
            ".querySelector('.jp-InputArea-prompt').textContent;"
            " return /\\[\\d+\\]/.test(prompt) && prompt.trim() !== before.trim(); }",
            arg=[number, before],
        )
        return self.output(number)

    def output(self, number):
        """The text of the output of a cell."""
        return self.cell(number).locator(".jp-OutputArea").last.inner_text()

    def frame(self, title):
        """The frame of a page in the notebook."""
        return self.page.frame_locator(f"iframe[title='{title}']").last
