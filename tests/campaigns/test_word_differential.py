"""Random words, indexes, changes, filters, weights and queries: the index against brute force in float64.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os
from itertools import pairwise

import numpy as np
import pytest

from manihash import CodeLayout, HammingIndex, code_layout, code_tables
from manihash.codes import pack, unpack
from manihash.search import Rerank, asymmetric_distances, expansion, scanners, segments, tables
from manihash.search import hamming_index as index_module

CASES = int(os.environ.get("MANIHASH_CASES", "200"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))
# Sizes that decide between routes, so small that few rows take each of them; the last one is usual.
SIZES = {
    (tables, "_PACKED_FROM"): (0, 10**9, 16),
    (tables, "_FEW_CODES"): (1, 16, 2**10),
    (tables, "_LARGE"): (1, 30, 2**13),
    (tables, "_FAST_CANDIDATES"): ((1, 5), (2, 9, 50), (24, 256, 4096)),
    (tables, "_CANDIDATE"): (2, 5, 100),
    (tables, "_PER_FIRST"): (1, 4),
    (tables, "_VISITED"): (1, 4),
    (tables, "_MANY_ANSWERS"): (3, 2**10),
    (tables, "_SCANNED"): (1, 3, 64),
    (tables, "_SPARE"): (0, 16),
    (tables, "_FIRST_CODES"): (1, 64),
    (expansion, "_FEW"): (0, 64),
    (code_tables, "_CODES"): (33, 2**16),
    (code_layout, "_QUERIES"): (1, 16),
    (scanners, "_TABLES"): (1, 5, 64),
    (segments, "_REMOVED"): (0, 1, 100),
    (index_module, "_RECENT"): (0, 1, 16),
}


def random_layout(rng):
    """Signs, or signs and fields of several scales, with whole, equal or far centers."""
    bits, signs = int(rng.choice([8, 8, 4, 4, 2, 1])), int(rng.choice([0, rng.integers(1, 65), 8, 24]))
    fields = int(rng.integers(1, 25))
    if rng.random() < 0.15:
        return CodeLayout(signs + fields, signs or None, float(rng.choice([0, 0.25, 0.3, 1, 1e9])))
    books = rng.normal(size=(fields, 2**bits, int(rng.integers(1, 5))))
    books *= 10 ** rng.uniform(-4, 4, (fields if rng.random() < 0.3 else 1, 1, 1))
    if rng.random() < 0.3:
        books = np.rint(books)  # many equal distances
    if rng.random() < 0.3:
        books[:, 0] *= 10 ** rng.uniform(2, 6)
    if rng.random() < 0.3:
        books[:, rng.integers(0, 2**bits, 2**bits)] = books[:, :1]
    weight, scale = float(rng.choice([0, 1e-9, 0.1, 0.5, 1, 1e9])), float(10 ** rng.uniform(-6, 6))
    return CodeLayout(signs + bits * fields, signs, weight, books.astype(np.float32), scale)


def random_bits(rng, n, layout):
    """Bits (n, n_bits) of which the first part often repeats, and the whole code at times."""
    bits, r = rng.random((n, layout.n_bits)) < 0.5, layout.look_up_bits
    if rng.random() < 0.6:
        bits[:, :r] = bits[rng.integers(0, min(n, 40), n), :r]
    return bits[rng.integers(0, min(n, 60), n)] if rng.random() < 0.3 else bits


def random_values(rng, q, layout, bits):
    """Real values (q, v) of queries: those that the codes of rows stand for, at several distances."""
    values = layout.values_of(pack(bits[rng.integers(0, len(bits), q)]))
    values += rng.choice([0, 0.1, 1]) * values.std() * rng.normal(size=values.shape)
    return np.rint(values) if rng.random() < 0.4 else values


def of_signs(y, bits):
    """Σ_j w_j [bit_j ≠ (y_j > 0)] (q, n) with w_j = min(|y_j|, rms) / rms, and rms (q, 1)."""
    rms = np.sqrt(np.mean(np.square(y), axis=1, keepdims=True))
    weights = np.minimum(np.abs(y), rms) / np.where(rms > 0, rms, 1)
    return (weights[:, None] * ((y > 0)[:, None] != bits)).sum(axis=2), rms


def stated(layout, values, bits):
    """The distances (q, n) that ``CodeLayout`` states, in float64."""
    r, books = layout.look_up_bits, layout.codebooks
    if layout.is_hamming:
        found, rms = of_signs(values, bits)
        return rms * found
    first = of_signs(values[:, :r], bits[:, :r])[0] if r else 0
    if books is None:
        return first + layout.weight * of_signs(values[:, r:], bits[:, r:])[0]
    b = layout.bits_per_field
    labels = bits[:, r:].reshape(len(bits), len(books), b) @ 2 ** np.arange(b - 1, -1, -1)
    centers = books[np.arange(len(books)), labels].reshape(len(bits), books[:, 0].size).astype(np.float64)
    second = np.square(values[:, None, r:] - centers).sum(axis=2)
    return first + (layout.weight * layout.scale if r else 1) * second


def nearest(distance, ids, k):
    """The k smallest of distances (q, n), and their ids, ties by id."""
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, order, axis=1), ids[order]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def check_queries(rng, index, rows):
    """Search by real values, by codes, re-ranked and within a radius, among some rows, with some weight."""
    every = np.array(sorted(rows), object if index.id_type is str else np.int64)
    chosen = every[rng.random(len(every)) < rng.choice([0.05, 0.5, 2])]
    stored = np.array([rows[i] for i in every.tolist()])
    bits = stored[np.isin(every, chosen)]
    codes = pack(bits) if len(bits) else np.empty((0, -(-index.n_bits // 8)), np.uint8)
    k, q = int(rng.choice([1, 5, 70, len(every) + 7])), int(rng.choice([1, 3, 20]))
    weight = float(rng.choice([0, 0.25, 2, 7])) if index.layout.has_two_parts and rng.random() < 0.6 else None
    layout = index.layout if weight is None else index.layout.with_weight(weight)
    options = {"filter": None if len(chosen) == len(every) else chosen, "weight": weight}

    values = random_values(rng, q, layout, stored)
    by_values = asymmetric_distances(values, codes, layout.n_bits, layout=layout)
    exact = stated(layout, values, bits)
    np.testing.assert_allclose(by_values, exact, rtol=1e-5, atol=1e-6 * exact.max(initial=0))
    asked = pack(stored[rng.integers(0, len(stored), q)])
    assert_equal(index.search(asked, k, asymmetric=values, **options), nearest(by_values, chosen, k))

    first, by_codes = distances_of_codes(layout, asked, bits, codes)
    assert_equal(index.search(asked, k, **options), nearest(by_codes, chosen, k))
    X, Q = rng.normal(size=(len(every), 3)), rng.normal(size=(q, 3))
    far = np.sqrt(np.square(Q[:, None] - X[np.isin(every, chosen)]).sum(axis=2))
    again = Rerank(Q, X, shortlist=len(every), ids=every)
    assert_equal(index.search(asked, k, rerank=again, **options), nearest(far, chosen, k))
    if layout.look_up_bits:
        radius = int(rng.integers(0, layout.look_up_bits + 2))
        lims, distance, ids = index.within(asked, radius, **options)
        for i, (start, stop) in enumerate(pairwise(lims)):
            near = first[i] <= radius
            found = distance[None, start:stop], ids[None, start:stop]
            assert_equal(found, nearest(by_codes[i : i + 1, near], chosen[near], len(chosen)))
    index.explain(k=k)


def distances_of_codes(layout, asked, bits, codes):
    """Hamming distances (q, n) of first parts, and distances of whole codes."""
    differ = (unpack(asked, layout.n_bits) > 0)[:, None] != bits
    first, second = (part.sum(axis=2) for part in np.split(differ, [layout.look_up_bits], axis=2))
    if layout.has_fields:
        return first, asymmetric_distances(layout.values_of(asked), codes, layout.n_bits, layout=layout)
    return first, first + layout.weight * second


def change(rng, index, rows, number):
    """Add, update or remove some rows of the index and of the dictionary from id to bits."""
    ids = rng.choice(np.array(sorted(rows), object), min(9, len(rows) - 1), replace=False).tolist()
    new, kind = random_bits(rng, len(ids), index.layout), rng.integers(3)
    if kind == 0:
        names = [f"new {number} {i}" for i in range(len(ids))] if index.id_type is str else None
        ids = index.add(pack(new), names).tolist()
    elif kind == 1:
        index.update(pack(new), ids)
    else:
        index.remove(ids)
    for i, row in zip(ids, new, strict=True):
        if kind == 2:
            del rows[i]
        else:
            rows[i] = row


def test_the_index_of_words_agrees_with_brute_force(tmp_path):
    for seed in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng(seed)
        with pytest.MonkeyPatch.context() as patch:
            for (module, name), sizes in SIZES.items():
                patch.setattr(module, name, sizes[int(rng.integers(len(sizes)))])
            if rng.random() < 0.3:
                patch.setattr(scanners, "faiss_library", lambda: None)
            layout, n = random_layout(rng), int(rng.choice([2, 200, 1500]))
            bits, ids = random_bits(rng, n, layout), rng.permutation(3 * n)[:n] - n
            ids = np.array([f"é {i}" for i in ids], object) if rng.random() < 0.3 else ids
            index = HammingIndex(pack(bits), layout.n_bits, ids, layout=layout)
            rows = dict(zip(ids.tolist(), bits, strict=True))
            check_queries(rng, index, rows)
            for number in range(int(rng.integers(0, 3))):
                change(rng, index, rows, number)
                if rng.random() < 0.5:  # what this query prepares is used by the next one
                    check_queries(rng, index, rows)
            if rng.random() < 0.3:
                index.save(tmp_path / "a.mhx")
                index = HammingIndex.load(tmp_path / "a.mhx")
            assert index.ids.tolist() == sorted(rows), seed
            check_queries(rng, index, rows)
