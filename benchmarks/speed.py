"""Times of encode, fit and search beside their targets, for two kinds of kernels of BLAS: ``make bench``.

MNIST, 64 bits. Most times are multiples of the bare float32 product 69,000 x 784 x 400, or 1 x 784 x 400 for
one row, measured in the same process before and after the work. One thread: CPU time. Two threads: other
work on the machine must be stopped. Each kind of kernels (``OPENBLAS_CORETYPE``) and number of threads has
its own process; ``Haswell`` selects the kernels for AVX2 on any x86 machine, ``SkylakeX`` those for AVX-512.
About ten minutes. Without FAISS, what is compared with it is left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _results import FOLDER, INSTRUCTIONS, kernels_here, record, vendor

BLOCK, M, ROUNDS = 2048, 400, 10
# The most that each work may take: with the kernels for AVX2, and with those for AVX-512.
TARGETS = {
    "encode imh-tsne": (1.25, 1.25),
    "encode one row, imh-tsne": (8, 8),
    "encode one row, agh": (8, 8),
    "encode one row, itq": (8, 8),
    "k-means, one iteration": (1.08, 1.08),
    "search one query, imh-tsne": (1, 1),
    "search one query, itq": (1, 1),
    "fit imh-tsne": (1.7, 1.5),
    "fit imh-graph": (70, 70),
    "encode imh-graph": (2.5, 2.5),
}
HAS_FAISS = find_spec("faiss") is not None
ROW, QUERY, TEN = "products of one row", "times FAISS flat", "ten products"


def product(X: np.ndarray, C: np.ndarray) -> None:
    """The bare product X Cᵀ in blocks of rows; the result of a block is dropped."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] @ C.T


def ratio(work: Callable[[], object], unit: Callable[[], object], clock: Any, repeats: int = 5) -> float:
    """Median ratio of the time of the work to the median time of the unit around it."""

    def seconds(f: Callable[[], object]) -> float:
        start = clock()
        f()
        return clock() - start

    seconds(unit)
    found = []
    for _ in range(repeats):
        before = [seconds(unit) for _ in range(3)]
        taken = seconds(work)
        found.append(taken / statistics.median(before + [seconds(unit) for _ in range(3)]))
    return statistics.median(found)


def many(f: Callable[[int], object], n: int = 1_000) -> Callable[[], None]:
    """A function that calls f n times."""

    def repeated() -> None:
        for i in range(n):
            f(i)

    return repeated


def one_thread(X: np.ndarray) -> list[tuple[str, float, str]]:
    """Encode, one row, one query and k-means in CPU time."""
    from manihash import recipe
    from manihash.base import KMeansBase

    F, clock, found = X.astype(np.float32), time.process_time, []
    C = F[:M].copy()
    bare, one = C.T.copy(), F[:1]
    for name in ("imh-tsne", "agh", "itq"):
        model = recipe(name, n_bits=64, random_state=0).fit(X)
        codes, unit = model.encode(F), lambda: product(F, C)
        found.append((f"encode {name}", ratio(lambda m=model: m.encode(F), unit, clock), "products"))
        rows = many(lambda i, m=model: m.encode(F[i : i + 1]))
        found.append((f"encode one row, {name}", ratio(rows, many(lambda _: one @ bare), clock), ROW))
        if name != "agh" and HAS_FAISS:
            found.append((f"search one query, {name}", one_query(codes), QUERY))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    base = KMeansBase(M, random_state=0)
    ours = ratio(lambda: base.fit(F), unit, clock, 3) / ROUNDS
    found.append(("k-means, one iteration", ours, "products"))
    if not HAS_FAISS:
        return found
    import faiss

    faiss.omp_set_num_threads(1)
    peer = faiss.Kmeans(F.shape[1], M, niter=ROUNDS, max_points_per_centroid=10**9)
    theirs = ratio(lambda: peer.train(F), unit, clock, 3) / ROUNDS
    found.append(("k-means, one iteration, FAISS", theirs, "products"))
    return found


def one_query(codes: np.ndarray) -> float:
    """The time to search one query among codes of 64 bits, as a multiple of that of FAISS."""
    import faiss

    from manihash import HammingIndex

    faiss.omp_set_num_threads(1)
    index, flat = HammingIndex(codes, 64), faiss.IndexBinaryFlat(64)
    flat.add(codes)
    ours = many(lambda i: index.search(codes[60 * i : 60 * i + 1], 10))
    theirs = many(lambda i: flat.search(codes[60 * i : 60 * i + 1], 10))
    return ratio(ours, theirs, time.process_time)


def two_threads(X: np.ndarray) -> list[tuple[str, float, str]]:
    """Fit and the encoding with a large base, in wall time."""
    from manihash import recipe

    F, clock, found = X.astype(np.float32), time.perf_counter, []
    C = F[:M].copy()

    def unit() -> None:
        product(F, C)

    def fit(name: str) -> Any:
        return recipe(name, n_bits=64, random_state=0).fit(X)

    found.append(("fit imh-tsne", ratio(lambda: fit("imh-tsne"), unit, clock, 3) / ROUNDS, TEN))
    models: list[Any] = []
    found.append(
        ("fit imh-graph", ratio(lambda: models.append(fit("imh-graph")), unit, clock, 1), "products")
    )
    found.append(("encode imh-graph", ratio(lambda: models[0].encode(F), unit, clock), "products"))
    return found


def measured(kernels: str, threads: int) -> list[dict[str, Any]]:
    """The rows of one process: name, value, unit, target."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    env = os.environ | limits | {"OPENBLAS_CORETYPE": kernels, "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, __file__, "--only", str(threads)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    rows = []
    for name, value, unit in json.loads(done.stdout.splitlines()[-1]):
        avx2, own = TARGETS.get(name, (None, None))
        row = {"name": name, "kernels": kernels, "threads": threads, "value": round(value, 3), "unit": unit}
        rows.append(row | {"target": avx2 if kernels == "Haswell" else own})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--kernels", default=",".join(kernels_here()))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        from manihash import load_dataset

        X = load_dataset("mnist").X_train
        print(json.dumps(one_thread(X) if options.only == 1 else two_threads(X)))
        return
    for threads in map(int, options.threads.split(",")):
        for kernels in options.kernels.split(","):
            part = f"{vendor()}, {kernels}, {threads} thread{'s' * (threads > 1)}"
            found = measured(kernels, threads)
            own = {"threads": str(threads), "instructions": INSTRUCTIONS[kernels]}
            record("speed", part, {"rows": found}, machine=own, folder=options.folder)


if __name__ == "__main__":
    main()
