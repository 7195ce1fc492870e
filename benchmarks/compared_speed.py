"""Times of encode and search for the comparison of methods: ``make bench-compared``.

One thread, CPU time, medians of five. Encoding: the rows of clinc150 (8,000 x 512), with the models that
``quality.py`` keeps, as a multiple of the bare float32 product 8,000 x 512 x 400. Search: the top 10 of 100
queries among 500,000 random codes, all distinct, as a multiple of the scan of as many float32 vectors of 512
numbers. Learned codes repeat, which the index uses: for them these times are upper bounds. Writes
``docs/results/compared-speed.json``, one part per number of bytes.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from _models import fitted
from _results import is_current, record
from quality import BYTES, COMPARED, data_of
from threadpoolctl import threadpool_limits

from manihash import HammingIndex, recipe
from manihash.search import FaissQuantizer

DATA, ROWS, SCANNED, QUERIES, K, REPEATS = "clinc150", 500_000, 50_000, 100, 10, 5


def seconds(work: Callable[[], Any]) -> float:
    """Median CPU time of a call."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def scan_of(X: Any, Q: Any) -> Callable[[], Any]:
    """The top 10 of a scan of float32 vectors."""
    squares = np.square(X).sum(axis=1)

    def scan() -> Any:
        return np.argpartition(squares - 2 * (Q @ X.T), K, axis=1)[:, :K]

    return scan


def measured(n_bytes: int) -> dict[str, Any]:
    """Times of all methods with codes of so many bytes."""
    of, rng = data_of(DATA), np.random.default_rng(0)
    X, Q = np.asarray(of.X, np.float32), np.ascontiguousarray(of.Q[:QUERIES], np.float32)
    C = np.ascontiguousarray(X[:400].T)
    product = seconds(lambda: X @ C)
    vectors = rng.standard_normal((SCANNED, X.shape[1]), np.float32)
    scan = seconds(scan_of(vectors, Q)) / SCANNED
    encode: dict[str, float] = {}
    search: dict[str, float] = {}
    for method in COMPARED:
        model = model_of(method, n_bytes, X)
        if model is None:
            continue
        encode[method] = round(seconds(lambda m=model: m.encode(X)) / product, 3)
        for kind, work in searches(model, n_bytes, Q, rng).items():
            if kind not in search:
                search[kind] = round(seconds(work) / ROWS / scan, 5)
    about = {"columns": X.shape[1], "rows": ROWS, "queries": QUERIES}
    units = {
        "product, ms": round(1e3 * product, 3),
        "scan, ns per row and query": round(1e9 * scan / QUERIES, 3),
    }
    return about | units | {"encoded rows": len(X), "encode, products": encode, "search, scans": search}


def model_of(method: str, n_bytes: int, X: Any) -> Any:
    """The fitted method, None if it has no codes of this size."""
    try:
        if method != "rabitq":
            return fitted(recipe(method, 8 * n_bytes, 0), X)[0]
        if n_bytes <= 8 or find_spec("faiss") is None:
            return None
        return FaissQuantizer("rabitq", 8 * n_bytes - 64, normalize=True, random_state=0).fit(X)
    except ValueError:
        return None


def searches(model: Any, n_bytes: int, Q: Any, rng: np.random.Generator) -> dict[str, Callable[[], Any]]:
    """The searches of random codes, by their kind: it depends on the parts of a code, not on the method."""
    codes = rng.integers(0, 256, (ROWS, n_bytes), np.uint8)
    if isinstance(model, FaissQuantizer):
        index = model.index(model.encode(rng.standard_normal((ROWS // 10, Q.shape[1]), np.float32)))
        return {"RaBitQ": lambda: [index.search(Q, K) for _ in range(10)]}
    layout = model.layout_
    found = HammingIndex(codes, 8 * n_bytes, layout=layout)
    asked, values = model.encode(Q), model.embed(Q)
    kind = "words" if layout.has_two_parts and layout.has_fields else "fields" if layout.has_fields else ""
    if kind:
        return {kind: lambda: found.search(asked, K, asymmetric=values)}
    if layout.has_two_parts:
        return {}
    return {
        "bits, Hamming": lambda: found.search(asked, K),
        "bits, real values of queries": lambda: found.search(asked, K, asymmetric=values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, choices=BYTES, help="only codes of this size")
    asked = parser.parse_args()
    for n_bytes in [asked.bytes] if asked.bytes else BYTES:
        part = f"{n_bytes} bytes"
        if not is_current("compared-speed", part):
            with threadpool_limits(1):
                found = measured(n_bytes)
            record("compared-speed", part, found, machine={"threads": "1"})
            print(part, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
