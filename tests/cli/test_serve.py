"""manihash serve: what it refuses at the start, and that it serves."""

import json
import signal

import numpy as np
import pytest
from command import run, stderr_line

pytest.importorskip("starlette")
httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.extra

from web.serving import serving  # noqa: E402

from manihash.hashers import LSH  # noqa: E402
from manihash.web.server import listening_socket  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder with vectors, models of 12 and 16 bits, and an index of 12 bits."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    np.save("vectors.npy", X)
    for bits in (12, 16):
        LSH(n_bits=bits, random_state=bits).fit(X).save(f"model{bits}.mhash")
    LSH(n_bits=12, random_state=99).fit(X).save("other.mhash")
    run("encode", "model12.mhash", "vectors.npy", "-o", "codes.npy")
    run("index", "codes.npy", "--model", "model12.mhash", "-o", "codes.mhx")
    return tmp_path


def test_it_answers_and_ends_at_a_signal(folder):
    X = np.load("vectors.npy")
    with serving("model12.mhash", "codes.mhx", "--vectors", "vectors.npy") as server:
        body = {"vectors": X[:3].tolist(), "k": 1, "rerank": True}
        answer = httpx.post(f"{server.url}/v1/search", json=body)
        assert answer.json()["ids"] == [[0], [1], [2]]
        assert server.stop() == 0
    assert "50 codes at http://127.0.0.1:" in server.output


def test_labels_and_images_of_files_are_served(folder):
    np.save("labels.npy", np.array(["cat", "dog"] * 25))
    np.save("images.npy", np.zeros((50, 3, 3), np.uint8))
    files = ("--labels", "labels.npy", "--images", "images.npy")
    with serving("model12.mhash", "codes.mhx", *files) as server:
        body = {"vectors": np.load("vectors.npy")[:2].tolist(), "k": 2}
        found = httpx.post(f"{server.url}/v1/search", json=body).json()
        assert found["labels"] == [[["cat", "dog"][i % 2] for i in ids] for ids in found["ids"]]
        assert httpx.get(f"{server.url}/v1/images/49").content.startswith(b"\x89PNG")


def test_an_index_of_names_is_served_with_its_vectors(folder):
    names = [f"cat {i}.jpg" for i in range(50)]
    (folder / "names.txt").write_text("\n".join(names))
    files = ("codes.npy", "--ids", "names.txt", "--vectors", "vectors.npy")
    with serving("model12.mhash", *files) as server:
        body = {"vectors": np.load("vectors.npy")[:3].tolist(), "k": 1, "rerank": True}
        assert httpx.post(f"{server.url}/v1/search", json=body).json()["ids"] == [[n] for n in names[:3]]
    run("index", "codes.npy", "--ids", "names.txt", "--model", "model12.mhash", "-o", "named.mhx")
    args = ["serve", "model12.mhash", "named.mhx", "--vectors", "vectors.npy"]
    assert "are strings: give --ids" in stderr_line(run(*args, code=2))
    (folder / "other.txt").write_text("\n".join([*names[:-1], "dog.jpg"]))
    assert "is not in --ids" in stderr_line(run(*args, "--ids", "other.txt", code=2))


def test_vectors_in_another_order_than_the_rows_are_refused_unless_rows_were_updated(folder):
    X = np.load("vectors.npy")
    np.save("turned.npy", X[::-1])
    args = ["model12.mhash", "codes.mhx", "--vectors"]
    refused = stderr_line(run("serve", *args, "turned.npy", code=2))
    assert "vector 0 is not that of id 0 of codes.mhx: its code differs" in refused
    assert "vector 0" in stderr_line(run("serve", *args, "turned.npy", "--writable", code=2))
    assert not (folder / "codes.mhx.journal").exists()
    with serving(*args, "vectors.npy", "--writable") as server:
        body = {"vectors": X[::-1].tolist(), "ids": list(range(50))}
        assert httpx.put(f"{server.url}/v1/rows", json=body).status_code == 200
    with serving(*args, "vectors.npy") as server:  # the vectors of all rows are beside the index now
        body = {"vectors": X[:3].tolist(), "k": 1, "rerank": True}
        assert httpx.post(f"{server.url}/v1/search", json=body).json()["ids"] == [[49], [48], [47]]


def test_a_file_of_codes_is_served_without_an_index_file(folder):
    with serving("model12.mhash", "codes.npy") as server:
        assert httpx.get(f"{server.url}/v1/info").json()["index"]["rows"] == 50


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["model16.mhash", "codes.mhx"], "codes of 12 bits, but the model makes codes of 16"),
        (["other.mhash", "codes.mhx"], "holds codes of another model"),
        (["missing.mhash", "codes.mhx"], "no model file at missing.mhash"),
        (["model12.mhash", "missing.mhx"], "no index file at missing.mhx"),
        (
            ["model12.mhash", "codes.mhx", "--vectors", "codes.npy"],
            "codes.npy has 2 features, but LSH is expecting 4 features",
        ),
        (
            ["model12.mhash", "codes.mhx", "--vectors", "few.npy"],
            "got 10 vectors, but codes.mhx has ids from 0",
        ),
        (["model12.mhash", "codes.mhx", "--labels", "codes.npy"], "one label for each of 50 rows"),
        (["model12.mhash", "codes.mhx", "--images", "images.npy"], "entry i must belong to id i"),
        (
            ["model12.mhash", "codes.mhx", "--images", "images.npy", "--writable"],
            "entry i must belong to id i",
        ),
        (["model12.mhash", "codes.mhx", "--texts", "missing.txt"], "no file at missing.txt"),
        (["model12.mhash", "codes.mhx", "--images", "images.npy", "--image-dir", "."], "give one of them"),
        (["model12.mhash", "codes.mhx", "--max-k", "0"], "--max-k must be a whole number of at least 1"),
        (["model12.mhash", "codes.mhx", "--timeout", "nan"], "--timeout must be a finite number"),
        (["model12.mhash", "codes.mhx", "--port", "70000"], "port must be from 0 to 65535"),
        (["model12.mhash", "codes.mhx", "--host", "192.0.2.1"], "not an address of this machine"),
        (["model12.mhash", "codes.mhx", "--api-key-file", "empty.txt"], "keys of at least 16"),
        (["model12.mhash", "codes.mhx", "--api-key-file", "missing.txt"], "missing.txt"),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(folder, args, message):
    np.save("few.npy", np.zeros((10, 4)))
    np.save("images.npy", np.zeros((10, 4, 4)))
    (folder / "empty.txt").write_text("")
    assert message in stderr_line(run("serve", *args, code=2))


def test_a_damaged_index_is_refused(folder):
    content = bytearray((folder / "codes.mhx").read_bytes())
    content[-9] ^= 1
    (folder / "codes.mhx").write_bytes(content)
    assert "is damaged" in stderr_line(run("serve", "model12.mhash", "codes.mhx", code=2))


def test_a_port_in_use_is_refused(folder):
    with listening_socket("127.0.0.1", 0) as bound:
        port = str(bound.getsockname()[1])
        result = run("serve", "model12.mhash", "codes.mhx", "--port", port, code=2)
    assert f"port {port} of 127.0.0.1 is in use" in stderr_line(result)


def test_missing_and_readable_keys_are_warned_of(folder):
    (folder / "key.txt").write_text("0123456789abcdef\n")
    (folder / "key.txt").chmod(0o644)
    args = ["serve", "model12.mhash", "codes.mhx", "--port", "70000"]
    assert "chmod 600 key.txt" in stderr_line(run(*args, "--api-key-file", "key.txt", code=2))
    assert "everyone who can reach 0.0.0.0" in stderr_line(run(*args, "--host", "0.0.0.0", code=2))


def test_a_server_that_could_be_changed_by_anyone_is_refused(folder):
    args = ["serve", "model12.mhash"]
    result = run(*args, "codes.mhx", "--writable", "--host", "0.0.0.0", code=2)
    assert "give --api-key-file" in stderr_line(result)
    assert "--writable needs an index file" in stderr_line(run(*args, "codes.npy", "--writable", code=2))


def test_search_reads_the_changes_that_a_killed_server_left(folder):
    X = np.load("vectors.npy")
    with serving("model12.mhash", "codes.mhx", "--writable") as server:
        ids = httpx.post(f"{server.url}/v1/rows", json={"vectors": X[:1].tolist()}).json()["ids"]
        server.process.kill()
    assert ids == [50]
    np.save("query.npy", X[:1])
    result = run("search", "model12.mhash", "codes.mhx", "query.npy", "--radius", "0", "--json")
    assert {0, 50} <= set(json.loads(result.stdout)["answers"][0]["ids"])


def test_a_writable_server_records_its_model_before_it_adds_rows(folder):
    from manihash import HammingIndex, load

    HammingIndex(np.load("codes.npy"), 12).save("unknown.mhx")
    with serving("model12.mhash", "unknown.mhx", "--writable") as server:
        body = {"vectors": np.load("vectors.npy")[:1].tolist()}
        assert httpx.post(f"{server.url}/v1/rows", json=body).json()["ids"] == [50]
        server.stop(signal.SIGKILL)
    index = HammingIndex.load("unknown.mhx")
    assert len(index) == 51
    assert index.made_by == load("model12.mhash").lineage_["id"]
    assert "another model" in stderr_line(run("serve", "other.mhash", "unknown.mhx", code=2))
