"""Vectors in JSON bodies, read into an array without a Python object per number."""

from importlib import import_module
from typing import Any, TypeVar

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

_KEPT = 2**18  # bytes of a body up to which the memory of the parser is kept
_parser: Any = None if _simdjson is None else _simdjson.Parser()
_PLACEHOLDER = [[0.0]]


def read_request(body: bytes, decoder: msgspec.json.Decoder[T], width: int) -> tuple[T, NDArray[Any] | None]:
    """The request in a JSON body, and its vectors (n, width) in the type that it names; None without vectors.

    simdjson reads the numbers. It says less about errors, so what it cannot read is read again by msgspec.
    """
    fields, numbers = _quick(body, width)
    if numbers is not None:
        try:
            request = msgspec.convert(fields, decoder.type)
        except msgspec.ValidationError:
            numbers = None
    if numbers is None:
        request = parsed(body, decoder)
        lists = getattr(request, "vectors", msgspec.UNSET)
        dtype = getattr(request, "dtype", "float32")
        return request, None if lists is msgspec.UNSET else rows_of_lists(lists, width, dtype)
    with np.errstate(over="ignore"):  # the check of the rows reports infinity
        return request, numbers.astype(request.dtype)  # type: ignore[attr-defined]


def _quick(body: bytes, width: int) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """The fields of a request with vectors, and these as float64; None where the body has another form."""
    if _simdjson is None:
        return {}, None
    document = rows = None
    try:
        document = (_parser if len(body) <= _KEPT else _simdjson.Parser()).parse(body)
        names = list(document.keys())
        rows = document["vectors"]
        n = len(rows)
        fields = {name: _plain(document[name]) for name in names if name != "vectors"}
        # Lists inside of a row would be flattened: there must be no others than those that are known.
        n_lists = 1 + n + sum(isinstance(value, list) for value in fields.values())
        if len(set(names)) < len(names) or body.count(b"[") != n_lists or not n:
            return {}, None
        if any(len(row) != width for row in rows):
            return {}, None
        numbers = np.frombuffer(rows.as_buffer(of_type="d"), np.float64).reshape(n, width)
        return {**fields, "vectors": _PLACEHOLDER}, numbers.copy()
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RuntimeError):
        return {}, None
    finally:
        del document, rows  # the parser must be free for the next body


def _plain(value: Any) -> Any:
    """A value of simdjson as a Python object."""
    return value.as_list() if isinstance(value, _simdjson.Array) else value
