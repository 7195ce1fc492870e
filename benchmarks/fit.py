"""Times of fit and encode as multiples of a bare product, compared with other libraries: ``make bench-fit``.

The product is float32, 69,000 x 784 x 400, in blocks. Ten iterations of k-means on MNIST with 400 centers
need at least ten of them. Each repetition measures the product and the work one after the other, so that a
busy machine slows both; the median ratio is reported. Each number of threads runs in a separate process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from _results import record

BLOCK, M, ROUNDS, K = 2048, 400, 10, 5
# The BLAS inside faiss-cpu does not recognize new CPUs: select its fastest float kernels.
PEER_BLAS = {"OPENBLAS_CORETYPE": "SkylakeX", "OMP_WAIT_POLICY": "PASSIVE"}


def seconds(work: Callable[[], object]) -> float:
    """Seconds that the work takes, measured after the spinning threads of BLAS have gone to sleep."""
    time.sleep(0.2)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def product(X: np.ndarray, C: np.ndarray) -> None:
    """The bare product X Cᵀ in blocks of rows; the result of a block is dropped."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] @ C.T


def ratio(work: Callable[[int], object], X: np.ndarray, C: np.ndarray, times: int, repeats: int) -> float:
    """Median ratio of the time of the work to that of the given number of products."""
    product(X, C)
    found = []
    for seed in range(repeats):
        one = [seconds(lambda: product(X, C)) for _ in range(5)]
        taken = seconds(lambda: work(seed))  # noqa: B023
        one += [seconds(lambda: product(X, C)) for _ in range(5)]
        found.append(taken / (times * statistics.median(one)))
    return statistics.median(found)


def recipes(X: np.ndarray, F: np.ndarray, C: np.ndarray, repeats: int) -> dict[str, float]:
    """Time of fit divided by ten products (imh-tsne) or one (imh-large), of encode divided by one."""
    from manihash import recipe

    found, fitted = {}, {}

    def fit(name: str, seed: int) -> None:
        fitted[name] = recipe(name, n_bits=64, random_state=seed).fit(X)

    for name, times in (("imh-tsne", ROUNDS), ("imh-large", 1), ("imh-large-fast", 1)):
        some = repeats if name == "imh-tsne" else 1
        found[f"fit {name}"] = ratio(lambda seed, n=name: fit(n, seed), F, C, times, some)
        found[f"encode {name}"] = ratio(lambda _, n=name: fitted[n].encode(X), F, C, 1, repeats + 2)
    return found


def k_means(F: np.ndarray, C: np.ndarray, repeats: int) -> dict[str, float]:
    """Our k-means divided by ten products, on MNIST and on a million rows of 128 columns."""
    from manihash.base import KMeansBase

    found = {"k-means, m = 400": ratio(lambda s: KMeansBase(M, random_state=s).fit(F), F, C, ROUNDS, repeats)}
    wide = np.random.default_rng(0).standard_normal((1_000_000, 128), np.float32)
    centers = wide[:1000].copy()
    work = KMeansBase(1000, max_iter=2, random_state=0)
    found["k-means 1M x 128, m = 1,000"] = ratio(lambda _: work.fit(wide), wide, centers, 2, 1)
    return found


def warm_start(X: np.ndarray) -> dict[str, float]:
    """A million descriptors, m = 1,000: ten iterations, five, and ten on a sample plus two on all rows.

    In products, and their sum of squares divided by that of the ten iterations.
    """
    from manihash.base import KMeansBase
    from manihash.compute import numpy as numpy_backend
    from manihash.rows.local import LocalRows

    F = X.astype(np.float32)
    C, rows, found, least = F[:1000].copy(), LocalRows(F), {}, 0.0
    works = {"ten rounds": {}, "five rounds": {"max_iter": 5}, "warm start": {"full_rounds": 2}}
    for name, options in works.items():
        base = KMeansBase(1000, random_state=0, **options)
        found[f"k-means of 1M SIFT, {name}"] = ratio(lambda _, b=base: b.fit(F), F, C, 1, 1)
        inertia = sum(
            rows.map(lambda block, b=base: numpy_backend.k_nearest(block, b.points_, 1)[0].sum(dtype=float))
        )
        least = least or inertia
        found[f"its sum of squares, {name}"] = inertia / least
    return found


def peers(F: np.ndarray, C: np.ndarray, threads: int, repeats: int) -> dict[str, float]:
    """K-means of scikit-learn and FAISS in tens of products, their five nearest centers in products."""
    import faiss
    from sklearn.cluster import KMeans
    from sklearn.neighbors import NearestNeighbors

    faiss.omp_set_num_threads(threads)

    def sklearn_k_means(_: int) -> None:
        KMeans(M, init=C, n_init=1, max_iter=ROUNDS, tol=0, algorithm="lloyd").fit(F)

    def faiss_k_means(_: int) -> None:
        faiss.Kmeans(784, M, niter=ROUNDS, max_points_per_centroid=10**9).train(F)

    near = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(C)
    works = {
        "k-means, scikit-learn": (sklearn_k_means, ROUNDS),
        "k-means, FAISS": (faiss_k_means, ROUNDS),
        "five nearest of 400, scikit-learn": (lambda _: near.kneighbors(F), 1),
        "five nearest of 400, FAISS": (lambda _: faiss.knn(F, C, K), 1),
    }
    return {name: ratio(work, F, C, times, repeats) for name, (work, times) in works.items()}


def measure(threads: int, repeats: int, part: str) -> dict[str, float]:
    """All ratios with the given number of threads, in this process."""
    from threadpoolctl import threadpool_limits

    from manihash import load_dataset

    if part == "warm":
        return warm_start(load_dataset("photo-sift1m").X_train)
    X = load_dataset("mnist").X_train
    F = X.astype(np.float32)
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    C = F[:M].copy()
    with threadpool_limits(threads, user_api="blas"):
        product(F, C)
        one = statistics.median(seconds(lambda: product(F, C)) for _ in range(5))
        found = {"one product, seconds": one}
        if part == "recipes":
            return found | recipes(X, F, C, repeats)
        return k_means(F, C, repeats) if part == "k-means" else peers(F, C, threads, repeats)


def measured_apart(threads: int, repeats: int, part: str) -> dict[str, float]:
    """All ratios, from a process that is started with the given number of threads."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    command = [sys.executable, __file__, "--only", f"{threads},{part}", "--repeats", str(repeats)]
    extra = PEER_BLAS if part == "peers" else {}
    done = subprocess.run(
        command, env={**os.environ, **limits, **extra}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", default="recipes,k-means,warm,peers", help="parts to measure")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        threads, part = options.only.split(",")
        print(json.dumps(measure(int(threads), options.repeats, part)))
        return
    for threads in map(int, options.threads.split(",")):
        for part in options.parts.split(","):
            found = measured_apart(threads, options.repeats, part)
            name = f"{part}, {threads} thread{'s' * (threads > 1)}"
            record("fit", name, found, machine={"threads": str(threads)})
            print(name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
