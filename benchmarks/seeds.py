"""How much MAP varies between seeds and machines: imh-tsne and its relatives on MNIST: ``make bench-seeds``.

Writes ``docs/results/seeds.json`` length by length, so that an interrupted run loses little. The environment
variable ``OPENBLAS_CORETYPE=Haswell`` selects the matrix product of processors without AVX-512: a stand-in
for another machine. Values of it are recorded beside those of the usual product.
"""

import argparse
import os
from typing import Any

from _results import record

from manihash import LabelTruth, evaluate, load_dataset, recipe
from manihash.evaluation.harness import evaluate_scan, measure

KERNELS = {"Haswell": ", AVX2"}.get(os.environ.get("OPENBLAS_CORETYPE", ""), "")
ROWS = {  # recipe: code lengths
    "imh-tsne": (16, 32, 64, 128),
    "imh-tsne-turned": (16, 32, 64, 128),
    "imh-tsne-rotated": (64,),
    "imh-sne": (64,),
    "imh-ee": (64,),
    "imh-le": (16, 32, 64, 128),
    "itq": (64,),
}


def figures(data: Any, truth: LabelTruth, name: str, bits: int, seed: int) -> dict[str, float]:
    """MAP, F1 within radius 2 and precision@10 of one fit."""
    hasher = recipe(name, bits, seed)
    found = measure(hasher, data.X_train, data.X_test, truth, metric=evaluate).result
    values = {"MAP": found.map, "F1": found.f1, "precision@10": found.precision_at_10}
    return {key: round(value, 4) for key, value in values.items()}


def scan(data: Any, truth: LabelTruth) -> dict[str, float]:
    """MAP and precision@10 of a scan of the pixels."""
    found = evaluate_scan(data.X_test, data.X_train, truth)
    return {"MAP": round(found.map, 4), "precision@10": round(found.precision_at_10, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default=",".join([*ROWS, "scan"]), help="names, separated by commas")
    parser.add_argument("--bits", help="code lengths, separated by commas; those of the table by default")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    data = load_dataset("mnist")
    truth = LabelTruth(data.y_test, data.y_train)
    names = options.recipe.split(",")
    if "scan" in names:
        names.remove("scan")
        record("seeds", "scan of the pixels", scan(data, truth))
    for name in names:
        for bits in map(int, options.bits.split(",")) if options.bits else ROWS[name]:
            values = []
            for seed in range(options.seeds):
                values.append(figures(data, truth, name, bits, seed))
                print(name, bits, KERNELS, seed, values[-1], flush=True)
            lists = {key: [each[key] for each in values] for key in values[0]}
            record("seeds", f"{name}, {bits} bits{KERNELS}", lists)


if __name__ == "__main__":
    main()
