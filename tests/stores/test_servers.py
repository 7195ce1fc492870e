"""ClickHouse and Qdrant: servers that refuse a password, and what is specific to them."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from command import invoke
from store_databases import new_address, repeated_codes, shared_folder

from manihash.stores import StoreError, create_store, open_store

pytestmark = pytest.mark.extra

REFUSED = (
    "Code: 516. DB::Exception: me: Authentication failed: password is incorrect, or there is no user with "
    "such name. (AUTHENTICATION_FAILED) (version 26.9.1.1)\n"
)


@contextmanager
def answering(status, text, headers):
    """The port of a server that answers every request as a real one does that refuses a password."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *parts):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


SERVERS = {
    "clickhouse://me:secret@127.0.0.1:{}/db": (
        403,
        REFUSED,
        {"X-ClickHouse-Exception-Code": "516"},
        "Authentication failed: password is incorrect",
    ),
    "qdrant://:secret@127.0.0.1:{}": (
        401,
        "Invalid API key or JWT",
        {},
        "Qdrant reports an error: 401 Unauthorized (Invalid API key or JWT)",
    ),
}


@pytest.mark.parametrize("url", SERVERS)
def test_a_wrong_password_gives_one_line_without_it(url, tmp_path, capfd):
    status, text, headers, expected = SERVERS[url]
    np.save(tmp_path / "codes.npy", repeated_codes(5, 16))
    with answering(status, text, headers) as port:
        with pytest.raises(StoreError) as caught:
            open_store(url.format(port))
        assert expected in str(caught.value)
        done = invoke(["export", str(tmp_path / "codes.npy"), "--to", url.format(port)])
    assert done.exit_code == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()].count("error") == 1
    assert "secret" not in done.output + str(caught.value) + capfd.readouterr().err
    assert "Traceback" not in done.output


def test_a_clickhouse_table_with_other_columns_is_refused():
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb", path=str(shared_folder("chdb")))
    client.command("CREATE TABLE others (id Int64, code String) ENGINE = MergeTree ORDER BY id")
    client.command("CREATE TABLE words (id Int64, code UInt64, x Int8) ENGINE = MergeTree ORDER BY id")
    client.insert("words", [[7, 5, 0]], column_names=["id", "code", "x"])
    with pytest.raises(
        StoreError, match="has the columns id Int64, code String: expected id Int64 or String"
    ):
        open_store(f"chdb:{shared_folder('chdb')}?table=others")
    with open_store(f"chdb:{shared_folder('chdb')}?table=words") as store:
        assert store.n_bits == 64
        assert store.get([7]).tolist() == [[0, 0, 0, 0, 0, 0, 0, 5]]
    client.close()


def test_a_qdrant_collection_with_other_vectors_is_refused(tmp_path):
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(tmp_path / "q"))
    client.create_collection("codes", models.VectorParams(size=4, distance=models.Distance.COSINE))
    client.close()
    with pytest.raises(
        StoreError, match="has the vectors unnamed Cosine: expected code with the distance Dot"
    ):
        open_store(f"qdrant:{tmp_path / 'q'}")


def test_rows_above_the_size_of_a_message_to_qdrant_are_sent_in_parts(tmp_path, monkeypatch):
    from manihash.stores import qdrant

    monkeypatch.setattr(qdrant, "_VALUES_PER_MESSAGE", 16 * 7)
    codes = repeated_codes(50, 16)
    with create_store(new_address("qdrant", tmp_path), 16) as store:
        store.add(codes, np.arange(50))
        np.testing.assert_array_equal(store.get(np.arange(50)), codes)


def test_a_folder_of_qdrant_is_closed_with_its_last_store(tmp_path):
    from manihash.stores import qdrant

    address = new_address("qdrant", tmp_path)
    one, other = create_store(address, 16), open_store(address)
    one.close()
    one.close()
    other.add(repeated_codes(1, 16), [1])
    assert qdrant._shared_folders
    other.close()
    assert not qdrant._shared_folders
