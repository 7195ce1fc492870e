"""How much MAP varies between seeds and machines: imh-tsne and its relatives on MNIST: ``make bench-seeds``.

Writes ``docs/results/seeds.json`` value by value, so that an interrupted run loses nothing. The environment
variable ``OPENBLAS_CORETYPE=Haswell`` selects the matrix product of processors without AVX-512: a stand-in
for another machine. Values of it are recorded beside those of the usual product.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from manihash import LabelTruth, evaluate, load_dataset, recipe
from manihash.evaluation.harness import measure
from manihash.paper.run.provenance import machine, now

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "seeds.json"
KERNEL = os.environ.get("OPENBLAS_CORETYPE", "native")
ROWS = {  # recipe: code lengths
    "imh-tsne": (16, 32, 64, 128),
    "imh-tsne-turned": (16, 32, 64, 128),
    "imh-tsne-rotated": (64,),
    "imh-sne": (64,),
    "imh-ee": (64,),
}


def figures(data: Any, truth: LabelTruth, name: str, bits: int, seed: int) -> dict[str, float]:
    """MAP, F1 within radius 2 and precision@10 of one fit."""
    hasher = recipe(name, bits, seed)
    found = measure(hasher, data.X_train, data.X_test, truth, metric=evaluate).result
    values = {"MAP": found.map, "F1": found.f1, "precision@10": found.precision_at_10}
    return {key: round(value, 4) for key, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--bits", help="code lengths, separated by commas; those of the table by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    data = load_dataset("mnist")
    truth = LabelTruth(data.y_test, data.y_train)
    for name in options.recipe.split(","):
        for bits in map(int, options.bits.split(",")) if options.bits else ROWS[name]:
            values = []
            for seed in range(options.seeds):
                values.append(figures(data, truth, name, bits, seed))
                held = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
                row = held.setdefault(name, {}).setdefault(str(bits), {})
                row[KERNEL] = {key: [each[key] for each in values] for key in values[0]}
                row[KERNEL] |= {"date": now(), "machine": machine()}
                options.out.write_text(json.dumps(held, indent=1) + "\n")
                print(name, bits, KERNEL, seed, values[-1], flush=True)


if __name__ == "__main__":
    main()
