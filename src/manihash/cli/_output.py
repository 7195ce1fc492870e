"""Results go to stdout, as text or as one JSON document; messages go to stderr."""

import codecs
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from manihash.display import file_size

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
