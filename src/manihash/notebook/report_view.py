"""``manihash.report``: the report about vectors and their codes, in a notebook or as a file."""

import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Any

from manihash.display import text
from manihash.files.atomic import atomic_write
from manihash.notebook.subject import exploration_of
from manihash.progress import notebook_kernel


class Report:
    """A report about vectors and their codes, as ``report`` returns it; a notebook shows it.

    Parameters
    ----------
    name : str
        Title.
    html : str
        The page.
    height : int, default=720
        Height of the page in a notebook, in pixels.

    Examples
    --------
    >>> from manihash.notebook import Report
    >>> Report("digits", "<h1>digits</h1>")
    Report(name='digits', characters=15)
    """

    def __init__(self, name: str, html: str, height: int = 720) -> None:
        self.name, self.html, self.height = name, html, height
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path-like
            The file to write, usually with the extension ``.html``.
        """
        with atomic_write(Path(path)) as part:
            part.write_text(self.html, "utf-8")

    def open(self) -> None:
        """Open the page in the browser, from a temporary file that ``close`` removes."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="manihash-report-")
        file = Path(self._folder.name) / "report.html"
        self.save(file)
        webbrowser.open(file.as_uri())

    def close(self) -> None:
        """Remove the temporary file."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __repr__(self) -> str:
        return text(type(self).__name__, {"name": self.name, "characters": len(self.html)})

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 4px"
        page = escape(self.html, quote=True)
        return f'<iframe sandbox="" title="{escape(self.name)}" style="{style}" srcdoc="{page}"></iframe>'


def report(
    X: Any,
    *,
    labels: Any = None,
    images: Any = None,
    texts: Any = None,
    model: Any = None,
    recipe: str = "imh-hybrid",
    n_bits: int = 64,
    random_state: int = 0,
    name: str = "X",
    height: int = 720,
    verbose: bool = False,
) -> Report:
    """Make a report about vectors and their codes: a page that can be read, printed and sent.

    It has a map of all rows, queries with their answers, precision and recall for every radius, statistics
    of the codes, and what buckets and bits contain. A notebook shows it in the output of the cell, without
    Python and also after the kernel has ended. Elsewhere it is opened in the browser.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The vectors, at least ten.
    labels : array-like of shape (n,), default=None
        Labels, which say which answers are right. None, NaN and -1 are no label.
    images : array-like of shape (n, height, width[, 3]), list of paths, or path, default=None
        What is shown of a row: images of an array, image files, or those of a folder in the order of names.
    texts : sequence of str, default=None
        What is shown of a row instead of an image. Without images and texts, its values are shown.
    model : Hasher, Index or path, default=None
        The fitted model. None fits one of ``recipe`` and ``n_bits`` first.
    recipe : str, default="imh-hybrid"
        The recipe to fit without a model.
    n_bits : int, default=64
        Length of the codes without a model.
    random_state : int, default=0
        Seed of the map, and of the model that is fitted.
    name : str, default="X"
        Title of the page.
    height : int, default=720
        Height of the page in a notebook, in pixels.
    verbose : bool, default=False
        Show a progress bar if a model is fitted.

    Returns
    -------
    Report
        The page; ``save`` writes it to a file.

    Examples
    --------
    >>> import manihash as mh
    >>> mh.report(X, labels=y).save("report.html")  # doctest: +SKIP
    """
    from datetime import date

    from manihash.web.explore.report import report_page

    exploration = exploration_of(
        X,
        labels=labels,
        images=images,
        texts=texts,
        models=[] if model is None else [model],
        recipe=recipe,
        n_bits=n_bits,
        random_state=random_state,
        name=name,
        verbose=verbose,
        hold_out=True,
    )
    page = report_page(exploration, date.today(), "manihash.report", explore_file=None)
    made = Report(name, page, height)
    if notebook_kernel() is None:
        made.open()
    return made
