"""Lines of text files."""

import os
from pathlib import Path

from manihash.errors import DataFileError


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file in UTF-8, without their ends.

    Only line feeds, and the carriage returns before them, end a line, as in editors; carriage returns alone
    do if there are no line feeds. ``str.splitlines`` would also split at form feeds, U+2028 and others, which
    texts contain.
    """
    content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content[: error.start].count(b"\n")
        raise DataFileError(
            f"{path} is not UTF-8 text: line {line} is not valid UTF-8. Save the file as UTF-8"
        ) from None
    lines = text.split("\n" if "\n" in text else "\r")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
