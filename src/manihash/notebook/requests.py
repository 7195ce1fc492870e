"""Requests of a page in a notebook, answered by the application of the page without a server."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

_log = logging.getLogger("manihash.notebook")

Application = Callable[..., Any]  # of ASGI


class Answer(NamedTuple):
    """An answer of an application."""

    status: int
    type: str
    body: bytes


async def answered(app: Application, method: str, address: str, body: bytes = b"") -> Answer:
    """Return what an application answers to a request; ``address`` is a path without its first slash."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": "/" + unquote(path),
        "raw_path": b"/" + path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"content-type", b"application/octet-stream")] if method == "POST" else [],
        "server": None,
        "client": None,
    }
    received = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(received, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if not sent:  # the application has logged why
        return Answer(500, "application/json", b'{"error": "internal error: the log has the details"}')
    headers = dict(sent[0]["headers"])
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], headers.get(b"content-type", b"").decode("latin-1"), content)
