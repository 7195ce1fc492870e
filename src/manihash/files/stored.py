"""Rows that stay in their file and are read in slices, and the errors of damaged files."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.errors import DataFileError

# The errno of an OSError that a damaged file causes: none, or an invalid position in the file.
_ERRNO_OF_DAMAGE = (None, 0, errno.EINVAL)


class StoredRows:
    """The rows (n, d) of a file, read by ``X[start:stop]``; an array (n, h, w) has rows of h w numbers."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: Any, read: Callable[[int, int], NDArray[Any]]
    ) -> None:
        self.path = path
        self.shape = (shape[0], int(np.prod(shape[1:])))
        self.dtype = np.dtype(dtype).newbyteorder("=")
        self._read = read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> NDArray[Any]:
        start, stop, step = part.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"rows of {self.path} are read in slices of step 1, got step {step}")
        with parser_errors(self.path):
            rows = self._read(start, max(start, stop))
        return np.asarray(rows, self.dtype).reshape(-1, self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


@contextmanager
def parser_errors(path: Path) -> Iterator[None]:
    """Turn any error that a parser raises for a damaged file into a DataFileError.

    Errors of the system, such as a full memory, a disk that cannot be read or a missing permission, are not
    damage.
    """
    try:
        yield
    except (DataFileError, ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(f"cannot map {path} of {path.stat().st_size:,} bytes into memory") from error
        if isinstance(error, OSError) and error.errno not in _ERRNO_OF_DAMAGE:
            raise OSError(error.errno, f"cannot read {path}: {os.strerror(error.errno)}") from error
        if "pickle" in str(error) or "Python objects" in str(error):
            raise DataFileError(
                f"{path} holds Python objects, which are never loaded: save an array of numbers"
            ) from error
        raise DataFileError(
            f"{path} is not a complete {path.suffix} file ({error}): it is truncated or damaged. "
            "Copy it again"
        ) from error


def choose_key(path: Path, names: list[str], key: str | None) -> str:
    """The name of the array to read, among those that a file holds."""
    if key is None and len(names) == 1:
        return names[0]
    if key is None or key not in names:
        got = "no key was given" if key is None else f"got the key {key!r}"
        held = ", ".join(names) or "none"
        raise DataFileError(f"{path} holds the arrays: {held}; {got}. Name one: '{path.name}:key' or key=")
    return key
