"""Maps of rows to values, bits or codes: one row at a time or a block, with the arrays that they need.

A ``RowMap`` is made from a fitted model once and kept beside it, not in it: copies, pickles and model files
do not contain it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from manihash import codes
from manihash.compute.threads import single_blas_thread
from manihash.rows.local import prepare
from manihash.rows.raw import Preparation
from manihash.types import Codes, Floats

_log = logging.getLogger(__name__)

Result = Literal["values", "bits", "codes"]

_maps: "WeakKeyDictionary[Any, tuple[dict[str, Any], dict[Any, RowMap]]]" = WeakKeyDictionary()


class RowMap(Protocol):
    """Maps a part of X (b, d), as it was given; ``row_numbers`` names its rows in errors."""

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """Real values (b, r)."""

    def bits(self, part: Any, row_numbers: Any) -> NDArray[np.uint8]:
        """Bits (b, r), 0 or 1."""

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """Packed bits."""


class EmbeddedMap:
    """The map of a method that computes real values of prepared rows; BLAS has one thread.

    ``embed`` returns the values (b, v) of rows (b, d), and ``bits_of`` which bits (b, r) of them are 1.
    """

    def __init__(
        self,
        embed: Callable[[Floats], Floats],
        bits_of: Callable[[Floats], Any],
        preparation: Preparation,
    ) -> None:
        self.embed, self.bits_of, self.preparation = embed, bits_of, preparation

    def values(self, part: Any, row_numbers: Any) -> Floats:
        """As ``RowMap.values``."""
        with single_blas_thread():
            return self.embed(prepare(self.preparation, part, np.asarray(row_numbers)))

    def bits(self, part: Any, row_numbers: Any) -> NDArray[np.uint8]:
        """As ``RowMap.bits``."""
        return np.asarray(self.bits_of(self.values(part, row_numbers))).view(np.uint8)

    def codes(self, part: Any, row_numbers: Any) -> Codes:
        """As ``RowMap.codes``."""
        return codes.pack(self.bits(part, row_numbers))


class Mapping:
    """A function of raw blocks ``(part, row_numbers)``; in another process it makes a ``RowMap`` again."""

    def __init__(self, model: Any, dtype: Any, result: Result, row_map: RowMap | None = None) -> None:
        self._made_of = model, dtype, result
        self.row_map = row_map or model._row_map(dtype)
        self._f = getattr(self.row_map, result)

    def __call__(self, block: tuple[Any, Any]) -> Any:
        return self._f(*block)

    def __reduce__(self) -> Any:
        return Mapping, self._made_of


@contextmanager
def logged_repeats(row_map: Any, rows: int) -> Iterator[None]:
    """Log how many rows were computed again in float64 inside the block, at the level info."""
    before = getattr(row_map, "repeated", None)
    yield
    if before is not None:
        repeated = row_map.repeated - before
        _log.info(
            "%d of %d rows (%.2f %%) were computed again in float64", repeated, rows, 100 * repeated / rows
        )


def repeated_rows(model: Any, X: Any) -> int | None:
    """The rows of X's type that a fitted model has computed again in float64 so far; None if it counts none.

    Rows of dask arrays and tensors are counted elsewhere.
    """
    if not isinstance(getattr(X, "dtype", None), np.dtype) or hasattr(X, "dask"):
        return None
    count = getattr(model._row_map(model._type_of(X)), "repeated", None)
    return None if count is None else int(count)


def kept_maps(model: Any) -> dict[Any, RowMap]:
    """The maps of a fitted model by the type of the rows; empty if a value of the model was replaced."""
    state = dict(vars(model))  # parameters as well: a kernel may be one
    held, maps = _maps.get(model, ({}, {}))
    if held.keys() != state.keys() or any(not _same(held[name], state[name]) for name in state):
        _maps[model] = state, (maps := {})
    return maps


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int | float) and a == b)


def forget_map(model: Any) -> None:
    """Drop the maps of a model that is fitted again."""
    _maps.pop(model, None)
