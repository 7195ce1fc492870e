"""CSV files: rows of numbers with commas between them, with or without a header and an index column."""

import csv
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DataFileError
from manihash.progress import note

_INDEX_NAMES = ("unnamed: 0", "index", "id")  # headings of columns that number rows
# Fields without a value, as tables write them; nan is a number.
_GAPS = frozenset(
    {"", "na", "n/a", "#n/a", "<na>", "#na", "null", "none", "nil", "missing", "-", "--", ".", "?"}
)
_NUMBER_LIKE = re.compile(r"[-+]?\.?[0-9]")  # such as 1_000, 5% and 1D5
_SURE = 4  # columns, or rows, whose numbers 0, 1, 2, … are unlikely to be values


@dataclass(frozen=True)
class _Layout:
    """What the first two lines show: the columns, the header, and the index column (None: unknown yet)."""

    n_columns: int
    header: bool
    index: bool | None
    reasons: tuple[str, ...] = ()


def read_csv(path: Path, header: bool | None = None, index_column: bool | None = None) -> NDArray[Any]:
    """The numbers (n, d) of a CSV file as float64.

    Unless they are given, header and index column are decided from the first line and the first column, and
    a note says so if they look like numbers.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line for line in (file.readline(), file.readline()) if line.strip()]
            first = [next(csv.reader([line])) for line in lines]
            if header is None and first and (gap := _gap(first[0], first[-1])) is not None:
                raise DataFileError(
                    f"{path}: the first line has no value in column {gap + 1} ({first[0][gap]!r}). Fill the "
                    "gap or remove the row; if the line is a header, give header=True"
                )
            layout = _layout(*first, header=header, index=index_column)
            if len(lines) - layout.header < 1:
                raise ValueError("the file has no rows")
            file.seek(0)
            X = _numbers(file, layout)
    except (ValueError, csv.Error) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(
            f"{path} is not a table of numbers with commas between them: {str(error)[:100]} (rows are "
            "counted without the header). Remove columns of text, and separate the numbers by commas"
        ) from error
    reasons = list(layout.reasons)
    if layout.index is None and _numbers_rows(X, lines, layout):
        reasons.append("the first column numbers the rows and is taken as an index")
        X = X[:, 1:]
    if reasons:
        note(f"{path}: {'; '.join(reasons)}")
    return X


def _layout(*first: list[str], header: bool | None, index: bool | None) -> _Layout:
    """The layout of a file with these first two lines."""
    if not first:
        raise ValueError("the file has no rows")
    top, below = first[0], first[-1]
    numbers = all(is_number(field) for field in top)
    reasons = []
    if header is None and not numbers:
        reasons += _numbers_in_header(top)
    if header is None and numbers and len(first) == 2 and _numbers_columns(top, below):
        header = True
        reasons.append(f"the first line 0, 1, …, {len(top) - 1} is taken as a header")
    header = not numbers if header is None else header
    if header and len(first) == 2 and len(top) != len(below):
        reasons.append(
            f"the first line has {len(top)} field{'s' * (len(top) > 1)} and the rows have {len(below)}: it "
            "is taken as a header"
        )
    name = top[0].strip().lower() if header else None
    if index is None and len(top) > 1 and name == "":  # as pandas writes its index
        index = True
        reasons.append("the first column has no heading and is taken as an index")
    elif index is None and (len(top) == 1 or (header and name not in _INDEX_NAMES)):
        index = False
    return _Layout(len(below), header, index, tuple(reasons))


def _gap(top: list[str], below: list[str]) -> int | None:
    """The first column without a value if the first line is a row with gaps: it has numbers, but no names."""
    gaps = [j for j, field in enumerate(top) if _is_gap(field)]
    if not gaps or not all(_is_gap(field) or is_number(field) for field in top):
        return None
    if gaps == [0] and not top[0].strip() and len(top) > 1:
        # The header of pandas has no name for the index, whose first value is 0 or text.
        indexed = bool(below) and (below[0].strip() == "0" or not is_number(below[0]))
        return None if indexed or _counts(top[1:]) else 0
    return gaps[0]


def _is_gap(field: str) -> bool:
    return field.strip().lower() in _GAPS


def _counts(fields: list[str]) -> bool:
    """Whether fields are 0, 1, 2, …"""
    return [field.strip() for field in fields] == [str(j) for j in range(len(fields))]


def _numbers_in_header(top: list[str]) -> list[str]:
    """What to say about a header that may be a row: it has fractions, or text that begins as a number."""
    fields = [field.strip() for field in top]
    texts = [field for field in fields if not is_number(field)]
    fractions = [field for field in fields if is_number(field) and not field.isdecimal()]
    if fractions:
        return [
            f"the first line is taken as a header because of {texts[0]!r}, though it holds {fractions[0]}"
        ]
    like_numbers = [field for field in texts if _NUMBER_LIKE.match(field)]
    if like_numbers and len(like_numbers) == len(texts):
        return [f"the first line is taken as a header: {like_numbers[0]!r} is not a number"]
    return []


def _numbers_columns(top: list[str], below: list[str]) -> bool:
    """Whether the first line is the numbers of the columns, as pandas writes them, and not a row."""
    if len(top) < 2 or not _counts(top):
        return False
    if any(not field.strip().lstrip("-").isdecimal() for field in below):
        return True  # the rows have fractions
    continues = [field.strip() for field in below] == [str(len(top) + j) for j in range(len(top))]
    return len(top) >= _SURE and not continues


def _numbers(file: Any, layout: _Layout) -> NDArray[Any]:
    """The numbers (n, d) below the header, without the index column if it is known to be one."""
    if layout.index and layout.n_columns < 2:
        raise ValueError("the file has a single column, which cannot be an index")
    columns = range(1, layout.n_columns) if layout.index else None
    return np.loadtxt(
        file,
        delimiter=",",
        skiprows=int(layout.header),
        ndmin=2,
        comments=None,
        usecols=columns,
        quotechar='"',
    )


def _numbers_rows(X: NDArray[Any], lines: list[str], layout: _Layout) -> bool:
    """Whether the first column is 0, 1, 2, … n - 1, without a decimal point, and the others are not."""
    n, d = X.shape
    if d < 2 or lines[layout.header].split(",")[0].strip(' "') != "0":
        return False
    fractions = bool((X[:, 1:] != np.rint(X[:, 1:])).any())
    return (n >= _SURE if fractions else n >= _SURE**2) and bool((X[:, 0] == np.arange(n)).all())


def is_number(field: str) -> bool:
    """Whether a field of a CSV file is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field  # which Python allows between digits


def write_csv(part: Path, array: NDArray[Any]) -> None:
    """Write an array (n,) or (n, d) to ``part`` as CSV; floats are read back exactly.

    A first line or column 0, 1, 2, … starts with 0.0, so that it is not read as a header or as an index.
    """
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"got an array of shape {array.shape}: csv files hold at least one row of numbers")
    digits = {2: "%.5g", 4: "%.9g"}.get(array.dtype.itemsize, "%.17g")
    digits = digits if array.dtype.kind == "f" else "%d"
    rows = array.reshape(len(array), -1)
    with open(part, "w", encoding="ascii") as file:
        if rows.shape[1] > 1 and rows[0, 0] == 0:
            file.write(",".join(["0.0", *(digits % value for value in rows[0, 1:])]) + "\n")
            rows = rows[1:]
        np.savetxt(file, rows, delimiter=",", fmt=digits)


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
