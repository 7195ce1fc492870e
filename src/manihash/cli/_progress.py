"""The bar that shows what the library logs as progress, and the warnings it logs."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from manihash.cli._output import file_size, messages, say


class Watch(logging.Handler):
    """One bar on stderr for the stage that runs; ``headline`` says what it is a part of."""

    def __init__(self, bar: Progress) -> None:
        super().__init__(logging.DEBUG)
        self.headline = ""
        self._bar = bar
        self._task = bar.add_task("", total=None, amount="")
        self._stage = ""
        self._first, self._began = 0, 0.0

    def begin(self, headline: str) -> None:
        """Name the work that begins; its stages follow."""
        self.headline, self._stage = headline, ""
        self._bar.reset(self._task, total=None, description=headline, amount="")

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar; a new stage starts it anew."""
        stage, done, total = (vars(record)[name] for name in ("stage", "done", "total"))
        if stage != self._stage:
            self._stage, self._first, self._began = stage, done, time.monotonic()
            description = f"{self.headline}: {stage}" if self.headline else stage
            self._bar.reset(self._task, total=total, description=description)
        in_words = file_size if stage.startswith("download") else "{:,}".format
        amount = f"{in_words(done)} of {in_words(total)}"
        if stage == "encode" and (seconds := time.monotonic() - self._began) > 1:
            amount += f" rows, {(done - self._first) / seconds:,.0f} a second"
        self._bar.update(self._task, completed=done, total=total, amount=amount)


class _Messages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        kind = "warning" if record.levelno >= logging.WARNING else "note"
        say(kind, record.getMessage(), "bold yellow" if kind == "note" else "yellow")


@contextmanager
def watched(quiet: bool) -> Iterator[Watch]:
    """Show progress while the block runs, if stderr is a terminal and nobody asked for quiet."""
    shown = messages.is_terminal and not quiet
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(compact=True),
        console=messages,
        transient=True,
        disable=not shown,
    )
    watch, warning, note = Watch(bar), _Messages(logging.WARNING), _Messages(logging.INFO)
    progress, library = logging.getLogger("manihash.progress"), logging.getLogger("manihash")
    notes = logging.getLogger("manihash.note")
    levels = progress.level, notes.level
    library.addHandler(warning)
    notes.addHandler(note)
    notes.setLevel(logging.INFO)
    if shown:
        progress.addHandler(watch)
        progress.setLevel(logging.DEBUG)
    try:
        with bar:
            yield watch
    finally:
        progress.setLevel(levels[0])
        notes.setLevel(levels[1])
        notes.removeHandler(note)
        progress.removeHandler(watch)
        library.removeHandler(warning)
