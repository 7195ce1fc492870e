"""Images by id over HTTP: any id finds its own image, and any other address an error that names it.

MANIHASH_CASES sets the number of requests; the seed of a request is its number.
"""

import http.client
import io
import os
import string
from urllib.parse import quote, unquote

import numpy as np
import pytest

pytest.importorskip("starlette")
image_module = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.extra

from web.serving import serving  # noqa: E402

from manihash import HammingIndex  # noqa: E402
from manihash.hashers import LSH  # noqa: E402

CASES = int(os.environ.get("MANIHASH_CASES", "200"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
ROWS = 300
ODD = [
    "/",
    "//",
    ".",
    "..",
    "../",
    "%",
    "%2F",
    "%00",
    "%2e%2e",
    "?",
    "#",
    "&",
    "+",
    " ",
    "\n",
    "\r\n",
    "\\",
    ";",
]
ODD += [
    "日本",
    "é",
    "e\u0301",
    "\u202e",
    "\U0001f4a9",
    "\x7f",
    "\x01",
    "{id}",
    "images",
    "C:",
    '"',
    "'",
    "<b>",
]


def random_name(rng):
    """A string of odd and usual parts."""
    parts = [
        str(rng.choice(ODD)) if rng.random() < 0.5 else str(rng.choice(list(string.ascii_letters + "-")))
    ]
    parts += [str(rng.choice([*ODD, *"abc019"])) for _ in range(int(rng.integers(0, 8)))]
    if rng.random() < 0.02:
        parts.append("x" * 900)
    return "".join(parts)


def distinct_ids(rng, kind):
    """Ids of all rows: strings, or integers of any size and sign."""
    found = set()
    while len(found) < ROWS:
        number = int(rng.integers(-(2**63), 2**63 - 1)) >> int(rng.integers(0, 63))
        found.add(random_name(rng) if kind is str else number)
    return list(found)


@pytest.fixture(scope="module", params=[str, int], ids=["strings", "integers"])
def served(request, tmp_path_factory):
    """The ids of an index, and the port of a server that has an image of each: the number of its row."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    ids = distinct_ids(rng, request.param)
    X = rng.normal(size=(ROWS, 4)).astype(np.float32)
    hasher = LSH(n_bits=8, random_state=0).fit(X)
    hasher.save(folder / "model.mhash")
    given = np.array(ids, object if request.param is str else np.int64)
    HammingIndex(hasher.encode(X), 8, given, made_by=hasher).save(folder / "codes.mhx")
    np.save(folder / "ids.npy", given.astype(str) if request.param is str else given)
    numbers = np.arange(ROWS)
    images = np.full((ROWS, 2, 2, 3), 255, np.uint8)
    images[..., 0], images[..., 1] = (numbers % 256)[:, None, None], (numbers // 256)[:, None, None]
    np.save(folder / "images.npy", images)
    files = ("--ids", folder / "ids.npy", "--images", folder / "images.npy")
    with serving(folder / "model.mhash", folder / "codes.mhx", *files) as server:
        yield ids, int(server.url.rsplit(":", 1)[1])
        assert server.stop() == 0
    assert "Traceback" not in server.output


def asked(connection, address):
    """Status and body of a request, whose address is sent as it is."""
    connection.putrequest("GET", address, skip_host=True, skip_accept_encoding=True)
    connection.putheader("Host", "localhost")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


def row_of(body):
    """The number of the row in the pixels of an image."""
    red, green, _ = image_module.open(io.BytesIO(body)).convert("RGB").getpixel((0, 0))
    return red + 256 * green


def text_of(identity):
    return identity if isinstance(identity, str) else str(identity)


def other_address(rng, identity):
    """The last part of an address that is most likely not that of an id: changed, cut or made up."""
    path = quote(text_of(identity), safe="")
    kind = int(rng.integers(4))
    if kind == 0:
        return path + str(rng.choice(["x", "%2F", "%20", "0", ".png", "%ff"]))
    if kind == 1:
        return path[: int(rng.integers(len(path)))]
    if kind == 2:
        return quote(random_name(rng), safe="")
    return str(
        rng.choice(["9" * 5000, "-", "+1", "1.0", "0x1", "%D9%A1", "nan", "%", "%zz", "-0", "007", "1_0"])
    )


def test_any_id_in_an_address_finds_its_own_image_or_nothing(served):
    ids, port = served
    rows = {identity: i for i, identity in enumerate(ids)}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for seed in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng(seed)
        identity = ids[int(rng.integers(ROWS))]
        safe = "/" if rng.random() < 0.3 and isinstance(identity, str) else ""
        path = quote(text_of(identity), safe=safe)
        status, body = asked(connection, f"/v1/images/{path}")
        assert status == 200, (seed, path, body[:200])
        assert row_of(body) == rows[identity], (seed, path)
        path = other_address(rng, identity)
        status, body = asked(connection, f"/v1/images/{path}")
        if status == 200:  # by chance it is another id, or another form of a number
            read = unquote(path, errors="replace")
            found = read if isinstance(identity, str) else int(read)
            assert row_of(body) == rows[found], (seed, path)
        else:
            assert status in (400, 404), (seed, path, status, body[:200])
            assert b"error" in body
    connection.close()
