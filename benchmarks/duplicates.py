# ruff: noqa: E402
"""Planted copies found by codes and verified by vectors, beside FAISS: ``make bench-duplicates``.

20,000 images and 1,000 copies in vector space: half of them with normal noise of a tenth of the row's length
(cosine 0.995), half with a random run of 1 % of the columns set to zero, as if a piece were cut off. One
thread, CPU time, medians of three repeats. Writes ``docs/results/duplicates.json``.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
# The BLAS inside faiss-cpu may not know a new CPU; this shows FAISS at its best on CPUs with AVX-512.
os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from _results import record

from manihash import dedup, load_dataset, recipe, verified_duplicates

ROWS, COPIES, BITS, REPEATS = 20_000, 1_000, 128, 3
# Thresholds that most copies reach and few other pairs do.
COSINE = {"cifar10-gist": 0.985, "mnist": 0.981}
THRESHOLDS = (0.98, 0.981, 0.9825, 0.985, 0.9875, 0.99)


def planted(name: str) -> tuple[Any, Any]:
    """Real rows with copies at the end (n, d), and the positions of the originals (COPIES,)."""
    rng, data = np.random.default_rng(0), load_dataset(name)
    X = data.X_train[np.sort(rng.permutation(len(data.X_train))[:ROWS])].astype(np.float32)
    of = rng.choice(ROWS, COPIES, replace=False)
    copies = X[of]
    noise = rng.normal(size=(COPIES // 2, X.shape[1])).astype(np.float32)
    lengths = np.linalg.norm(copies[: COPIES // 2], axis=1) / np.linalg.norm(noise, axis=1)
    copies[: COPIES // 2] += 0.1 * noise * lengths[:, None]
    width = max(1, X.shape[1] // 100)
    for row in copies[COPIES // 2 :]:
        start = rng.integers(X.shape[1] - width)
        row[start : start + width] = 0
    return np.concatenate([X, copies]), of


def cpu_seconds(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """The median CPU time of some repeats, and the result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        times.append(time.process_time() - start)
    return statistics.median(times), result


def by_faiss(X: Any, cosine: float) -> Any:
    """All pairs of rows with this cosine or more, by range_search of unit rows."""
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    index = faiss.IndexFlatIP(X.shape[1])
    index.add(U)
    lims, _, other = index.range_search(U, cosine)
    one = np.repeat(np.arange(len(X)), np.diff(lims.astype(np.int64)))
    return np.stack([one, other], axis=1)[one < other]


def measured(name: str) -> dict[str, Any]:
    """What is found in one set, and the times."""
    X, of = planted(name)
    truth = {(int(a), ROWS + i) for i, a in enumerate(of)}
    hasher = recipe("itq", BITS, 0)
    learn, codes = cpu_seconds(lambda: hasher.fit(X).encode(X), repeats=1)
    ours, found = cpu_seconds(lambda: verified_duplicates(codes, BITS, X, cosine=COSINE[name]))
    theirs, pairs = cpu_seconds(lambda: by_faiss(X, COSINE[name]))
    ours_pairs = {tuple(pair) for pair in found.pairs.tolist()}
    all_pairs = {tuple(pair) for pair in pairs.tolist()}
    alone = dedup(codes, BITS, 4)
    chosen = next(step for step in found.curve if step.radius == found.radius)
    return {
        "rows": len(X),
        "copies": COPIES,
        "cosine": COSINE[name],
        "radius": found.radius,
        "candidates": found.candidates,
        "expected candidates": round(chosen.candidates),
        "verified pairs": len(ours_pairs),
        "copies found": len(truth & ours_pairs) / COPIES,
        "precision": len(truth & ours_pairs) / len(ours_pairs),
        "pairs of FAISS found": len(all_pairs & ours_pairs) / len(all_pairs),
        "rows in groups": len(found.ids),
        "largest group": int(np.diff(found.lims).max()),
        "largest chain": found.largest_chain,
        "seconds": round(ours, 2),
        "seconds to fit and encode": round(learn, 2),
        "seconds of FAISS range_search": round(theirs, 2),
        "FAISS / ours": round(theirs / ours, 2),
        "codes alone, radius 4: rows in groups": len(alone.ids),
        "codes alone, radius 4: largest group": int(np.diff(alone.lims).max(initial=0)),
        "curve": [
            {
                "radius": s.radius,
                "candidates": round(s.candidates),
                "found": s.found,
                "seconds": round(s.seconds, 3),
            }
            for s in found.curve
        ],
    }


def all_pairs(name: str) -> dict[str, Any]:
    """The planted copies among all pairs of rows above each threshold, without codes."""
    X, of = planted(name)
    truth = {(int(a), ROWS + i) for i, a in enumerate(of)}
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = by_faiss(X, min(THRESHOLDS))
    cosine = np.einsum("ij,ij->i", U[pairs[:, 0]], U[pairs[:, 1]])
    is_copy = np.array([tuple(pair) in truth for pair in pairs.tolist()])
    result = {}
    for threshold in THRESHOLDS:
        above = cosine >= threshold
        result[str(threshold)] = {
            "pairs": int(above.sum()),
            "copies found": float(is_copy[above].sum() / COPIES),
            "precision": float(is_copy[above].mean()),
            "pairs of two original rows": int((above & ~is_copy & (pairs < ROWS).all(axis=1)).sum()),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="cifar10-gist,mnist")
    faiss.omp_set_num_threads(1)
    for name in parser.parse_args().sets.split(","):
        found = measured(name)
        record("duplicates", name, found, machine={"threads": "1"})
        record("duplicates", f"all pairs, {name}", all_pairs(name), machine={"threads": "1"})
        print(name, json.dumps({key: value for key, value in found.items() if key != "curve"}), flush=True)


if __name__ == "__main__":
    main()
