"""Vectors in JSON bodies, read into an array without a Python object per number."""

from importlib import import_module
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from manihash.web.api.bodies import rows_of_lists
from manihash.web.api.messages import parsed

try:
    _simdjson: Any = import_module("simdjson")
except ImportError:
    _simdjson = None

T = TypeVar("T", bound=msgspec.Struct)

_KEPT = 2**18  # bytes of vectors up to which the memory of the parser is kept
_parser: Any = None if _simdjson is None else _simdjson.Parser()
_STAND_IN, _STAND_IN_TEXT = [[-0.712354861]], b"[[-0.712354861]]"
_REMEMBERED, _LONGEST = 256, 1024  # requests, and bytes of a request, without their vectors


class RequestReader(Generic[T]):
    """Reads requests of one type, which may have vectors, from JSON bodies.

    simdjson reads the vectors. The rest of a body is often the same as that of an earlier one, and is not
    parsed again then. What cannot be read in this way is read by msgspec, which says what is wrong.

    Parameters
    ----------
    kind : type
        The type of the requests, a subclass of ``msgspec.Struct``.
    """

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._known: dict[bytes, T] = {}

    def read(self, body: bytes, width: int) -> tuple[T, NDArray[Any] | None]:
        """The request in a body, and its vectors (n, width) in the type that it names, or None.

        The request may be shared by several bodies, and its field ``vectors`` has other numbers.
        """
        first, last = body.find(b"[["), body.rfind(b"]]") + 2
        if _simdjson is not None and 0 <= first < last:
            request = self._around(body[:first], body[last:])
            rows = None if request is None else _numbers(body[first:last], width)
            if request is not None and rows is not None:
                with np.errstate(over="ignore"):  # the check of the rows reports infinity
                    return request, rows.astype(request.dtype)  # type: ignore[attr-defined]
        request = parsed(body, self._decoder)
        lists = getattr(request, "vectors", msgspec.UNSET)
        if lists is msgspec.UNSET:
            return request, None
        return request, rows_of_lists(lists, width, request.dtype)  # type: ignore[attr-defined]

    def _around(self, before: bytes, after: bytes) -> T | None:
        """The request whose vectors stand between two parts of a body; None if it has another form."""
        text = before + _STAND_IN_TEXT + after
        try:
            return self._known[text]
        except KeyError:
            pass
        try:
            request = self._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if getattr(request, "vectors", None) != _STAND_IN:
            return None
        if len(text) <= _LONGEST:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = request
        return request


def _numbers(text: bytes, width: int) -> NDArray[np.float64] | None:
    """The numbers (n, width) of a JSON list of lists; None if it is anything else."""
    rows = None
    try:
        rows = (_parser if len(text) <= _KEPT else _simdjson.Parser()).parse(text)
        n = len(rows)
        # Lists inside of a row would be flattened: there must be one per row, and the outer one.
        if text.count(b"[") != n + 1 or (n > 1 and any(len(row) != width for row in rows)):
            return None
        found = np.frombuffer(rows.as_buffer(of_type="d"))
        return found.reshape(n, width) if n and found.size == n * width else None
    except (ValueError, TypeError, AttributeError, IndexError, RuntimeError):
        return None
    finally:
        del rows  # the parser must be free for the next body
