"""Clients that send half of a request, too much of it, or do not take the answer, do not stop a server."""

import socket
import threading
import time

import pytest

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from web.serving import running  # noqa: E402

SERVER = """
import sys
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from manihash.web.application import application
from manihash.web.server import run

async def length(request):
    return PlainTextResponse(str(len(await request.body())))

async def large(request):
    return PlainTextResponse("x" * 50_000_000)

async def unread(request):
    return PlainTextResponse("the body is not read")

routes = [Route("/", length, methods=["GET", "POST"]), Route("/large", large)]
app = application([*routes, Route("/unread", unread, methods=["POST"])], host="127.0.0.1")
run(app, port=0, announce=lambda url: print(url, flush=True), connections=20, seconds=float(sys.argv[1]))
"""
HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def quick():
    """A server whose clients have half a second."""
    with running("-c", SERVER, "0.5") as server:
        yield server
        assert server.stop() == 0
    assert "Traceback" not in server.output


@pytest.fixture(scope="module")
def patient():
    """A server whose clients have half a minute."""
    with running("-c", SERVER, "30") as server:
        yield server
    assert "Traceback" not in server.output


def connect(server):
    return socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=20)


def received(connection):
    """All that a server sends until it ends the connection."""
    parts = []
    try:
        while part := connection.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"\r\n", b"HTTP/1.1 408"),
        (b"POST", b"HTTP/1.1 408"),
        (HEAD, b"HTTP/1.1 408"),
        (HEAD + b"content-length: 10\r\n\r\n12", b""),
        (CHUNKED + b"5\r\n123", b""),
        (CHUNKED + b"5\r\n12345\r\n0\r\nx: 1\r\n", b""),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET", b"HTTP/1.1 200"),
    ],
)
def test_a_request_that_is_not_completed_ends_the_connection(quick, sent, status):
    start = time.monotonic()
    with connect(quick) as connection:
        connection.sendall(sent)
        assert received(connection).startswith(status)
    assert time.monotonic() - start < 15


def test_bytes_that_arrive_slowly_do_not_extend_the_time(quick):
    start = time.monotonic()
    with connect(quick) as connection:
        connection.sendall(HEAD)
        try:
            while time.monotonic() - start < 15:
                connection.sendall(b"x: 1\r\n")
                time.sleep(0.1)
        except OSError:
            pass
    assert time.monotonic() - start < 10


def test_an_answer_that_is_not_taken_ends_the_connection(quick):
    with connect(quick) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
        time.sleep(6)
        assert len(received(connection)) < 50_000_000


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        HEAD + b"x: ",
        CHUNKED + b"5;",
        CHUNKED + b"0\r\nx: ",
        CHUNKED + b"5\r\n12345\r\n0\r\nx: ",
    ],
)
def test_endless_bytes_beside_the_body_are_refused(patient, start):
    sent, part = 0, b"a" * 10_000
    with connect(patient) as connection:
        connection.sendall(start)
        try:
            while sent < 50e6:
                connection.sendall(part)
                sent += len(part)
        except OSError:
            pass
    assert sent < 10e6  # what the buffers of both sockets hold
    assert httpx.post(patient.url, content=b"123").text == "3"


def test_many_headers_are_refused_with_their_status(patient):
    with connect(patient) as connection:
        connection.sendall(HEAD + b"x: 1\r\n" * 1000)
        connection.sendall(b"y: 2\r\n" * 20_000)
        assert received(connection).startswith(b"HTTP/1.1 431")


def test_half_sent_requests_do_not_keep_others_from_being_answered(patient):
    opened = []
    try:
        for i in range(100):
            opened.append(connect(patient))
            opened[-1].sendall([b"", HEAD, HEAD + b"content-length: 10\r\n\r\n1"][i % 3])
            if i % 10 == 0:
                assert httpx.get(patient.url, timeout=10).text == "0"
        assert httpx.get(patient.url, timeout=10).text == "0"
    finally:
        for connection in opened:
            connection.close()


def test_requests_that_are_being_answered_are_not_ended_by_others(patient):
    with connect(patient) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        threads = [threading.Thread(target=httpx.get, args=(patient.url,)) for _ in range(15)]
        for thread in threads:
            thread.start()
        assert len(received(connection)) > 50_000_000
        for thread in threads:
            thread.join()


def test_usual_requests_are_answered(patient):
    with httpx.Client(base_url=patient.url) as client:
        for _ in range(50):  # one connection
            assert client.post("/", content=b"12345").text == "5"
        assert client.post("/", content=bytes(5_000_000)).text == "5000000"
        assert client.post("/", content=(bytes(100) for _ in range(20_000))).text == "2000000"  # chunks
        assert client.post("/unread", content=bytes(1_000_000)).text == "the body is not read"
        assert client.post("/", content=b"1").text == "1"
    with connect(patient) as connection:
        connection.sendall((HEAD + b"content-length: 3\r\n\r\n123") * 20)  # without waiting for answers
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert received(connection).count(b"HTTP/1.1 200") == 21
