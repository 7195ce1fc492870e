"""Rows are changed over the API, durable before they are acknowledged, and new index files are picked up."""

import base64
import itertools
import os
import random
import signal
import socket
import threading
import time

import numpy as np
import pytest

httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from web.conftest import index_of  # noqa: E402
from web.serving import forked_serving, serving  # noqa: E402

from manihash import HammingIndex  # noqa: E402
from manihash.hashers import LSH  # noqa: E402
from manihash.pages import pictures  # noqa: E402
from manihash.pages.thumbnails import ArrayImages  # noqa: E402

N_KILLS = int(os.environ.get("MANIHASH_KILLS", "3"))


@pytest.fixture
def file(tmp_path, hasher, rows):
    path = tmp_path / "codes.mhx"
    index_of(hasher, rows[:100]).save(path)
    return path


@pytest.fixture
def writable(connect, file):
    with connect(file=file) as client:
        yield client


def nearest(client, vectors):
    answer = client.post("/v1/search", json={"vectors": vectors.tolist(), "radius": 0})
    assert answer.status_code == 200, answer.text
    return answer.json()["ids"]


def test_rows_are_added_updated_and_deleted(writable, file, rows, hasher):
    new = rows[200:203] * 3
    answer = writable.post("/v1/rows", json={"vectors": new.tolist()})
    assert answer.json() == {"ids": [100, 101, 102], "rows": 103}
    assert all(i in found for i, found in zip([100, 101, 102], nearest(writable, new), strict=True))
    answer = writable.post(
        "/v1/rows", content=new[:1].tobytes(), headers={"content-type": "application/octet-stream"}
    )
    assert answer.json() == {"ids": [103], "rows": 104}
    assert writable.post("/v1/rows", json={"vectors": new[:1].tolist(), "ids": [-5]}).json()["ids"] == [-5]
    answer = writable.put("/v1/rows", json={"vectors": (-new[:2]).tolist(), "ids": [101, 7]})
    assert answer.json() == {"ids": [101, 7], "rows": 105}
    assert 7 in nearest(writable, -new[1:2])[0]
    assert writable.post("/v1/rows/delete", json={"ids": [100, 103]}).json() == {
        "ids": [100, 103],
        "rows": 103,
    }
    assert sorted(HammingIndex.load(file).ids.tolist()) == [-5, *range(100), 101, 102]
    assert writable.get("/v1/info").json()["writable"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/v1/rows", {"ids": [5]}, 409, "id 5 is already in the index"),
        ("POST", "/v1/rows", {"ids": [500, 501]}, 400, "got 1 rows and 2 ids"),
        ("POST", "/v1/rows", {"ids": []}, 400, "got 1 rows and 0 ids"),
        ("POST", "/v1/rows", {"ids": [2**63]}, 400, "ids"),
        ("POST", "/v1/rows", {"ids": ["a"]}, 400, "the ids of this index are integers"),
        ("PUT", "/v1/rows", {"ids": [100]}, 404, "id 100 is not in the index"),
        ("PUT", "/v1/rows", {}, 400, "missing required field `ids`"),
        ("POST", "/v1/rows/delete", {"ids": [1, 100], "vectors": None}, 404, "id 100 is not in the index"),
        ("POST", "/v1/rows/delete", {"ids": [1, 1], "vectors": None}, 400, "must be distinct"),
        ("POST", "/v1/rows/delete", {"ids": [], "vectors": None}, 400, "length >= 1"),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(
    writable, file, rows, method, path, body, status, message
):
    body = {"vectors": rows[:1].tolist()} | body
    body = {name: value for name, value in body.items() if value is not None}
    answer = writable.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
    assert len(HammingIndex.load(file)) == len(writable.service.index) == 100


def test_rows_are_not_changed_unless_the_server_is_writable(client, rows):
    for method, path in (("POST", "/v1/rows"), ("PUT", "/v1/rows"), ("POST", "/v1/rows/delete")):
        answer = client.request(method, path, json={"vectors": rows[:1].tolist(), "ids": [1]})
        assert answer.status_code == 403
        assert "--writable" in answer.json()["error"]


def test_the_index_file_has_all_changes_after_the_end(connect, file, rows):
    with connect(file=file) as client:
        client.post("/v1/rows", json={"vectors": rows[:2].tolist()})
    assert len(HammingIndex.load(file)) == 102


def test_all_rows_can_be_deleted_and_searched(writable, rows):
    assert writable.post("/v1/rows/delete", json={"ids": list(range(100))}).json()["rows"] == 0
    assert nearest(writable, rows[:2]) == [[], []]
    body = {"vectors": rows[:2].tolist(), "k": 3}
    assert writable.post("/v1/search", json=body).json()["ids"] == [[], []]
    assert writable.post("/v1/rows", json={"vectors": rows[:1].tolist()}).json()["ids"] == [100]


def test_a_change_that_cannot_be_stored_is_not_acknowledged(writable, file, rows, monkeypatch):
    def fails(handle):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        answer = writable.post("/v1/rows", json={"vectors": rows[:1].tolist()})
    assert answer.status_code == 507
    assert len(writable.service.index) == len(HammingIndex.load(file)) == 100
    assert nearest(writable, rows[:1])[0]


def test_concurrent_clients_add_rows_and_all_are_kept(writable, file, rows):
    ids = []

    def add(n):
        for i in range(n, n + 10):
            answer = writable.post("/v1/rows", json={"vectors": rows[i : i + 2].tolist()})
            ids.extend(answer.json()["ids"])

    threads = [threading.Thread(target=add, args=(10 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(100, 220))
    assert len(HammingIndex.load(file)) == 220


def png(shade, shape=(8, 8)):
    return pictures.png(np.full(shape, shade, np.uint8))


def in_base64(content):
    return base64.b64encode(content).decode()


def test_new_rows_are_ranked_by_their_vectors_and_shown_with_what_belongs_to_them(connect, file, rows):
    images = ArrayImages(np.arange(100, dtype=np.uint8)[:, None, None] + np.zeros((1, 4, 4), np.uint8))
    options = {"vectors": rows[:100], "labels": [f"old {i}" for i in range(100)], "texts": ["old"] * 100}
    new = rows[200:202] * 3
    with connect(file=file, images=images, **options) as client:
        body = {"vectors": new.tolist(), "labels": ["cat", 7], "texts": [None, "seven"]}
        answer = client.post("/v1/rows", json=body | {"images": [in_base64(png(9)), None]})
        assert answer.json() == {"ids": [100, 101], "rows": 102}, answer.text
        client.put("/v1/rows", json={"vectors": (new[:1] * 2).tolist(), "ids": [5], "labels": ["changed"]})
        client.post("/v1/rows/delete", json={"ids": [6]})
        client.post("/v1/rows", json={"vectors": (-new[:1]).tolist(), "ids": [6]})

        def asked():
            found = client.post(
                "/v1/search",
                json={"vectors": [*new.tolist(), *(new[:1] * 2).tolist(), *(-new[:1]).tolist()]}
                | {"k": 1, "rerank": True, "candidates": 102},
            ).json()
            picture = client.get("/v1/images/100").content
            missing = [client.get(f"/v1/images/{i}").status_code for i in (101, 6, 5)]
            return found, picture, missing

        found, picture, missing = asked()
        assert found["ids"] == [[100], [101], [5], [6]]
        assert found["distances"] == [[0], [0], [0], [0]]
        assert found["labels"] == [["cat"], [7], ["changed"], [None]], "an old label is not that of a new row"
        assert found["texts"] == [[None], ["seven"], ["old"], [None]]
        assert picture == png(9)
        assert missing == [404, 404, 200]
        info = client.get("/v1/info").json()
        assert [info[name] for name in ("rerank", "labels", "images", "texts")] == [True] * 4
    with connect(file=file, images=images, **options) as client:  # after the end, from the files
        expected = found, picture, missing
        assert asked() == expected


def test_rows_without_anything_else_make_no_file_beside_the_index(connect, file, rows):
    with connect(file=file) as client:
        client.post("/v1/rows", json={"vectors": rows[:1].tolist()})
        client.post("/v1/rows/delete", json={"ids": [3]})
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"labels": []}, "got 1 rows and 0 labels"),
        ({"texts": ["a", "b"]}, "got 1 rows and 2 texts"),
        ({"labels": [["a"]]}, "Expected `int | float | str | null`"),
        ({"texts": [7]}, "Expected `str | null`"),
        ({"images": ["%%%"]}, "image 0 cannot be read: it is not base64"),
        ({"images": [in_base64(b"no image")]}, "image 0 cannot be read: the file is not an image"),
        ({"images": [None, None]}, "got 1 rows and 2 images"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_what_belongs_to_rows_is_checked_before_the_journal(writable, file, rows, method, body, message):
    ids = [500] if method == "POST" else [5]
    answer = writable.request(method, "/v1/rows", json={"vectors": rows[:1].tolist(), "ids": ids} | body)
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]
    assert len(HammingIndex.load(file)) == 100
    assert not HammingIndex.load(file)._stored.fields().knows(5, "labels")


@pytest.fixture
def files(tmp_path, rows):
    """A model file and an index file."""
    model, path = tmp_path / "model.mhash", tmp_path / "codes.mhx"
    hasher = LSH(n_bits=20, random_state=0).fit(rows)
    hasher.save(model)
    index = HammingIndex(hasher.encode(rows), 20)
    index.made_by = hasher.lineage_["id"]
    index.save(path)
    return model, path


def keep_adding_labels(url, rows, acknowledged, ended, names):
    """Add rows whose labels, texts and vectors say which ones they are."""
    with httpx.Client(base_url=url) as client:
        for number in names:
            if ended.is_set():
                return
            vectors = [[float(number)] * len(rows[0])] * 2
            body = {"vectors": vectors, "labels": [number] * 2, "texts": [f"text {number}"] * 2}
            try:
                answer = client.post("/v1/rows", json=body)
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            acknowledged.update(dict.fromkeys(answer.json()["ids"], number))


def test_what_belongs_to_acknowledged_rows_survives_kill_9(files, rows, tmp_path):
    np.save(tmp_path / "vectors.npy", rows)
    acknowledged, names = {}, itertools.count(1)
    for _ in range(N_KILLS):
        with forked_serving(*files, "--writable", "--vectors", tmp_path / "vectors.npy") as server:
            ended = threading.Event()
            args = (server.url, rows[:2].tolist(), acknowledged, ended, names)
            threads = [threading.Thread(target=keep_adding_labels, args=args) for _ in range(2)]
            for thread in threads:
                thread.start()
            before = len(acknowledged)
            wait_for(lambda: len(acknowledged) > before)  # noqa: B023
            time.sleep(random.Random(before).uniform(0, 0.5))
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            ended.set()
            for thread in threads:
                thread.join()
        attached = HammingIndex.load(files[1])._stored.fields()
        for identity, number in acknowledged.items():
            assert attached.value(identity, "labels") == number
            assert attached.value(identity, "texts") == f"text {number}"
            assert attached.value(identity, "vectors").tolist() == [number] * rows.shape[1]
    with serving(*files, "--vectors", tmp_path / "vectors.npy") as server:
        identity, number = list(acknowledged.items())[-1]
        body = {"vectors": [[float(number)] * rows.shape[1]], "k": 1, "rerank": True, "candidates": 1000}
        found = httpx.post(f"{server.url}/v1/search", json=body).json()
        assert found["distances"] == [[0.0]]
        assert found["labels"] == [[number]]


def keep_adding(url, rows, acknowledged, ended):
    with httpx.Client(base_url=url) as client:
        while not ended.is_set():
            try:
                answer = client.post("/v1/rows", json={"vectors": rows})
            except httpx.TransportError:
                return
            assert answer.status_code == 200, answer.text
            acknowledged.update(answer.json()["ids"])


def test_every_acknowledged_row_survives_kill_9(files, rows):
    acknowledged = set(range(400))
    for _ in range(N_KILLS):
        with forked_serving(*files, "--writable") as server:
            ended = threading.Event()
            args = (server.url, rows[:2].tolist(), acknowledged, ended)
            threads = [threading.Thread(target=keep_adding, args=args) for _ in range(4)]
            for thread in threads:
                thread.start()
            before = len(acknowledged)
            wait_for(lambda: len(acknowledged) > before)  # noqa: B023
            time.sleep(random.Random(before).uniform(0, 0.5))
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            ended.set()
            for thread in threads:
                thread.join()
        assert acknowledged <= set(HammingIndex.load(files[1]).ids.tolist())


def test_two_servers_do_not_write_to_one_index(files):
    with serving(*files, "--writable"), pytest.raises(AssertionError, match="another process writes"):
        serving(*files, "--writable").__enter__()


def test_a_new_index_file_is_used_without_losing_a_request(files, rows):
    model, path = files
    failures, seen = [], set()
    ended = threading.Event()

    def ask(url):
        with httpx.Client(base_url=url) as client:
            while not ended.is_set():
                answer = client.post("/v1/search", json={"vectors": rows[:1].tolist(), "k": 1})
                seen.add(tuple(answer.json().get("ids", [[None]])[0]))
                failures.extend([answer.text] * (answer.status_code != 200))

    with serving(model, path) as server:
        thread = threading.Thread(target=ask, args=(server.url,))
        thread.start()
        wait_for(lambda: seen)
        old = HammingIndex.load(path)
        new = HammingIndex(old.codes, 20, ids=old.ids + 1000)
        new.made_by = old.made_by
        new.save(path)
        wait_for(lambda: rows_of(server) == (400, 1))
        time.sleep(0.2)
        ended.set()
        thread.join()
        path.write_bytes(b"damaged")
        wait_for(lambda: "not used" in server.output)
        LSH(n_bits=20, random_state=5).fit(rows).save(path.with_name("other.mhash"))
        assert httpx.post(f"{server.url}/v1/search", json={"vectors": rows[:1].tolist()}).status_code == 200
        HammingIndex(old.codes[:7], 20).save(path)
        wait_for(lambda: rows_of(server) == (7, 2))
    assert failures == []
    assert len(seen) == 2


def rows_of(server):
    """The number of rows of a server, and how often its index was replaced."""
    rows = httpx.get(f"{server.url}/v1/info").json()["index"]["rows"]
    metrics = httpx.get(f"{server.url}/metrics").text
    return rows, int(metrics.split("\nmanihash_index_replaced_total ")[1].split()[0])


def wait_for(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_clients_that_disconnect_or_send_nonsense_do_not_stop_the_server(files, rows):
    with serving(*files, "--max-body", "1") as server:
        port = int(server.url.rsplit(":", 1)[1])
        head = b"POST /v1/encode HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        for content in (
            b"",
            b"\x00\xff" * 100,
            b"GET / HTTP/9.9\r\n\r\n",
            head,
            head + b"content-length: 100\r\n\r\n{",
            head + b"content-length: -1\r\n\r\n",
            head + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
            head + b"content-length: 24\r\n\r\n" + b'{"vectors": [[1,2,3,4]]}',
        ):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(content)
        assert sent_before_refusal(port, head) < 50e6
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        assert server.stop() == 0
    assert "Traceback" not in server.output


def sent_before_refusal(port, head):
    """How many bytes of an endless body a server takes before it answers 413 and closes the connection."""
    sent, chunk = 0, b"10000\r\n" + bytes(2**16) + b"\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        try:
            while sent < 100e6:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
    return sent
