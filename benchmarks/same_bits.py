"""Count the bits that differ between kernels of BLAS, threads and batches: ``make bench-same-bits``.

Models are fitted once. For each kind of kernels (``OPENBLAS_CORETYPE``), a process encodes the rows with one
and two threads, in batches, with torch on the CPU and with Dask, and compares the codes with those of the
process that fitted the models. The number of differing bits must be 0.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from _results import record

RECIPES = ["imh-tsne", "imh-large", "imh-graph", "agh", "itq"]
KERNELS = ["own", "Haswell", "Sandybridge"]
# Threads, rows in a batch (0: all), library, and the most rows to encode: calls of one row take long.
WAYS = [
    (1, 0, "numpy", None),
    (2, 0, "numpy", None),
    (1, 2048, "numpy", None),
    (2, 7, "numpy", 20_000),
    (1, 1, "numpy", 5_000),
    (2, 0, "torch", None),
    (1, 0, "dask", None),
]


def rows_of(name: str) -> np.ndarray:
    """The rows of a data set as float32."""
    from manihash import load_dataset

    return load_dataset(name).X_train.astype(np.float32)


def encoded(model: Any, X: np.ndarray, batch: int, library: str) -> np.ndarray:
    """The codes of X, encoded in batches of a size, by numpy, torch or dask."""
    if library == "torch":
        import torch

        return np.asarray(model.encode(torch.from_numpy(X)))
    if library == "dask":
        import dask.array

        return model.encode(dask.array.from_array(X, chunks=(5_000, -1))).compute()
    if batch == 0:
        return model.encode(X)
    return np.concatenate([model.encode(X[a : a + batch]) for a in range(0, len(X), batch)])


def worker(folder: str, dataset: str, recipes: list[str]) -> dict[str, dict[str, int]]:
    """The number of differing bits of each recipe and way, with the kernels of this process."""
    from threadpoolctl import threadpool_limits

    from manihash import load

    X, found = rows_of(dataset), {}
    for recipe in recipes:
        model, expected = load(f"{folder}/{recipe}.mhash"), np.load(f"{folder}/{recipe}.npy")
        found[recipe] = {}
        for threads, batch, library, most in WAYS:
            step = 1 if most is None else max(1, len(X) // most)
            with threadpool_limits(threads, user_api="blas"):
                codes = encoded(model, X[::step], batch, library)
            name = f"{threads} threads, batch {batch or 'all'}, {library}"
            found[recipe][name] = int(np.bitwise_count(codes ^ expected[::step]).sum())
    return found


def measured(dataset: str, recipes: list[str]) -> dict[str, Any]:
    """Fit the recipes, and count the differing bits of all kernels."""
    from manihash import recipe

    X, found = rows_of(dataset), {}
    with tempfile.TemporaryDirectory() as folder:
        for name in recipes:
            model = recipe(name, n_bits=64, random_state=0).fit(X)
            model.save(f"{folder}/{name}.mhash")
            np.save(f"{folder}/{name}.npy", model.encode(X))
            again = model._row_map(X.dtype).repeated
            found[name] = {"rows": len(X), "computed again": round(again / len(X), 5), "differing bits": {}}
        for kernels in KERNELS:
            env = os.environ | ({} if kernels == "own" else {"OPENBLAS_CORETYPE": kernels})
            command = [sys.executable, __file__, "--worker", folder, dataset, ",".join(recipes)]
            done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            for name, counts in json.loads(done.stdout.splitlines()[-1]).items():
                found[name]["differing bits"][kernels] = counts
                print(f"{dataset} {name}, {kernels} kernels: {counts}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist,photo-sift1m")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, dataset, recipes = options.worker
        print(json.dumps(worker(folder, dataset, recipes.split(","))))
        return
    for dataset in options.data.split(","):
        for name, found in measured(dataset, options.recipes.split(",")).items():
            record("same-bits", f"{dataset}, {name}", found)


if __name__ == "__main__":
    main()
