"""Count the bits that differ between kernels of BLAS, threads and batches: ``make bench-same-bits``.

Models are fitted once and kept in ``build/same-bits``. For each kind of kernels (``OPENBLAS_CORETYPE``), a
process encodes the rows with one and two threads, in batches, with torch on the CPU and with Dask, and
compares the codes with those of the process that fitted the model. The number of differing bits must be 0.
A recipe whose recorded result is of the present code is skipped: an interrupted run continues where it
stopped.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _models import fitted as fitted_model
from _results import ROOT, is_current, record

RECIPES = ["imh-tsne", "itq", "agh", "imh-large", "imh-graph"]
SETS = ["mnist", "photo-sift1m"]
KERNELS = ["own", "Haswell", "Sandybridge"]
KEPT = ROOT / "build" / "same-bits"
# Rows that a model is fitted to: any model shows whether encode gives the same bits.
FITTED_ROWS = 100_000
# Threads, rows in a batch (0: all), library, and the most rows to encode: many small calls take long.
WAYS = [
    (1, 0, "numpy", None),
    (2, 0, "numpy", None),
    (1, 2048, "numpy", None),
    (2, 7, "numpy", 14_000),
    (1, 1, "numpy", 4_000),
    (2, 0, "torch", 250_000),
    (2, 0, "dask", 250_000),
]


def rows_of(name: str) -> np.ndarray:
    """The rows of a dataset as float32."""
    from manihash import load_dataset

    return load_dataset(name).X_train.astype(np.float32)


def every(X: np.ndarray, most: int | None) -> np.ndarray:
    """At most so many rows, spread evenly."""
    return X if most is None else np.ascontiguousarray(X[:: -(-len(X) // most)])


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


def worker(file: Path, dataset: str) -> dict[str, int]:
    """The number of differing bits of each way, with the kernels of this process."""
    from threadpoolctl import threadpool_limits

    from manihash import load

    X, found = rows_of(dataset), {}
    model, expected = load(file), np.load(file.with_suffix(".npy"))
    for threads, batch, library, most in WAYS:
        with threadpool_limits(threads, user_api="blas"):
            codes = encoded(model, every(X, most), batch, library)
        name = f"{threads} thread{'s' * (threads > 1)}, batches of {batch or 'all'}, {library}"
        found[name] = int(np.bitwise_count(codes ^ every(expected, most)).sum())
    return found


def fitted(dataset: str, name: str) -> tuple[Path, dict[str, Any]]:
    """The file of the model, fitted unless it is there, and the share of its rows that are computed again."""
    from manihash import recipe

    file, X = KEPT / f"{dataset}-{name}.mhash", rows_of(dataset)
    KEPT.mkdir(parents=True, exist_ok=True)
    model, _ = fitted_model(recipe(name, n_bits=64, random_state=0), every(X, FITTED_ROWS))
    model.save(file)
    np.save(file.with_suffix(".npy"), model.encode(X))
    again = getattr(model._row_map(X.dtype), "repeated", 0) / len(X)
    return file, {"rows": len(X), "computed again": round(again, 5)}


def measured(dataset: str, name: str) -> dict[str, Any]:
    """Count the differing bits of a recipe with all kernels."""
    file, found = fitted(dataset, name)
    found["differing bits"] = {}
    for kernels in KERNELS:
        env = os.environ | ({} if kernels == "own" else {"OPENBLAS_CORETYPE": kernels})
        command = [sys.executable, __file__, "--worker", str(file), dataset]
        done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
        found["differing bits"][kernels] = json.loads(done.stdout.splitlines()[-1])
        print(f"{dataset}, {name}, {kernels} kernels: {done.stdout.splitlines()[-1]}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        file, dataset = options.worker
        print(json.dumps(worker(Path(file), dataset)))
        return
    _ran.start(calls=True)
    for name in options.recipes.split(","):
        for dataset in options.data.split(","):
            if not is_current("same-bits", f"{dataset}, {name}"):
                record("same-bits", f"{dataset}, {name}", measured(dataset, name))


if __name__ == "__main__":
    main()
