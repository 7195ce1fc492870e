"""Times of encode, fit and search on a GPU, compared with lower bounds: ``make bench-gpu``.

Two lower bounds are measured first: the time to read X once, and that of the product with the base points.
Times are medians of ``triton.testing.do_bench`` (encode) or of repeats that end in a synchronization. The
fits need MNIST in the folder that MANIHASH_DATA names, and are skipped without it.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from _results import FOLDER, record

import manihash
from manihash import IMH, on_device
from manihash.base import GraphAffinity, KMeansBase, ReducedBase
from manihash.embeddings import TSNE, ElasticEmbedding
from manihash.evaluation.harness import evaluate
from manihash.evaluation.truth import LabelTruth
from manihash.search import TensorIndex

N, D, M, K, R = 1_048_576, 784, 400, 5, 64
RECIPES = (
    "imh-tsne",
    "imh-tsne-rotated",
    "imh-graph-small",
    "imh-large",
    "imh-large-fast",
    "imh-hybrid",
    "imh-le",
)
RECIPES += ("pq", "opq", "agh", "agh2", "itq", "lsh", "pcah", "sth")
GENERATOR = torch.Generator("cuda")


def milliseconds(work: Callable[[], object]) -> float:
    """The median time of work on the GPU, with its inputs not in the cache."""
    return float(triton.testing.do_bench(work, warmup=25, rep=150, return_mode="median"))


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The median time of work that ends on the host, after one warm-up run."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def rows(n: int) -> torch.Tensor:
    """Rows like images: around 512 points, all numbers positive."""
    GENERATOR.manual_seed(0)
    centers = torch.rand((512, D), device="cuda", generator=GENERATOR)
    X = centers[torch.randint(0, 512, (n,), device="cuda", generator=GENERATOR)]
    return X.add_(torch.rand((n, D), device="cuda", generator=GENERATOR), alpha=0.5).mul_(170)


def model(X: torch.Tensor) -> IMH:
    """An IMH with k-means centers of some rows. Its embedding is random, which does not affect times."""
    hasher = IMH(R, base=KMeansBase(M), embedding=_Random(), normalize=True, random_state=0)
    return hasher.fit(X[:65536])


class _Random:
    def fit_transform(self, B: np.ndarray) -> np.ndarray:
        return np.random.default_rng(0).standard_normal((len(B), R))


def encode_in_torch(hasher: IMH, X: torch.Tensor, packed: bool = True) -> torch.Tensor:
    """The same codes by plain torch on all of X; the n x m matrix is written and read."""
    B, Y_B = (torch.as_tensor(a).to(X) for a in (hasher.base_points_, hasher.base_embedding_))
    X = X / X.norm(dim=1, keepdim=True)
    best, index = torch.addmm(-(B * B).sum(1) / 2, X, B.T).topk(K, dim=1)
    w = (2 * (best - best[:, :1]) / hasher.bandwidth_**2).exp()
    w /= w.sum(1, keepdim=True)
    Y = torch.zeros((len(X), R), dtype=X.dtype, device=X.device)
    for j in range(K):
        Y += w[:, j : j + 1] * Y_B[index[:, j]]
    places = 2 ** torch.arange(7, -1, -1, device=X.device)
    return ((Y > 0).view(len(X), -1, 8) * places).sum(2).to(torch.uint8) if packed else Y


def floors(X: torch.Tensor, B: torch.Tensor) -> dict[str, float]:
    """Lower bounds: the time to read X once, and of the product in TF32, float32 and half precision."""
    out = torch.empty((len(X), M), device="cuda")
    found = {"read X, ms": milliseconds(X.sum)}
    found["read X, TB/s"] = X.nbytes / found["read X, ms"] / 1e9
    for name, allowed in (("TF32", True), ("float32", False)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        found[f"{name} product, ms"] = milliseconds(lambda: torch.mm(X, B.T, out=out))
        found[f"{name} product, TFLOP/s"] = 2e-9 * len(X) * M * D / found[f"{name} product, ms"]
    found["topk of 5, ms"] = milliseconds(lambda: out.topk(K, dim=1))
    half, C = X.half(), B.half()
    found["half product, ms"] = milliseconds(lambda: torch.mm(half, C.T))
    return found


def bits_off(codes: torch.Tensor, truth: torch.Tensor) -> float:
    """The fraction of bits that differ."""
    places = torch.arange(8, device=codes.device, dtype=torch.uint8)
    return float(((codes ^ truth)[:, :, None] >> places & 1).sum(dtype=torch.float64)) / (len(codes) * R)


def encoding() -> dict[str, Any]:
    """Times of the lower bounds, plain torch and the kernel; fractions of bits that differ from float64."""
    X = rows(N)
    hasher = model(X)
    B = torch.as_tensor(hasher.base_points_).to(X)
    shape = {"n": N, "d": D, "m": M, "k": K, "r": R}
    found: dict[str, Any] = {"shape": shape, "floors": floors(X, B)}
    some = X[:: N // 16384]
    exact = encode_in_torch(hasher, some.double())
    torch.backends.cuda.matmul.allow_tf32 = False
    found["plain torch, float32"] = {
        "ms": milliseconds(lambda: encode_in_torch(hasher, X)),
        "bits off": bits_off(encode_in_torch(hasher, some), exact),
    }
    torch.backends.cuda.matmul.allow_tf32 = True
    found["plain torch, TF32"] = {
        "ms": milliseconds(lambda: encode_in_torch(hasher, X)),
        "bits off": bits_off(encode_in_torch(hasher, some), exact),
    }
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in ("tf32", "filtered", "float32"):
        with manihash.gpu_precision(name):
            found[f"encode, {name}"] = {
                "ms": milliseconds(lambda: hasher.encode(X)),
                "bits off": bits_off(hasher.encode(some), exact),
                "same twice": bool((hasher.encode(X) == hasher.encode(X)).all()),
            }
    found["bits off numpy's"] = bits_off(
        hasher.encode(some), torch.as_tensor(hasher.encode(some.cpu().numpy())).cuda()
    )
    return found


def streaming() -> dict[str, float]:
    """Encoding of a memory map that is sent to the GPU in blocks, and the copy of as many bytes."""
    X = rows(N // 2)
    hasher = model(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X.cpu().numpy())
        mapped = np.load(path, mmap_mode="r")
        pinned = torch.empty((65536, D), pin_memory=True)
        there = torch.empty((65536, D), device="cuda")
        copy = milliseconds(lambda: there.copy_(pinned)) / 1e3 * len(X) / 65536
        taken = seconds(lambda: hasher.encode(on_device(mapped, "cuda")))
        same = bool(
            (torch.as_tensor(hasher.encode(on_device(mapped, "cuda"))).cuda() == hasher.encode(X)).all()
        )
    return {"GB": X.nbytes / 1e9, "copy from pinned memory, s": copy, "encode, s": taken, "same codes": same}


def searching(n: int = 100_000_000, q: int = 1000, k: int = 100) -> dict[str, Any]:
    """Exact top k of random codes, and of codes with few distinct values."""
    found: dict[str, Any] = {"codes": n, "queries": q, "k": k}
    GENERATOR.manual_seed(0)
    for name, distinct in (("all distinct", None), ("5,000 distinct", 5000)):
        codes = torch.randint(0, 256, (n, 8), dtype=torch.uint8, device="cuda", generator=GENERATOR)
        if distinct:
            codes = codes[torch.randint(0, distinct, (n,), device="cuda", generator=GENERATOR)]
        queries = torch.randint(0, 256, (q, 8), dtype=torch.uint8, device="cuda", generator=GENERATOR)
        search = partial(TensorIndex(codes, 64).search, queries, k)
        found[f"search, {name}, s"] = seconds(search)
    return found


def mnist() -> tuple[torch.Tensor, torch.Tensor, LabelTruth]:
    """Rows and queries of MNIST on the GPU, and the true answers."""
    data = manihash.load_dataset("mnist")
    X, Q = (torch.as_tensor(np.asarray(part)).cuda().float() for part in (data.X_train, data.X_test))
    return X, Q, LabelTruth(data.y_test, data.y_train)


def recipe_fits(make: Callable[..., IMH], repeats: int = 3) -> dict[str, Any]:
    """Fits on MNIST with seeds 0, 1, …: the time after a warm-up fit, MAP and F1 within radius 2."""
    X, Q, truth = mnist()
    seeds, models = iter(range(-1, repeats)), []
    taken = seconds(lambda: models.append(make(random_state=max(0, next(seeds))).fit(X)), repeats)
    codes = [(h.encode(Q).cpu().numpy(), h.encode(X).cpu().numpy()) for h in models[1:]]
    results = [evaluate(*pair, truth, R) for pair in codes]
    return {"fit, s": taken, "MAP": [found.map for found in results], "F1": [found.f1 for found in results]}


def graph(m: int, random_state: int) -> IMH:
    """``imh-graph`` for a GPU: more base points and iterations, and a graph that a random walk cleans."""
    hasher = manihash.recipe("imh-graph", R, random_state=random_state)
    affinity = GraphAffinity(n_steps=2, walk=4)
    embedding = hasher.embedding.set_params(n_iter=1000, annealed=False, affinity=affinity)
    base = ReducedBase(KMeansBase(m))
    return hasher.set_params(base=base, embedding=embedding.set_params(exaggeration=(4.0, 1.75)))


def embeddings(m: int = 8000, n_iter: int = 300) -> dict[str, float]:
    """Times of t-SNE and elastic embedding of points of MNIST, over all pairs."""
    X, _, _ = mnist()
    B = X[:m] / X[:m].norm(dim=1, keepdim=True)
    found: dict[str, float] = {"points": m, "iterations": n_iter, "dimensions": R}
    for name, method in (("t-SNE", TSNE), ("elastic embedding", ElasticEmbedding)):
        found[f"{name}, s"] = seconds(lambda f=method: f(R, n_iter=n_iter, random_state=0).fit_transform(B))
    return found


def same_bits(rows_file: str | None) -> dict[str, Any]:
    """The number of bits that differ between the GPU and the CPU, for every recipe with a path on the GPU."""
    images, _, _ = mnist()
    sets = {"mnist": images[:60000], "made-up": rows(N)}
    if rows_file:
        sets[Path(rows_file).stem] = torch.as_tensor(np.load(rows_file)).cuda().float()
    found = {}
    for name, X in sets.items():
        for method in RECIPES:
            hasher = manihash.recipe(method, R, random_state=0).fit(X[:60000])
            off = hasher.encode(X).cpu().numpy() ^ hasher.encode(X.cpu().numpy())
            found[f"{name} {method}"] = {"rows": len(X), "bits that differ": int(np.unpackbits(off).sum())}
            print(name, method, found[f"{name} {method}"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of h200.json")
    parser.add_argument("--only", nargs="*", help="the steps to run; all by default")
    parser.add_argument("--rows", help="a .npy file of rows whose codes are compared with the CPU's, too")
    options = parser.parse_args()
    card = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    steps: dict[str, Callable[[], Any]] = {
        "encode": encoding,
        "stream": streaming,
        "search": searching,
    }
    if os.environ.get("MANIHASH_DATA"):
        for name in ("imh-tsne", "imh-large"):
            steps[f"fit {name}"] = partial(recipe_fits, partial(manihash.recipe, name, R))
        steps["fit imh-graph"] = partial(recipe_fits, partial(graph, 20_000))
        steps["embeddings"] = embeddings
        steps["same bits"] = partial(same_bits, options.rows)
    for name, step in steps.items():
        if options.only and name not in options.only:
            continue
        found = step()
        torch.cuda.empty_cache()
        record("h200", name, found, folder=options.out, machine=card)
        print(name, json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
