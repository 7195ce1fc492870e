"""Read files of labels: one label per row; -1, an empty field or None marks a row without a label."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manihash.cli import _tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_NAMES = {"label", "labels", "class", "classes", "category", "target", "y"}
_NO_LABEL = ("", "-1", "None")


def read_labels(path: str, n_rows: int, *, at_least: bool = False) -> "NDArray[Any]":
    """Return labels (n_rows,) as integers with -1, or as strings with None, for rows without a label.

    With ``at_least``, the file may have more labels, and a first line that looks like a header is one.
    """
    import numpy as np

    if path.lower().endswith((".csv", ".txt")) and Path(path).is_file():
        labels = _as_array(_without_header(path, _text_fields(path, n_rows), n_rows, at_least))
    elif path.lower().endswith(".npy") and Path(path).is_file() and _holds_text(path):
        labels = np.load(path, mmap_mode="r", allow_pickle=False)
        labels = _as_array(np.char.strip(labels.astype(str)).tolist()) if labels.ndim == 1 else labels
    else:
        labels = _tables.read(path)
    enough = at_least and labels.ndim == 1 and len(labels) > n_rows
    if not enough and (labels.size != n_rows or len(labels) != n_rows):
        raise ValueError(
            f"{path} holds an array of shape {labels.shape}: expected one label for each of {n_rows:,} rows"
        )
    return labels.reshape(-1)


def known(labels: "NDArray[Any]") -> "NDArray[Any]":
    """Return which rows have a label, (n,)."""
    import numpy as np

    if labels.dtype.kind == "O":
        return np.array([label is not None for label in labels], bool)
    return labels != -1 if labels.dtype.kind in "if" else np.ones(len(labels), bool)


def _holds_text(path: str) -> bool:
    """Return whether an npy file holds strings."""
    import numpy as np

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype.kind in "US"
    except (ValueError, OSError, EOFError):  # reported by the reader of all other files
        return False


def _text_fields(path: str, n_rows: int) -> list[str]:
    """Return the labels of a text or CSV file, and its header if it has one; blank last lines are ignored."""
    from manihash.files.lines import read_lines

    lines = read_lines(path)
    while len(lines) > n_rows and not lines[-1].strip():
        lines.pop()
    if path.lower().endswith(".txt"):
        return [_unquoted(line.strip()) for line in lines]
    rows = [[field.strip() for field in row] or [""] for row in csv.reader(lines)]
    columns = max(map(len, rows), default=1)
    if columns == 1:
        return [row[0] for row in rows]
    if columns == 2 and all(len(row) == 2 for row in rows) and _is_index(path, [row[0] for row in rows]):
        return [row[1] for row in rows]
    raise ValueError(f"{path} has {columns} columns: expected one label per line")


def _is_index(path: str, column: Sequence[str]) -> bool:
    """Return whether the first of two columns numbers the rows from 0, and say so."""
    wanted = _tables.options().index_column
    numbers = column if column[0] == "0" else column[1:]
    found = list(numbers) == [str(i) for i in range(len(numbers))]
    if found and wanted is None:
        _tables.say(f"{path}: the first column numbers the rows and is ignored")
    return found if wanted is None else wanted


def _without_header(path: str, fields: list[str], n_rows: int, at_least: bool) -> list[str]:
    """Return the labels; raise if there is one too many and the first line may be a label."""
    if len(fields) <= n_rows or (len(fields) > n_rows + 1 and not at_least):
        return fields
    first, rest = fields[0], fields[1:]
    numbers = _numbers(rest) is not None
    header = (_numbers([first]) is None if numbers else first.lower() in _HEADER_NAMES) and first not in rest
    wanted = _tables.options().header
    if header if wanted is None else wanted:
        return rest
    if at_least:
        return fields
    raise ValueError(
        f"{path} holds {len(fields):,} labels for {n_rows:,} rows, and its first line {first!r} may be a "
        "label: remove the line that is too many, or give --header if the first line is a header"
    )


def _as_array(fields: Sequence[str]) -> "NDArray[Any]":
    """Return integers if all labels are whole numbers (1.0 is 1), otherwise strings and None."""
    import numpy as np

    numbers = _numbers(fields)
    if numbers is not None:
        return np.array(numbers)
    return np.array([None if field in _NO_LABEL else field for field in fields], object)


def _numbers(fields: Sequence[str]) -> list[int] | list[float] | None:
    """Return the labels as numbers, -1 for rows without a label; None if one of them is text."""
    numbers = [-1.0 if field in _NO_LABEL or field.lower() == "nan" else _number(field) for field in fields]
    if any(number is None or not abs(number) < 2**53 for number in numbers):
        return None
    whole = [int(number) for number in numbers if number is not None and number == int(number)]
    return whole if len(whole) == len(numbers) else [number for number in numbers if number is not None]


def _number(field: str) -> float | None:
    """Return the number that a field is, None if it is text."""
    from manihash.files.csv import is_number

    return float(field) if is_number(field) else None


def _unquoted(text: str) -> str:
    """Return a text without quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
