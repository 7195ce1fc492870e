"""Changes of rows over the API: durable before they are acknowledged."""

import binascii
import logging
from base64 import b64decode
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from manihash.errors import KnownIdError, UnknownIdError
from manihash.pages import pictures
from manihash.pages.thumbnails import SIDE
from manihash.search.durable import DurableIndex
from manihash.search.journal import ADD, IMAGES, LABELS, REMOVE, TEXTS, UPDATE, VECTORS, Change, RowFields
from manihash.types import Ids
from manihash.web.api import bodies
from manihash.web.api.batching import Batcher
from manihash.web.api.bodies import RequestReader
from manihash.web.api.endpoints import Api
from manihash.web.api.messages import AddRequest, DeleteRequest, RowsRequest, UpdateRequest, id_array, parsed
from manihash.web.api.service import Job
from manihash.web.application import RequestError, json_answer

_log = logging.getLogger("manihash.web")

_ADD = RequestReader(AddRequest)
_UPDATE = RequestReader(UpdateRequest)
_DELETE = msgspec.json.Decoder(DeleteRequest)
_MOST_PIXELS = 50_000_000  # of an image
_LARGE = 2**25  # bytes of a journal that is written into the index file


class RowsApi:
    """The endpoints that change rows; they answer 403 if there is no index to write to.

    Changes that arrive while others are written to the disk are written together.

    Parameters
    ----------
    api : Api
        The API of the service, which encodes the vectors of rows.
    durable : DurableIndex or None
        The index file that is changed; the service has its index.
    """

    def __init__(self, api: Api, durable: DurableIndex | None) -> None:
        self.api, self.durable = api, durable
        self._large = _LARGE
        limits = api.limits
        self.batcher: Batcher[Change, Ids] = Batcher(self._commit, 16 * limits.rows, limits.waiting)

    def routes(self) -> list[BaseRoute]:
        """The endpoints."""
        return [
            self.api.route("/v1/rows", self.add, "POST"),
            self.api.route("/v1/rows", self.update, "PUT"),
            self.api.route("/v1/rows/delete", self.delete, "POST"),
        ]

    async def add(self, request: Request) -> Response:
        """Answer ``POST /v1/rows``."""
        self._check_writable()
        vectors, asked = await self.api.rows_in(request, _ADD)
        ids = None if asked is None or asked.ids is UNSET else self._ids(asked)
        codes = await self.api.batcher.result(Job(vectors))
        return await self._changed(Change(ADD, ids, codes, await self._fields(vectors, asked)))

    async def update(self, request: Request) -> Response:
        """Answer ``PUT /v1/rows``."""
        self._check_writable()
        vectors, asked = await self.api.rows_in(request, _UPDATE)
        if asked is None:
            raise RequestError(415, f"ids are needed to update rows: send {bodies.JSON}")
        ids = self._ids(asked)
        codes = await self.api.batcher.result(Job(vectors))
        return await self._changed(Change(UPDATE, ids, codes, await self._fields(vectors, asked)))

    async def delete(self, request: Request) -> Response:
        """Answer ``POST /v1/rows/delete``."""
        self._check_writable()
        if bodies.content_type(request) != bodies.JSON:
            raise RequestError(415, f"expected ids as {bodies.JSON}")
        asked = parsed(await bodies.read_body(request, self.api.limits.body_bytes), _DELETE)
        self.api.check_count(len(asked.ids))
        return await self._changed(Change(REMOVE, self._ids(asked)))

    def close(self) -> None:
        """Finish the changes that have begun, write all of them into the index file and release it."""
        self.batcher.close()
        if self.durable is not None:
            self._compact()
            self.durable.close()

    def _check_writable(self) -> None:
        if self.durable is None:
            raise RequestError(403, "this server does not change rows: start it with --writable")

    def _ids(self, asked: Any) -> Ids:
        """The ids of a request as an array."""
        return id_array(asked.ids, self.api.service.index.id_type)

    async def _fields(self, vectors: NDArray[Any], asked: RowsRequest | None) -> RowFields | None:
        """What is stored of rows besides their codes; None if this server stores nothing else."""
        attached = self.api.service.attachments
        given: dict[str, Any] = {}
        if asked is not None:
            given = {name: getattr(asked, name) for name in (LABELS, IMAGES, TEXTS)}
            given = {name: values for name, values in given.items() if values is not UNSET}
        if IMAGES in given:
            given[IMAGES] = await run_in_threadpool(_thumbnails, given[IMAGES])
        if attached.has(VECTORS):
            given[VECTORS] = _as_floats(self.api.service.hasher._as_stored(vectors))
        return RowFields(**given) if given or attached.are_kept else None

    async def _changed(self, change: Change) -> Response:
        ids = await self.batcher.result(change)
        return json_answer({"ids": ids.tolist(), "rows": len(self.api.service.index)})

    def _commit(self, changes: list[Change]) -> list[Any]:
        """The ids of changes that are durable now, or the errors to answer."""
        durable: Any = self.durable
        try:
            results = durable.commit(changes)
        except OSError as error:
            _log.error("changes could not be stored: %s", error)
            return [_not_stored()] * len(changes)
        if durable.journal.size > self._large:
            self._compact()
        return [_answer(result) for result in results]

    def _compact(self) -> None:
        durable: Any = self.durable
        try:
            durable.compact()
            self.api.service.index = durable.index
            self._large = _LARGE
        except OSError as error:
            self._large = 2 * durable.journal.size
            _log.error("the journal could not be written into the index file: %s", error)


def _thumbnails(images: list[str | None]) -> list[bytes | None]:
    """Image files in base64 as small PNG files; a ``RequestError`` says which one cannot be read."""
    made: list[bytes | None] = []
    for i, text in enumerate(images):
        try:
            content = None if text is None else b64decode(text, validate=True)
            made.append(None if content is None else pictures.png(pictures.read(content, SIDE, _MOST_PIXELS)))
        except (ValueError, ImportError) as error:
            reason = "it is not base64" if isinstance(error, binascii.Error) else str(error)
            raise RequestError(400, f"image {i} cannot be read: {reason}") from error
    return made


def _as_floats(vectors: NDArray[Any]) -> NDArray[Any]:
    """Vectors in a type that holds their numbers."""
    wide = vectors.dtype.itemsize > (4 if vectors.dtype.kind == "f" else 2)
    return np.asarray(vectors, np.float64 if wide else np.float32)


def _answer(result: Ids | Exception) -> Ids | Exception:
    """The result of a change, with its error as the client gets it."""
    if isinstance(result, UnknownIdError):
        return RequestError(404, str(result))
    if isinstance(result, KnownIdError):
        return RequestError(409, str(result))
    if isinstance(result, OSError):
        _log.error("changes could not be stored: %s", result)
        return _not_stored()
    return RequestError(400, str(result)) if isinstance(result, ValueError) else result


def _not_stored() -> RequestError:
    return RequestError(507, "the change could not be stored: the server's log has the details")
