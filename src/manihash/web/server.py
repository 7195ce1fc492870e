"""Run an application as a server: bind, say the address, and finish open requests before the end."""

import asyncio
import errno
import gc
import os
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from ipaddress import ip_address
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from manihash.web.connections import ConnectionLimits, limited_protocol, limits_of

LOCAL = "127.0.0.1"
_BACKLOG = 2048
_BACKGROUND_CONNECTIONS, _BACKGROUND_SECONDS = 100, 30.0


def run(
    app: ASGIApp,
    host: str = LOCAL,
    port: int = 8080,
    *,
    announce: Callable[[str], None] = print,
    open_page: bool = False,
    shutdown_seconds: int = 10,
    connections: int = 1000,
    seconds: float = 30.0,
) -> None:
    """Serve an application until SIGINT or SIGTERM.

    Then no new connection is accepted, open requests are answered, and the application's lifespan ends.
    Requests that take longer than the shutdown time are canceled; a second SIGINT cancels them at once.

    Parameters
    ----------
    app : ASGI application
        What to serve, such as the result of ``application``.
    host : str, default="127.0.0.1"
        Address or name of this machine to listen on. The default is reachable from this machine only.
    port : int, default=8080
        Port to listen on; 0 for any free port.
    announce : callable, default=print
        Called with the server's URL as soon as it accepts connections.
    open_page : bool, default=False
        Open the URL in the user's browser.
    shutdown_seconds : int, default=10
        Time that open requests get after the signal.
    connections : int, default=1000
        Most connections. If there are more, that which has waited longest for its client is ended.
    seconds : float, default=30.0
        Time for a client to send a request, of which at most ten seconds for its headers.

    Raises
    ------
    OSError
        If the port is in use, or if the address cannot be listened on.
    """
    config = _config(app, limits_of(connections, seconds), shutdown_seconds)
    with listening_socket(host, port) as bound, _frozen_objects():
        _Server(config, url_of(host, bound.getsockname()[1]), announce, open_page).run([bound])


def _config(app: ASGIApp, limits: ConnectionLimits, shutdown_seconds: int) -> uvicorn.Config:
    """The settings of uvicorn that all servers share."""
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=int(limits.idle_seconds),
        http=limited_protocol(limits),
        timeout_graceful_shutdown=shutdown_seconds,
    )


class BackgroundServer:
    """A server on a free port of this machine, in a thread of its own, until ``stop``."""

    def __init__(self, app: ASGIApp) -> None:
        config = _config(app, limits_of(_BACKGROUND_CONNECTIONS, _BACKGROUND_SECONDS), shutdown_seconds=1)
        started = threading.Event()
        self._stack = ExitStack()
        bound = self._stack.enter_context(listening_socket(LOCAL, 0))
        self.url = url_of(LOCAL, bound.getsockname()[1])
        self._server = _Server(config, self.url, lambda _: started.set(), open_page=False)
        self._thread = threading.Thread(
            target=self._server.run, args=([bound],), name="manihash page", daemon=True
        )
        self._thread.start()
        while not started.wait(0.05):
            if not self._thread.is_alive():
                self._stack.close()
                raise RuntimeError("the server of the page has ended: the log has the reason")

    def stop(self) -> None:
        """End the server, its thread and its connections; a second call does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._stack.close()

    def wait(self) -> None:
        """Wait until the server is stopped."""
        self._thread.join()


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Exempt all present objects from garbage collection, which would stop all requests for 0.1 s."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that is bound to an address; raise an ``OSError`` that says why it cannot be bound."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port must be from 0 to {2**16 - 1}, not {port}")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"cannot listen on {host!r}: it is not an address of this machine") from error
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        if os.name == "posix":  # elsewhere this would let two servers share a port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError as error:
            raise _bind_error(host, port, error) from error
        yield bound


def _bind_error(host: str, port: int, error: OSError) -> OSError:
    """The error to raise for an address that cannot be bound."""
    reasons = {
        errno.EADDRINUSE: f"port {port} of {host} is in use: stop the other server, or use another port",
        errno.EACCES: f"no permission to listen on port {port}: use a port of 1024 or above",
        errno.EADDRNOTAVAIL: f"cannot listen on {host!r}: it is not an address of this machine",
    }
    default = f"cannot listen on {host}, port {port}: {error.strerror}"
    return OSError(reasons.get(error.errno or 0, default))


def url_of(host: str, port: int) -> str:
    """The URL of a server, with an IPv6 address in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@lru_cache(maxsize=64)
def is_local(host: str) -> bool:
    """Whether a host name or address is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class _Server(uvicorn.Server):
    """A server that announces itself, and that ends without an error after a signal."""

    def __init__(
        self, config: uvicorn.Config, url: str, announce: Callable[[str], None], open_page: bool
    ) -> None:
        super().__init__(config)
        self.url, self.announce, self.open_page = url, announce, open_page

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, then announce the URL."""
        await super().startup(sockets)
        if not self.started:
            return
        self.announce(self.url)
        if self.open_page:
            threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()

    async def on_tick(self, counter: int) -> bool:
        """Look at all connections once a second; ticks are a tenth of that."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.check(now)  # type: ignore[union-attr]
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal; unlike the original, do not raise it again after the graceful shutdown."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
