"""The SQL of the page on databases runs in the real databases, and finds what an index of manihash finds."""

import re

import numpy as np
import pytest
from doc_pages import ROOT
from store_databases import postgres_url, shared_folder

from manihash import CodeLayout, HammingIndex, create_store
from manihash.codes import to_pgvector

PAGE = ROOT / "docs" / "guide" / "databases.md"
N, FIRST = 500, 24

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of this installation"),
]


@pytest.fixture(scope="module")
def rows():
    """Codes (N, 8) with near ones, vectors (N, 6), and the position of the query."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (50, 8), np.uint8)[rng.integers(50, size=N)]
    codes[np.arange(N), rng.integers(8, size=N)] ^= np.uint8(1) << rng.integers(0, 8, N, np.uint8)
    return codes, rng.normal(size=(N, 6)).astype(np.float32), 7


def statements(database):
    """The statements of the page by their titles."""
    text = PAGE.read_text("utf-8").partition(f"<!-- sql: {database} -->")[2]
    block = re.search(r"```sql\n(.*?)```", text, re.DOTALL)[1]
    parts = re.split(r"^-- (.+)\n", block, flags=re.MULTILINE)[1:]
    return {
        title: [each.strip() for each in sql.split(";") if each.strip()]
        for title, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def check(asked, rows, run):
    """Run all statements but those that load, and compare their answers."""
    codes, X, q = rows
    first = HammingIndex(codes[:, : FIRST // 8], FIRST)
    asked_first = codes[q : q + 1, : FIRST // 8]
    plain = HammingIndex(codes, 64)
    expected = {"search": plain.search(codes[q : q + 1], 10)}
    expected["look up by the first part"] = first.within(asked_first, 2)[1:]
    expected["look up the bucket, without an extension"] = (None, first.bucket(asked_first[0]))
    near = np.sort(plain.search(codes[q : q + 1], 100)[1][0])
    distance = np.linalg.norm(X[near] - X[q], axis=1)
    best = np.argsort(distance, kind="stable")[:10]
    expected["re-rank"] = (distance[best], near[best])
    assert set(asked) - {"load"} <= set(expected)
    assert set(expected) - set(asked) <= {"look up the bucket, without an extension"}
    for title in set(asked) - {"load"}:
        (statement,) = asked[title]
        found = run(statement)
        distances, ids = expected[title]
        assert [row[0] for row in found] == np.ravel(ids).tolist(), title
        if distances is not None:
            np.testing.assert_allclose([row[1] for row in found], np.ravel(distances), rtol=1e-5, atol=1e-6)


def words(rows):
    codes, X, q = rows
    query = int.from_bytes(codes[q].tobytes(), "big")
    return {"query": query, "first": query >> 40 << 40, "vector": X[q].tolist()}


@pytest.fixture
def parquet(rows, tmp_path, monkeypatch):
    """The current folder with codes.parquet and vectors.parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    with create_store("codes.parquet", 64, layout=CodeLayout(64, FIRST)) as store:
        store.add(rows[0], np.arange(N))
    table = pa.table({"id": np.arange(N), "vector": pa.array(rows[1].tolist(), pa.list_(pa.float32()))})
    pq.write_table(table, "vectors.parquet")
    return tmp_path


def named(statement, values, mark):
    """The values that a statement names."""
    return {name: value for name, value in values.items() if re.search(mark.format(name), statement)}


def test_the_sql_of_duckdb(rows, parquet):
    import duckdb

    asked, values = statements("duckdb"), words(rows)
    with duckdb.connect("person.duckdb") as connection:
        for statement in asked["load"]:
            connection.execute(statement)
        connection.execute("CREATE TABLE vectors AS SELECT * FROM 'vectors.parquet'")

        def run(statement):
            return connection.execute(statement, named(statement, values, r"\${}\b")).fetchall()

        check(asked, rows, run)
        in_place = {
            title: [each.replace("FROM codes", "FROM 'codes.parquet'") for each in own]
            for title, own in asked.items()
        }
        check(in_place, rows, run)


def test_the_sql_of_sqlite(rows, tmp_path):
    import apsw
    import sqlite_vec

    codes, X, q = rows
    asked = statements("sqlite")
    connection = apsw.Connection(str(tmp_path / "person.db"))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    *create, insert = asked["load"]
    for statement in create:
        connection.execute(statement)
    stored = [{"id": i, "code": code.tobytes(), "first": code[:3].tobytes()} for i, code in enumerate(codes)]
    connection.executemany(insert, stored)
    connection.execute("CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB)")
    connection.executemany("INSERT INTO vectors VALUES (?, ?)", [(i, x.tobytes()) for i, x in enumerate(X)])
    values = {"query": codes[q].tobytes(), "first": codes[q, :3].tobytes(), "vector": X[q].tobytes()}
    check(asked, rows, lambda sql: connection.execute(sql, named(sql, values, r":{}\b")).fetchall())
    connection.close()


def test_the_sql_of_postgres(rows):
    import psycopg

    codes, X, q = rows
    asked, bits = statements("postgres"), to_pgvector(codes, 64)
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA person")
        connection.execute("SET search_path TO person, public")
        *create, insert = asked["load"]
        for statement in create:
            connection.execute(statement)
        stored = [{"id": i, "code": own, "first": own[:FIRST]} for i, own in enumerate(bits)]
        connection.cursor().executemany(insert, stored)
        connection.execute("CREATE TABLE vectors (id bigint PRIMARY KEY, vector vector(6))")
        vectors = [(i, str(x.tolist())) for i, x in enumerate(X)]
        connection.cursor().executemany("INSERT INTO vectors VALUES (%s, %s)", vectors)
        values = {"query": bits[q], "first": bits[q][:FIRST], "vector": str(X[q].tolist())}
        check(asked, rows, lambda sql: connection.execute(sql, values).fetchall())
        connection.execute("DROP SCHEMA person CASCADE")


def test_the_sql_of_clickhouse(rows, parquet):
    import clickhouse_connect

    asked, values = statements("clickhouse"), words(rows)
    client = clickhouse_connect.get_client(interface="chdb", path=str(shared_folder("chdb")))
    client.command("CREATE DATABASE person")
    client.command("USE person")

    def here(statement):
        """A statement in its own database, with the path of a file, which a server has in its own folder."""
        named_files = statement.replace("file('", f"file('{parquet}/")
        return re.sub(r"(TABLE|INTO|FROM|JOIN) (codes|vectors)\b", r"\1 person.\2", named_files)

    for statement in asked["load"]:
        client.command(here(statement))
    client.command(
        here("CREATE TABLE vectors (id Int64, vector Array(Float32)) ENGINE = MergeTree ORDER BY id")
    )
    client.command(here("INSERT INTO vectors SELECT id, vector FROM file('vectors.parquet', Parquet)"))
    check(asked, rows, lambda sql: client.query(here(sql), parameters=values).result_rows)
    client.command("DROP DATABASE person")
    client.close()
