"""What all applications share: error answers in JSON, security headers, and the check of the host name."""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manihash.web.connections import ConnectionLimits
from manihash.web.server import is_local

_log = logging.getLogger("manihash.web")

_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# Nothing else may stand in it: a browser that reads "localhost:80@evil.com" asks evil.com.
_HOST = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|(?P<name>[0-9A-Za-z._-]+))(?::(?P<port>[0-9]{0,5}))?"
)
_MOST_HEADERS = ConnectionLimits.head_bytes
_CLOSE = {"connection": "close"}
NOTHING = "default-src 'none'; frame-ancestors 'none'"  # a policy for answers that are no pages
INTERNAL = "internal error: the server's log has the details"


class RequestError(HTTPException):
    """A request that cannot be answered; the client gets the status and the message."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message, headers)


def application(
    routes: Sequence[BaseRoute],
    *,
    host: str | None = None,
    allowed_hosts: Collection[str] = (),
    policy: str = NOTHING,
    lifespan: Callable[[Any], Any] | None = None,
) -> ASGIApp:
    """Return an application with these routes, whose errors are JSON and whose answers have safe headers.

    An error is answered by ``{"error": message}``. An exception other than ``HTTPException`` is logged, and
    the client learns only that it happened. Browsers get no permission to read answers from other sites.

    Parameters
    ----------
    routes : sequence of starlette routes
        The endpoints of the application.
    host : str or None, default=None
        Address that the server listens on. If only this machine can reach it, requests must have a local
        host name: a web page whose own name was made to resolve to this machine is refused.
    allowed_hosts : collection of str, default=()
        More host names that requests may have, such as that of a proxy on this machine.
    policy : str, default="default-src 'none'; frame-ancestors 'none'"
        Content-Security-Policy of answers that have none of their own.
    lifespan : callable, default=None
        Asynchronous context manager that is entered before the first request and left after the last.

    Returns
    -------
    ASGI application
        The application, for ``run``.
    """
    handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _internal_error}
    inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    checked = host is not None and is_local(host)
    return _Protected(inner, policy, frozenset(map(str.lower, allowed_hosts)) if checked else None)


def json_answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON; numpy arrays become lists."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, "application/json")


async def _http_error(request: Request, error: Any) -> Response:
    return json_answer({"error": error.detail}, error.status_code, error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    return json_answer({"error": INTERNAL}, 500)


class _Protected:
    """An application that refuses foreign host names, adds headers to answers and logs its errors."""

    def __init__(self, app: ASGIApp, policy: str, hosts: frozenset[str] | None) -> None:
        self.app, self.hosts = app, hosts
        headers = {**_HEADERS, "content-security-policy": policy}
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] += [header for header in self.headers if header[0] not in own]
            await send(message)

        if (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send_protected)
            return
        try:
            await self.app(scope, receive, send_protected)
        except ClientDisconnect:
            pass  # nobody is there to be answered, and nothing is wrong with the server
        except Exception as error:
            _log.error("%s %s: %r", scope["method"], scope["path"], error, exc_info=error)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request whose headers are not accepted; None if they are."""
        headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > _MOST_HEADERS:
            return json_answer({"error": "the headers are too long: send fewer or shorter ones"}, 431, _CLOSE)
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            return json_answer({"error": "got several Host headers: send one"}, 400, _CLOSE)
        if self.hosts is None or self._is_allowed(hosts[0].decode("latin-1") if hosts else ""):
            return None
        text = "the host name of this request is not allowed: use the address that the server printed"
        return json_answer({"error": text}, 421)

    def _is_allowed(self, given: str) -> bool:
        """Whether a Host header names this machine, or one of the allowed hosts."""
        found = _HOST.fullmatch(given)
        if found is None or int(found["port"] or 0) >= 2**16:
            return False
        name = found["ipv6"] or found["name"]
        return is_local(name) or name.lower() in (self.hosts or ())
