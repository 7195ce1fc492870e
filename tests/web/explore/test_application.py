"""The answers of the server of the page, and what it says about invalid requests."""

import re
import struct
import zlib
from importlib import resources
from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("httpx2")

from starlette.testclient import TestClient

from manihash.pages.pictures import png
from manihash.web.explore.application import explore_application

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module")
def client(exploration):
    with TestClient(explore_application(exploration, "127.0.0.1"), base_url="http://127.0.0.1") as made:
        yield made


def npy(array):
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_the_page_may_load_nothing_from_other_hosts(client):
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    for name in ("main.js", "style.css", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200


def test_the_page_loads_every_module_at_once(client):
    listed = set(re.findall(r'modulepreload" href="static/(\w+\.js)"', client.get("/").text))
    folder = resources.files("manihash.web.explore").joinpath("static")
    assert listed == {file.name for file in folder.iterdir() if file.name.endswith(".js")} - {"main.js"}


def test_arrays_are_those_of_the_exploration(client, exploration):
    codes = np.frombuffer(client.get("/api/arrays/codes-1").content, np.uint8).reshape(400, 9)
    np.testing.assert_array_equal(codes, exploration.models[1].codes)
    places = np.frombuffer(client.get("/api/arrays/places").content, "<u2").reshape(-1, 2)
    np.testing.assert_array_equal(places, exploration.steps)


def test_the_nearest_rows_of_a_row_leave_it_out(client, exploration, digits):
    answer = client.get("/api/nearest?row=17&k=7").json()
    assert answer["ids"] == exploration.rows.nearest(digits[0][17], 7, 17)[0].tolist()
    assert 17 not in answer["ids"]


def huge_png(width, height):
    """A valid start of a PNG file that says it has many pixels."""
    head = struct.pack(">II5B", width, height, 8, 2, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + chunks


HUGE_PNG = huge_png(10_000, 8_000)
HUGE_NPY = npy(np.zeros((1, 64), np.float32)).replace(b"(1, 64), }" + b" " * 9, b"(1, 9999999999), }" + b" ")
DIGITS = "9" * 5000  # more than int() converts


@pytest.mark.parametrize("kind", ["text", "json", "npy", "image"])
def test_a_vector_can_be_given_in_several_forms(client, digits, exploration, kind):
    vector = digits[0][17]
    body = {
        "text": "\n".join(map(str, vector)).encode(),
        "json": str(vector.tolist()).encode(),
        "npy": npy(vector),
        "image": png(exploration.rows.pictures.pixels(17)),
    }[kind]
    answer = client.post("/api/query?k=3", content=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["nearest"]["ids"][0] == 17
    assert found["codes"][1] == exploration.models[1].codes[17].tobytes().hex()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"1 2 3", "got 3 numbers, expected 64"),
        (b"", "got 0 numbers, expected 64"),
        (b"1 2 three", "number 3 is 'three'"),
        (b" ".join([b"nan"] * 64), "number 1 of the vector is NaN"),
        (b"\xff\xfe\xfa", "neither text, nor an npy file"),
        (b"\x93NUMPY broken", "npy file cannot be read"),
        (npy(np.zeros((2, 64))), "shape (2, 64)"),
        (npy(np.array(["a"])), "type <U1"),
        (b"\x89PNG broken", "not an image that can be read"),
        (HUGE_NPY, "npy file is truncated"),
        (HUGE_PNG, "give a smaller one"),
        (b"1 " * 100_000, "got more than 64 numbers"),
        (b"9" * 5000 + b" 1" * 63, "number 1 of the vector is NaN or infinite"),
    ],
)
def test_an_invalid_vector_is_answered_with_what_was_expected(client, body, said):
    answer = client.post("/api/query", content=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/nearest?row=400", 404, "no row '400': rows are numbered from 0 to 399"),
        ("/api/nearest?row=x", 404, "no row 'x'"),
        ("/api/nearest?row=1&k=100000", 400, "expected a number from 0 to 200"),
        ("/api/pictures/9999.png", 404, "no row"),
        ("/api/models/0/bits/20", 404, "no bit 20: bits are numbered from 0 to 19"),
        ("/api/models/7/bits/0", 404, "no model 7"),
        ("/api/models/0/bits/0/2.png", 404, "no mean picture"),
        ("/api/models/0/duplicates?cosine=0.5", 400, "expected one of 0.999"),
        ("/api/arrays/secrets", 404, "no array secrets"),
        ("/static/..%2Fexport.py", 404, ""),
        (f"/api/nearest?row={DIGITS}", 404, "no row '999"),
        (f"/api/nearest?row=1&k={DIGITS}", 400, "expected a number from 0 to 200"),
        ("/api/nearest?row=1&k=-1", 400, "expected a number from 0 to 200"),
        (f"/api/pictures/{DIGITS}.png", 404, "no row"),
        (f"/api/texts?ids={DIGITS}", 404, "no row"),
        (f"/api/models/{DIGITS}/bits/0", 404, "no model 999"),
        (f"/api/models/0/bits/{DIGITS}", 404, "no bit 999"),
        (f"/api/models/0/bits/0/{DIGITS}.png", 404, "no mean picture"),
        ("/api/models/\u0661/duplicates?cosine=0.99", 404, "no model"),
    ],
)
def test_unknown_things_are_answered_with_what_there_is(client, path, status, said):
    answer = client.get(path)
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_a_page_of_another_site_cannot_ask(client):
    assert client.get("/api/summary", headers={"host": "evil.example"}).status_code == 421


def test_an_upload_that_is_too_large_is_refused(client, monkeypatch):
    monkeypatch.setattr("manihash.web.explore.application._MOST_BODY", 1000)
    assert client.post("/api/query", content=b"1 " * 2000).status_code == 413
