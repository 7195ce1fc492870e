"""The interface through which methods visit rows, wherever the rows are stored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import numpy as np

from manihash.compute import backend
from manihash.compute import numpy as numpy_backend
from manihash.errors import BadRowsError
from manihash.types import Floats, Ints

Result = TypeVar("Result")
Arrays = tuple[Any, ...]

# Prepared rows are cached in memory up to this many bytes; more are prepared again on each visit.
CACHE_BYTES = 2**29
# Numbers in a span: consecutive blocks whose sums are added before they are added to the total.
_SPAN_NUMBERS = 2**24


class Rows(ABC):
    """The rows of X (n, d), prepared block by block: checked, converted, scaled and shifted.

    To prepare a block is to check it for NaN, infinity and overflow, convert it to ``dtype``, scale each row
    to unit length if ``normalize`` is true, and subtract ``origin`` (d,) if there is one. ``row_numbers`` are
    the numbers of the rows in error messages: one per row, or that of the first row. ``dtype`` is float32 or
    float64, by default according to the type of X. Subclasses know how the rows are stored and which library
    computes with them.
    """

    lazy = False  # whether ``map_blocks`` returns a result that is computed later
    device: Any = None  # the torch device of the blocks, None for numpy arrays
    needs_float64 = False  # whether squared distances of these rows lose precision in float32
    raw = False  # whether ``map`` passes blocks as they were given, each with the numbers of its rows
    blocks_at_once = 1  # blocks that ``map`` passes to f together; for functions that treat rows one by one

    def __init__(
        self,
        X: Any,
        *,
        normalize: bool = False,
        origin: Floats | None = None,
        row_numbers: int | Ints = 0,
        dtype: Any = None,
    ) -> None:
        self.X = X
        self.normalize = normalize
        self.origin = origin
        self.row_numbers = row_numbers
        self.dtype = backend(X).float_type(X) if dtype is None else np.dtype(dtype)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        """The number of columns d."""
        return int(self.X.shape[1])

    @abstractmethod
    def map(self, f: Callable[[Any], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """f(block) of each block, in row order, from row ``start`` on; ``stage`` is its name in progress."""

    def stream(self, f: Callable[[Any], Result], stage: str = "", *, start: int = 0) -> Iterator[Result]:
        """As ``map``, for a loop of the user, who may do other work between two blocks."""
        return self.map(f, stage, start=start)

    @abstractmethod
    def fold(self, f: Callable[[Any], tuple[Arrays, Arrays]], stage: str = "") -> tuple[Arrays, Arrays]:
        """Concatenate the arrays in f(block)[0], with one entry per row, and add up those in f(block)[1].

        Arrays to be added may be sparse. They are added in float64 in row order: the blocks of a span, then
        the spans. A span can be computed on another machine without changing a bit of the result.
        """

    def stack(self, f: Callable[[Any], Any], width: int, dtype: Any, stage: str = "") -> Any:
        """The blocks f(block), (b, width), concatenated: (n, width)."""
        out = np.empty((len(self), width), dtype)
        start = 0
        for part in self.map(f, stage):
            out[start : start + len(part)] = part
            start += len(part)
        return out

    def map_blocks(self, f: Callable[[Any], Any], width: int, dtype: Any, stage: str = "") -> Any:
        """As ``stack``, in the form that users expect for X: of a dask array, a dask array."""
        return self.stack(f, width, dtype, stage)

    @abstractmethod
    def take(self, index: Any) -> Floats:
        """The prepared rows at the given positions, as a numpy array."""

    @abstractmethod
    def subset(self, index: Ints) -> "Rows":
        """The rows at the given ascending positions; they are not copied where that can be avoided."""

    def sample(self, size: int, rng: np.random.Generator) -> "Rows":
        """A stratified sample: one random row from each of ``size`` equal ranges, in O(size) memory."""
        edges = np.arange(size + 1) * len(self) // size
        return self.subset(rng.integers(edges[:-1], edges[1:]))

    @abstractmethod
    def block(self, start: int, stop: int) -> Any:
        """The prepared rows from start to stop."""

    def check_all(self) -> None:
        """Visit all rows, so that a NaN raises an error even in a row that is not used."""
        for _ in self.map(len):
            pass

    @abstractmethod
    def cached(self) -> "Rows":
        """Self, after all rows were checked once and, if they fit into memory, the prepared rows cached."""

    @property
    def prepared_as(self) -> dict[str, Any]:
        """How rows are prepared, as arguments for other ``Rows``."""
        return {"normalize": self.normalize, "origin": self.origin, "dtype": self.dtype}

    @property
    def exact_until_shifted(self) -> bool:
        """Whether rows are prepared in float64: rows of unit length that lie close to each other."""
        return self.normalize and self.origin is not None

    def to_device(self, array: Any) -> Any:
        """The array as the backend of these rows takes it: as it is, or as a tensor on their device."""
        return array

    def _numbers_at(self, index: Ints) -> Ints:
        """The numbers in error messages of the rows at the given positions."""
        return index + self.row_numbers if isinstance(self.row_numbers, int) else self.row_numbers[index]


def span_rows(width: int) -> int:
    """The number of rows in a span: whole blocks, a function of the width alone."""
    block = numpy_backend.block_rows(width)
    return block * max(1, _SPAN_NUMBERS // (block * max(width, 1)))


def combine(parts: Iterable[tuple[Arrays, Arrays]]) -> tuple[Arrays, Arrays]:
    """The first arrays of all parts concatenated, the second ones added up in float64."""
    per_row: list[Arrays] = []
    sums: Arrays = ()
    for of_rows, of_block in parts:
        per_row.append(of_rows)
        sums = sums or tuple(np.zeros(part.shape) for part in of_block)
        for total, part in zip(sums, of_block, strict=True):
            total += part.toarray() if hasattr(part, "toarray") else part
    return tuple(np.concatenate(column) for column in zip(*per_row, strict=True)), sums


@cache
def largest_square(dtype: np.dtype[Any]) -> float:
    """The largest |x|² of a valid row: |x - c|² is up to 4 max(|x|², |c|²), and must not overflow."""
    return float(np.finfo(dtype).max / 8)


def overflow_error(dtype: np.dtype[Any], row: int) -> BadRowsError:
    """The error for a row whose squared distances would overflow."""
    remedy = "scale the vectors down" + ("" if dtype == np.float64 else ", or give them as float64")
    return BadRowsError(f"the squares of some values overflow {dtype} (row {row}): {remedy}")
