"""Every row as a base point beside one base point per six rows: ``make bench-base-sizes``.

Up to 10,000 rows, all rows are base points. This measures what that costs and gives on clinc150 (8,000 rows,
512 columns) and on 10,000 rows of MNIST, for ``imh-graph`` and ``imh-hybrid`` with 64 bits: fit, encode and
one encoded row in CPU time of one thread (fit and encode as multiples of the bare float32 product of the rows
with 400 columns), the size of the model file, MAP and precision@10, alarms of drift on fresh rows, and an
update with a fifth of the classes, which the model has not seen. Writes ``docs/results/base-sizes.json``.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import record
from quality import data_of
from threadpoolctl import threadpool_limits

from manihash import LabelTruth, evaluate, recipe

SETS = {"clinc150": 8_000, "mnist": 10_000}
RECIPES = ("imh-graph", "imh-hybrid")
BITS, DRAWS, DRAW, ONE_ROW = 64, 50, 250, 200


def cpu_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median CPU time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def hasher_of(name: str, size: int, n_rows: int) -> Any:
    """An unfitted recipe with so many base points."""
    path = "base__base__size" if name == "imh-graph" else "first__base__base__size"
    return recipe(name, BITS, 0).set_params(**{path: min(size, n_rows)})


def measured(data: str, name: str, share: int) -> dict[str, Any]:
    """The figures of a recipe whose base set has one point per ``share`` rows."""
    of, n = data_of(data), SETS[data]
    X, y, Q = np.asarray(of.X[:n], np.float32), np.asarray(of.y[:n]), np.asarray(of.Q, np.float32)
    yq = np.asarray(data_labels(of))
    C = np.ascontiguousarray(X[:400].T)
    product = cpu_seconds(lambda: X @ C, 7)
    start = time.process_time()
    hasher = hasher_of(name, n // share, n).fit(X)
    fit = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mhash"
        hasher.save(path)
        size = path.stat().st_size
    found = evaluate(hasher, X, Q, LabelTruth(yq, y))
    rows = iter(np.resize(Q, (ONE_ROW, Q.shape[1])))
    rng = np.random.default_rng(0)
    draws = [Q[rng.choice(len(Q), DRAW, replace=False)] for _ in range(DRAWS)]
    start = time.process_time()
    alarms = sum(hasher.drift(draw).drifted for draw in draws)
    drift = (time.process_time() - start) / DRAWS
    return {
        "rows": n,
        "base points": n // share,
        "fit, s": round(fit, 2),
        "fit, products": round(fit / product, 1),
        "encode, products": round(cpu_seconds(lambda: hasher.encode(X), 5) / product, 2),
        "one row, us": round(1e6 * cpu_seconds(lambda: hasher.encode(next(rows)[None]), ONE_ROW)),
        "model, MB": round(size / 1e6, 2),
        "MAP": round(found.map, 4),
        "precision@10": round(found.precision_at_10, 4),
        f"alarms in {DRAWS} draws of {DRAW} fresh rows": alarms,
        "drift, ms": round(1e3 * drift, 1),
        "update": updated(name, n // share, X, y, Q, yq),
    }


def data_labels(of: Any) -> Any:
    """The labels of the queries of a dataset."""
    relevant = of.truth.relevant(0, len(of.Q))
    return np.asarray(of.y)[relevant.argmax(axis=1)]


def updated(name: str, size: int, X: Any, y: Any, Q: Any, yq: Any) -> dict[str, Any]:
    """An update with the last fifth of the classes: time, new base points, changed codes, precision@10."""
    new, asked = y >= np.quantile(np.unique(y), 0.8), yq >= np.quantile(np.unique(y), 0.8)
    hasher = hasher_of(name, size, int((~new).sum())).fit(X[~new])
    start = time.process_time()
    update = hasher.update(X[new], X[~new])
    return {
        "s": round(time.process_time() - start, 2),
        "new base points": update.n_added,
        "old rows whose code changed": round(float(update.changed or 0), 4),
        "precision@10 of new classes": round(
            evaluate(hasher, X, Q[asked], LabelTruth(yq[asked], y)).precision_at_10, 4
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this dataset")
    asked = parser.parse_args()
    for data in SETS:
        if asked.data not in ("", data):
            continue
        for name in RECIPES:
            found = {}
            for title, share in (("all rows", 1), ("one per six rows", 6)):
                with threadpool_limits(1):
                    found[title] = measured(data, name, share)
                print(data, name, title, json.dumps(found[title]), flush=True)
            record("base-sizes", f"{data}, {name}", found, machine={"threads": "1"})


if __name__ == "__main__":
    main()
