"""Results go to stdout, as text or as one JSON document; messages and progress go to stderr."""

import codecs
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from manihash.display import file_size
from manihash.progress import ProgressBar, rich_bar, step_of

_WIDTH = 200  # in files and pipes, so that rich does not wrap lines

messages = Console(stderr=True, highlight=False)

_PLAIN = str.maketrans(
    {"µ": "u", "±": "+-", "–": "-", "—": "-", "…": "...", "×": "x", "σ": "sigma", "│": "|"}
)
_CLOSED_STDOUT = 2


def prepare_streams() -> None:
    """Make stdout and stderr accept every character, also on ASCII terminals; exit if stdout is closed."""
    codecs.register_error("manihash", _replacement)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        print_message("error", "stdout is closed: redirect it to a file or to /dev/null instead")
        sys.exit(_CLOSED_STDOUT)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="manihash")


def _replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is written instead of a character that the encoding of a stream does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = error.object[error.start : error.end].translate(_PLAIN)
    return plain.encode("ascii", "backslashreplace").decode("ascii"), error.end


def print_message(kind: str, text: str, style: str = "bold red") -> None:
    """Print one message to stderr: ``kind: text``."""
    line = Text.assemble((f"{kind}: ", style), without_passwords(text))
    messages.print(line, soft_wrap=not messages.is_terminal)


def without_passwords(text: str) -> str:
    """Return a message without the passwords of addresses, such as one given instead of a file."""
    if ":/" not in text and "pass" not in text.lower():
        return text
    from manihash.stores import mask_passwords_in

    return mask_passwords_in(text)


def print_result(what: RenderableType) -> None:
    """Print a result as text to stdout, at once."""
    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    console = Console(highlight=False, width=None if "COLUMNS" in os.environ else _WIDTH)
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))
    sys.stdout.flush()


def print_json(document: Mapping[str, Any]) -> None:
    """Print a result as one JSON document to stdout, escaped where its encoding lacks a character."""
    text = json.dumps(document, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(document, allow_nan=False)
    sys.stdout.write(text + "\n")


def key_values(pairs: Mapping[str, str]) -> Table:
    """Return a table of names and values, one pair per line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        grid.add_row(name, Text(value))
    return grid


def written_file(path: str, n_bytes: int, *, replaced: bool) -> str:
    """Return the name of an output file with its size, and whether it replaced an earlier file."""
    return f"{path} ({file_size(n_bytes)}{', replaces an earlier file' if replaced else ''})"


_TABLE_HINT = "--no-header and --no-index-column read the first line and the first column as numbers"


class ProgressLines(logging.Handler):
    """Lines on stderr for long work whose stderr is not a terminal.

    The first line is printed after ``first_wait`` seconds at the earliest. Each next line waits twice as
    long, but not longer than ``interval``.
    """

    interval = 30.0  # seconds

    def __init__(self, bar: ProgressBar, first_wait: float = interval) -> None:
        super().__init__(logging.DEBUG)
        self._bar = bar  # knows the current task
        self._stage, self._first, self._began = "", 0, 0.0
        self._wait = min(first_wait, self.interval)
        self._next = time.monotonic() + self._wait

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line if it is time for one."""
        stage, done, total, detail = step_of(record)
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._first, self._began = stage, done, now
        if now < self._next:
            return
        self._wait = min(2 * self._wait, self.interval)
        self._next = now + self._wait
        text = f"{done:,} of {total:,}"
        if done > self._first:
            left = (now - self._began) / (done - self._first) * (total - done)
            text += f", about {left / 60:,.0f} min left" if left > 90 else f", about {left:,.0f} s left"
        title = f"{self._bar.task}: {stage}" if self._bar.task else stage
        print_message(title, f"{text} ({detail})" if detail else text, "bold")


# Methods that warnings of the library name, and the commands for them.
_COMMANDS = {"update(X_new, X_old)": "manihash update"}


class _Messages(logging.Handler):
    """Print messages of the library, each note once; notes are kept in ``notes`` instead, if it is given."""

    def __init__(self, level: int, notes: list[str] | None = None) -> None:
        super().__init__(level)
        self._kept, self._notes = notes is not None, [] if notes is None else notes

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            for method, command in _COMMANDS.items():
                text = text.replace(method, command)
            print_message("warning", text, "yellow")
        elif text not in self._notes:
            self._notes.append(text)
            if not self._kept:
                print_message("note", text, "bold yellow")
                if re.search("taken as (a header|an index|features)", text):
                    print_message("hint", _TABLE_HINT, "yellow")


@contextmanager
def progress_shown(
    quiet: bool, notes: list[str] | None = None, first_wait: float = ProgressLines.interval
) -> Iterator[ProgressBar]:
    """Show progress inside the block unless `quiet`; always show warnings.

    Progress is a bar if stderr is a terminal. Otherwise it is a line every 30 seconds, and the first line is
    printed after ``first_wait`` seconds. Notes are printed at once or, given the list ``notes``, appended to
    it without repetition, for a table that they would break.
    """
    shown = messages.is_terminal and not quiet
    bar = rich_bar(messages, shown=shown)
    handler, warning, note = ProgressBar(bar), _Messages(logging.WARNING), _Messages(logging.INFO, notes)
    progress, library = logging.getLogger("manihash.progress"), logging.getLogger("manihash")
    noted = logging.getLogger("manihash.note")
    levels = progress.level, noted.level
    library.addHandler(warning)
    noted.addHandler(note)
    noted.setLevel(logging.INFO)
    shower = handler if shown else ProgressLines(handler, first_wait)
    if not quiet:
        progress.addHandler(shower)
        progress.setLevel(logging.DEBUG)
    try:
        with bar if shown else nullcontext():  # some versions of rich end a disabled bar with a line break
            yield handler
    finally:
        progress.setLevel(levels[0])
        noted.setLevel(levels[1])
        noted.removeHandler(note)
        progress.removeHandler(shower)
        library.removeHandler(warning)


def print_notes(notes: list[str]) -> None:
    """Print notes that were kept while a table was printed."""
    for text in notes:
        print_message("note", text, "bold yellow")
