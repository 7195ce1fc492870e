"""Progress of long work, as log records, and the progress bar of ``verbose=True``.

Each record of the logger ``manihash.progress`` carries ``stage``, ``done``, ``total`` and ``detail``. They
are shown if the level of the logger is DEBUG, or by a progress bar: a handler of this logger, in a notebook,
in a terminal, or as lines of text. The logger ``manihash.note`` reports choices that users may want to know
about, although nothing is wrong.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from html import escape
from typing import TYPE_CHECKING, Any

from manihash.display import file_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


_log = logging.getLogger("manihash.progress")
_notes = logging.getLogger("manihash.note")
_without_notes: ContextVar[bool] = ContextVar("without notes", default=False)


def advance(stage: str, done: int, total: int, detail: str = "") -> None:
    """Report that ``done`` of ``total`` steps of a stage are complete; ``detail`` names the current one."""
    if _log.isEnabledFor(logging.DEBUG):
        facts = {"stage": stage, "done": done, "total": total, "detail": detail}
        _log.debug("%s: %d of %d", stage, done, total, extra=facts)


def note(text: str) -> None:
    """Report a choice that the user may want to change."""
    if not _without_notes.get():
        _notes.info("%s", text)


@contextmanager
def without_notes() -> Iterator[None]:
    """Report no choices inside the block: those of trials are not the user's."""
    before = _without_notes.set(True)
    try:
        yield
    finally:
        _without_notes.reset(before)


_SECONDS = 0.1  # between two updates of a bar in a notebook


def notebook_kernel() -> Any:
    """Return the IPython kernel of the notebook that this process belongs to; None if there is none."""
    IPython = sys.modules.get("IPython")
    shell = None if IPython is None else IPython.get_ipython()
    return getattr(shell, "kernel", None)


class ProgressBar(logging.Handler):
    """A bar of rich for the current stage; ``task`` names the work that the stage is part of."""

    def __init__(self, bar: "Progress") -> None:
        super().__init__(logging.DEBUG)
        self.task = ""
        self._bar = bar
        self._bar_id = bar.add_task("", total=None, amount="")
        self._stage = ""
        self._first, self._began = 0, 0.0

    def start(self, task: str) -> None:
        """Start a new task."""
        self.task, self._stage = task, ""
        self._bar.reset(self._bar_id, total=None, description=task, amount="")

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar; a new stage resets it."""
        stage, done, total, detail = step_of(record)
        if stage != self._stage:
            self._stage, self._first, self._began = stage, done, time.monotonic()
            description = f"{self.task}: {stage}" if self.task else stage
            self._bar.reset(self._bar_id, total=total, description=description)
        formatted = file_size if stage.startswith("download") else "{:,}".format
        amount = f"{formatted(done)} of {formatted(total)}"
        if stage == "encode" and (seconds := time.monotonic() - self._began) > 1:
            amount += f" rows, {(done - self._first) / seconds:,.0f} per second"
        if detail:
            amount += f" ({detail})"
        self._bar.update(self._bar_id, completed=done, total=total, amount=amount)


def step_of(record: logging.LogRecord) -> tuple[str, int, int, str]:
    """Return the stage, the steps that are done, their number, and the current one."""
    values = vars(record)
    return values["stage"], values["done"], values["total"], values["detail"]


def rich_bar(console: "Console", *, shown: bool = True) -> "Progress":
    """Return a bar of rich that disappears at the end."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(compact=True, table_column=Column(min_width=7, no_wrap=True)),
        console=console,
        transient=True,
        disable=not shown,
    )


class _NotebookBar(logging.Handler):
    """A bar in the output of a notebook cell, in HTML: it needs no widgets."""

    def __init__(self, task: str) -> None:
        super().__init__(logging.DEBUG)
        from IPython.display import HTML, display

        self._html, self._task, self._next = HTML, task, 0.0
        self._began = time.monotonic()
        self._shown = display(self._bar("", 0, 0), display_id=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar, at most ten times per second."""
        stage, done, total, _ = step_of(record)
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SECONDS
            self._shown.update(self._bar(stage, done, total))

    def end(self, word: str) -> None:
        """Replace the bar by a line with the time."""
        seconds = time.monotonic() - self._began
        self._shown.update(self._html(f"{escape(self._task)}: {word} {seconds:.1f} s"))

    def _bar(self, stage: str, done: int, total: int) -> Any:
        value = f' value="{done}" max="{total}"' if total else ""
        amount = f"{escape(stage)}, {done:,} of {total:,}" if total else ""
        style = "width: 20em; vertical-align: middle"
        return self._html(f'<progress{value} style="{style}"></progress> {escape(self._task)} {amount}')


class _Lines(logging.Handler):
    """A line on stderr at the beginning of each stage, for a file or a pipe."""

    def __init__(self, task: str) -> None:
        super().__init__(logging.DEBUG)
        self._task, self._stage = task, ""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line if the stage is new."""
        stage, _, total, _ = step_of(record)
        if stage != self._stage:
            self._stage = stage
            print(f"{self._task}: {stage}, {total:,} steps", file=sys.stderr, flush=True)


@contextmanager
def progress_shown(verbose: bool, task: str) -> Iterator[None]:
    """Show the progress of the block, if ``verbose``."""
    if not verbose:
        yield
        return
    log = logging.getLogger("manihash.progress")
    before = log.level, log.propagate
    with ExitStack() as stack:
        handler = _handler(task, stack)
        if not log.isEnabledFor(logging.DEBUG):
            log.propagate = False  # the user's own handlers did not ask for these records
        log.setLevel(logging.DEBUG)
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before[0])
            log.propagate = before[1]


def _handler(task: str, stack: ExitStack) -> logging.Handler:
    """A bar in a notebook or terminal, otherwise lines; the stack ends it."""
    if notebook_kernel() is not None:
        bar = _NotebookBar(task)
        stack.push(lambda kind, *_: bar.end("done in" if kind is None else "stopped after"))
        return bar
    if not sys.stderr.isatty():
        return _Lines(task)
    from rich.console import Console

    shown = stack.enter_context(rich_bar(Console(stderr=True, highlight=False)))
    handler = ProgressBar(shown)
    handler.start(task)
    return handler
