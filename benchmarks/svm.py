"""Accuracy of a linear SVM on codes of 64 bits of MNIST: ``make bench-quality``.

Trained on the codes of 60,000 rows, tested on 10,000; two seeds. Writes ``docs/results/svm.json`` row by row.
"""

import argparse
from collections.abc import Callable
from typing import Any

import _ran
import numpy as np
from _models import fitted
from _results import is_current, record

from manihash import IMH, load_dataset, recipe
from manihash.base import KMeansBase, LargeBase, ReducedBase
from manihash.embeddings import TSNE
from reproduction.paper.tasks.classify import LinearSVM, chosen_cost

BITS, POINTS, SEEDS = 64, 4_000, 2


def plain(base: Any, **options: Any) -> Callable[[], Any]:
    """IMH-tSNE without a rotation, with some options of t-SNE set."""
    return lambda: IMH(BITS, base=base, embedding=TSNE(**options), normalize=True)


ROWS: dict[str, Callable[[], Any]] = {
    "rotated: imh-large, m = 4,000": lambda: recipe("imh-large", BITS, base__base__size=POINTS),
    "plain, m = 4,000, by cells": plain(LargeBase(POINTS), n_rotations=0),
    "plain, m = 4,000, PCA, perplexity 5": plain(ReducedBase(KMeansBase(POINTS)), perplexity=5),
    "plain, m = 4,000, PCA to 32, perplexity 7, k = 4": lambda: plain(
        ReducedBase(KMeansBase(POINTS), 32), perplexity=7
    )().set_params(n_neighbors=4),
}


def accuracy(hasher: Any, data: Any) -> float:
    """The share of test rows that an SVM on the codes classifies correctly."""
    hasher, _ = fitted(hasher, data.X_train)
    X, Q = (2 * hasher.transform(part).astype(np.float32) - 1 for part in (data.X_train, data.X_test))
    machine = LinearSVM(chosen_cost(X, data.y_train)[0]).fit(X, data.y_train)
    return round(float((machine.predict(Q) == data.y_test).mean()), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only the row of this name")
    asked = parser.parse_args()
    _ran.start(calls=True)
    data = load_dataset("mnist", n_queries=10_000)
    for name, make in ROWS.items():
        if asked.only in ("", name) and not is_current("svm", name):
            _ran.forget()
            found = [accuracy(make().set_params(random_state=seed), data) for seed in range(SEEDS)]
            record("svm", name, {"accuracy": found})
            print(name, found, flush=True)


if __name__ == "__main__":
    main()
