"""Read the input files of the commands, and check their options and output files."""

import csv
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from manihash.cli import _tables
from manihash.cli._options import INDEX_SUFFIX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash import Hasher


_LONGEST_ENDING = ".part.json.new"  # of the names of files beside an output, those of resumable files
_SAMPLES, _SAMPLE_BYTES = 64, 4096  # of a file, spread over it, that its fingerprint contains


def check_inputs(*paths: str | None, model: Path | None = None) -> None:
    """Raise if an input file does not exist, before the libraries that compute are imported."""
    from manihash.files.formats import split_key

    for path in (*paths, model):
        if path is not None and not (file := split_key(path)[0]).is_file():
            kind = "model file" if path is model else "index file" if file.suffix == INDEX_SUFFIX else "file"
            raise FileNotFoundError(f"no {kind} at {file}: check the path and the current folder")


def read_vectors(path: str) -> "NDArray[Any]":
    """Return the vectors (n, d) of a file; images (n, h, w) become rows of pixels."""
    array = _tables.read(path)
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"{path} holds no rows, an array of shape {array.shape}: give a file with at least one vector"
            if len(array.shape) > 1 and array.shape[0] == 0
            else f"{path} holds an array of shape {array.shape}: expected one vector per row (n, d). "
            "Reshape it, or give another file"
        )
    return array.reshape(len(array), -1)


def read_stored_vectors(path: str) -> Any:
    """Return the vectors (n, d) beside an index, which may have one byte per value."""
    from manihash.search.byte_vectors import ByteVectors, is_byte_vectors

    return ByteVectors.load(path) if is_byte_vectors(path) else read_vectors(path)


@contextmanager
def opened(path: str, dask: str | None) -> Iterator[Any]:
    """Open the vectors of a file for reading in blocks, here or by the workers of a Dask cluster."""
    from manihash.files import formats
    from manihash.rows import dask as dask_rows

    table = _tables.keywords()
    X = formats.open_vectors(path, **table)
    if dask is None:
        yield X
        return
    file, key = formats.split_key(path)
    absolute = str(file.absolute()) + (f":{key}" if key else "")
    with dask_rows.connected(dask):
        yield dask_rows.array_of(partial(formats.read_rows, path=absolute, **table), X.shape, X.dtype)


def check_device(device: str | None, dask: str | None) -> None:
    """Raise if the device does not exist, or if a Dask cluster is given as well."""
    if device is None:
        return
    if dask is not None:
        raise typer.BadParameter(
            "got both --device and --dask, but Dask workers compute in numpy: give one of the two"
        )
    from manihash.compute.cuda import checked_device

    checked_device(device)


def on_device(X: Any, device: str | None) -> Any:
    """Return the vectors as rows on a torch device, or unchanged if `device` is None."""
    if device is None:
        return X
    from manihash import on_device

    return on_device(X, device)


def fingerprint(path: str) -> str:
    """Return a hash of the size, the modification time, samples of the bytes, key and table options."""
    import hashlib

    from manihash.files import formats

    file, key = formats.split_key(path)
    size, changed = file.stat().st_size, file.stat().st_mtime_ns
    table = "".join(f" {name}={value}" for name, value in _tables.keywords().items() if value is not None)
    digest = hashlib.sha256(f"{size} {changed} {key}{table}".encode())
    with open(file, "rb") as content:
        for i in range(_SAMPLES):
            content.seek(max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
            digest.update(content.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def read_ids(path: str) -> "NDArray[Any]":
    """Return the ids or booleans of a file."""
    from manihash.files import id_files

    return id_files.read_ids(path, **_tables.keywords())


def read_codes(path: str, *, or_vectors: bool = False) -> "NDArray[Any]":
    """Return packed codes, or vectors if allowed; bytes in a CSV file, read as floats, become uint8."""
    import numpy as np

    codes = _tables.read(path)
    if codes.ndim != 2:
        expected = "codes or vectors, one per row" if or_vectors else "codes, one row of bytes each"
        raise ValueError(f"{path}: expected 2-D {expected}, got {codes.ndim}-D {codes.shape}")
    if codes.dtype != np.float64:  # a memory map, which may be large, is not read here
        return codes
    as_bytes = np.clip(codes, 0, 255).astype(np.uint8)
    return as_bytes if np.array_equal(as_bytes, codes) else codes


def load_hasher(path: Path) -> "Hasher":
    """Return the hasher of a model file, or of an index file that holds its model."""
    from manihash import Hasher, load

    model = load(path)
    model = model if isinstance(model, Hasher) else getattr(model, "hasher", model)  # of an index
    if not isinstance(model, Hasher):
        raise ValueError(
            f"{path} holds {_with_article(type(model).__name__)}, which makes no codes: give a model written "
            "by manihash fit, or an index written by manihash build"
        )
    return model


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def check_output(path: Path | str, *inputs: Path | str | None) -> bool:
    """Raise if the output file cannot be written; return whether it exists.

    It must not be one of the input files, nor another output file, which may be among them.
    """
    from manihash.files.atomic import is_stream, resolved_target
    from manihash.files.formats import split_key

    target = resolved_target(split_key(path)[0])
    for given in inputs:
        source = None if given is None else split_key(given)[0]
        if source is not None and target.exists() and source.exists() and target.samefile(source):
            raise ValueError(f"{path} is also an input file: give another output file with -o")
        if (
            source is not None
            and not source.exists()
            and os.path.realpath(target) == os.path.realpath(source)
        ):
            raise ValueError(f"{path} is given for two outputs: give each a file of its own")
    if is_stream(target):
        return False
    _check_place(target)
    return target.exists()


class _NotWritten(Exception):
    """Ends a write before its file gets its name."""


def _check_place(target: Path) -> None:
    """Raise if no file can be made beside a target, or if names of the files beside it are too long."""
    from manihash.files.atomic import atomic_write

    try:
        target.with_name(target.name + _LONGEST_ENDING).lstat()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        remedy = f"Give a shorter name: temporary files beside it add {len(_LONGEST_ENDING)} characters"
        raise OSError(error.errno, f"cannot write {target}: {error.strerror}. {remedy}") from error
    with suppress(_NotWritten), atomic_write(target):
        raise _NotWritten


def check_model_output(path: Path, *inputs: Path | str | None) -> bool:
    """As ``check_output``, of a file for a model: raise if its name is that of an index file."""
    if path.suffix.lower() == INDEX_SUFFIX:
        raise ValueError(
            f"{path} is a name of an index file, and this command writes a model: give -o a name such as "
            f"{path.with_suffix('.mhash').name}. manihash build writes model and codes into one index file"
        )
    return check_output(path, *inputs)


def check_npz_output(path: Path | None, *inputs: Path | str | None) -> None:
    """Raise if an output file is given that is not an .npz file or cannot be written."""
    if path is None:
        return
    if path.suffix.lower() != ".npz":
        raise ValueError(f"got the output file {path}: expected a name that ends in .npz (several arrays)")
    check_output(path, *inputs)


def comma_separated(text: str, option: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise ValueError(f"got {option} {text!r}: expected one or more values, separated by commas")
    return values


def code_lengths(text: str, option: str = "--bits") -> list[int]:
    """Return the code lengths of an option such as ``--bits 16,32``."""
    values = comma_separated(text, option)
    if not all(value.isdecimal() and int(value) for value in values):
        raise ValueError(
            f"got {option} {text!r}: expected positive integers separated by commas, such as 16,32"
        )
    return [int(value) for value in values]


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


def known_labels(labels: "NDArray[Any]") -> "NDArray[Any]":
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
    from manihash.files.csv import read_lines

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
