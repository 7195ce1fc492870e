"""Servers of an index whose ids are strings."""

import io
import json
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from PIL import Image  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

from manihash import HammingIndex  # noqa: E402
from manihash.hashers import LSH  # noqa: E402
from manihash.pages.thumbnails import ArrayImages  # noqa: E402
from manihash.search import Rerank  # noqa: E402
from manihash.search.durable import DurableIndex  # noqa: E402
from manihash.web.api.application import search_application  # noqa: E402
from manihash.web.api.attachments import Attachments  # noqa: E402
from manihash.web.api.messages import Limits  # noqa: E402
from manihash.web.api.service import Service  # noqa: E402

NAMES = np.array([f"folder/{i * 7 % 400:03} é.jpg" for i in range(400)], object)
LABELS = [f"label {i}" for i in range(400)]
IMAGES = np.random.default_rng(0).integers(0, 256, (400, 3, 3, 3), np.uint8)


@pytest.fixture(scope="module")
def hasher(rows):
    return LSH(n_bits=20, random_state=0).fit(rows)


@pytest.fixture
def index(hasher, rows):
    return HammingIndex(hasher.encode(rows), 20, NAMES)


@pytest.fixture
def client(hasher, index, rows):
    places = {name: i for i, name in enumerate(NAMES)}
    attached = Attachments(rows, LABELS, ArrayImages(IMAGES), places)
    with TestClient(search_application(Service(hasher, index, Limits(), attached))) as client:
        yield client


def post(client, path, content, method="POST", accept="*/*"):
    headers = {"content-type": "application/json", "accept": accept}
    return client.request(method, path, content=json.dumps(content), headers=headers)


def test_searches_return_strings_with_their_labels(client, index, hasher, rows):
    found = post(client, "/v1/search", {"vectors": rows[:5].tolist(), "k": 7}).json()
    expected = index.search(hasher.encode(rows[:5]), 7, asymmetric=hasher.embed(rows[:5]))[1]
    assert found["ids"] == expected.tolist()
    label_of = dict(zip(NAMES.tolist(), LABELS, strict=True))
    assert found["labels"] == [[label_of[name] for name in ids] for ids in found["ids"]]


def test_reranking_uses_the_vectors_of_the_ids(client, index, hasher, rows):
    found = post(client, "/v1/search", {"vectors": rows[:5].tolist(), "k": 3, "rerank": True}).json()
    expected = index.search(hasher.encode(rows[:5]), 3, rerank=Rerank(rows[:5], rows, ids=NAMES))
    assert found["ids"] == expected[1].tolist()
    assert [ids[0] for ids in found["ids"]] == NAMES[:5].tolist()


def test_a_filter_takes_strings_alone(client, rows):
    kept = sorted(NAMES[:9].tolist())
    found = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "k": 9, "filter": kept}).json()
    assert sorted(found["ids"][0]) == kept
    headers = {"content-type": "application/octet-stream"}
    address = {"url": "/v1/search", "params": {"k": 2, "filter": ",".join(kept[:2])}}
    found = client.post(**address, content=rows[:1].tobytes(), headers=headers).json()
    assert sorted(found["ids"][0]) == kept[:2]
    answer = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "filter": [3]})
    assert (answer.status_code, "are strings" in answer.json()["error"]) == (400, True)
    answer = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "filter": ["none"]})
    assert (answer.status_code, "'none'" in answer.json()["error"]) == (404, True)
    for bad in ("", "x\0", "x" * 2000):  # strings that can be no ids
        answer = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "filter": [bad, bad]})
        assert answer.status_code == 400, answer.text
        assert client.get(f"/v1/images/{quote(bad)}").status_code == 400


def test_binary_answers_have_no_strings(client, rows):
    answer = post(client, "/v1/search", {"vectors": rows[:1].tolist()}, accept="application/x-npy")
    assert answer.status_code == 400
    assert "accept application/json" in answer.json()["error"]


def test_a_picture_has_the_string_in_its_address(client):
    answer = client.get(f"/v1/images/{NAMES[17]}")
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert np.array_equal(np.asarray(picture), IMAGES[17])
    assert client.get("/v1/images/17").status_code == 404


def test_info_and_document_say_that_ids_are_strings(client):
    assert client.get("/v1/info").json()["index"]["ids"] == "strings"
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["SearchRequest"]["properties"]["filter"]["items"]["type"] == "string"
    assert schemas["AddRequest"]["properties"]["ids"]["items"]["type"] == "string"
    assert schemas["Answers"]["properties"]["ids"]["items"]["items"]["type"] == "string"


def test_rows_are_changed_by_strings_and_survive_a_restart(hasher, index, rows, tmp_path):
    file = tmp_path / "codes.mhx"
    index.save(file)
    durable = DurableIndex(file)
    with TestClient(search_application(Service(hasher, durable.index, Limits()), durable=durable)) as client:
        two = rows[:2].tolist()
        assert post(client, "/v1/rows", {"vectors": two, "ids": ["a", "b"]}).json()["rows"] == 402
        assert post(client, "/v1/rows", {"vectors": two, "ids": ["c", "b"]}).status_code == 409
        assert "give one id per row" in post(client, "/v1/rows", {"vectors": two}).json()["error"]
        assert post(client, "/v1/rows", {"vectors": two, "ids": [1, 2]}).status_code == 400
        for bad in ("", "x\0", "x" * 2000):
            assert post(client, "/v1/rows", {"vectors": two[:1], "ids": [bad]}).status_code == 400
        assert post(client, "/v1/rows", {"vectors": two[:1], "ids": ["b"]}, "PUT").status_code == 200
        assert post(client, "/v1/rows/delete", {"ids": [NAMES[0]]}).json()["rows"] == 401
        assert post(client, "/v1/rows/delete", {"ids": [NAMES[0]]}).status_code == 404
        assert set(HammingIndex.load(file).ids) == {*NAMES[1:], "a", "b"}
    assert set(HammingIndex.load(file).ids) == {*NAMES[1:], "a", "b"}
