"""Times of the baselines on MNIST, as ratios within one run: ``make bench-baselines``.

Encoding is divided by the bare product n x d x r, the training of ITQ by that of FAISS on the same rows, and
other fits by that of imh-tsne or by the product 69,000 x 784 x 400. All values are medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from manihash import ITQ, PCAH, load_dataset, recipe

BLOCK = 2048


def seconds(work: Callable[[], Any]) -> float:
    """Seconds that the work takes, measured after the spinning threads of BLAS have gone to sleep."""
    time.sleep(0.2)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int) -> float:
    """Median ratio of our time to their time, measured one after the other."""
    theirs()
    return statistics.median(seconds(ours) / seconds(theirs) for _ in range(repeats))


def product(X: np.ndarray, C: np.ndarray) -> None:
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] @ C.T


def encode_ratios(X: np.ndarray, bits: int, repeats: int) -> None:
    directions = np.random.default_rng(0).standard_normal((bits, X.shape[1])).astype(np.float32)
    for method in (PCAH, ITQ):
        hasher = method(bits, random_state=0).fit(X)
        found = ratio(lambda: hasher.encode(X), lambda: product(X, directions), repeats)  # noqa: B023
        print(f"| {method.__name__} encode, {bits} bits / bare product n x d x r | {found:.2f} |")


def itq_training(X: np.ndarray, bits: int, repeats: int, threads: int) -> None:
    import faiss

    faiss.omp_set_num_threads(threads)

    def theirs() -> Any:
        transform = faiss.ITQTransform(X.shape[1], bits, True)
        transform.max_train_per_dim = len(X)
        transform.train(X)
        return transform

    found = ratio(lambda: ITQ(bits, random_state=0).fit(X), theirs, repeats)
    print(f"| ITQ fit, {bits} bits / FAISS ITQTransform, all rows | {found:.2f} |")
    ours = ITQ(bits, random_state=0).fit(X).embed(X)
    print(f"| quantization error, ours / FAISS | {error(ours) / error(theirs().apply(X)):.3f} |")


def error(Y: np.ndarray) -> float:
    """Mean squared distance of Y to its signs, after Y is scaled by one factor."""
    return float(np.mean((np.sign(Y) - Y / np.abs(Y).mean()) ** 2))


def fit_ratios(X: np.ndarray, repeats: int) -> None:
    for name in ("sph", "agh", "agh2"):
        fits = [lambda n=n: recipe(n, 64, random_state=0).fit(X) for n in (name, "imh-tsne")]
        print(f"| {name} fit, 64 bits / imh-tsne fit | {ratio(*fits, repeats):.2f} |")
    C = X[:400].copy()
    found = ratio(lambda: recipe("bre", 128, random_state=0).fit(X), lambda: product(X, C), repeats)
    print(f"| bre fit, 128 bits / product 69,000 x 784 x 400 | {found:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    X = load_dataset("mnist").X_train.astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    print(f"MNIST {X.shape[0]:,} x {X.shape[1]}, {asked.threads} threads\n\n| what | ratio |\n|---|---|")
    with threadpool_limits(asked.threads, user_api="blas"):
        encode_ratios(X, 64, 3 * asked.repeats)
        itq_training(X, 64, asked.repeats, asked.threads)
        fit_ratios(X, asked.repeats)


if __name__ == "__main__":
    main()
