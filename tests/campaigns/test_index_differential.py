"""Random indexes, changes, filters and queries: HammingIndex against brute force and FAISS.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os

import numpy as np
import pytest

from manihash.codes import hamming, pack
from manihash.search import HammingIndex, segments
from manihash.search import hamming_index as index_module

faiss = pytest.importorskip("faiss")

CASES = int(os.environ.get("MANIHASH_CASES", "200"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))


def random_codes(rng, n, n_bits):
    """Codes of which many repeat."""
    distinct = pack(rng.random((int(rng.integers(1, 30)), n_bits)) < 0.5)
    return distinct[rng.integers(len(distinct), size=n)]


def change(rng, index, rows, n_bits):
    """Add, update or remove some rows of the index and of the dictionary from id to code."""
    kind = rng.integers(3)
    new = random_codes(rng, int(rng.integers(1, 9)), n_bits)
    if kind == 0 or not rows:
        rows.update(zip(index.add(new).tolist(), new, strict=True))
        return
    ids = rng.choice(sorted(rows), min(len(new), len(rows)), replace=False)
    if kind == 1:
        index.update(new[: len(ids)], ids)
        rows.update(zip(ids.tolist(), new, strict=False))
    else:
        index.remove(ids)
        for i in ids.tolist():
            del rows[i]


def check_queries(rng, index, rows, n_bits):
    ids = np.array(sorted(rows), np.int64)
    chosen = ids if rng.random() < 0.5 else ids[rng.random(len(ids)) < 0.5]
    filter = None if len(chosen) == len(ids) else chosen
    queries = random_codes(rng, 3, n_bits)
    codes = np.array([rows[i] for i in chosen.tolist()], np.uint8).reshape(-1, queries.shape[1])
    distance = hamming(queries, codes)
    order = np.argsort(distance, axis=1, kind="stable")
    k, radius = int(rng.integers(1, 12)), int(rng.integers(0, n_bits + 1))
    found, numbers = index.search(queries, k, filter=filter)
    np.testing.assert_array_equal(numbers, chosen[order[:, :k]])
    np.testing.assert_array_equal(found, np.take_along_axis(distance, order[:, :k], axis=1))
    lims, _, near = index.within(queries, radius, filter=filter)
    for i in range(3):
        expected = chosen[order[i][np.sort(distance[i]) <= radius]]
        np.testing.assert_array_equal(near[lims[i] : lims[i + 1]], expected)
    np.testing.assert_array_equal(index.count(queries, radius, filter=filter), np.diff(lims))
    if len(codes) >= k:
        flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
        flat.add(codes)
        np.testing.assert_array_equal(flat.search(queries, k)[0], found)


def test_the_index_agrees_with_brute_force_and_faiss(monkeypatch):
    for seed in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(index_module, "_RECENT", int(rng.choice([0, 1, 16])))
        monkeypatch.setattr(segments, "_REMOVED", int(rng.choice([0, 1, 100])))
        monkeypatch.setattr(segments, "_FEW_MORE", int(rng.choice([1, 16])))
        n_bits, n = int(rng.integers(1, 140)), int(rng.integers(1, 80))
        codes = random_codes(rng, n, n_bits)
        ids = rng.choice(1000, n, replace=False) - 500 if rng.random() < 0.5 else np.arange(n)
        index, rows = HammingIndex(codes, n_bits, ids), dict(zip(ids.tolist(), codes, strict=True))
        for _ in range(int(rng.integers(0, 4))):
            change(rng, index, rows, n_bits)
            if rng.random() < 0.5:  # what this query prepares is used by the next one
                check_queries(rng, index, rows, n_bits)
        assert index.ids.tolist() == sorted(rows), seed
        check_queries(rng, index, rows, n_bits)
