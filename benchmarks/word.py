"""The word of imh-hybrid beside quantizers of its size: ``make bench-word``.

``docs/results/word.json`` has one part per data set, recipe, length and seed: MAP, precision@10, recall@10 of
the Euclidean ten, and F1 of the look-up within radius 2. Codes with fields are ranked by the real values of
the queries, all others by Hamming distance, too. Parts measured with the present code are skipped, so an
interrupted run resumes. ``--fit`` times fit and encode as multiples of a bare product. Times of search are in
``word_search.py``.
"""

import argparse
import json
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import FOLDER, is_current, record
from choose_sets import sets
from recipes import data

from manihash import EuclideanTruth, LabelTruth, evaluate, recipe
from manihash.evaluation import NeighborTruth, evaluate_scan
from manihash.evaluation.truth import Truth
from manihash.hashers import ProductQuantizer

SETS = ("clinc150", "agnews", "digits", "mnist", "cifar10-gist", "photo-sift1m", "tiny-gist960", "bigann10k")
TEXTS = ("python documentation, by package", "python documentation, by module")
RECIPES = ("imh-hybrid", "pq", "opq", "imh-graph", "imh-hybrid-hamming")
QUERIES, SIFT_ROWS = 1000, 100_000
LENGTHS = (32, 64, 128, 256)


def rows_and_truth(name: str) -> tuple[Any, Any, Truth]:
    """Rows, at most 1,000 queries and the truth: by label, or the nearest 2 %."""
    if name in ("mnist", "cifar10-gist", "photo-sift1m"):
        return data(name, SIFT_ROWS if name == "photo-sift1m" else None)
    X, y = sets(None)[name]()
    n = min(QUERIES, len(X) // 7)
    if name not in ("clinc150", "agnews"):  # these are shuffled
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], None if y is None else y[order]
    if y is None:
        return X[n:], X[:n], EuclideanTruth(X[:n], X[n:])
    return X[n:], X[:n], LabelTruth(y[:n], y[n:])


def figures(found: Any, *, look_up: bool = False) -> dict[str, float]:
    """The figures of a ranking, and of a look-up if there is one."""
    named = {"MAP": found.map, "precision@10": found.precision_at_10, "recall@10": found.recall_at_10}
    named |= {"F1": found.f1} if look_up else {}
    return {key: round(float(value), 4) for key, value in named.items() if value is not None}


def measured(hasher: Any, of: tuple[Any, Any, Truth], neighbors: Truth) -> dict[str, Any]:
    """The figures of a fitted hasher: by the real values of the queries and, without fields, by code."""
    X, Q, truth = of
    codes, queries, layout, n_bits = hasher.encode(X), hasher.encode(Q), hasher.layout_, hasher.n_bits_
    options = {"neighbors": neighbors, "layout": layout}
    found: dict[str, Any] = {"rows": len(X), "layout": layout.described()}
    found["asymmetric"] = figures(
        evaluate(queries, codes, truth, n_bits, values=hasher.embed(Q), **options),
        look_up=layout.look_up_bits > 0,
    )
    if not layout.has_fields:
        found["codes"] = figures(evaluate(queries, codes, truth, n_bits, **options), look_up=True)
    return found


def fits(asked: Namespace) -> Iterator[tuple[str, str, int, int]]:
    """Data set, recipe, length and seed of all fits that were asked for."""
    names = [asked.data] if asked.data else [*SETS, *TEXTS]
    for name in names:
        for seed in map(int, asked.seeds.split(",")):
            for method in [asked.recipe] if asked.recipe else RECIPES:
                lengths = LENGTHS if method in ("imh-hybrid", "pq", "opq") else (64,)
                for bits in [asked.bits] if asked.bits else lengths:
                    yield name, method, bits, seed


def measure_quality(asked: Namespace) -> None:
    """Record the quality of all fits."""
    held, of, neighbors = "", None, None
    for name, method, bits, seed in fits(asked):
        part = f"{name}, {method}, {bits} bits, seed {seed}"
        if is_current("word", part, asked.folder):
            continue
        if held != name:
            held, of = name, rows_and_truth(name)
            neighbors = NeighborTruth(of[1], of[0])
            if not is_current("word", f"{name}, scan", asked.folder):
                scan = evaluate_scan(of[1], of[0], of[2], neighbors=neighbors)
                record("word", f"{name}, scan", figures(scan), folder=asked.folder)
        assert of is not None
        assert neighbors is not None
        try:
            found = measured(recipe(method, bits, seed).fit(of[0]), of, neighbors)
        except ValueError as error:  # more fields than columns
            found = {"refused": str(error)}
        record("word", part, found, folder=asked.folder)
        print(part, json.dumps(found), flush=True)


def median_seconds(work: Callable[[], Any], repeats: int = 5) -> float:
    """Median CPU time of one thread."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))


def measure_fit(asked: Namespace) -> None:
    """Record fit and encode as multiples of a bare product of MNIST, and of 10,000 rows."""
    X, _, _ = data("mnist", None)
    F = X.astype(np.float32)
    C = np.ascontiguousarray(F[:400].T)
    product = median_seconds(lambda: [F[i : i + 2048] @ C for i in range(0, len(F), 2048)])
    found: dict[str, float] = {}
    for method in ("imh-graph", "imh-hybrid"):
        hasher = recipe(method, 64, 0)
        found[f"{method}: fit, products"] = round(median_seconds(lambda h=hasher: h.fit(X), 1) / product, 1)
        found[f"{method}: encode, products"] = round(
            median_seconds(lambda h=hasher: h.encode(X), 3) / product, 2
        )
    few = F[:10_000]
    small = median_seconds(lambda: few @ C)
    hasher = recipe("imh-hybrid", 64, 0)
    found["imh-hybrid, 10,000 rows: fit, products"] = round(
        median_seconds(lambda: hasher.fit(few), 1) / small, 1
    )
    quantizer = ProductQuantizer(32, n_components=256, random_state=0).fit(X)
    found["quantizer: encode, products"] = round(median_seconds(lambda: quantizer.encode(X), 3) / product, 2)
    record("word", "fit and encode", found, folder=asked.folder)
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this data set")
    parser.add_argument("--recipe", default="", help="only this recipe")
    parser.add_argument("--bits", type=int, help="only this code length")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--fit", action="store_true", help="time fit and encode instead")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    asked = parser.parse_args()
    if asked.fit:
        measure_fit(asked)
    else:
        measure_quality(asked)


if __name__ == "__main__":
    main()
