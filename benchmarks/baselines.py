"""Compare our MAP with that of the public code of each method: ``make bench-baselines``.

The references are in docs/results/references.json. Results are averaged over the seeds. The difference is
ours minus theirs.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from _results import record

from manihash import LabelTruth, evaluate, load_dataset, recipe
from manihash.base import KMeansBase
from manihash.evaluation.harness import measure

REFERENCES = json.loads((Path(__file__).parents[1] / "docs/results/references.json").read_text("utf-8"))
# Methods without a public reference are compared with LSH at these lengths.
CITED = [
    "lsh",
    "sign",
    "sklsh",
    "klsh",
    "e2lsh",
    "rmmh",
    "mahalanobis-lsh",
    "cgh",
    "ssh",
    "ldahash",
    "ksh",
    "imh-supervised",
]
CITED_BITS = [32, 64]
VARIANTS: dict[str, dict[str, Any]] = {  # a recipe and, after the comma, what differs
    "agh, m = 300, s = 2": {"base": KMeansBase(300), "n_neighbors": 2},
    "agh2, m = 300, s = 2": {"base": KMeansBase(300), "n_neighbors": 2},
    "klsh, linear kernel": {"kernel": "linear"},
    "e2lsh, p = 1": {"p": 1},
    "rmmh, Gaussian kernel": {"kernel": "rbf"},
    "mahalanobis-lsh, regularization = 10": {"regularization": 10.0},
    "ssh, step = None": {"step": None},
    "ldahash, all labels": {"n_labels": None},
    "ldahash, alpha = 1": {"alpha": 1.0},
    "ksh, 1,000 anchors": {"n_anchors": 1000},
    "ksh, 1,000 anchors, 5,000 labels": {"n_anchors": 1000, "n_labels": 5000},
    "ksh, no iterations": {"n_iter": 0},
    "imh-supervised, all labels": {"n_labels": None},
    "imh-supervised, 1,000 base points": {"base": KMeansBase(1000)},
}


def map_of_seeds(data: Any, truth: LabelTruth, name: str, bits: int, seeds: int) -> list[float]:
    """MAP in percent for each seed."""
    found = []
    for seed in range(seeds):
        hasher = recipe(name.split(",")[0], n_bits=bits, random_state=seed, **VARIANTS.get(name, {}))
        trial = measure(hasher, data.X_train, data.X_test, truth, y=data.y_train, metric=evaluate)
        found.append(100 * trial.result.map)
    return found


def lines(dataset: str, selected: list[str]) -> list[tuple[str, int, float | None]]:
    """Method, bits and reference of each value to measure."""
    table = REFERENCES[dataset]
    found = [
        (name, bits, reference)
        for name, row in table.items()
        if name != "bits"
        for bits, reference in zip(table["bits"], row, strict=True)
    ]
    found += (
        [(name, bits, None) for name in [*CITED, *VARIANTS] if name not in table for bits in CITED_BITS]
        if dataset == "mnist"
        else []
    )
    return [line for line in found if not selected or line[0] in selected]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist", choices=["mnist", "cifar10-gist"])
    parser.add_argument("--recipe", default="", help="names with semicolons; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    data = load_dataset(asked.data)
    truth = LabelTruth(data.y_test, data.y_train)
    print("| method | bits | ours, MAP % | spread | public code | difference |\n|---|---|---|---|---|---|")
    for name, bits, reference in lines(asked.data, [part for part in asked.recipe.split(";") if part]):
        found = map_of_seeds(data, truth, name, bits, asked.seeds)
        mean = float(np.mean(found))
        theirs, difference = ("–", "–") if reference is None else (f"{reference}", f"{mean - reference:+.1f}")
        print(f"| {name} | {bits} | {mean:.1f} | {np.std(found):.1f} | {theirs} | {difference} |")
        sys.stdout.flush()
        values = [round(value / 100, 4) for value in found]
        record(f"{asked.data}-baselines", f"{name}, {bits} bits", {"MAP": values})


if __name__ == "__main__":
    main()
