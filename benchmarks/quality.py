"""Quality of large base sets: MAP on MNIST and CIFAR-10, and a linear SVM on codes: ``make bench-quality``.

64 bits, three seeds. Writes ``docs/results/large.json`` row by row, so that an interrupted run loses nothing.
``--parts`` selects some of the three parts, ``--seeds`` sets the number of seeds.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _results import record

from manihash import IMH, load_dataset, recipe
from manihash.base import ExactNeighbors, KMeansBase, LargeBase, ReducedBase
from manihash.embeddings import TSNE
from manihash.evaluation.harness import evaluate, measure
from manihash.evaluation.truth import LabelTruth
from reproduction.paper.tasks.classify import LinearSVM, chosen_cost

BITS, POINTS = 64, 4_000
Make = Callable[[], Any]


def named(name: str, **options: Any) -> Make:
    """A recipe of 64 bits, with some of its options set."""
    return lambda: recipe(name, BITS).set_params(**options)


def plain(base: Any, **options: Any) -> Make:
    """IMH-tSNE without a rotation, with some options of t-SNE set."""
    return lambda: IMH(BITS, base=base, embedding=TSNE(**options), normalize=True)


PARTS: dict[str, dict[str, Make]] = {
    "mnist": {
        "imh-tsne-turned": named("imh-tsne-turned"),
        "imh-large": named("imh-large"),
        "imh-large, all base points looked at": named("imh-large", base__base__neighbors=ExactNeighbors()),
        "imh-large-fast": named("imh-large-fast"),
        "imh-graph": named("imh-graph"),
        "imh-graph-small": named("imh-graph-small"),
        "imh-hybrid": named("imh-hybrid"),
    },
    "cifar10-gist": {
        "imh-tsne-turned": named("imh-tsne-turned"),
        "imh-large": named("imh-large"),
        "imh-large-ee": named("imh-large-ee"),
        "imh-large-ee, unit length": named("imh-large-ee", normalize=True),
        "imh-graph": named("imh-graph"),
        "imh-graph, not normalized": named("imh-graph", normalize=False),
    },
    "svm": {
        "rotated: imh-large, m = 4,000": named("imh-large", base__base__size=POINTS),
        "plain, m = 4,000, by cells": plain(LargeBase(POINTS), n_rotations=0),
        "plain, m = 4,000, by cells, PCA, perplexity 5, all pairs": plain(
            ReducedBase(LargeBase(POINTS)), perplexity=5, sampled=None
        ),
        "plain, m = 4,000, PCA, perplexity 5": plain(ReducedBase(KMeansBase(POINTS)), perplexity=5),
        "plain, m = 4,000, PCA, perplexity 5, all pairs": plain(
            ReducedBase(KMeansBase(POINTS)), perplexity=5, sampled=None
        ),
        "plain, m = 4,000, PCA to 32, perplexity 7, k = 4": lambda: plain(
            ReducedBase(KMeansBase(POINTS), 32), perplexity=7
        )().set_params(n_neighbors=4),
    },
}


def ranked(name: str) -> Callable[[Any], dict[str, float]]:
    """MAP, F1 and precision@10 of the codes of a fitted hasher, and its recall of the nearest base points."""
    data = load_dataset(name)
    truth = LabelTruth(data.y_test, data.y_train)

    def figures(hasher: Any) -> dict[str, float]:
        found = measure(hasher, data.X_train, data.X_test, truth, metric=evaluate).result
        return {
            "MAP": found.map,
            "F1": found.f1,
            "precision@10": found.precision_at_10,
            "recall": getattr(hasher, "neighbor_recall_", None) or 1.0,
        }

    return figures


def classified() -> Callable[[Any], dict[str, float]]:
    """Accuracy on 10,000 test rows of MNIST of a linear SVM trained on the codes of 60,000."""
    data = load_dataset("mnist", n_queries=10_000)

    def figures(hasher: Any) -> dict[str, float]:
        hasher.fit(data.X_train)
        X, Q = (2 * hasher.transform(part).astype(np.float32) - 1 for part in (data.X_train, data.X_test))
        machine = LinearSVM(chosen_cost(X, data.y_train)[0]).fit(X, data.y_train)
        return {"accuracy": float((machine.predict(Q) == data.y_test).mean())}

    return figures


def rows(parts: list[str], seeds: int, only: str) -> Iterator[tuple[str, str, list[dict[str, float]]]]:
    """Part, name and the results of each seed."""
    for part in parts:
        figures = classified() if part == "svm" else ranked(part)
        for name, make in PARTS[part].items():
            if only in ("", name):
                yield part, name, [figures(make().set_params(random_state=seed)) for seed in range(seeds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="only the row of this name")
    options = parser.parse_args()
    start = time.perf_counter()
    for part, name, found in rows(options.parts.split(","), options.seeds, options.only):
        table = {key: [round(row[key], 4) for row in found] for key in found[0]}
        record("large", f"{part}, {name}", table)
        means = ", ".join(f"{key} {statistics.mean(each):.4f} {each}" for key, each in table.items())
        print(f"{time.perf_counter() - start:6.0f} s  {part}, {name}: {means}", flush=True)


if __name__ == "__main__":
    main()
