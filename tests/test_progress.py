"""``verbose=True`` shows progress in terminals, files and notebooks, and leaves logging as it was."""

import logging
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.hashers import IMH, ITQ
from manihash.progress import advance, progress_shown

LOG = logging.getLogger("manihash.progress")
X = np.random.default_rng(0).normal(size=(300, 8))


@pytest.fixture(autouse=True)
def _logging_is_as_before():
    before = LOG.level, LOG.propagate, list(LOG.handlers)
    yield
    assert before == (LOG.level, LOG.propagate, LOG.handlers)


def hasher():
    return IMH(n_bits=4, base=KMeansBase(20), embedding=PCA(), random_state=0)


def test_a_file_gets_one_line_per_stage(capsys):
    fitted = hasher().fit(X, verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("IMH: ") for line in lines)
    assert len(set(lines)) == len(lines) or len(lines) < 20
    assert np.array_equal(fitted.encode(X), hasher().fit(X).encode(X))


def test_nothing_is_shown_by_default(capsys):
    ITQ(n_bits=4, random_state=0).fit(X)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress_shown(True, "ITQ"):
        advance("rotation", 5, 50)
    assert "rotation" in capsys.readouterr().err


class FakeNotebook:
    """What IPython shows: the HTML of one display, and its updates."""

    def __init__(self, monkeypatch):
        self.shown = []
        module = SimpleNamespace(
            HTML=lambda text: text, display=lambda text, display_id: (self.shown.append(text), self)[1]
        )
        shell = SimpleNamespace(kernel=object())
        monkeypatch.setitem(
            sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=module)
        )
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def update(self, text):
        self.shown.append(text)


def test_a_notebook_gets_a_bar_that_ends_with_the_time(monkeypatch, capsys):
    notebook = FakeNotebook(monkeypatch)
    hasher().fit(X, verbose=True)
    assert notebook.shown[0].startswith("<progress")
    assert any(" of " in text for text in notebook.shown)
    assert notebook.shown[-1].startswith("IMH: done in ")
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_bar(monkeypatch):
    notebook = FakeNotebook(monkeypatch)
    with pytest.raises(ValueError, match="at least"):
        hasher().fit(X[:1], verbose=True)
    assert notebook.shown[-1].startswith("IMH: stopped after")


def test_handlers_of_the_user_get_no_records_that_they_did_not_ask_for(capsys):
    heard = logging.Handler()
    heard.records = []
    heard.emit = heard.records.append
    root = logging.getLogger()
    root.addHandler(heard)
    try:
        with progress_shown(True, "task"):
            advance("stage", 1, 2)
        assert heard.records == []
    finally:
        root.removeHandler(heard)
    assert capsys.readouterr().err == "task: stage, 2 steps\n"


def test_verbose_is_no_metadata_of_scikit_learn():
    assert not hasattr(ITQ, "set_fit_request")
    assert ITQ(n_bits=4, random_state=0).fit_transform(X).shape == (300, 4)
