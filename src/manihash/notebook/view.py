"""``manihash.explore``: the page to explore codes, in a notebook or in the browser."""

import webbrowser
from typing import TYPE_CHECKING, Any, Self

from manihash.checks import positive_int
from manihash.display import text
from manihash.notebook.subject import exploration_of
from manihash.notebook.widget import page_widget
from manihash.progress import notebook_kernel
from manihash.types import Ids

if TYPE_CHECKING:
    from manihash.web.explore.rows import Selection
    from manihash.web.server import BackgroundServer

WHERE = ("auto", "notebook", "browser")


class ExploreView:
    """A page to explore codes that is open, as ``explore`` returns it.

    It can be used in a ``with`` statement, which closes it at the end.

    Parameters
    ----------
    name : str
        Title of the page.
    n_rows : int
        Number of rows.
    selection : Selection
        The marked rows, which the page changes.
    widget : anywidget.AnyWidget or None
        The widget that holds the page in a notebook.
    server : BackgroundServer or None
        The server of the page outside notebooks.

    Attributes
    ----------
    url : str or None
        Address of the page on this machine; None if it is in a notebook, where it needs none.

    Examples
    --------
    >>> import manihash as mh
    >>> view = mh.explore(X, labels=y)      # doctest: +SKIP
    >>> X[view.selected]                    # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        n_rows: int,
        selection: "Selection",
        *,
        widget: Any,
        server: "BackgroundServer | None",
    ) -> None:
        self._name, self._n_rows, self._selection = name, n_rows, selection
        self._widget, self._server = widget, server
        self.url = None if server is None else server.url

    @property
    def selected(self) -> Ids:
        """The rows that are marked on the page: their positions in X, ascending.

        Rows are marked with the lasso, or by a click on a label, a bucket, a group or the radius.

        Returns
        -------
        ndarray of int64
            Positions; empty if no row is marked.
        """
        return self._selection.rows

    def show(self) -> None:
        """Show the page again: in the output of this cell, or in a new tab of the browser."""
        if self._widget is not None:
            _display(self._widget)
        elif self.url is not None:
            webbrowser.open(self.url)
        else:
            raise ValueError("this view is closed: call explore again")

    def wait(self) -> None:
        """Wait until the page is closed or the program is interrupted with Ctrl-C; for scripts.

        In a notebook it returns at once, because the page needs an idle kernel.
        """
        try:
            if self._server is not None:
                self._server.wait()
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Close the page and end its server; ``selected`` stays as it was."""
        widget, server = self._widget, self._server
        self._widget = self._server = self.url = None
        if widget is not None:
            widget.close()
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        facts = {"rows": self._n_rows, "selected": len(self.selected)}
        where = {"url": self.url} if self.url is not None else {}
        is_closed = self._widget is None and self._server is None
        return text(type(self).__name__, {"name": self._name, **facts, **where, "is_open": not is_closed})


def explore(
    X: Any,
    *,
    labels: Any = None,
    images: Any = None,
    texts: Any = None,
    model: Any = None,
    compare: Any = None,
    recipe: str = "imh-hybrid",
    n_bits: int = 64,
    random_state: int = 0,
    name: str = "X",
    where: str = "auto",
    height: int = 720,
    verbose: bool = False,
) -> ExploreView:
    """Show a page to explore vectors: a map of all rows, queries and their answers, and the codes.

    In a notebook (Jupyter, VS Code, Colab) the page is in the output of the cell. Its requests are messages
    of a widget, so it works wherever widgets do, also if the kernel runs on another machine than the
    browser. It is answered while the kernel is idle. Elsewhere a server is started in a thread, which only
    this machine can reach, and the browser is opened.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The vectors, at least ten.
    labels : array-like of shape (n,), default=None
        Labels, which color the map and say which answers are wrong. None, NaN and -1 are no label.
    images : array-like of shape (n, height, width[, 3]), list of paths, or path, default=None
        What is shown of a row: images of an array, image files, or those of a folder in the order of names.
    texts : sequence of str, default=None
        What is shown of a row instead of an image. Without images and texts, its values are shown.
    model : Hasher, Index or path, default=None
        The fitted model. None fits one of ``recipe`` and ``n_bits`` first.
    compare : Hasher, Index or path, default=None
        A second model, whose answers are shown beside those of ``model``.
    recipe : str, default="imh-hybrid"
        The recipe to fit without a model.
    n_bits : int, default=64
        Length of the codes without a model.
    random_state : int, default=0
        Seed of the map, and of the model that is fitted.
    name : str, default="X"
        Title of the page.
    where : {"auto", "notebook", "browser"}, default="auto"
        Where to show the page. "auto" is the notebook if there is one, otherwise the browser.
    height : int, default=720
        Height of the page in a notebook, in pixels.
    verbose : bool, default=False
        Show a progress bar if a model is fitted.

    Returns
    -------
    ExploreView
        The page: ``selected`` has the marked rows, ``close`` ends it.

    Examples
    --------
    >>> import manihash as mh
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> view = mh.explore(X, labels=y, images=X.reshape(-1, 8, 8))  # doctest: +SKIP
    >>> view.selected                                               # doctest: +SKIP
    array([], dtype=int64)
    >>> view.close()                                                # doctest: +SKIP
    """
    if where not in WHERE:
        raise ValueError(f"where must be one of {', '.join(WHERE)}, not {where!r}")
    if compare is not None and model is None:
        raise ValueError("compare is a second model: give the first one as model")
    height, in_notebook = positive_int(height, "height"), where == "notebook"
    if where == "auto":
        in_notebook = notebook_kernel() is not None
    from manihash.web.explore.application import explore_application
    from manihash.web.explore.export import kernel_page_text
    from manihash.web.explore.rows import Selection
    from manihash.web.server import LOCAL, BackgroundServer

    exploration = exploration_of(
        X,
        labels=labels,
        images=images,
        texts=texts,
        models=[each for each in (model, compare) if each is not None],
        recipe=recipe,
        n_bits=n_bits,
        random_state=random_state,
        name=name,
        verbose=verbose,
    )
    selection, widget, server = Selection(), None, None
    app = explore_application(exploration, None if in_notebook else LOCAL, selection)
    if in_notebook:
        widget = page_widget(kernel_page_text(name), app, height)
    else:
        server = BackgroundServer(app)
    view = ExploreView(name, len(exploration.rows), selection, widget=widget, server=server)
    view.show()
    return view


def _display(what: Any) -> None:
    """Show an object in the output of the current cell."""
    from IPython.display import display

    display(what)
