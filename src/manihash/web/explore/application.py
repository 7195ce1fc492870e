"""The server of the page: its files, the arrays, and the answers to what a person asks."""

import re
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from manihash.pages import pictures
from manihash.rows import rows_of
from manihash.types import Floats
from manihash.web.application import RequestError, application, json_answer
from manihash.web.explore.coded import CodedRows
from manihash.web.explore.exploration import COSINES, Exploration
from manihash.web.explore.rows import Selection
from manihash.web.npy import array_of_npy

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
POLICY += "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_MOST_BODY = 32 * 2**20
_MOST_ANSWERS = 200
_MOST_PIXELS = 50_000_000  # of an image, which takes three or four bytes for each
_MOST_TEXTS = 500
_WHOLE = re.compile("[0-9]{1,18}")
_FOREVER = {"cache-control": "private, max-age=3600"}

Handler = Callable[[Request], Awaitable[Response]]


def explore_application(
    exploration: Exploration, host: str | None = None, selection: Selection | None = None
) -> ASGIApp:
    """The application with the page of an exploration; it keeps the marked rows in ``selection``."""
    ask = _Answers(exploration, selection)
    routes = [
        Route("/", ask.page),
        Route("/static/{name}", ask.static_file),
        Route("/api/summary", ask.summary),
        Route("/api/arrays/{name}", ask.array),
        Route("/api/pictures/{row}.png", ask.picture),
        Route("/api/texts", ask.texts),
        Route("/api/models/{model}/bits/{bit}", ask.bit),
        Route("/api/models/{model}/bits/{bit}/{side}.png", ask.bit_mean),
        Route("/api/models/{model}/duplicates", ask.duplicates),
        Route("/api/nearest", ask.nearest),
        Route("/api/tables", ask.tables),
        Route("/api/query", ask.query, methods=["POST"]),
        Route("/api/selected", ask.select, methods=["POST"]),
    ]
    return application(routes, host=host, policy=POLICY)


def static_text(name: str) -> str:
    """The text of a file of the page."""
    return resources.files("manihash.web.explore").joinpath("static", name).read_text("utf-8")


class _Answers:
    """The answers of one exploration; what computes runs in a thread, so that other requests go on."""

    def __init__(self, exploration: Exploration, selection: Selection | None) -> None:
        self.exploration, self.selection = exploration, selection
        names = [file.name for file in resources.files("manihash.web.explore").joinpath("static").iterdir()]
        self.files = {name: static_text(name) for name in names}

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return Response(self.files["index.html"], media_type="text/html")

    async def static_file(self, request: Request) -> Response:
        """A script, style sheet or picture of the page."""
        name = request.path_params["name"]
        if name not in self.files:
            raise RequestError(404, f"no file {name}")
        return Response(self.files[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def summary(self, request: Request) -> Response:
        """Names, numbers and statistics."""
        return json_answer(
            {**self.exploration.summary, "server": True, "selects": self.selection is not None}
        )

    async def array(self, request: Request) -> Response:
        """The bytes of an array: places, labels, or the codes and bucket sizes of a model."""
        arrays, name = self.exploration.arrays, request.path_params["name"]
        if name not in arrays:
            raise RequestError(404, f"no array {name}: there are {', '.join(arrays)}")
        return Response(arrays[name], media_type="application/octet-stream")

    async def picture(self, request: Request) -> Response:
        """The picture of a row as PNG."""
        row = self._row(request.path_params["row"])
        drawn = await run_in_threadpool(self.exploration.rows.pictures.pixels, row)
        return Response(pictures.png(drawn), media_type="image/png", headers=_FOREVER)

    async def texts(self, request: Request) -> Response:
        """The texts of rows: ``?ids=1,2,3``."""
        ids = [self._row(value) for value in request.query_params.get("ids", "").split(",") if value]
        if len(ids) > _MOST_TEXTS:
            raise RequestError(400, f"got {len(ids)} ids, at most {_MOST_TEXTS} are answered at once")
        return json_answer([self.exploration.rows.text(row) for row in ids])

    async def bit(self, request: Request) -> Response:
        """What a bit separates."""
        model = self._model(request)
        bit = self._bit(request, model)
        return json_answer(await run_in_threadpool(self.exploration.bit, model, bit))

    async def bit_mean(self, request: Request) -> Response:
        """The mean picture of one side of a bit."""
        model, side = self._model(request), _whole(request.path_params["side"])
        bit = self._bit(request, model)
        drawn = None
        if side in (0, 1):
            drawn = await run_in_threadpool(self.exploration.bit_mean, model, bit, side)
        if drawn is None:
            raise RequestError(404, "there is no mean picture of this side")
        return Response(pictures.png(drawn), media_type="image/png", headers=_FOREVER)

    async def duplicates(self, request: Request) -> Response:
        """Groups of near-duplicates: ``?cosine=0.99``."""
        model = self._model(request)
        given = request.query_params.get("cosine", "")
        cosine = next((value for value in COSINES if str(value) == given), None)
        if cosine is None:
            expected = ", ".join(map(str, COSINES))
            raise RequestError(400, f"got cosine={given[:40]!r}: expected one of {expected}")
        return json_answer(await run_in_threadpool(self.exploration.duplicates, model, cosine))

    async def nearest(self, request: Request) -> Response:
        """The rows whose vectors are nearest to that of a row: ``?row=17&k=20``."""
        row = self._row(request.query_params.get("row", ""))
        k = _number(request, "k", 20, _MOST_ANSWERS)

        def found() -> dict[str, Any]:
            rows = self.exploration.rows
            ids, distances = rows.nearest(rows.vectors([row])[0], k, without=row)
            return {"ids": ids.tolist(), "distances": distances.tolist()}

        return json_answer(await run_in_threadpool(found))

    async def tables(self, request: Request) -> Response:
        """What ranks the codes of each model for the vector of a row: ``?row=17``."""
        row = self._row(request.query_params.get("row", ""))

        def found() -> list[list[float] | None]:
            return self.exploration.tables(self.exploration.rows.vectors([row])[0])

        return json_answer(await run_in_threadpool(found))

    async def query(self, request: Request) -> Response:
        """A new vector: numbers as text or JSON, an npy file, or an image if vectors are pixels."""
        body = await _body(request)
        k = _number(request, "k", 20, _MOST_ANSWERS)

        def answered() -> dict[str, Any]:
            vector = _vector(body, self.exploration)
            return self.exploration.query(vector, k)

        try:
            return json_answer(await run_in_threadpool(answered))
        except ValueError as error:
            raise RequestError(400, str(error)) from error

    async def select(self, request: Request) -> Response:
        """Keep the marked rows: their numbers in four bytes each, little-endian."""
        if self.selection is None:
            raise RequestError(404, "this page does not keep the marked rows")
        # Browsers send this type to other sites only if those allow it, and this server never does.
        if request.headers.get("content-type") != "application/octet-stream":
            raise RequestError(415, "send row numbers as application/octet-stream")
        try:
            self.selection.keep(await _body(request), len(self.exploration.rows))
        except ValueError as error:
            raise RequestError(400, str(error)) from error
        return json_answer({"selected": len(self.selection.rows)})

    def _row(self, given: str) -> int:
        n, row = len(self.exploration.rows), _whole(given)
        if row is None or row >= n:
            raise RequestError(404, f"no row {given[:40]!r}: rows are numbered from 0 to {n - 1}")
        return row

    def _model(self, request: Request) -> CodedRows:
        models, given = self.exploration.models, request.path_params["model"]
        number = _whole(given)
        if number is None or number >= len(models):
            raise RequestError(404, f"no model {given[:40]}: there are {len(models)}")
        return models[number]

    def _bit(self, request: Request, model: CodedRows) -> int:
        given = request.path_params["bit"]
        bit = _whole(given)
        if bit is None or bit >= model.n_bits:
            raise RequestError(404, f"no bit {given[:40]}: bits are numbered from 0 to {model.n_bits - 1}")
        return bit


async def _body(request: Request) -> bytes:
    """The body of a request, up to a limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BODY:
            raise RequestError(413, f"the upload is larger than {_MOST_BODY // 2**20} MB")
        parts.append(part)
    return b"".join(parts)


def _number(request: Request, name: str, default: int, most: int) -> int:
    """A number of the query string, from 0 to ``most``."""
    given = request.query_params.get(name, str(default))
    number = _whole(given)
    if number is None or number > most:
        raise RequestError(400, f"got {name}={given[:40]!r}: expected a number from 0 to {most}")
    return number


def _whole(text: str) -> int | None:
    """The whole number of at least 0 that a text of an address is; None if it is none, or above 10^18."""
    return int(text) if _WHOLE.fullmatch(text) else None


def _vector(body: bytes, exploration: Exploration) -> Floats:
    """The vector (d,) of an upload: an npy file, an image, or numbers as text."""
    if body.startswith(b"\x93NUMPY"):
        vector = _npy(body)
    elif body.startswith((b"\x89PNG", b"\xff\xd8", b"GIF8", b"BM", b"RIFF", b"II*\x00", b"MM\x00*")):
        vector = exploration.image_query(pictures.read(body, 1024, _MOST_PIXELS))
    else:
        vector = _numbers(body, exploration.rows.width)
    width = exploration.rows.width
    if vector.shape != (width,):
        raise ValueError(f"got {vector.size} numbers, expected {width}: one vector of the length of the rows")
    if not np.isfinite(vector).all():
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"number {place + 1} of the vector is NaN or infinite: give finite numbers")
    return vector.astype(rows_of(exploration.rows.X).dtype)


def _npy(body: bytes) -> Floats:
    try:
        array = array_of_npy(body)
    except ValueError as error:
        raise ValueError(f"the npy file cannot be read ({error}): save one vector with numpy.save") from error
    if array.ndim > 1 and array.shape[0] != 1:
        raise ValueError(
            f"the npy file holds an array of shape {array.shape} and type {array.dtype}: expected one vector"
        )
    return array.reshape(-1).astype(np.float64)


def _numbers(body: bytes, width: int) -> Floats:
    """Numbers as JSON, or separated by commas or spaces; raise if there are more than ``width``."""
    try:
        text = body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError("the upload is neither text, nor an npy file, nor an image") from error
    words = text.strip("[](){} \n").replace(",", " ").replace(";", " ").split(maxsplit=width)
    if len(words) > width:
        raise ValueError(
            f"got more than {width} numbers, expected {width}: one vector of the length of the rows"
        )
    values = []
    for i, word in enumerate(words):
        try:
            values.append(float(word))
        except ValueError:
            raise ValueError(f"number {i + 1} is {word[:40]!r}, which is not a number") from None
    return np.array(values) if values else np.empty(0)
