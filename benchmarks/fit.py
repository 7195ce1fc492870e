"""Fitting and encoding as multiples of the bare product they are made of, in one run: ``make bench``.

Ten float32 products 69,000 x 784 x 400 are what ten rounds of k-means on MNIST cannot do without. Each repeat
measures products and hasher one after the other, so that a busy machine slows both; the median ratio counts.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from manihash import load_dataset, recipe

BLOCK, M, ROUNDS = 2048, 400, 10


def seconds(work: Callable[[], object]) -> float:
    """How long the work takes, once the threads that BLAS leaves spinning have gone to sleep."""
    time.sleep(0.2)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def product(X: np.ndarray, C: np.ndarray) -> None:
    """The bare product X Cᵀ in blocks of rows; the result of a block is dropped."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] @ C.T


def measure(X: np.ndarray, name: str, bits: int, threads: int, repeats: int) -> dict[str, float]:
    """Median ratios: fit over ten products, encode over one."""
    floats = X.astype(np.float32)
    floats /= np.linalg.norm(floats, axis=1, keepdims=True)
    C = floats[:M].copy()
    fits, encodes, bare = [], [], []
    with threadpool_limits(threads, user_api="blas"):
        product(floats, C)
        for seed in range(repeats):
            one = statistics.median(seconds(lambda: product(floats, C)) for _ in range(5))
            hasher = recipe(name, n_bits=bits, random_state=seed)
            fits.append(seconds(lambda: hasher.fit(X)) / (ROUNDS * one))  # noqa: B023
            encodes.append(seconds(lambda: hasher.encode(X)) / one)  # noqa: B023
            bare.append(one)
    return {
        "threads": threads,
        "product_s": statistics.median(bare),
        "fit_over_ten_products": statistics.median(fits),
        "encode_over_product": statistics.median(encodes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="imh-tsne")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    options = parser.parse_args()
    X = load_dataset("mnist").X_train
    found = [measure(X, options.recipe, options.bits, threads, options.repeats) for threads in (1, 2)]
    if options.json:
        print(json.dumps({"recipe": options.recipe, "bits": options.bits, "results": found}))
        return
    print(f"{options.recipe}, {options.bits} bits, MNIST {X.shape[0]:,} x {X.shape[1]}, {platform.machine()}")
    print("| threads | one product, s | fit / ten products | encode / one product |\n|---|---|---|---|")
    for row in found:
        print(
            f"| {row['threads']} | {row['product_s']:.3f} | {row['fit_over_ten_products']:.2f} "
            f"| {row['encode_over_product']:.2f} |"
        )


if __name__ == "__main__":
    main()
