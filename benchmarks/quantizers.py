"""Reconstruction errors of product quantizers beside those of FAISS: ``make bench-quantizers``.

A quantizer is learned from 8,000 rows of a dataset, or three quarters of a smaller one, and the relative
error Σ |x - x̂|² / Σ |x - mean|² is that of 5,000 other rows. ``docs/results/quantizers.json`` holds it for
codes of 8 bytes of PQ and OPQ of both libraries. FAISS computes on one thread: on several, its
training of OPQ takes longer. Results of the present code are skipped.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _results import FOLDER, is_current, record
from choose_sets import DATA, sets

from manihash.hashers import ProductQuantizer
from manihash.search.scanners import faiss_threads

SETS = ("photo-sift1m", "AG News", "CLINC150", "cifar10-gist", "mnist")
BYTES = (8,)
TRAINED, HELD_OUT = 8_000, 5_000
_TEXTS = {"AG News": "agnews_wordllama256", "CLINC150": "clinc150_use512"}


def rows_of(name: str) -> tuple[Any, Any]:
    """Rows to learn from, and other rows, float32."""
    if name in _TEXTS:
        with np.load(DATA / "text-embeddings" / f"{_TEXTS[name]}.npz") as arrays:
            X = next(arrays[key] for key in arrays.files if arrays[key].ndim == 2)
    else:
        X = sets(None)[name]()[0]
    order = np.random.default_rng(0).permutation(len(X))
    n = min(TRAINED, 3 * len(X) // 4)
    return (np.ascontiguousarray(X[rows], np.float32) for rows in (order[:n], order[n : n + HELD_OUT]))


def of_ours(X: Any, Q: Any, n_bytes: int, rotation: bool) -> float:
    """The error of ``ProductQuantizer``; what its components leave out is part of it."""
    quantizer = ProductQuantizer(8 * n_bytes, rotation=rotation, random_state=0).fit(X)
    Z, total = quantizer.embed(Q).astype(np.float64), spread(X, Q)
    lost = total - np.square(Z).sum()
    return float((lost + np.square(Z - quantizer.reconstruct(quantizer.encode(Q))).sum()) / total)


def of_faiss(X: Any, Q: Any, n_bytes: int, rotation: bool) -> float:
    """The error of FAISS's ``ProductQuantizer``, after its ``OPQMatrix`` of all columns if asked."""
    import faiss

    mean, d = X.mean(axis=0), X.shape[1]
    A, B = np.ascontiguousarray(X - mean), np.ascontiguousarray(Q - mean)
    A, B = (np.pad(rows, ((0, 0), (0, -d % n_bytes))) for rows in (A, B))
    with faiss_threads(faiss, 1):
        if rotation:
            turn = faiss.OPQMatrix(A.shape[1], n_bytes)
            turn.train(A)
            A, B = turn.apply(A), turn.apply(B)
        quantizer = faiss.ProductQuantizer(A.shape[1], n_bytes, 8)
        quantizer.train(A)
        found = quantizer.decode(quantizer.compute_codes(B))
    return float(np.square(B - found, dtype=np.float64).sum() / spread(X, Q))


def spread(X: Any, Q: Any) -> float:
    """Σ |q - mean of X|²."""
    return float(np.square(Q - X.mean(axis=0), dtype=np.float64).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this dataset")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    asked = parser.parse_args()
    _ran.start(calls=True)
    for name in [asked.data] if asked.data else SETS:
        for n_bytes in BYTES:
            part = f"{name}, {n_bytes} bytes"
            if is_current("quantizers", part, asked.folder):
                continue
            X, Q = rows_of(name)
            found: dict[str, Any] = {"columns": X.shape[1], "rows": len(X)}
            for method, rotation in (("pq", False), ("opq", True)):
                for library, error in (("manihash", of_ours), ("faiss", of_faiss)):
                    found[f"{method}, {library}"] = round(error(X, Q, n_bytes, rotation), 5)
            record("quantizers", part, found, folder=asked.folder)
            print(part, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
