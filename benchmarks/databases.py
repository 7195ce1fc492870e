"""Load and search one set of codes in every database, and find its longest codes: ``make bench-databases``.

100,000 codes of 64 bits, 10,000 of them distinct, of which the first 24 bits are the first part. Single
queries, medians. A store that loads slowly gets the first rows of the set. Every store is part of this
process or of this machine: a server on a network has its own times. Writes ``docs/results/databases.json``.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from _results import ROOT, is_current, record

from manihash import CodeLayout, HammingIndex, create_store, export_codes
from manihash.stores import Store, sqlite_file

ROWS, BITS, FIRST, QUERIES = 100_000, 64, 24, 20
LENGTHS = (256, 1024, 4096, 16_384, 65_536)


@dataclass(frozen=True)
class Database:
    """The address of a store in a folder, the library that it needs, and what it is to a user."""

    address: str
    library: str
    filters: str
    rows: int = ROWS
    first: bool = False
    plain: bool = False
    """Whether SQLite works without libraries."""


SQL = "any SQL condition"
DATABASES = {
    "FAISS file": Database("{}/a.faiss", "numpy", "none"),
    "usearch": Database("{}/a.usearch", "usearch", "none", rows=20_000),
    "usearch, HNSW": Database("{}/a.usearch?index=hnsw", "usearch", "none", rows=20_000),
    "DuckDB": Database("{}/a.duckdb", "duckdb", SQL, first=True),
    "Parquet file": Database("{}/a.parquet", "duckdb", SQL, first=True),
    "SQLite, sqlite-vec": Database("{}/a.db", "sqlite-vec", SQL, first=True),
    "SQLite, Python alone": Database("{}/a.db", "numpy", SQL, first=True, plain=True),
    "LanceDB": Database("{}/a.lance", "lancedb", SQL),
    "PostgreSQL": Database("postgres", "psycopg", SQL, first=True),
    "PostgreSQL, HNSW": Database("postgres&index=hnsw", "psycopg", SQL, rows=20_000, first=True),
    "ClickHouse, chDB": Database("chdb:{}", "chdb", SQL, first=True),
    "milvus-lite": Database("milvus:{}/a.db", "pymilvus", "expressions"),
    "Qdrant, folder": Database("qdrant:{}", "qdrant-client", "payload", rows=2_000, first=True),
}


def codes() -> Any:
    """The set: codes (ROWS, 8) with duplicates, as learned codes have."""
    rng = np.random.default_rng(0)
    distinct = rng.integers(0, 256, (ROWS // 10, BITS // 8), np.uint8)
    return distinct[rng.integers(len(distinct), size=ROWS)]


def addresses(database: Database) -> Iterator[str]:
    """Addresses of stores that do not exist yet."""
    if database.address.startswith("postgres"):
        sys.path.append(str(ROOT / "tests"))
        from store_databases import postgres_url

        options = database.address.removeprefix("postgres")
        yield from (f"{postgres_url()}&table=t{i}{options}" for i in range(100))
    # A process has one folder of chDB, and a name of a milvus-lite file is short.
    folder = Path(tempfile.mkdtemp(prefix="mh", dir="/tmp"))
    shared = database.address.startswith(("chdb", "milvus"))
    try:
        for i in range(100):
            table = f"?table=t{i}" if shared else ""
            yield database.address.format(folder if shared else folder / str(i)) + table
            (folder / str(i)).mkdir(exist_ok=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def milliseconds(work: Callable[[Any], Any], queries: Any) -> float:
    """Median time of single queries."""
    times = []
    for query in queries:
        start = time.perf_counter()
        work(query[None])
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def measure(database: Database) -> dict[str, Any]:
    """Load, search, look-up, and the share of the 10 nearest distances that the store finds."""
    rows = codes()[: database.rows]
    queries = rows[:: len(rows) // QUERIES][:QUERIES] ^ np.uint8(1)
    places = addresses(database)
    address = _made(next(places))
    with create_store(address, BITS, layout=CodeLayout(BITS, FIRST) if database.first else None) as store:
        start = time.perf_counter()
        export_codes(rows, store)
        seconds = time.perf_counter() - start
        expected = HammingIndex(rows, BITS).search(queries, 10)[0]
        near = np.concatenate([store.search(query[None], 10)[0] for query in queries])
        found = {
            "rows": len(rows),
            "rows per second": len(rows) / seconds,
            "10 nearest, ms": milliseconds(lambda query: store.search(query, 10), queries),
            "within 2, ms": milliseconds(lambda query: store.within(query, 2), queries),
            "first part within 2, ms": _first(store, queries),
            "distances found": float((near == expected).mean()),
        }
    longest = longest_codes(places, database)
    return {**found, "longest codes": longest, "filters": database.filters, "library": _library(database)}


def _first(store: Store, queries: Any) -> float | None:
    if store.look_up_bits is None:
        return None
    return milliseconds(lambda query: store.within(query, 2, part="first"), queries)


def _made(address: str) -> str:
    """The address, when the folder of its file exists."""
    path = Path(
        address.removeprefix("milvus:").removeprefix("qdrant:").removeprefix("chdb:").partition("?")[0]
    )
    if "://" not in address:
        path.parent.mkdir(parents=True, exist_ok=True)
    return address


def longest_codes(places: Iterator[str], database: Database) -> int:
    """The largest of some numbers of bits of which a store can be made, filled and searched."""
    longest = BITS
    for n_bits in LENGTHS:
        rows = np.random.default_rng(0).integers(0, 256, (3, n_bits // 8), np.uint8)
        try:
            with create_store(_made(next(places)), n_bits) as store:
                store.add(rows, [1, 2, 3])
                assert store.search(rows[1:2], 1)[1].tolist() == [[2]]
        except Exception as error:
            print(f"  {n_bits} bits: {str(error)[:100]}")
            break
        longest = n_bits
    return longest


def _library(database: Database) -> str:
    return "" if database.library == "numpy" else f"{database.library} {version(database.library)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=DATABASES, help="measure one of the databases")
    parser.add_argument("--missing", action="store_true", help="only what is not recorded of this code")
    options = parser.parse_args()
    if options.only is None:  # each in a process of its own: engines keep threads and memory
        wanted = [name for name in DATABASES if not (options.missing and is_current("databases", name))]
        sys.exit(
            sum(subprocess.run([sys.executable, __file__, "--only", name]).returncode for name in wanted)
        )
    database = DATABASES[options.only]
    if database.plain:
        sqlite_file.find_spec = lambda module: None
    found = measure(database)
    print(options.only, found, flush=True)
    record("databases", options.only, found)


if __name__ == "__main__":
    main()
