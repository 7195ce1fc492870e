"""The OpenAPI document describes what the API does, and its page needs no other host."""

import json
import os
import re

import numpy as np
import pytest

pytest.importorskip("httpx2")
schemathesis = pytest.importorskip("schemathesis")
pytestmark = pytest.mark.extra

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402

from manihash import HammingIndex  # noqa: E402
from manihash.pages.thumbnails import ArrayImages  # noqa: E402

CASES = int(os.environ.get("MANIHASH_CASES", "10"))


def test_the_document_has_every_address_and_the_limits_of_the_server(connect):
    with connect(k=77, rows=5, images=ArrayImages(np.zeros((400, 2, 2)))) as client:
        document = client.get("/openapi.json").json()
        assert document["openapi"] == "3.1.0"
        for path, operations in document["paths"].items():
            for method in operations:
                answer = client.request(method.upper(), path.format(id=0))
                assert answer.status_code not in (404, 405), (method, path)
        search = document["components"]["schemas"]["SearchRequest"]["properties"]
        assert search["k"]["maximum"] == 77
        assert search["vectors"]["maxItems"] == 5
        assert search["vectors"]["items"]["maxItems"] == 6
        references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
        assert references <= set(document["components"]["schemas"])


def test_the_page_shows_every_address_and_asks_no_other_host(client):
    assert client.get("/", follow_redirects=False).headers["location"] == "/docs"
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in answer.text
    assert re.findall(r'(?:src|href)="(?![/#])[^"]*"', answer.text) == []
    assert "://" not in answer.text
    assert re.findall("<script[^>]*>", answer.text) == ['<script src="/docs/page.js">']
    assert client.get("/docs/page.js").headers["content-type"].startswith("text/javascript")


def test_the_examples_of_the_document_are_answered(connect, rows, hasher, tmp_path):
    path = tmp_path / "codes.mhx"
    HammingIndex(hasher.encode(rows), hasher.n_bits_, layout=hasher.layout_).save(path)
    with connect(file=path, vectors=rows) as client:
        paths = client.get("/openapi.json").json()["paths"]
        n = 0
        for address, operations in paths.items():
            for method, operation in operations.items():
                content = operation.get("requestBody", {"content": {}})["content"]
                for name, example in content.get("application/json", {}).get("examples", {}).items():
                    answer = client.request(method.upper(), address, json=example["value"])
                    assert answer.status_code == 200, (address, name, answer.text)
                    n += 1
        assert n >= 9
        page = client.get("/docs").text
        assert "<code>radius</code> asks for all rows whose codes differ" in page


def test_the_documentation_of_a_server_with_keys_tells_no_ids(connect, tmp_path):
    from manihash.web.api.openapi import document, documentation_page
    from manihash.web.api.service import Service

    with connect() as client:
        service = client.service
        service.index = HammingIndex(service.index.codes, service.index.n_bits, np.arange(400) + 123456)
        service = Service(service.hasher, service.index, service.limits)
        for needs_key in (False, True):
            described = document(service, needs_key=needs_key)
            texts = json.dumps(described) + documentation_page(described, service)
            assert ("123456" in texts) != needs_key


@pytest.fixture(params=[None, [f"name {i}" for i in range(400)]], ids=["integers", "strings"])
def writable(rows, tmp_path, request):
    """An application whose rows can be changed."""
    from starlette.testclient import TestClient

    from manihash.hashers import LSH
    from manihash.search.durable import DurableIndex
    from manihash.web.api.application import search_application
    from manihash.web.api.messages import Limits
    from manihash.web.api.service import Service

    hasher = LSH(n_bits=20, random_state=0).fit(rows)
    HammingIndex(hasher.encode(rows), 20, request.param).save(tmp_path / "codes.mhx")
    durable = DurableIndex(tmp_path / "codes.mhx")
    app = search_application(Service(hasher, durable.index, Limits(rows=20)), durable=durable)
    with TestClient(app):
        yield app


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_generated_requests_get_the_answers_that_the_document_promises(writable, mode):
    async def requests_only(scope, receive, send):
        if scope["type"] == "http":  # the application has started already
            await writable(scope, receive, send)

    schema = schemathesis.openapi.from_asgi("/openapi.json", requests_only)
    for operation in (result.ok() for result in schema.get_all_operations()):
        if mode == "negative" and operation.method == "get":
            continue  # a request without a body or parameters cannot be wrong
        strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))
        limited = settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
        given(strategy)(limited(lambda case: send(case)))()


def send(case):
    """Send a generated request, and compare the answer with the document."""
    answer = case.call()
    case.validate_response(answer, excluded_checks=[positive_data_acceptance, negative_data_rejection])
    assert answer.status_code < 500 or answer.status_code == 503


bodies = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=7)
            | st.dictionaries(
                st.sampled_from(["vectors", "codes", "ids", "k", "radius", "filter", "symmetric"]), inner
            )
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(
    path=st.sampled_from(["/v1/encode", "/v1/search", "/v1/search?k=2", "/v1/rows", "/v1/rows/delete"]),
    body=bodies,
    kind=st.sampled_from(["application/json", "application/x-npy", "application/octet-stream", "text/plain"]),
)
@settings(max_examples=4 * CASES, suppress_health_check=list(HealthCheck))
def test_no_body_causes_an_internal_error(client, path, body, kind):
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code in (200, 400, 403, 404, 409, 413, 415), answer.text
    assert answer.status_code == 200 or set(answer.json()) == {"error"}
