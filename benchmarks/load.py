"""A load generator for servers: clients that each keep one connection and one request open."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import uvloop


@dataclass
class Load:
    """Latencies in seconds, the duration, and what was answered."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    unanswered: int = 0

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, q: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        return float(np.percentile(self.latencies, q)) * 1000


def request_bytes(path: str, body: bytes, kind: str = "application/json", method: str = "POST") -> bytes:
    """A request as it is sent."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _Client(asyncio.Protocol):
    """Sends a request whenever the previous one is answered."""

    def __init__(self, drive: "_Drive") -> None:
        self.drive, self.buffer, self.number = drive, b"", -1

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.number = self.drive.next()
        if self.number < 0:
            self.transport.close()
            return
        self.start = time.perf_counter()
        self.transport.write(self.drive.request(self.number))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.find(b"content-length: ") + 16
        length = int(head[at : at + 12].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        body, self.buffer = self.buffer[end + 4 : end + 4 + length], b""
        self.drive.answered(self.number, int(head[9:12]), body, time.perf_counter() - self.start)
        self.number = -1
        if b"connection: close" in head:
            self.transport.close()
        else:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self.drive.lost(self)


class _Drive:
    def __init__(
        self,
        port: int,
        requests: Callable[[int], bytes] | Sequence[bytes],
        total: int,
        seconds: float,
        check: Callable[[int, int, bytes], None] | None,
    ) -> None:
        self.port, self.total, self.check = port, total, check
        self.request = requests if callable(requests) else lambda i: requests[i % len(requests)]
        self.deadline = time.perf_counter() + seconds
        self.sent = self.open = 0
        self.load = Load()

    def next(self) -> int:
        if self.sent >= self.total or time.perf_counter() > self.deadline:
            return -1
        self.sent += 1
        return self.sent - 1

    def answered(self, number: int, status: int, body: bytes, seconds: float) -> None:
        self.load.latencies.append(seconds)
        if self.check is not None:
            self.check(number, status, body)

    def lost(self, client: _Client) -> None:
        self.load.unanswered += client.number >= 0
        if self.sent < self.total and time.perf_counter() < self.deadline:
            asyncio.get_running_loop().create_task(self.connect())
        else:
            self.end_client()

    def end_client(self) -> None:
        self.open -= 1
        if not self.open:
            self.ended.set()

    async def connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Client(self), "127.0.0.1", self.port)
        except OSError:  # the server has ended
            self.end_client()

    async def run(self, clients: int) -> Load:
        self.ended, self.open = asyncio.Event(), clients
        start = time.perf_counter()
        for _ in range(clients):
            await self.connect()
        await self.ended.wait()
        self.load.seconds = time.perf_counter() - start
        return self.load


def drive(
    port: int,
    requests: Callable[[int], bytes] | Sequence[bytes],
    clients: int,
    *,
    total: int = 10**9,
    seconds: float = 1e9,
    check: Callable[[int, int, bytes], None] | None = None,
) -> Load:
    """Send requests to a port of this machine from some clients, until a count or a time is reached."""

    async def run() -> Load:
        return await _Drive(port, requests, total, seconds, check).run(clients)

    return uvloop.run(run())
