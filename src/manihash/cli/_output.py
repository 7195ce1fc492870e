"""Results to stdout, messages to stderr; a JSON document or lines for people."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE = 200  # in a file or a pipe nothing is folded

messages = Console(stderr=True, highlight=False)


def say(kind: str, text: str, style: str = "bold red") -> None:
    """One message to stderr: ``kind: text``."""
    line = Text.assemble((f"{kind}: ", style), text)
    messages.print(line, soft_wrap=not messages.is_terminal)


def show(what: RenderableType) -> None:
    """A result for people, to stdout."""
    if sys.stdout.isatty():
        Console(highlight=False).print(what)
        return
    console = Console(highlight=False, width=None if "COLUMNS" in os.environ else _WIDE)
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def show_json(document: Mapping[str, Any]) -> None:
    """A result for programs: one JSON document to stdout."""
    sys.stdout.write(json.dumps(document, allow_nan=False, ensure_ascii=False) + "\n")


def facts(pairs: Mapping[str, str]) -> Table:
    """Names and values, one pair a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        grid.add_row(name, Text(value))
    return grid


def file_size(n_bytes: int) -> str:
    """Bytes in words: 12,345 bytes are 12.3 kB."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
