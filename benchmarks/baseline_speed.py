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
from _results import record
from threadpoolctl import threadpool_limits

from manihash import load_dataset, recipe
from manihash.hashers import ITQ, PCAH

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


def encode_ratios(X: np.ndarray, bits: int, repeats: int) -> dict[str, float]:
    """Encoding divided by the bare product."""
    ratios = {}
    directions = np.random.default_rng(0).standard_normal((bits, X.shape[1])).astype(np.float32)
    for method in (PCAH, ITQ):
        hasher = method(bits, random_state=0).fit(X)
        found = ratio(lambda: hasher.encode(X), lambda: product(X, directions), repeats)  # noqa: B023
        ratios[f"{method.__name__} encode, {bits} bits / bare product n x d x r"] = round(found, 3)
    return ratios


def itq_training(X: np.ndarray, bits: int, repeats: int, threads: int) -> dict[str, float]:
    """The training of ITQ divided by that of FAISS, and their quantization errors."""
    import faiss

    faiss.omp_set_num_threads(threads)

    def theirs() -> Any:
        transform = faiss.ITQTransform(X.shape[1], bits, True)
        transform.max_train_per_dim = len(X)
        transform.train(X)
        return transform

    found = ratio(lambda: ITQ(bits, random_state=0).fit(X), theirs, repeats)
    ours = ITQ(bits, random_state=0).fit(X).embed(X)
    return {
        f"ITQ fit, {bits} bits / FAISS ITQTransform, all rows": round(found, 3),
        "its quantization error / FAISS's, each after one common scale factor": round(
            error(ours) / error(theirs().apply(X)), 3
        ),
    }


def error(Y: np.ndarray) -> float:
    """Mean squared distance of Y to its signs, after Y is scaled by one factor."""
    return float(np.mean((np.sign(Y) - Y / np.abs(Y).mean()) ** 2))


def fit_ratios(X: np.ndarray, repeats: int) -> dict[str, float]:
    """Fits divided by that of imh-tsne, and that of BRE by a product."""
    ratios = {}
    for name in ("sph", "agh", "agh2"):
        fits = [lambda n=n: recipe(n, 64, random_state=0).fit(X) for n in (name, "imh-tsne")]
        ratios[f"{name} fit, 64 bits / imh-tsne fit"] = round(ratio(*fits, repeats), 3)
    C = X[:400].copy()
    found = ratio(lambda: recipe("bre", 128, random_state=0).fit(X), lambda: product(X, C), repeats)
    ratios["bre fit, 128 bits / product 69,000 x 784 x 400"] = round(found, 3)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    X = load_dataset("mnist").X_train.astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    with threadpool_limits(asked.threads, user_api="blas"):
        found = encode_ratios(X, 64, 3 * asked.repeats)
        found |= itq_training(X, 64, asked.repeats, asked.threads)
        found |= fit_ratios(X, asked.repeats)
    record("baseline-speed", f"{asked.threads} threads", found, machine={"threads": str(asked.threads)})
    print("\n".join(f"{what}: {value}" for what, value in found.items()))


if __name__ == "__main__":
    main()
