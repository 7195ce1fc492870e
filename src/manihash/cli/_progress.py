"""The bar that shows what the library logs as progress, and the warnings it logs."""

import logging
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

    def begin(self, headline: str) -> None:
        """Name the work that begins; its stages follow."""
        self.headline, self._stage = headline, ""
        self._bar.reset(self._task, total=None, description=headline, amount="")

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar; a new stage starts it anew."""
        stage, done, total = (vars(record)[name] for name in ("stage", "done", "total"))
        if stage != self._stage:
            self._stage = stage
            description = f"{self.headline}: {stage}" if self.headline else stage
            self._bar.reset(self._task, total=total, description=description)
        in_words = file_size if stage.startswith("download") else "{:,}".format
        amount = f"{in_words(done)} of {in_words(total)}"
        self._bar.update(self._task, completed=done, total=total, amount=amount)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say("warning", record.getMessage(), "yellow")


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
    watch, warning = Watch(bar), _Warnings(logging.WARNING)
    progress, library = logging.getLogger("manihash.progress"), logging.getLogger("manihash")
    level = progress.level
    library.addHandler(warning)
    if shown:
        progress.addHandler(watch)
        progress.setLevel(logging.DEBUG)
    try:
        with bar:
            yield watch
    finally:
        progress.setLevel(level)
        progress.removeHandler(watch)
        library.removeHandler(warning)
