"""Bodies of requests and answers: JSON, .npy files and raw numbers."""

import io
from importlib import import_module
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from manihash.types import Codes
from manihash.web.api.messages import parsed
from manihash.web.application import RequestError
from manihash.web.npy import array_of_npy

JSON, NPY, RAW = "application/json", "application/x-npy", "application/octet-stream"
_CLOSE = {"connection": "close"}  # the rest of a body that is not read would be read as the next request


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, which is refused as soon as it has more than ``limit`` bytes."""
    text = request.headers.get("content-length", "0")
    n_bytes = int(text) if text.isdecimal() and len(text) < 20 else 0
    body = bytearray()
    try:
        if n_bytes <= limit:
            async for chunk in request.stream():
                body += chunk
                if (n_bytes := len(body)) > limit:
                    break
    except ClientDisconnect as error:
        raise RequestError(400, "the client has disconnected") from error
    if n_bytes > limit:
        raise RequestError(413, f"the body is too large: this server allows {limit:,} bytes", _CLOSE)
    return bytes(body)


def content_type(request: Request) -> str:
    """The type of the body of a request; raise unless it is one that the API reads."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in (JSON, NPY, RAW):
        raise RequestError(415, f"the Content-Type is {given!r}: expected {JSON}, {NPY} or {RAW}")
    return given


def rows_of_lists(lists: list[list[float]], width: int, dtype: str) -> NDArray[Any]:
    """Rows (n, width) of the numbers in a JSON body."""
    for i, row in enumerate(lists):
        if len(row) != width:
            raise RequestError(400, f"row {i} has {len(row)} numbers: the model expects {width}")
    with np.errstate(over="ignore"):  # the check of the rows reports infinity
        return np.array(lists, dtype)


def rows_of_bytes(body: bytes, kind: str, width: int) -> NDArray[Any]:
    """Rows (n, width) of a binary body: an .npy file, or numbers of type float32."""
    if kind == NPY:
        return _rows_of_npy(body, width)
    if not body or len(body) % (4 * width):
        raise RequestError(
            400,
            f"the body has {len(body)} bytes: expected a multiple of {4 * width}, {width} float32 numbers "
            "per row, little-endian",
        )
    return np.frombuffer(body, "<f4").reshape(-1, width)


def _rows_of_npy(body: bytes, width: int) -> NDArray[Any]:
    """Rows of an .npy file of shape (n, width)."""
    try:
        rows = array_of_npy(body)
    except ValueError as error:
        raise RequestError(400, str(error)) from error
    if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] != width or rows.dtype.itemsize > 8:
        text = f"the array has shape {rows.shape} and type {rows.dtype}"
        flat = " One vector is an array of shape (1, d): reshape it" if rows.shape == (width,) else ""
        raise RequestError(400, f"{text}: expected real numbers of shape (n, {width}).{flat}")
    return rows


def codes_of_hex(given: list[str], width: int) -> Codes:
    """Packed codes (n, width) of hexadecimal strings."""
    for i, text in enumerate(given):
        if len(text) != 2 * width:
            raise RequestError(400, f"code {i} has {len(text)} digits: expected {2 * width}")
    try:
        return np.frombuffer(bytes.fromhex("".join(given)), np.uint8).reshape(-1, width)
    except ValueError as error:
        raise RequestError(400, "codes must be strings of hexadecimal digits") from error


def hex_of_codes(codes: Codes) -> list[str]:
    """Hexadecimal strings of packed codes."""
    text, digits = codes.tobytes().hex(), 2 * codes.shape[1]
    return [text[i : i + digits] for i in range(0, len(text), digits)]


def answer_type(request: Request) -> str:
    """The type of the answer that a request asks for with ``Accept``: JSON unless it names another."""
    if (accepts := request.headers.get("accept")) is None:
        return JSON
    accepted = {part.partition(";")[0].strip() for part in accepts.split(",")}
    return next((kind for kind in (NPY, RAW) if kind in accepted and JSON not in accepted), JSON)


def array_answer(array: NDArray[Any], kind: str) -> Response:
    """An array as an .npy file, or as its bytes in row order."""
    if kind == RAW:
        return Response(array.tobytes(), media_type=RAW)
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return Response(file.getvalue(), media_type=NPY)


try:
    _simdjson: Any = import_module("simdjson")
except ImportError:
    _simdjson = None

T = TypeVar("T", bound=msgspec.Struct)

_KEPT = 2**18  # bytes of vectors up to which the memory of the parser is kept
_parser: Any = None if _simdjson is None else _simdjson.Parser()
_PLACEHOLDER, _PLACEHOLDER_TEXT = [[-0.712354861]], b"[[-0.712354861]]"
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
        text = before + _PLACEHOLDER_TEXT + after
        try:
            return self._known[text]
        except KeyError:
            pass
        try:
            request = self._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if getattr(request, "vectors", None) != _PLACEHOLDER:
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
