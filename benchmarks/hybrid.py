"""Quality of hybrid codes on MNIST, SIFT descriptors and made-up topics: ``make bench-hybrid``.

64 bits; writes ``docs/results/hybrid.json`` fit by fit, so that an interrupted run loses nothing. For each
split of the bits and each weight: MAP and precision@10 of the ranking, and F1 within radius 2 by the first
part.
"""

import argparse
import json
from typing import Any

import numpy as np
from _results import record

from manihash import EuclideanTruth, LabelTruth, evaluate, load_dataset, recipe
from manihash.evaluation import NeighborTruth, evaluate_ranking
from manihash.evaluation.truth import Truth
from manihash.search import asymmetric_distances
from manihash.types import Floats

BITS, SPLITS, WEIGHTS = 64, (32, 24), (0.5, 0.25)


def topics(n: int = 50_000, d: int = 384, noise: float = 1.5) -> tuple[Floats, Floats, Truth]:
    """Rows and 1,000 queries of 300 Gaussian topics, relevant if of one topic."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 300, n + 1000)
    centers = rng.standard_normal((300, d), np.float32)
    X = centers[y] + np.float32(noise) * rng.standard_normal((n + 1000, d), np.float32)
    return X[1000:], X[:1000], LabelTruth(y[:1000], y[1000:])


def data(name: str) -> tuple[Any, Any, Truth]:
    """Rows, queries and the truth: by label, or the nearest 2 %; of SIFT descriptors 100,000 rows."""
    if name == "topics":
        return topics()
    given = load_dataset(name, n_queries=None if name == "mnist" else 1000)
    X, Q = np.asarray(given.X_train[:100_000]), np.asarray(given.X_test)
    if given.y_train is None:
        return X, Q, EuclideanTruth(Q, X)
    return X, Q, LabelTruth(given.y_test, given.y_train)


def figures(hasher: Any, X: Any, Q: Any, truth: Truth, neighbors: Truth) -> dict[str, Any]:
    """Quality of a fitted hybrid for each weight: symmetric, asymmetric, and by plain Hamming distance."""
    codes, queries, Y = hasher.encode(X), hasher.encode(Q), hasher.embed(Q)
    found: dict[str, Any] = {}
    for weight in WEIGHTS:
        parts = {"first_bits": hasher.first_bits_, "weight": weight}
        result = evaluate(queries, codes, truth, BITS, neighbors=neighbors, **parts)
        asymmetric = evaluate_ranking(
            lambda i, j, parts=parts: asymmetric_distances(Y[i:j], codes, BITS, **parts),
            truth,
            neighbors=neighbors,
        )
        found[f"weight {weight}"] = _rounded(result) | {"F1 first part": round(result.f1, 4)}
        found[f"weight {weight}, asymmetric"] = _rounded(asymmetric)
        found["plain Hamming"] = _rounded(result.plain)
    return found


def _rounded(result: Any) -> dict[str, float]:
    values = {"MAP": result.map, "precision@10": result.precision_at_10, "recall@10": result.recall_at_10}
    return {key: round(value, 4) for key, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist,photo-sift1m,topics")
    parser.add_argument("--splits", default=",".join(map(str, SPLITS)), help="bits of the first part")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.data.split(","):
        X, Q, truth = data(name)
        neighbors = NeighborTruth(Q, X)
        for seed in range(options.seeds):
            for first in map(int, options.splits.split(",")):
                hasher = recipe(
                    "imh-hybrid", None, seed, first__n_bits=first, second__n_bits=BITS - first
                ).fit(X)
                found = figures(hasher, X, Q, truth, neighbors)
                record("hybrid", f"{name}, {first} + {BITS - first}, seed {seed}", found)
                print(name, first, seed, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
