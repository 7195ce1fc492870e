"""Addresses of stores: what they mean, what is shown of them, and what is missing to use them."""

import sys

import pytest

from manihash.stores import create_store, open_store, without_password


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("codes.txt", r"'codes.txt' is no address of a store: one of PATH.faiss"),
        ("mysql://me:secret@host/db", r"mysql://me:\*\*\*@host/db' is no address"),
        ("codes.faiss?table=x", "has an option 'table': it takes none"),
        ("codes.db?tabel=x", "has an option 'tabel': it takes table and timeout"),
        ("codes.db?timeout=soon", "timeout=soon came: a number of seconds"),
        ("milvus://", "names no host"),
        ("postgres://host/db?index=ivf", "index=ivf came"),
    ],
)
def test_an_address_that_means_nothing_is_refused(url, message):
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
        ("postgres://me@host/db", "postgres://me@host/db"),
        ("odd:name@here.faiss", "odd:name@here.faiss"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("library", "url", "part"),
    [
        ("lancedb", "a.lance", "lancedb"),
        ("pyarrow", "a.lance", "lancedb"),
        ("psycopg", "postgres://host/db", "postgres"),
        ("pymilvus", "milvus://host:1", "milvus"),
        ("milvus_lite", "a.db", "milvus-lite"),
    ],
)
def test_a_library_that_is_missing_is_named_with_the_extra_that_brings_it(
    monkeypatch, tmp_path, library, url, part
):
    if library == "lancedb":
        pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match=rf"needs {library}, .*: pip install 'manihash\[{part}\]'"):
        create_store(url, 8)


def test_the_width_must_be_a_width(tmp_path):
    for n_bits in (0, -3, 1.5, True):
        with pytest.raises(ValueError, match="n_bits must be a whole number of at least 1"):
            create_store(str(tmp_path / "a.faiss"), n_bits)
    assert not list(tmp_path.iterdir())
