"""Vectors with one byte per value, in memory or in a file that is mapped into memory."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from manihash.checks import finite_block, not_numbers
from manihash.errors import DataFileError
from manihash.files.atomic import atomic_write
from manihash.files.kinds import header_metadata
from manihash.search.rerank import as_vectors
from manihash.types import Floats

_FORMAT = "manihash-byte-vectors"
# Values read at once.
_VALUES = 2**22
# Values and their differences up to here are float32 numbers.
_MOST = 1e37
_ALIGNMENT = 64
_MAX_HEADER = 2**12


class ByteVectors:
    """Vectors with one byte per value, to rank candidates again.

    The value of column j is stored as a byte b from -127 to 127, and stands for

        x_j ≈ center_j + scale_j b

    with the middle and the range of the column over all rows. This is a quarter of float32. ``search(...,
    rerank=vectors)`` reads the rows of the candidates only, so that a file that is mapped into memory can be
    larger than the memory.

    Parameters
    ----------
    values : ndarray of shape (n, d), int8
        The bytes.
    centers : ndarray of shape (d,), float32
        The value of byte 0 in each column.
    scales : ndarray of shape (d,), float32
        The difference of two neighboring bytes in each column.

    Attributes
    ----------
    shape : tuple of int
        Number of vectors and of columns.
    dtype : dtype
        The type of the vectors that are read, float32.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import manihash as mh
    >>> from manihash.search import ByteVectors
    >>> X = np.random.default_rng(0).normal(size=(1000, 16))
    >>> path = os.path.join(tempfile.mkdtemp(), "vectors.mhv")
    >>> vectors = ByteVectors.write(path, X)
    >>> os.path.getsize(path) < 1000 * 16 + 500
    True
    >>> index = mh.recipe("itq", n_bits=16, random_state=0).fit(X).index(X)
    >>> distances, ids = index.search(X[:5], k=3, rerank=ByteVectors.load(path))
    >>> ids[:, 0]
    array([0, 1, 2, 3, 4])
    """

    def __init__(self, values: Any, centers: Any, scales: Any) -> None:
        self._values = values
        self._centers, self._scales = np.asarray(centers, np.float32), np.asarray(scales, np.float32)
        if values.ndim != 2 or values.dtype != np.int8:
            raise ValueError(f"values must be int8 of shape (n, d), got {values.dtype} of {values.shape}")
        for name, array in (("centers", self._centers), ("scales", self._scales)):
            if array.shape != values.shape[1:] or not np.isfinite(array).all():
                raise ValueError(
                    f"{name} must be {values.shape[1]} finite numbers, one per column, got an array of shape "
                    f"{array.shape}"
                )
        self.shape: tuple[int, int] = values.shape
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        return np.asarray(self._values[rows], np.float32) * self._scales + self._centers

    def __repr__(self) -> str:
        return f"ByteVectors(rows={self.shape[0]}, columns={self.shape[1]})"

    @classmethod
    def of(cls, X: Any) -> "ByteVectors":
        """Store vectors in memory.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Vectors, in memory or memory-mapped; they are read twice.

        Returns
        -------
        ByteVectors
            The vectors.
        """
        rows = _checked(X)
        centers, scales = _ranges(rows)
        values = [_rounded(block, centers, scales) for block in _blocks(rows)]
        return cls(np.concatenate([np.empty((0, len(centers)), np.int8), *values]), centers, scales)

    @classmethod
    def write(cls, path: str | os.PathLike[str], X: Any) -> "ByteVectors":
        """Write vectors to a file, atomically, and map it into memory.

        The file is a safetensors file with the arrays ``centers``, ``scales`` and ``values``.

        Parameters
        ----------
        path : str or path-like
            File to write, such as ``vectors.mhv``.
        X : array-like of shape (n, d)
            Vectors, in memory or memory-mapped; they are read twice, in blocks.

        Returns
        -------
        ByteVectors
            The vectors of the file.
        """
        rows = _checked(X)
        centers, scales = _ranges(rows)
        with atomic_write(path) as part, open(part, "wb") as file:
            file.write(_header(*rows.shape))
            file.write(centers.astype("<f4").tobytes() + scales.astype("<f4").tobytes())
            for block in _blocks(rows):
                file.write(_rounded(block, centers, scales).tobytes())
        return cls.load(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ByteVectors":
        """Map the vectors of a file into memory.

        Parameters
        ----------
        path : str or path-like
            File that ``write`` wrote.

        Returns
        -------
        ByteVectors
            The vectors; rows are read from the file when they are needed.

        Raises
        ------
        DataFileError
            If the file is damaged, or not such a file.
        """
        path = Path(path)
        size = path.stat().st_size
        with open(path, "rb") as file:
            try:
                n, d = _shape_of(file)
                start = file.tell()
                if size != start + 8 * d + n * d:
                    raise ValueError(f"got {size:,} bytes, expected {start + 8 * d + n * d:,}")
                centers, scales = np.fromfile(file, "<f4", 2 * d).reshape(2, d)
                if not (np.isfinite(centers).all() and np.isfinite(scales).all() and (scales >= 0).all()):
                    raise ValueError("its centers and scales are not finite numbers")
                values: Any = np.memmap(path, np.int8, "r", start + 8 * d, (n, d)) if n * d else None
                return cls(np.empty((n, d), np.int8) if values is None else values, centers, scales)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataFileError(
                    f"{path} is not a complete file of byte vectors ({error}): write it again with "
                    "ByteVectors.write or manihash build --byte-vectors"
                ) from error


def is_byte_vectors(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds byte vectors, by its header."""
    try:
        return header_metadata(Path(path)).get("format") == _FORMAT
    except (ValueError, RecursionError, OSError):
        return False


def _checked(X: Any) -> Any:
    """Vectors as they are read, in blocks; raise unless they are real numbers."""
    rows = as_vectors(X, "the vectors")
    if len(rows.shape) != 2 or rows.dtype.kind not in "fiub":
        if rows.dtype.kind not in "fiub":
            raise not_numbers(rows.dtype, "the vectors hold")
        raise ValueError(f"the vectors have shape {tuple(rows.shape)}: expected one vector per row (n, d)")
    return rows


def _blocks(rows: Any) -> Iterator[Floats]:
    """Blocks of rows (n, d) in float64."""
    step = max(1, _VALUES // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        block = np.asarray(rows[start : start + step], np.float64)
        finite_block(block, start, name="the vectors")
        yield block


def _ranges(rows: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The centers and scales (d,) of the columns of rows (n, d)."""
    low, high = np.full(rows.shape[1], np.inf), np.full(rows.shape[1], -np.inf)
    for block in _blocks(rows):
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    if not rows.shape[0]:
        low = high = np.zeros(rows.shape[1])
    if max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)) > _MOST:
        raise ValueError("the vectors have values that exceed the range of float32: scale them")
    centers = (low / 2 + high / 2).astype(np.float32)
    scales = (np.maximum(high - centers, centers - low) / 127).astype(np.float32)
    return centers, scales


def _rounded(block: Floats, centers: NDArray[np.float32], scales: NDArray[np.float32]) -> NDArray[np.int8]:
    """The bytes of a block of rows."""
    steps = (block - centers) / np.where(scales > 0, scales, 1)
    return np.clip(np.rint(steps), -127, 127).astype(np.int8)


def _header(n: int, d: int) -> bytes:
    """The header of a file with n vectors of d columns."""
    ends = [0, 4 * d, 8 * d, 8 * d + n * d]
    kinds = {"centers": ("F32", [d]), "scales": ("F32", [d]), "values": ("I8", [n, d])}
    described = {
        name: {"dtype": kind, "shape": shape, "data_offsets": ends[i : i + 2]}
        for i, (name, (kind, shape)) in enumerate(kinds.items())
    }
    text = json.dumps({"__metadata__": {"format": _FORMAT}, **described}).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _shape_of(file: BinaryIO) -> tuple[int, int]:
    """The shape of the vectors of an open file, which is then behind its header."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= _MAX_HEADER:
        raise ValueError("its first bytes are not the length of a header")
    text = file.read(length)
    n, d = json.loads(text)["values"]["shape"]
    if type(n) is not int or type(d) is not int or min(n, d) < 0 or _header(n, d)[8:] != text:
        raise ValueError("its header describes other arrays")
    return n, d
