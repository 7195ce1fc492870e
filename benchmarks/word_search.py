"""Search of words with a product quantizer, beside FAISS: ``make bench-word-search``.

``docs/results/word-search.json`` has a part per kind of words: the time of the top 10 of a million words on
one thread as a multiple of FAISS's, asked one by one and 50 at once. Both are measured in turn, and ratios
are medians, so that other work on the machine matters little.
"""

import argparse
import json
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import FOLDER, record

from manihash import HammingIndex, load_dataset, recipe
from manihash.code_layout import CodeLayout
from manihash.search.scanners import faiss_threads, installed_faiss

WORDS, ASKED, K, ROUNDS = 1_000_000, 50, 10, 7
FITTED = 10_000


def seconds(work: Callable[[], Any]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """Median of the ratio of both times, measured in turn."""
    ours(), theirs()
    return float(np.median([seconds(ours) / seconds(theirs) for _ in range(ROUNDS)]))


def one_by_one(search: Callable[[Any], Any], n: int = 10) -> Callable[[], Any]:
    """Ask the first queries one after another; ``search`` takes a slice of the queries."""
    return lambda: [search(slice(i, i + 1)) for i in range(n)]


def times(ours: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> dict[str, float]:
    """The ratio of both searches, for queries at once and one by one."""
    every = slice(None)
    return {
        f"{ASKED} at once": round(ratio(lambda: ours(every), lambda: theirs(every)), 3),
        "one by one": round(ratio(one_by_one(ours), one_by_one(theirs)), 3),
    }


def quantizer_of(faiss: Any, codes: Any, bits: int, rng: np.random.Generator, *, fast: bool = False) -> Any:
    """FAISS's ``IndexPQ`` of the same bytes, or its fast scan."""
    fields = codes.shape[1] * 8 // bits
    peer = faiss.IndexPQ(64, fields, bits)
    peer.pq.cp.min_points_per_centroid = 1
    peer.train(rng.normal(size=(1000, 64)).astype(np.float32))
    faiss.copy_array_to_vector(codes.reshape(-1), peer.codes)
    peer.ntotal = len(codes)
    return faiss.IndexPQFastScan(peer) if fast else peer


def random_layout(bits: int, rng: np.random.Generator, scale: float) -> CodeLayout:
    """24 signs and 40 bits of fields, with about 256 coordinates, as in the recipe."""
    fields = 40 // bits
    books = rng.normal(size=(fields, 2**bits, 256 // fields)).astype(np.float32)
    return CodeLayout(64, 24, 0.5, books, scale)


def measure_scans(asked: Namespace, faiss: Any, rng: np.random.Generator) -> None:
    """Record scans of random words, all distinct: with fields of 8 bits, and of 4 bits.

    With the scale 17 / 256, the second part has half the spread of the first, as in a recipe whose
    weight is 0.5.
    """
    codes = rng.integers(0, 256, (WORDS, 8), np.uint8)
    vectors = rng.normal(size=(ASKED, 64)).astype(np.float32)
    for bits, peer_name, scale, more in (
        (8, "IndexPQ 8x8", 1 / 256, ""),
        (4, "IndexPQFastScan 16x4", 1 / 256, ""),
        (8, "IndexPQ 8x8", 17 / 256, ", half the spread"),
    ):
        layout = random_layout(bits, rng, scale)
        values = rng.normal(size=(ASKED, layout.n_values))
        values[:, 24:] *= 0.5
        asked_codes = rng.integers(0, 256, (ASKED, 8), np.uint8)
        index = HammingIndex(codes, 64, layout=layout)
        peer = quantizer_of(faiss, codes, bits, rng, fast=bits == 4)
        found = times(
            lambda i, a=asked_codes, v=values, x=index: x.search(a[i], K, asymmetric=v[i]),
            lambda i, p=peer: p.search(vectors[i], K),
        )
        save(asked, f"fields of {bits} bits{more}", {"words": WORDS, "times": peer_name, **found})


def measure_repeated(asked: Namespace, faiss: Any, rng: np.random.Generator) -> None:
    """Record searches of words whose first parts repeat, as times faster than full scans."""
    given = load_dataset("mnist")
    X, Q = np.asarray(given.X_train), np.asarray(given.X_test)
    hasher = recipe("imh-hybrid", 64, 0).fit(X[:FITTED])
    words, asked_codes = hasher.encode(X[:FITTED]), hasher.encode(Q[:ASKED])
    values, vectors = hasher.embed(Q[:ASKED]), rng.normal(size=(ASKED, 64)).astype(np.float32)
    repeated = words[rng.integers(0, len(words), WORDS)]
    distinct = repeated.copy()
    distinct[:, 3:] = rng.integers(0, 256, (WORDS, 5), np.uint8)  # the fields follow 24 signs
    for name, codes in (("words repeat", repeated), ("first parts repeat", distinct)):
        index = HammingIndex(codes, 64, layout=hasher.layout_)
        peer = quantizer_of(faiss, codes, 8, rng)
        found = times(
            lambda i, p=peer: p.search(vectors[i], K),
            lambda i, x=index: x.search(asked_codes[i], K, asymmetric=values[i]),
        )
        plan = str(index.explain(k=K))
        counts = {"words": WORDS, "distinct": index.distinct_codes, "rows of the model": FITTED}
        save(asked, f"MNIST, {name}", {**counts, "IndexPQ 8x8 takes times": "as long", **found, "plan": plan})


def save(asked: Namespace, part: str, found: dict[str, Any]) -> None:
    """Record and print a part."""
    record("word-search", part, found, folder=asked.folder)
    print(part, json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    asked = parser.parse_args()
    faiss, rng = installed_faiss(), np.random.default_rng(0)
    with faiss_threads(faiss, 1):
        measure_scans(asked, faiss, rng)
        measure_repeated(asked, faiss, rng)


if __name__ == "__main__":
    main()
