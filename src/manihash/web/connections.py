"""Limits of connections: how many there are, how long each may wait, and how much of a request is kept.

uvicorn limits none of these: a client that sends half of a request, or an endless header, would keep a
connection and its memory for ever. Connections are looked at once a second, so that requests need no timers.
"""

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_OTHER_FILES = 64  # open files of the process that are no connections
# What a connection waits for; all but ANSWER are up to the client.
_NEW, _HEAD, _BODY, _ANSWER, _IDLE = range(5)
_REASONS = {
    408: "the request was not complete in time: send it at once",
    431: "the request has too many bytes beside its body: send fewer or shorter headers",
    503: "this server has too many connections: try again later",
}
_PHRASES = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections a server has, and what it waits for."""

    connections: int = 1000
    head_bytes: int = 2**16  # of the request line and the headers; and of trailers and chunk sizes
    first_byte_seconds: float = 10.0  # after the connection is made
    head_seconds: float = 10.0  # from the first byte of a request to the end of its headers
    body_seconds: float = 35.0  # from the first byte of a request to its last
    answer_seconds: float = 120.0  # for the client to take an answer
    idle_seconds: float = 30.0  # between requests


def limits_of(connections: int, seconds: float) -> ConnectionLimits:
    """Limits for requests that may take some seconds; fewer connections if fewer files can be open."""
    if find_spec("resource"):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY:
            connections = max(1, min(connections, most - _OTHER_FILES))
    head = min(ConnectionLimits.head_seconds, seconds)
    return ConnectionLimits(
        connections,
        first_byte_seconds=head,
        head_seconds=head,
        body_seconds=seconds + 5,  # the application answers after these seconds, if it can
        answer_seconds=4 * seconds,
    )


class LimitedProtocol(HttpToolsProtocol):
    """A connection of uvicorn with limits."""

    limits = ConnectionLimits()
    _state = _NEW
    _since = 0.0
    _paused_since: float | None = None
    _closing_since: float | None = None
    _incomplete: int | None = None  # the part of a request that has arrived in part
    _received = _body = 0  # bytes of the request, and of its body
    _begun = 0  # requests that begin in the part that is read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start a connection; if there are too many, end the one that has waited longest for its client."""
        super().connection_made(transport)
        self._wait_for(_NEW)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if starts := self._state in (_NEW, _IDLE):
            self._wait_for(_HEAD)
            self._received = self._body = 0
        self._received, self._begun = self._received + len(data), 0
        super().data_received(data)
        if starts and self._begun == 1:  # all of this part belongs to one request
            self._received = len(data)
        beside = self._received - self._body
        if self._state in (_HEAD, _BODY) and beside > self.limits.head_bytes + self._body:
            self._refuse(431)

    def on_message_begin(self) -> None:
        """Start a request. A part that may also hold the end of the last one is not counted."""
        super().on_message_begin()
        self._begun += 1
        self._received = self._body = 0
        self._incomplete = _HEAD

    def on_headers_complete(self) -> None:
        """Start the application."""
        super().on_headers_complete()
        self._incomplete = _BODY
        if self._state == _HEAD:
            self._state = _BODY

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request; it may have been answered before, for example because it is too large."""
        super().on_message_complete()
        self._incomplete = None
        if self._state in (_HEAD, _BODY):
            self._wait_for(_IDLE if self.cycle.response_complete else _ANSWER)

    def on_response_complete(self) -> None:
        """Wait for the next request, of which a part, or all, may have arrived."""
        super().on_response_complete()
        if self._incomplete is not None:
            self._wait_for(self._incomplete)
        else:
            self._wait_for(_IDLE if self.cycle.response_complete else _ANSWER)

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._paused_since = self.loop.time()

    def resume_writing(self) -> None:
        """Go on to send."""
        super().resume_writing()
        self._paused_since = None

    def check(self, now: float) -> None:
        """End the connection if its client takes too long."""
        limits = self.limits
        if self.transport.is_closing():  # what was sent last is not taken
            self._closing_since = self._closing_since or now
            if now - self._closing_since > limits.head_seconds:
                self.transport.abort()
        elif self._paused_since is not None and now - self._paused_since > limits.answer_seconds:
            self.transport.abort()
        elif now - self._since > self._longest():
            if self._state == _HEAD:
                self._refuse(408)
            elif self._state == _BODY:
                self.transport.abort()
            else:
                self.transport.close()

    def _longest(self) -> float:
        """The seconds that the connection may wait."""
        limits = self.limits
        return {
            _NEW: limits.first_byte_seconds,
            _HEAD: limits.head_seconds,
            _BODY: limits.body_seconds,
            _ANSWER: float("inf"),
            _IDLE: limits.idle_seconds,
        }[self._state]

    def _wait_for(self, state: int) -> None:
        self._state, self._since = state, self.loop.time()

    def _make_room(self) -> None:
        """End the connection that has waited longest for its client; if all are answered, refuse this one."""
        others: list[Any] = [each for each in self.connections if each is not self]
        waiting = [each for each in others if each._state != _ANSWER or each._paused_since is not None]
        if not waiting:
            self._refuse(503)
            return
        longest = min(waiting, key=lambda each: each._paused_since or each._since)
        self.connections.discard(longest)  # at once: others may arrive before it has ended
        longest.transport.abort()

    def _refuse(self, status: int) -> None:
        """Answer with an error, and end the connection."""
        if self.transport.is_closing():
            return
        body = orjson.dumps({"error": _REASONS[status]})
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


def limited_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The class of connections with these limits, for ``uvicorn.Config``."""
    return type("LimitedConnection", (LimitedProtocol,), {"limits": limits})
