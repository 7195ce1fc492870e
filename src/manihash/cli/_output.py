"""Results go to stdout, as text or as one JSON document; messages go to stderr."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDTH = 200  # in files and pipes, so that rich does not wrap lines

messages = Console(stderr=True, highlight=False)


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
    """Print a result as text to stdout."""
    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    console = Console(highlight=False, width=None if "COLUMNS" in os.environ else _WIDTH)
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_json(document: Mapping[str, Any]) -> None:
    """Print a result as one JSON document to stdout."""
    sys.stdout.write(json.dumps(document, allow_nan=False, ensure_ascii=False) + "\n")


def key_values(pairs: Mapping[str, str]) -> Table:
    """Return a table of names and values, one pair per line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        grid.add_row(name, Text(value))
    return grid


def file_size(n_bytes: int) -> str:
    """Return a size as text: 12,345 bytes are ``12.3 kB``."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
