"""Weights of hybrid codes on many data sets, and the weight chosen without labels: ``make bench-hybrid``.

One fit of ``imh-hybrid-hamming`` with 64 bits per data set and seed. ``docs/results/hybrid.json`` holds, for
each weight of the second part, MAP, precision@10 and recall@10 of the ranking, symmetric and asymmetric,
beside the redundancy of the first part and the weight that follows from it. Fits measured with the present
code are skipped.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import FOLDER, is_current, record
from choose_sets import sets
from recipes import data

from manihash import EuclideanTruth, LabelTruth, evaluate, recipe, unpack
from manihash.evaluation import NeighborTruth, evaluate_ranking
from manihash.evaluation.truth import Truth
from manihash.linalg import effective_number
from manihash.search import asymmetric_distances

BITS, WEIGHTS = 64, (0.25, 0.5, 1.0, 2.0)
QUERIES, SIFT_ROWS = 500, 100_000
CATALOG = ("mnist", "cifar10-gist", "photo-sift1m", "digits", "topics")
OTHERS = (
    "tiny-gist960",
    "bigann10k",
    "python documentation, by package",
    "python documentation, by module",
)


def rows_and_truth(name: str) -> tuple[Any, Any, Truth]:
    """Rows, 500 queries and the truth: by label, or the nearest 2 %."""
    if name == "topics":
        X, Q, _ = data(name, None)
        y = np.random.default_rng(0).integers(0, 300, len(X) + len(Q))  # the first draw of ``topics``
        return X, Q[:QUERIES], LabelTruth(y[:QUERIES], y[len(Q) :])
    X, y = sets(None)[name]()
    order = np.random.default_rng(0).permutation(len(X))[: SIFT_ROWS + QUERIES]
    Q, X = X[order[:QUERIES]], X[order[QUERIES:]]
    if y is None:
        return X, Q, EuclideanTruth(Q, X)
    return X, Q, LabelTruth(y[order[:QUERIES]], y[order[QUERIES:]])


def redundancy(hasher: Any, codes: Any) -> float:
    """Bits of the first part for each independent bit, on 2,000 rows."""
    bits = unpack(codes[:: max(1, len(codes) // 2000)], BITS)[:, : hasher.layout_.look_up_bits].astype(float)
    return hasher.layout_.look_up_bits / effective_number(np.corrcoef(bits[:, bits.std(axis=0) > 0].T))


def rankings(hasher: Any, codes: Any, of: tuple[Any, Any, Truth]) -> Iterator[tuple[str, Any]]:
    """Name and quality of the ranking by each weight, symmetric and asymmetric."""
    X, Q, truth = of
    queries, Y, neighbors = hasher.encode(Q), hasher.embed(Q), NeighborTruth(Q, X)
    for weight in WEIGHTS:
        layout = hasher.layout_.with_weight(weight)
        yield f"{weight:g}", evaluate(queries, codes, truth, BITS, neighbors=neighbors, layout=layout)

        def distances(start: int, stop: int, layout: Any = layout) -> Any:
            return asymmetric_distances(Y[start:stop], codes, BITS, layout=layout)

        yield f"{weight:g}, asymmetric", evaluate_ranking(distances, truth, neighbors=neighbors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this data set")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    asked = parser.parse_args()
    for name in [asked.data] if asked.data else (*CATALOG, *OTHERS):
        for seed in map(int, asked.seeds.split(",")):
            part = f"{name}, seed {seed}"
            if is_current("hybrid", part, asked.folder):
                continue
            of = rows_and_truth(name)
            hasher = recipe("imh-hybrid-hamming", BITS, seed).fit(of[0])
            codes = hasher.encode(of[0])
            found: dict[str, Any] = {"rows": len(codes), "chosen weight": hasher.weight_}
            found["redundancy"] = round(redundancy(hasher, codes), 2)
            for ranking, quality in rankings(hasher, codes, of):
                values = (quality.map, quality.precision_at_10, quality.recall_at_10)
                keys = ("MAP", "precision@10", "recall@10")
                found[ranking] = {key: round(value, 4) for key, value in zip(keys, values, strict=True)}
            record("hybrid", part, found, folder=asked.folder)
            print(part, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
