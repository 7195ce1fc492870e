"""The search API answers what the library answers, and refuses what it cannot answer."""

import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from PIL import Image  # noqa: E402
from threadpoolctl import threadpool_info  # noqa: E402

from manihash.pages.thumbnails import ArrayImages  # noqa: E402
from manihash.search import Rerank  # noqa: E402
from manihash.web.api.keys import ApiKeys, read_keys  # noqa: E402

NPY, RAW = "application/x-npy", "application/octet-stream"
KEY = "a key of 16 or more"


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def post(client, path, content, kind="application/json", accept="*/*"):
    if kind == "application/json" and not isinstance(content, bytes):
        content = json.dumps(content).encode()
    return client.post(path, content=content, headers={"content-type": kind, "accept": accept})


def search(client, queries, **options):
    """The answer to a search in JSON."""
    answer = post(client, "/v1/search", {"vectors": queries.tolist(), **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def lists(lims, values):
    return [values[start:stop].tolist() for start, stop in pairwise(lims)]


def error(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    return answer.json()["error"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_codes_are_those_of_the_library(client, hasher, rows, dtype):
    expected = hasher.encode(rows[:7].astype(dtype))
    answer = post(client, "/v1/encode", {"vectors": rows[:7].tolist(), "dtype": dtype}).json()
    assert answer == {"codes": [bytes(code).hex() for code in expected], "n_bits": hasher.n_bits_}


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f4", "<f2", "<i4", "|u1"])
def test_npy_files_are_encoded_in_their_own_type(client, hasher, rows, dtype):
    X = np.asfortranarray(np.abs(10 * rows[:5]).astype(dtype))
    answer = post(client, "/v1/encode", npy(X), NPY, accept=NPY)
    native = X.astype(X.dtype.newbyteorder("="))
    assert np.array_equal(np.load(io.BytesIO(answer.content)), hasher.encode(native))


def test_raw_numbers_give_raw_codes(client, hasher, rows):
    answer = post(client, "/v1/encode", rows[:9].tobytes(), RAW, accept=RAW)
    assert answer.headers["content-type"] == RAW
    assert answer.content == hasher.encode(rows[:9]).tobytes()


def test_nearest_rows_are_those_of_the_library(client, hasher, rows):
    index, codes, values = client.service.index, hasher.encode(rows[:5]), hasher.embed(rows[:5])
    distances, ids = index.search(codes, 7)
    answer = search(client, rows[:5], k=7, symmetric=True)
    assert answer["ids"] == ids.tolist()
    assert answer["distances"] == distances.tolist()
    two_parts = hasher.layout_.has_two_parts
    assert answer["ranked_by"] == ("weighted hamming" if two_parts else "hamming")
    assert search(client, rows[:5])["ids"] == index.search(codes, 10, asymmetric=values)[1].tolist()


def test_rows_within_a_radius_are_those_of_the_library(client, hasher, rows):
    two_parts = hasher.layout_.has_two_parts
    for symmetric in (False, True):
        values = hasher.embed(rows[:5]) if two_parts and not symmetric else None
        lims, distances, ids = client.service.index.within(hasher.encode(rows[:5]), 2, asymmetric=values)
        answer = search(client, rows[:5], radius=2, symmetric=symmetric)
        assert answer["ids"] == lists(lims, ids)
        assert answer["distances"] == lists(lims, distances)
        by_code = "weighted hamming" if two_parts else "hamming"
        assert answer["ranked_by"] == ("asymmetric" if values is not None else by_code)


def test_a_filter_restricts_the_search(client, hasher, rows):
    kept = [3, 5, 8, 13, 21, 3]
    index, values = client.service.index, hasher.embed(rows[:5])
    expected = index.search(hasher.encode(rows[:5]), 3, filter=kept, asymmetric=values)[1]
    assert search(client, rows[:5], k=3, filter=kept)["ids"] == expected.tolist()
    assert search(client, rows[:5], k=10, filter=[7])["ids"] == [[7]] * 5
    assert search(client, rows[:5], k=10, filter=[])["ids"] == [[]] * 5


def test_vectors_are_ranked_by_real_values_unless_the_search_is_symmetric(client, hasher, rows):
    codes, values = hasher.encode(rows[:5]), hasher.embed(rows[:5])
    distances, ids = client.service.index.search(codes, 4, asymmetric=values)
    answer = search(client, rows[:5], k=4)
    assert answer["ids"] == ids.tolist()
    np.testing.assert_allclose(answer["distances"], distances, rtol=1e-6)
    assert answer["ranked_by"] == "asymmetric"
    answer = search(client, rows[:5], k=4, symmetric=True)
    distances, ids = client.service.index.search(codes, 4)
    assert answer["ids"] == ids.tolist()
    assert answer["distances"] == distances.tolist()
    assert "hamming" in answer["ranked_by"]


def test_reranked_search_ranks_by_euclidean_distance(client, hasher, rows):
    rerank = Rerank(rows[:5], rows, 30)
    index, values = client.service.index, hasher.embed(rows[:5])
    distances, ids = index.search(hasher.encode(rows[:5]), 4, rerank=rerank, asymmetric=values)
    answer = search(client, rows[:5], k=4, rerank=True, candidates=30)
    assert search(client, rows[:5], k=4, rescore=True, shortlist=30) == answer  # the former names
    assert answer["ids"] == ids.tolist()
    np.testing.assert_allclose(answer["distances"], distances)
    assert [found[0] for found in answer["ids"]] == list(range(5))
    assert answer["ranked_by"] == "euclidean"


def test_codes_can_be_searched_without_vectors(client, hasher, rows):
    codes = hasher.encode(rows[:5])
    given = {"codes": [bytes(code).hex() for code in codes], "k": 3}
    answer = post(client, "/v1/search", given).json()
    assert answer["ids"] == client.service.index.search(codes, 3)[1].tolist()


@pytest.mark.parametrize("options", ["k=3", "radius=2", "k=2&filter=1,2,3", "k=3&symmetric=true"])
@pytest.mark.parametrize("accept", [NPY, RAW])
def test_binary_answers_have_one_record_per_row_found(client, rows, options, accept):
    kind = [("query", "<u4"), ("id", "<i8"), ("distance", "<f4")]
    answer = post(client, f"/v1/search?{options}", rows[:4].tobytes(), RAW, accept=accept)
    assert answer.status_code == 200, answer.text
    content = answer.content
    table = np.load(io.BytesIO(content)) if accept == NPY else np.frombuffer(content, kind)
    expected = post(client, f"/v1/search?{options}", npy(rows[:4]), NPY).json()
    for query in range(4):
        found = table[table["query"] == query]
        assert found["id"].tolist() == expected["ids"][query]
        np.testing.assert_allclose(found["distance"], expected["distances"][query], rtol=1e-6)


@pytest.mark.parametrize("options", [{"k": 5}, {"radius": 3}])
def test_answers_have_the_labels_of_their_rows(connect, rows, options):
    labels = [None if i % 7 == 3 else f"label {i % 5}" for i in range(400)]
    with connect(labels=labels) as client:
        found = post(client, "/v1/search", {"vectors": rows[:20].tolist(), **options}).json()
        assert client.get("/v1/info").json()["labels"]
    assert found["labels"] == [[labels[i] for i in ids] for ids in found["ids"]]


def test_the_picture_of_a_row_is_a_png_file(connect):
    images = np.random.default_rng(0).integers(0, 256, (400, 5, 4, 3), np.uint8)
    with connect(images=ArrayImages(images)) as client:
        answer = client.get("/v1/images/17")
        assert answer.headers["content-type"] == "image/png"
        with Image.open(io.BytesIO(answer.content)) as picture:
            assert np.array_equal(np.asarray(picture), images[17])
        for unknown in ("400", "-1", str(2**63 - 1)):
            assert "not in the index" in error(client.get(f"/v1/images/{unknown}"), 404)
        for bad in ("x", str(2**63), "9" * 30):
            assert "integers" in error(client.get(f"/v1/images/{bad}"), 400)


def test_a_server_without_images_says_so(client):
    assert "--images" in error(client.get("/v1/images/1"), 404)


def test_k_may_exceed_the_number_of_rows(client, rows):
    assert sorted(search(client, rows[:1], k=1000)["ids"][0]) == list(range(400))


def test_concurrent_requests_get_their_own_answers_and_share_batches(client, hasher, rows):
    values = hasher.embed(rows)
    expected = client.service.index.search(hasher.encode(rows), 5, asymmetric=values)[1].tolist()
    wrong = []

    def ask(first):
        for i in range(first, 400, 8):
            if search(client, rows[i : i + 1], k=5)["ids"] != expected[i : i + 1]:
                wrong.append(i)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    lines = client.get("/metrics").text.splitlines()
    assert "manihash_batch_requests_sum 400" in lines
    assert int(next(line for line in lines if "batch_requests_count" in line).split()[1]) < 400


def test_an_invalid_request_does_not_disturb_those_of_its_batch(client, rows):
    from manihash.web.api.service import Job

    bad = rows[:1].copy()
    bad[0, 2] = np.nan
    good, failed, last = client.service.compute([Job(rows[:2]), Job(bad), Job(rows[2:3])])
    assert np.array_equal(good, client.service.hasher.encode(rows[:2]))
    assert np.array_equal(last, client.service.hasher.encode(rows[2:3]))
    assert failed.status_code == 400
    assert "NaN: the first such row is 0" in failed.detail


ROW = [0.5] * 6
BAD_SEARCHES = {
    "no queries": ({}, "either as vectors or as codes"),
    "both": ({"vectors": [ROW], "codes": ["00"]}, "either as vectors or as codes"),
    "no rows": ({"vectors": []}, "length >= 1"),
    "width": ({"vectors": [ROW, ROW[:5]]}, "row 1 has 5 numbers: the model expects 6"),
    "text": ({"vectors": [[*ROW[:5], "1"]]}, r"Expected `float`, got `str` - at `$.vectors[0][5]`"),
    "null": ({"vectors": [[*ROW[:5], None]]}, "got `null`"),
    "boolean": ({"vectors": [[*ROW[:5], True]]}, "got `bool`"),
    "infinity": ({"vectors": [[*ROW[:5], 1e39]]}, "contains infinity"),
    "k and radius": ({"vectors": [ROW], "k": 1, "radius": 1}, "both k and radius"),
    "k of 0": ({"vectors": [ROW], "k": 0}, ">= 1"),
    "fraction": ({"vectors": [ROW], "k": 1.5}, "Expected `int`"),
    "large k": ({"vectors": [ROW], "k": 1001}, "at most 1000"),
    "huge k": ({"vectors": [ROW], "k": 10**30}, ""),
    "radius": ({"vectors": [ROW], "radius": 17}, "at most 16"),
    "negative": ({"vectors": [ROW], "radius": -1}, ">= 0"),
    "unknown field": ({"vectors": [ROW], "K": 3}, "unknown field `K`: did you mean `k`?"),
    "misspelled": ({"vector": [ROW]}, "did you mean `vectors`?"),
    "misspelled option": ({"vectors": [ROW], "asymmetric": True}, "did you mean `symmetric`?"),
    "nothing like it": ({"vectors": [ROW], "zzz": True}, "expected k, radius, filter, symmetric"),
    "flat vector": ({"vectors": ROW}, "nest it, as in"),
    "hex": ({"codes": ["zz" * 3], "k": 3}, ""),
    "code length": ({"codes": ["00"]}, "digits"),
    "re-ranked codes": ({"codes": ["000000"], "rerank": True}, ""),
    "re-ranked radius": ({"vectors": [ROW], "radius": 1, "rerank": True}, "Hamming distance"),
    "candidates": ({"vectors": [ROW], "candidates": 3}, "give rerank"),
    "shortlist": ({"vectors": [ROW], "shortlist": 3}, "give rerank"),
    "large id": ({"vectors": [ROW], "filter": [2**63]}, ""),
    "type": ({"vectors": [ROW], "dtype": "float16"}, "Invalid enum value"),
}


@pytest.mark.parametrize("name", BAD_SEARCHES)
def test_a_bad_search_is_refused_with_what_is_wrong(client, name):
    request, expected = BAD_SEARCHES[name]
    assert expected in error(post(client, "/v1/search", request), 400)


def test_an_unknown_id_in_a_filter_is_refused(client, rows):
    answer = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "filter": [1, 400]})
    assert "id 400 of the filter is not in the index" in error(answer, 404)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"vectors": [[1, 2',
        b'"\xff\xfe"',
        b'{"vectors": [[NaN]]}',
        b"[" * 100_000,
    ],
    ids=["empty", "open", "list", "null", "cut", "not UTF-8", "NaN", "deep"],
)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/encode"])
def test_a_body_that_is_no_json_is_refused(client, path, body):
    assert "not a valid JSON request" in error(post(client, path, body), 400)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_json_does_not_have_are_named(client, rows, number):
    vectors = rows[:2].astype(float)
    vectors[1, 2] = number
    body = json.dumps({"vectors": vectors.tolist()}).encode()
    assert "NaN and Infinity are not JSON" in error(post(client, "/v1/search", body), 400)


def npy_of_shape(*shape):
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(24)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (RAW, b""),
        (RAW, bytes(23)),
        (NPY, b""),
        (NPY, b"\x93NUMPY\x01\x00"),
        (NPY, npy(np.zeros((2, 5), "f4"))),
        (NPY, npy(np.zeros((0, 6), "f4"))),
        (NPY, npy(np.zeros(6, "f4"))),
        (NPY, npy(np.zeros((2, 6), "c8"))),
        (NPY, npy(np.zeros((2, 6), "U3"))),
        (NPY, npy(np.zeros((2, 6), "f4"))[:-1]),
        (NPY, npy(np.zeros((2, 6), "f4")) + b"x"),
        (NPY, npy(np.full((2, 6), np.nan))),
        (NPY, npy_of_shape(10**12, 6)),
        (NPY, npy_of_shape(True, 6)),
        (NPY, npy_of_shape(0, 10**24)),
        (RAW, np.full(6, np.inf, "<f4").tobytes()),
    ],
)
def test_a_bad_binary_body_is_refused(client, kind, body):
    error(post(client, "/v1/search", body, kind), 400)
    error(post(client, "/v1/encode", body, kind), 400)


def test_pickled_objects_are_never_loaded(client):
    file = io.BytesIO()
    np.save(file, np.array([[object()] * 6]), allow_pickle=True)
    assert "expected real numbers" in error(post(client, "/v1/encode", file.getvalue(), NPY), 400)


@pytest.mark.parametrize("options", ["k=x", "nonsense=1", "k=1&radius=1", "filter=a", "symmetric=perhaps"])
def test_bad_query_parameters_are_refused(client, rows, options):
    error(post(client, f"/v1/search?{options}", rows[:1].tobytes(), RAW), 400)


def test_options_of_a_json_request_belong_into_its_body(client, rows):
    answer = post(client, "/v1/search?k=3", {"vectors": rows[:1].tolist()})
    assert "in the body" in error(answer, 400)


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_types_that_pages_of_other_sites_can_send_are_refused(client, kind):
    error(post(client, "/v1/search", b'{"vectors": [[1, 2, 3, 4, 5, 6]]}', kind), 415)


def test_reranking_needs_the_vectors(connect, rows):
    with connect() as client:
        answer = post(client, "/v1/search", {"vectors": rows[:1].tolist(), "rerank": True})
        assert "no vectors to re-rank by: start it with --vectors" in error(answer, 400)


def test_a_large_body_is_refused_before_it_is_read(connect):
    read = []

    def chunks():
        for i in range(1000):
            read.append(i)
            yield bytes(100)

    with connect(body_bytes=500) as client:
        answer = post(client, "/v1/encode", bytes(501), RAW)
        assert "allows 500 bytes" in error(answer, 413)
        assert answer.headers["connection"] == "close"
        post(client, "/v1/encode", bytes(480), RAW)
        error(post(client, "/v1/encode", chunks(), RAW), 413)


def test_the_numbers_of_rows_and_answers_are_limited(connect, rows):
    with connect(rows=3, answers=500) as client:
        assert post(client, "/v1/encode", rows[:3].tobytes(), RAW).status_code == 200
        assert "at most 3 per request" in error(post(client, "/v1/encode", rows[:4].tobytes(), RAW), 400)
        assert "at most 3 per request" in error(post(client, "/v1/search", rows[:4].tobytes(), RAW), 400)
        answer = post(client, "/v1/search?radius=16", rows[:3].tobytes(), RAW)
        assert "rows are within the radius" in error(answer, 400)


def test_a_request_that_takes_too_long_is_given_up(connect, rows, monkeypatch):
    released = threading.Event()
    with connect(seconds=0.2) as client:
        monkeypatch.setattr(client.service, "compute", lambda jobs: [released.wait(10)] * len(jobs))
        try:
            assert "not answered within 0.2 s" in error(
                post(client, "/v1/encode", rows[:1].tobytes(), RAW), 503
            )
        finally:
            released.set()


def test_too_many_waiting_requests_are_refused(connect, rows):
    with connect(waiting=0) as client:
        answer = post(client, "/v1/encode", rows[:1].tobytes(), RAW)
        assert "try again later" in error(answer, 503)
        assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": KEY},
        {"x-api-key": ""},
        {"x-api-key": KEY + "x"},
    ],
)
def test_requests_without_a_key_are_refused(connect, headers):
    with connect(keys=ApiKeys(["another key, also long", KEY])) as client:
        for method, path in (
            ("POST", "/v1/encode"),
            ("POST", "/v1/search"),
            ("GET", "/v1/info"),
            ("GET", "/metrics"),
        ):
            answer = client.request(method, path, headers=headers)
            assert "valid key" in error(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}])
def test_requests_with_a_key_are_answered(connect, headers):
    with connect(keys=ApiKeys(["another key, also long", KEY])) as client:
        assert client.get("/v1/info", headers=headers).status_code == 200


def test_keys_are_read_from_a_file(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# for the tests\n{KEY}\n\n")
    assert read_keys(file).accepts([(b"x-api-key", KEY.encode())])
    assert not read_keys(file).accepts([(b"x-api-key", b"# for the tests")])
    for content in (b"", b"# nothing\n", b"short\n", b"\xff\xfe a key of 16 or more"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"Save the file as UTF-8|ASCII characters"):
            read_keys(file)


def test_info_describes_model_and_index(client, hasher):
    info = client.get("/v1/info").json()
    assert info["model"]["id"] == hasher.lineage_["id"]
    assert info["model"]["n_bits"] == hasher.n_bits_
    assert info["model"]["n_features"] == 6
    assert info["index"]["rows"] == 400
    assert info["limits"]["k"] == 1000


def test_metrics_count_requests_in_the_format_of_prometheus(client, rows):
    search(client, rows[:1])
    error(post(client, "/v1/search", b"{"), 400)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert 'manihash_requests_total{method="POST",path="/v1/search",status="200"} 1' in lines
    assert 'manihash_requests_total{method="POST",path="/v1/search",status="400"} 1' in lines
    assert 'manihash_request_seconds_bucket{path="/v1/search",le="+Inf"} 2' in lines
    assert "manihash_index_rows 400" in lines
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    for line in lines:
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0


@pytest.mark.parametrize("has_simdjson", [True, False])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"vectors": [[1, 2.5], [3, -4e-1]], "k": 3}', [[1, 2.5], [3, -0.4]]),
        ('{"k": 3, "filter": [1, 2], "vectors": [[1, 2]]}', [[1, 2]]),
        ('{"vectors": [[1, 2]], "dtype": "float64"}', [[1, 2]]),
        ('{"vectors": [[[], [1, 2]]]}', None),
        ('{"vectors": [[[1], 2]]}', None),
        ('{"vectors": [[1, 2], [[1, 2], []]]}', None),
        ('{"vectors": [[1, 2]], "k": "["}', None),
        ('{"vectors": [[1]], "vectors": [[1, 2]]}', [[1, 2]]),
        ('{"vectors": [[1, true]]}', None),
        ('{"vectors": [[1, 18446744073709551616]]}', [[1, 2.0**64]]),
        ('{"vectors": [[1, 2]], "k": 0}', None),
        ('{"vectors": [[1, 2]]} x', None),
        ('{"vectors": [[1, 2], [3]]}', None),
        ('{"vectors": [[1, 2, 3], [3]]}', None),
        ('{"vectors": [[1, 2]], "k": [[1, 2]]}', None),
        ('{"codes": ["[[1, 2]]"], "vectors": [ [1, 2] ]}', [[1, 2]]),
        ('{"codes": ["[[1, 2]]"]}', "no vectors"),
        ('{"codes": ["00"]}', "no vectors"),
    ],
)
def test_both_parsers_read_the_same_vectors(body, expected, has_simdjson, monkeypatch):
    import msgspec

    from manihash.web.api import bodies
    from manihash.web.api.messages import SearchRequest
    from manihash.web.application import RequestError

    if not has_simdjson:
        monkeypatch.setattr(bodies, "_simdjson", None)
    reader = bodies.RequestReader(SearchRequest)
    if expected is None:
        with pytest.raises(RequestError, match="400"):
            reader.read(body.encode(), 2)
        return
    request, found = reader.read(body.encode(), 2)
    if expected == "no vectors":
        assert found is None
        return
    assert found.dtype == ("float64" if "float64" in body else "float32")
    assert np.array_equal(found, np.array(expected, found.dtype))
    assert request.k == (3 if "k" in body else msgspec.UNSET)


def test_requests_that_follow_each_other_closely_form_one_batch():
    import asyncio

    from manihash.web.api.batching import Batcher

    sizes = []

    def compute(jobs):
        sizes.append(len(jobs))
        return jobs

    async def results():
        batcher = Batcher(compute, 5, 100)

        async def client(turns):
            for _ in range(turns):  # the event loop reads the requests one after the other
                await asyncio.sleep(0)
            return await batcher.result("a")

        assert await asyncio.gather(*map(client, range(4))) == ["a"] * 4
        assert await asyncio.gather(*map(client, range(7))) == ["a"] * 7
        batcher.close()

    with ThreadPoolExecutor(1) as pool:  # the browser tests leave an event loop in the main thread
        pool.submit(asyncio.run, results()).result()
    assert sizes == [4, 5, 2]


def test_batches_are_computed_on_one_thread_of_blas(connect, rows):
    def numpy_threads():  # other libraries, such as FAISS, have a BLAS of their own
        return [library["num_threads"] for library in threadpool_info() if "numpy" in library["filepath"]]

    with connect() as client:
        embed, threads = client.service.hasher.embed, []
        client.service.hasher = copy(client.service.hasher)
        client.service.hasher.embed = lambda X: threads.extend(numpy_threads()) or embed(X)
        assert post(client, "/v1/search", {"vectors": rows[:2].tolist()}).status_code == 200
    assert threads == [1]


def test_only_short_quick_batches_are_computed_in_the_event_loop():
    import asyncio

    from manihash.web.api.batching import Batcher

    threads = []

    def compute(jobs):
        threads.append(threading.current_thread().name.startswith("event-loop"))
        deadline = time.thread_time() + 1e-4 * sum(map(len, jobs))
        while time.thread_time() < deadline:
            pass
        return jobs

    async def results():
        batcher = Batcher(compute, 1000, 10, is_quick=lambda job: "slow" not in job)
        for job in ("a", "b", "slow", "c", "d" * 100):
            assert await batcher.result(job) == job
        batcher.close()

    # In a thread of its own: the browser tests leave an event loop in the main thread.
    with ThreadPoolExecutor(1, thread_name_prefix="event-loop") as pool:
        pool.submit(asyncio.run, results()).result()
    assert threads == [False, True, False, True, False]
