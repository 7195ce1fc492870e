"""The application that serves a model and an index, with everything that surrounds the requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from manihash.compute.threads import single_blas_thread
from manihash.search.durable import DurableIndex
from manihash.web.api import openapi
from manihash.web.api.endpoints import Api
from manihash.web.api.keys import ApiKeys
from manihash.web.api.rows import RowsApi
from manihash.web.api.service import Service
from manihash.web.api.watcher import Watcher
from manihash.web.application import application, json_answer


def search_application(
    service: Service,
    *,
    keys: ApiKeys | None = None,
    durable: DurableIndex | None = None,
    watcher: Watcher | None = None,
    host: str | None = None,
    allowed_hosts: Collection[str] = (),
) -> ASGIApp:
    """Return the application of a service.

    Parameters
    ----------
    service : Service
        Model, index and limits.
    keys : ApiKeys or None, default=None
        Keys that requests must have.
    durable : DurableIndex or None, default=None
        The index file that requests may change; its index is that of the service.
    watcher : Watcher or None, default=None
        Looks for a new index file while the server runs.
    host : str or None, default=None
        Address that the server listens on.
    allowed_hosts : collection of str, default=()
        More host names that requests may have.

    Returns
    -------
    ASGI application
        The application, for ``run``.
    """
    api = Api(service, keys, writable=durable is not None)
    rows = RowsApi(api, durable)
    if watcher is not None:
        gauge = api.metrics.gauge
        gauge("manihash_index_replaced_total", "New index files.", lambda: watcher.n_replaced, "counter")
        gauge("manihash_index_refused_total", "Unusable files.", lambda: watcher.n_refused, "counter")

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        watching = None if watcher is None else asyncio.create_task(watcher.run())
        try:
            with single_blas_thread():  # small batches: threads would wait for each other and for the CPU
                yield
        finally:
            if watching is not None:
                watching.cancel()
            await asyncio.to_thread(api.batcher.close)
            await asyncio.to_thread(rows.close)

    routes = [*api.routes(), *rows.routes(), *_documentation(service, needs_key=keys is not None)]
    return application(routes, host=host, allowed_hosts=allowed_hosts, lifespan=lifespan)


def _documentation(service: Service, *, needs_key: bool) -> list[Route]:
    """The endpoints of the documentation, which need no key: they tell nothing about the rows."""
    document = openapi.document(service, needs_key=needs_key)
    html, script = openapi.documentation_page(document, service), openapi.page_script()

    async def schema(request: Request) -> Response:
        return json_answer(document)

    async def page(request: Request) -> Response:
        return HTMLResponse(html, headers={"content-security-policy": openapi.PAGE_POLICY})

    async def page_script(request: Request) -> Response:
        return Response(script, media_type="text/javascript")

    async def root(request: Request) -> Response:
        return RedirectResponse("/docs")

    return [
        Route("/openapi.json", schema),
        Route("/docs", page),
        Route("/docs/page.js", page_script),
        Route("/", root),
    ]
