"""The search API: endpoints, and how requests become jobs and answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from manihash import __version__
from manihash.codes import n_bytes
from manihash.search.journal import IMAGES, LABELS, TEXTS
from manihash.web.api import bodies, metrics
from manihash.web.api.batching import Batcher
from manihash.web.api.bodies import RequestReader
from manihash.web.api.keys import ApiKeys
from manihash.web.api.messages import EncodeRequest, SearchOptions, SearchRequest, from_query
from manihash.web.api.service import Answers, Job, Service
from manihash.web.application import RequestError, json_answer

Handler = Callable[[Request], Awaitable[Response]]


class _AnyText(Convertor[str]):
    """The rest of an address, with line feeds, which starlette's own ``path`` leaves out."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anytext", _AnyText())

_ENCODE = RequestReader(EncodeRequest)
_SEARCH = RequestReader(SearchRequest)


class Api:
    """The endpoints of a service.

    Parameters
    ----------
    service : Service
        What computes the answers.
    keys : ApiKeys or None, default=None
        Keys that requests must have; None accepts all requests.
    writable : bool, default=False
        Whether rows can be changed, for ``/v1/info``.
    """

    def __init__(self, service: Service, keys: ApiKeys | None = None, *, writable: bool = False) -> None:
        self.service, self.keys, self.limits, self.writable = service, keys, service.limits, writable
        self.metrics = metrics.Metrics()
        self.batcher: Batcher[Job, Any] = Batcher(
            self._compute, service.limits.rows, service.limits.waiting, Job.is_quick
        )
        self.metrics.gauge("manihash_index_rows", "Rows of the index.", lambda: len(service.index))
        self.metrics.gauge("manihash_waiting_requests", "Requests that wait.", lambda: self.batcher.n_waiting)
        started = time.time()
        self.metrics.gauge("process_start_time_seconds", "Start of the server, Unix time.", lambda: started)

    def routes(self) -> list[BaseRoute]:
        """The endpoints that read."""
        return [
            self.route("/v1/encode", self.encode, "POST"),
            self.route("/v1/search", self.search, "POST"),
            self.route("/v1/info", self.info, "GET"),
            self.route("/v1/images/{id:anytext}", self.image, "GET"),
            self.route("/metrics", self.show_metrics, "GET"),
            self.route("/healthz", self.healthz, "GET", public=True),
        ]

    def route(self, path: str, handler: Handler, method: str, *, public: bool = False) -> Route:
        """A route whose requests are counted, have a time limit and, unless it is public, need a key."""

        async def endpoint(request: Request) -> Response:
            start, status = time.perf_counter(), 500
            try:
                if not public:
                    self._check_key(request)
                async with asyncio.timeout(self.limits.seconds):
                    answer = await handler(request)
                status = answer.status_code
                return answer
            except TimeoutError as error:
                status = 503
                text = f"not answered within {self.limits.seconds:g} s: ask for less, or try again later"
                raise RequestError(503, text, {"connection": "close"}) from error
            except RequestError as error:
                status = error.status_code
                raise
            finally:
                self.metrics.request(method, path, status, time.perf_counter() - start)

        return Route(path, endpoint, methods=[method])

    async def encode(self, request: Request) -> Response:
        """Answer ``POST /v1/encode``."""
        vectors, _ = await self.rows_in(request, _ENCODE)
        codes = await self.batcher.result(Job(vectors))
        if (kind := bodies.answer_type(request)) != bodies.JSON:
            return bodies.array_answer(codes, kind)
        return json_answer({"codes": bodies.hex_of_codes(codes), "n_bits": self.service.hasher.n_bits_})

    async def search(self, request: Request) -> Response:
        """Answer ``POST /v1/search``."""
        kind = bodies.content_type(request)
        body = await bodies.read_body(request, self.limits.body_bytes)
        options: Any
        if kind == bodies.JSON:
            _no_query(request)
            options, rows = _SEARCH.read(body, self.service.width)
            job = self._query(options, rows)
        else:
            options = from_query(dict(request.query_params), SearchOptions, self.service.index.id_type)
            job = Job(bodies.rows_of_bytes(body, kind, self.service.width), options=options)
        options.check(self.limits, self.service.index.layout, by_code=job.vectors is None)
        self.check_count(len(job))
        answers: Answers = await self.batcher.result(job)
        if (wanted := bodies.answer_type(request)) != bodies.JSON:
            if self.service.index.id_type is str:
                raise RequestError(400, f"the ids of this index are strings: accept {bodies.JSON}")
            return bodies.array_answer(answers.table(), wanted)
        ranked_by = self.service.ranked_by(options, by_code=job.vectors is None)
        found = answers.lists()
        return json_answer({**found, **self.service.fields_of(found["ids"]), "ranked_by": ranked_by})

    async def image(self, request: Request) -> Response:
        """Answer ``GET /v1/images/ID``."""
        drawn = await run_in_threadpool(self.service.picture, request.path_params["id"])
        return Response(drawn, media_type="image/png")

    async def info(self, request: Request) -> Response:
        """Answer ``GET /v1/info``."""
        service, limits = self.service, self.limits
        index, hasher = service.index, service.hasher
        return json_answer(
            {
                "version": __version__,
                "model": {
                    "class": type(hasher).__name__,
                    "id": hasher.lineage_["id"],
                    "n_bits": hasher.n_bits_,
                    "n_features": service.width,
                },
                "index": {
                    "rows": len(index),
                    "ids": "strings" if index.id_type is str else "integers",
                    "look_up_bits": index.layout.look_up_bits if index.layout.has_two_parts else None,
                    "weight": float(index.layout.weight) if index.layout.has_two_parts else None,
                    "bits_per_field": index.layout.bits_per_field or None,
                },
                "rerank": service.attachments.vectors is not None,
                "labels": service.attachments.has(LABELS),
                "images": service.attachments.has(IMAGES),
                "texts": service.attachments.has(TEXTS),
                "writable": self.writable,
                "limits": {name: getattr(limits, name) for name in limits.__dataclass_fields__},
            }
        )

    async def healthz(self, request: Request) -> Response:
        """Answer ``GET /healthz``."""
        return json_answer({"status": "ok"})

    async def show_metrics(self, request: Request) -> Response:
        """Answer ``GET /metrics``."""
        return PlainTextResponse(self.metrics.text(), headers={"content-type": metrics.CONTENT_TYPE})

    async def rows_in(self, request: Request, reader: RequestReader[Any]) -> tuple[NDArray[Any], Any]:
        """The vectors in the body of a request, and the JSON request; None for a binary body."""
        kind = bodies.content_type(request)
        body = await bodies.read_body(request, self.limits.body_bytes)
        _no_query(request)
        asked, rows = None, None
        if kind == bodies.JSON:
            asked, rows = reader.read(body, self.service.width)
        if rows is None:
            rows = bodies.rows_of_bytes(body, kind, self.service.width)
        self.check_count(len(rows))
        return rows, asked

    def _query(self, asked: SearchRequest, rows: NDArray[Any] | None) -> Job:
        """The job of a search request in JSON with these vectors."""
        if rows is not None and asked.codes is UNSET:
            return Job(rows, options=asked)
        if asked.codes is UNSET or rows is not None:
            raise RequestError(400, "give the queries either as vectors or as codes")
        n_bits = self.service.hasher.n_bits_
        codes = bodies.codes_of_hex(asked.codes, n_bytes(n_bits))
        if n_bits % 8 and (codes[:, -1] & np.uint8(0xFF >> n_bits % 8)).any():
            raise RequestError(400, f"codes have {n_bits} bits: the bits after them must be 0")
        return Job(codes=codes, options=asked)

    def check_count(self, n: int) -> None:
        if n > self.limits.rows:
            raise RequestError(
                400, f"got {n} rows: this server allows at most {self.limits.rows} per request"
            )

    def _check_key(self, request: Request) -> None:
        if self.keys is not None and not self.keys.accepts(request.scope["headers"]):
            text = "give a valid key, as Authorization: Bearer KEY or X-API-Key: KEY"
            raise RequestError(401, text, {"www-authenticate": "Bearer"})

    def _compute(self, jobs: list[Job]) -> list[Any]:
        self.metrics.batches.add(len(jobs))
        return self.service.compute(jobs)


def _no_query(request: Request) -> None:
    if request.scope["query_string"]:
        raise RequestError(400, "this request takes no query parameters: give the options in the body")
