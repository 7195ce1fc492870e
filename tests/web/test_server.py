"""The runner of servers: addresses, ports, signals, headers and error answers."""

import signal
import socket
import threading
import time

import pytest

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from starlette.responses import PlainTextResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402
from web.serving import running  # noqa: E402

from manihash.web.application import RequestError, application, json_answer  # noqa: E402
from manihash.web.server import is_local, listening_socket, url_of  # noqa: E402

SERVER = """
import asyncio
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from manihash.web.application import application
from manihash.web.server import run

async def slow(request):
    await asyncio.sleep(1)
    return PlainTextResponse("done")

app = application([Route("/slow", slow)], host="127.0.0.1")
run(app, port=0, announce=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


async def fine(request):
    return PlainTextResponse("fine", headers={"Cache-Control": "max-age=60"})


async def refused(request):
    raise RequestError(403, "no: not here", {"retry-after": "1"})


async def broken(request):
    raise ValueError("/home/secret/file is broken")


ROUTES = [
    Route("/fine", fine),
    Route("/refused", refused),
    Route("/broken", broken),
    Route("/only-post", fine, methods=["POST"]),
]


@pytest.fixture
def client():
    app = application(ROUTES, host="127.0.0.1", allowed_hosts=["Search.Example.com"])
    with TestClient(app, base_url="http://localhost:1", raise_server_exceptions=False) as client:
        yield client


def test_a_port_in_use_is_reported_with_what_to_do():
    with listening_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with (
            pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use.*use another port"),
            listening_socket("127.0.0.1", port),
        ):
            pass


def test_a_port_that_was_just_used_can_be_bound_again():
    with listening_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            bound.accept()[0].close()
    with listening_socket("127.0.0.1", port):
        pass


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("no such host", 0, "not an address of this machine"),
        ("192.0.2.1", 0, "not an address of this machine"),
        ("127.0.0.1", 65536, "port must be from 0 to 65535, not 65536"),
        ("127.0.0.1", -1, "port must be from 0 to 65535, not -1"),
    ],
)
def test_an_address_that_cannot_be_used_is_reported(host, port, message):
    with pytest.raises((OSError, ValueError), match=message), listening_socket(host, port):
        pass


def test_urls_have_brackets_around_ipv6_addresses():
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert url_of("::1", 80) == "http://[::1]:80"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"])
def test_local_hosts_are_recognized(host):
    assert is_local(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example.com", ""])
def test_other_hosts_are_not_local(host):
    assert not is_local(host)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_open_requests_finish_and_ends_without_an_error(number):
    with running("-c", SERVER) as server:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(httpx.get(f"{server.url}/slow")))
        thread.start()
        time.sleep(0.4)
        assert server.stop(number) == 0
        thread.join()
    assert [answer.text for answer in answers] == ["done"]
    assert server.output.endswith("ended\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/slow")


@pytest.mark.parametrize("path", ["/fine", "/refused", "/broken", "/nothing"])
def test_every_answer_has_the_security_headers_and_none_for_other_sites(client, path):
    headers = client.get(path, headers={"origin": "http://evil.example"}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == ("max-age=60" if path == "/fine" else "no-store")
    assert not [name for name in headers if name.startswith("access-control")]


def test_errors_are_json_with_a_message(client):
    answer = client.get("/refused")
    assert answer.status_code == 403
    assert answer.json() == {"error": "no: not here"}
    assert answer.headers["retry-after"] == "1"
    assert client.get("/nothing").status_code == 404
    assert "error" in client.get("/nothing").json()
    answer = client.get("/only-post")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "error" in answer.json()


def test_an_internal_error_is_logged_and_tells_the_client_nothing(client, caplog):
    answer = client.get("/broken")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error"}
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "/home/secret/file is broken" in caplog.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("search.example.com", 200),
        ("SEARCH.example.com:80", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("[::2]", 421),
        ("", 421),
        ("localhost:", 200),
        ("localhost:80@evil.com", 421),
        ("localhost@evil.com", 421),
        ("[::1]evil.com", 421),
        ("[::1]:80evil.com", 421),
        ("[::1", 421),
        ("[127.0.0.1]", 421),
        ("::1", 421),
        ("localhost:99999", 421),
        ("localhost:-1", 421),
        ("localhost:8080, evil.com", 421),
        ("localhost/evil.com", 421),
        ("localhost\t", 421),
        ("127.0.0.1.evil.com", 421),
        ("search.example.com:80@evil.com", 421),
    ],
)
def test_a_local_server_refuses_foreign_host_names(client, host, status):
    assert client.get("/fine", headers={"host": host}).status_code == status


def test_a_second_host_header_is_refused(client):
    for names in (("localhost", "evil.com"), ("evil.com", "localhost"), ("localhost", "localhost")):
        assert client.get("/fine", headers=[("host", name) for name in names]).status_code == 400


def test_long_headers_are_refused(client):
    assert client.get("/fine", headers={"x": "a" * 60_000}).status_code == 200
    assert client.get("/fine", headers={"x": "a" * 70_000}).status_code == 431
    assert client.get("/fine", headers={f"x{i}": "a" * 100 for i in range(700)}).status_code == 431


def test_a_public_server_accepts_every_host_name():
    client = TestClient(application(ROUTES, host="0.0.0.0"))
    assert client.get("/fine", headers={"host": "search.example.com"}).status_code == 200


def test_json_answers_hold_numpy_arrays():
    import numpy as np

    assert json_answer({"ids": np.arange(3)}).body == b'{"ids":[0,1,2]}'
