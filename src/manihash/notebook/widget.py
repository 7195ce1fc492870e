"""The widget that holds a page: its messages are the page's requests, so no port and no server is needed.

A frame that a server of the kernel fills would not work where the kernel runs on another machine than the
browser: on JupyterHub, in Colab, in containers and in remote windows of VS Code.
"""

import asyncio
from collections.abc import Coroutine
from functools import cache
from importlib import resources
from threading import Thread
from typing import Any

from manihash.checks import extra
from manihash.notebook.requests import Application, answered


def page_widget(page: str, app: Application, height: int) -> Any:
    """Return a widget that shows a page, whose requests the application answers."""
    widget = _widget_class()(page=page, height=height)
    tasks: set[asyncio.Task[None]] = set()  # a loop keeps no strong reference to them

    async def answer(request: dict[str, Any], body: bytes) -> None:
        found = await answered(app, request["method"], request["path"], body)
        message = {"id": request["id"], "status": found.status, "type": found.type}
        widget.send(message, buffers=[found.body])

    def heard(_: Any, request: dict[str, Any], buffers: list[Any]) -> None:
        work = answer(request, bytes(buffers[0]) if buffers else b"")
        if request["method"] == "POST":  # at once: the next cell may read the marked rows
            _run_in_thread(work)
            return
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:  # a kernel without a loop of asyncio
            _run_in_thread(work)
            return
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    widget.on_msg(heard)
    return widget


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also inside a loop that runs."""
    thread = Thread(target=asyncio.run, args=(work,), name="manihash request")
    thread.start()
    thread.join()


@cache
def _widget_class() -> Any:
    """The class of the widget, made when it is first used: anywidget is optional."""
    base: Any = extra("anywidget", "notebook").AnyWidget
    traitlets = extra("traitlets", "notebook")
    script = resources.files("manihash.notebook").joinpath("widget.js").read_text("utf-8")

    class PageWidget(base):
        """A page in a frame."""

        _esm = script
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)

    return PageWidget
