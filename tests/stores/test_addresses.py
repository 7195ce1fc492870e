"""Addresses of stores: parsing, hidden passwords, and missing libraries."""

import sys
import traceback

import pytest

from manihash.stores import create_store, mask_password, open_store


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("codes.txt", r"'codes.txt' is not the address of a store: expected one of PATH.duckdb"),
        ("mysql://me:secret@host/db", r"mysql://me:\*\*\*@host/db' is not the address"),
        ("codes.faiss?table=x", "has the unknown option 'table'"),
        ("codes.db?tabel=x", "has the unknown option 'tabel': this kind of store accepts table"),
        ("milvus:codes.db?tabel=x", "has the unknown option 'tabel': .* accepts table and timeout"),
        ("milvus:codes.db?timeout=soon", "got timeout=soon: expected a positive number"),
        ("milvus://", "names no host"),
        ("clickhouse://", "names no host"),
        ("qdrant://", "names no host: expected qdrant://host:6333"),
        ("duckdb:", "'duckdb:' names no file: expected duckdb:PATH"),
        ("codes.usearch?index=ivf", "got index=ivf in codes.usearch: expected scan or hnsw"),
        ("postgres://host/db?index=ivf", "got index=ivf"),
    ],
)
def test_an_invalid_address_is_rejected(url, message):
    with pytest.raises(ValueError, match=message):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://me:se%20cret@host:5/db?table=x", "postgres://me:***@host:5/db?table=x"),
        (
            "postgres://host/db?user=me&password=secret&table=x",
            "postgres://host/db?user=me&password=***&table=x",
        ),
        ("milvus://me:secret@host:19530", "milvus://me:***@host:19530"),
        ("clickhouse://me:secret@host/db?table=x", "clickhouse://me:***@host/db?table=x"),
        ("clickhouse:me:secret@host", "clickhouse:me:***@host"),
        ("qdrant://:secret@host:6333", "qdrant://:***@host:6333"),
        ("qdrant+https://host?api_key=secret", "qdrant+https://host?api_key=***"),
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("odd:name@here.faiss", "odd:name@here.faiss"),
        ("postgres://me:se/c?r@et@host/db", "postgres://me:***@host/db"),
        ("postgres://host/db?PASSWORD=a&sslpassword=b", "postgres://host/db?PASSWORD=***&sslpassword=***"),
        ("postgres://host/db?pass%77ord=a&table=x", "postgres://host/db?pass%77ord=***&table=x"),
        ("milvus://host?token=a:b", "milvus://host?token=***"),
        ("host=here password='a b' user=me", "host=here password=*** user=me"),
        ("postgres:me:secret@host", "postgres:me:***@host"),
        ("codes.db?table=tokens", "codes.db?table=tokens"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert mask_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "milvus://me:secret@",
        "milvus://me:secret@host?x=1",
        "milvus://me:secret@host:port",
        "milvus://me:12/secret@host",
        "clickhouse://me:a/secret@host",
        "clickhouse+https://me:secret@host:port",
        "qdrant://:a#secret@host",
        "qdrant://:secret@host?x=1",
        "milvus://me:12?secret@host",
        "milvus://me:a?secret@host",
        "milvus://me:a#secret@host",
        "postgres://me:a/secret@host/db",
        "postgres://me:a@secret@host/db",
        "postgres://me:secret@[host/db",
        "postgres://host/db?pass%77ord=secret&index=x",
        "host=here password=secret",
    ],
)
def test_no_error_about_an_address_contains_its_password(url):
    with pytest.raises(ValueError, match=r"\*\*\*") as caught:
        open_store(url)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.extra
@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:secret@127.0.0.1:1/db",
        "postgres://me@127.0.0.1:1/db?sslpassword=secret",
        "postgres://me@127.0.0.1:1/db?PASSWORD=secret",
        "postgres://me:%zzsecret@127.0.0.1:1/db",
        "postgres://me:12?secret=a@127.0.0.1:1/db",
        "milvus://me:secret@127.0.0.1:1?timeout=1",
        "clickhouse://me:secret@127.0.0.1:1/db?timeout=1",
        "qdrant://:secret@127.0.0.1:1?timeout=1",
    ],
)
def test_no_error_of_a_driver_contains_the_password(url, caplog):
    with pytest.raises((ValueError, ConnectionError)) as caught:
        open_store(url)
    assert "secret" not in "".join(traceback.format_exception(caught.value)) + caplog.text


@pytest.mark.extra
def test_a_missing_clickhouse_server_is_named_without_python_objects():
    with pytest.raises(ConnectionError) as caught:
        open_store("clickhouse://me:secret@127.0.0.1:1/db?timeout=1")
    assert str(caught.value).startswith("ClickHouse does not respond: Failed to establish a new connection")
    assert "HTTPConnection" not in str(caught.value)


@pytest.mark.parametrize(
    ("library", "url", "part"),
    [
        ("lancedb", "a.lance", "lancedb"),
        ("pyarrow", "a.lance", "lancedb"),
        ("psycopg", "postgres://host/db", "postgres"),
        ("pymilvus", "milvus://host:1", "milvus"),
        ("milvus_lite", "milvus:a.db", "milvus-lite"),
        ("duckdb", "a.duckdb", "duckdb"),
        ("duckdb", "a.parquet", "duckdb"),
        ("clickhouse_connect", "clickhouse://host:1", "clickhouse"),
        ("usearch.index", "a.usearch", "usearch"),
        ("qdrant_client", "qdrant:folder", "qdrant"),
    ],
)
def test_the_error_for_a_missing_library_names_the_extra_that_installs_it(
    monkeypatch, tmp_path, library, url, part
):
    if library == "lancedb":
        pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match=rf"needs {library}(\.\w+)?, .*: pip install 'manihash\[{part}\]'"):
        create_store(url, 8)


def test_n_bits_must_be_a_positive_integer(tmp_path):
    for n_bits in (0, -3, 1.5, True):
        with pytest.raises(ValueError, match="n_bits must be a whole number of at least 1"):
            create_store(str(tmp_path / "a.faiss"), n_bits)
    assert not list(tmp_path.iterdir())
