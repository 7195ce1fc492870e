"""Quality of codes by dataset, method, length and seed: ``make bench-quality``.

``docs/results/quality.json`` has one part per fit, such as "mnist, imh-graph, 64 bits, seed 0": MAP,
precision@10 and recall@10 of the Euclidean ten for the ranking by the codes ("codes") and by the real values
of the queries ("asymmetric", the ranking of ``index.search``), F1 of the look-up within radius 2, and
recall@10 if the vectors rank 100 candidates again. All tables of quality are written from this file. Models
are kept in ``build/bench-models``; parts of the present code are skipped, so an interrupted run resumes.
``--jobs 16`` measures 16 parts at once, each in a process of one thread. ``--kernels Haswell`` computes
products as processors without AVX-512 do, ``--kernels SkylakeX`` as those with it. The names of parts then
end with the maker of the processor and the kernels, so that machines stand side by side.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _models import fitted
from _results import FOLDER, is_current, record, vendor
from choose_sets import sets

from manihash import EuclideanTruth, Index, LabelTruth, load_dataset, recipe, unpack
from manihash.base import ExactNeighbors, KMeansBase
from manihash.evaluation import NeighborTruth, evaluate_codes, evaluate_ranking, evaluate_scan
from manihash.evaluation.truth import Truth
from manihash.linalg import effective_number
from manihash.search import ByteVectors, FaissQuantizer

LARGE = ("mnist", "cifar10-gist", "photo-sift1m")
CUT = ", 30,000 rows"  # after the name of a large dataset: its first rows, for the comparison of all methods
SMALL = ("clinc150", "agnews", "digits", "tiny-gist960", "bigann10k")
TEXTS = ("python documentation, by package", "python documentation, by module")
COMPARED = ("pq", "opq", "rabitq", "itq", "sign", "lsh", "sh", "agh", "sph",
            "imh-tsne", "imh-graph", "imh-hybrid", "imh-hybrid-hamming")  # fmt: skip
BYTES = (4, 8, 16, 32, 64)
MACHINES = (("mnist", "imh-tsne", 5), ("mnist", "imh-graph", 3), ("clinc150", "imh-hybrid", 3),
            ("mnist", "itq", 3))  # fmt: skip  # dataset, method and seeds that are compared between machines
BASELINES = ("imh-tsne", "imh-tsne-turned", "imh-le", "agh", "agh, m = 300, s = 2", "agh2",
             "agh2, m = 300, s = 2", "itq", "bre", "sph", "sth", "sh", "pcah")  # fmt: skip
CITED = ("lsh", "sign", "sklsh", "klsh", "e2lsh", "rmmh", "mahalanobis-lsh", "cgh", "ssh", "ldahash", "ksh",
         "imh-supervised")  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {  # a recipe and, after the comma, what differs
    "agh, m = 300, s = 2": {"base": KMeansBase(300), "n_neighbors": 2},
    "agh2, m = 300, s = 2": {"base": KMeansBase(300), "n_neighbors": 2},
    "klsh, linear kernel": {"kernel": "linear"},
    "e2lsh, p = 1": {"p": 1},
    "rmmh, Gaussian kernel": {"kernel": "rbf"},
    "mahalanobis-lsh, regularization = 10": {"regularization": 10.0},
    "ssh, step = None": {"step": None},
    "ldahash, all labels": {"n_labels": None},
    "ldahash, alpha = 1": {"alpha": 1.0},
    "ksh, 1,000 anchors": {"n_anchors": 1000},
    "ksh, 1,000 anchors, 5,000 labels": {"n_anchors": 1000, "n_labels": 5000},
    "ksh, no iterations": {"n_iter": 0},
    "imh-supervised, all labels": {"n_labels": None},
    "imh-supervised, 1,000 base points": {"base": KMeansBase(1000)},
    "cgh, 1,000 labels": {"n_train": 1000},
    "imh-large, all base points looked at": {"base__base__neighbors": ExactNeighbors()},
    "imh-large-ee, unit length": {"normalize": True},
    "imh-graph, not normalized": {"normalize": False},
    "imh-graph, 128 components": {"base__n_components": 128},
    "imh-graph, 16 probes": {"base__base__probes": 16, "base__base__neighbors__probes": 16},
}
WITH_LABELS = ("mahalanobis-lsh", "cgh", "ssh", "ldahash", "ksh", "imh-supervised")
EMBEDDINGS = ("imh-ee", "imh-tsne", "imh-sne", "imh-le", "imh-dm", "imh-pca", "imh-le-b", "imh-lle",
              "imh-isomap")  # fmt: skip
RANDOM_BASES = ("imh-tsne-random", "imh-le-random", "imh-le-b-random")
WITHOUT_SEED = ("sh", "pcah")
WEIGHTS = (0.25, 0.5, 1.0, 2.0)
CANDIDATES = (10, 50, 100, 500, 1000)
QUERIES, SIFT_ROWS = 1000, 100_000
ENDING = "MANIHASH_BENCH_ENDING"  # environment variable: the end of the names of parts
KERNELS = f", {os.environ[ENDING]}" if ENDING in os.environ else ""


@dataclass(frozen=True)
class Fit:
    """A dataset, a method (a recipe, or one of VARIANTS), a length and a seed."""

    data: str
    method: str
    bits: int
    seed: int = 0

    @property
    def part(self) -> str:
        """The name of the part of the results."""
        return f"{self.data}, {self.method}, {self.bits} bits, seed {self.seed}{KERNELS}"

    @property
    def recipe(self) -> str:
        """The recipe of the method."""
        return self.method.split(",")[0]


def plan() -> list[Fit]:
    """All fits of the tables, each once."""
    return list(dict.fromkeys([*_compared(), *_baselines(), *_large_bases(), *_embeddings()]))


VARIED = ("pq", "opq", "itq", "imh-tsne", "imh-graph", "imh-hybrid", "imh-hybrid-hamming")


def _compared() -> Iterator[Fit]:
    """All methods and lengths with one seed; more seeds of the middle length for the methods read most."""
    for data in (*SMALL, *TEXTS, *(f"{name}{CUT}" for name in LARGE)):
        for method in COMPARED:
            for bits in (8 * n for n in BYTES):
                if method != "rabitq" or bits > 64:  # 8 bytes of each row are two numbers
                    seeds = range(3 if bits == 64 and method in VARIED else 1)
                    yield from (Fit(data, method, bits, seed) for seed in seeds)
    for data, methods in _FULL.items():
        yield from (Fit(data, method, 64, seed) for method in methods for seed in range(3))


_FULL = {  # all rows
    "mnist": ("imh-hybrid", "imh-hybrid-hamming", "imh-graph", "pq", "opq", "itq"),
    "cifar10-gist": ("imh-hybrid", "pq", "opq"),
    "photo-sift1m": ("imh-hybrid", "imh-hybrid-hamming", "opq", "itq"),
}


def _baselines() -> Iterator[Fit]:
    """Three seeds of the middle length; bits of t-SNE vary more, so that they have three seeds always."""
    for method in BASELINES:
        for bits in (16, 32, 64, 96, 128):
            many = bits == 64 or method.startswith("imh-tsne")
            alone = method in (*WITHOUT_SEED, "bre")
            yield from (Fit("mnist", method, bits, seed) for seed in range(3 if many and not alone else 1))
    yield from (Fit("mnist", "imh-tsne", 64, seed) for seed in (3, 4))
    for method in CITED:
        yield Fit("mnist", method, 32)
        yield from (Fit("mnist", method, 64, seed) for seed in range(2))
    yield from (Fit("mnist", name, 64) for name in VARIANTS if name.split(",")[0] in CITED)


def _large_bases() -> Iterator[Fit]:
    wanted = {
        "mnist": ("imh-tsne-rotated", "imh-large", "imh-large, all base points looked at", "imh-large-fast",
                  "imh-graph-small", "imh-graph, not normalized"),
        "cifar10-gist": ("imh-large", "imh-large-ee", "imh-large-ee, unit length", "imh-graph",
                         "imh-graph, not normalized", "imh-graph, 128 components", "imh-graph, 16 probes"),
        "topics": ("imh-hybrid-hamming",),
    }  # fmt: skip
    for data, methods in wanted.items():
        for method in methods:
            once = "128" in method or "16 probes" in method
            yield from (Fit(data, method, 64, seed) for seed in range(1 if once else 2))
    yield from (Fit("mnist", "imh-graph", bits, seed) for bits in (16, 32) for seed in range(2))


def _embeddings() -> Iterator[Fit]:
    for method in (*EMBEDDINGS, *RANDOM_BASES):
        yield from (Fit("cifar10-gist", method, bits) for bits in (32, 64, 96))


def topics(n: int = 50_000, d: int = 384, noise: float = 1.75) -> tuple[Any, Any, Truth]:
    """Rows and 1,000 queries of 300 Gaussian topics; the ten nearest rows are of one topic to 99.9 %."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 300, n + 1000)
    centers = rng.standard_normal((300, d), np.float32)
    X = centers[y] + np.float32(noise) * rng.standard_normal((n + 1000, d), np.float32)
    return X[1000:], X[:1000], LabelTruth(y[:1000], y[1000:])


@dataclass(frozen=True)
class Data:
    """Rows (n, d), at most 1,000 queries, the truth, the ten nearest rows, and the labels of the rows."""

    X: Any
    Q: Any
    truth: Truth
    neighbors: Truth
    y: Any = None


@lru_cache(1)
def data_of(name: str) -> Data:
    """A dataset; the truth is the label or, without labels, the nearest 2 %."""
    X, Q, truth, y = _rows(name)
    return Data(X, Q, truth, NeighborTruth(Q, X), y)


def _rows(name: str) -> tuple[Any, Any, Truth, Any]:
    if name == "topics":
        return *topics(), None
    name, cut = name.removesuffix(CUT), name.endswith(CUT)
    if name in LARGE:
        given = load_dataset(name)
        X = np.asarray(given.X_train[: 30_000 if cut else SIFT_ROWS if name == "photo-sift1m" else None])
        Q = np.asarray(given.X_test[:QUERIES])
        if given.y_train is None or given.y_test is None:
            return X, Q, EuclideanTruth(Q, X), None
        y = given.y_train[: len(X)]
        return X, Q, LabelTruth(given.y_test[: len(Q)], y), y
    X, y = sets(None)[name]()
    n = min(QUERIES, len(X) // 7)
    if name not in ("clinc150", "agnews"):  # these are shuffled
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], None if y is None else y[order]
    if y is None:
        return X[n:], X[:n], EuclideanTruth(X[:n], X[n:]), None
    return X[n:], X[:n], LabelTruth(y[:n], y[n:]), y[n:]


def figures(found: Any) -> dict[str, float]:
    """The figures of a ranking."""
    named = {"MAP": found.map, "precision@10": found.precision_at_10, "recall@10": found.recall_at_10}
    return {key: round(float(value), 4) for key, value in named.items() if value is not None}


def made(fit: Fit) -> Any:
    """The unfitted hasher of a fit."""
    return recipe(fit.recipe, fit.bits, fit.seed, **VARIANTS.get(fit.method, {}))


def measured(fit: Fit, of: Data) -> dict[str, Any]:
    """The figures of one fit."""
    if fit.method == "rabitq":
        return of_rabitq(fit, of)
    y = of.y if fit.recipe in WITH_LABELS else None
    hasher, _ = fitted(made(fit), of.X, y)
    layout, codes, queries = hasher.layout_, hasher.encode(of.X), hasher.encode(of.Q)
    found: dict[str, Any] = {"rows": len(of.X), "columns": of.X.shape[1], "layout": layout.described()}
    options = {"neighbors": of.neighbors, "layout": layout}
    if not layout.has_fields:
        plain = evaluate_codes(queries, codes, of.truth, hasher.n_bits_, **options)
        found |= {"codes": figures(plain), "F1": round(plain.f1, 4)}
        if plain.plain is not None:
            found |= {"weight": float(layout.weight), "Hamming of all bits": figures(plain.plain)}
            found["F1 of all bits"] = round(plain.plain.f1, 4)
    if (fit.method in COMPARED and fit.bits // 8 in BYTES and fit.data not in LARGE) or (
        layout.has_fields or fit.method in _FULL.get(fit.data, ())
    ):
        values = hasher.embed(of.Q)
        real = evaluate_codes(queries, codes, of.truth, hasher.n_bits_, values=values, **options)
        found["asymmetric"] = figures(real)
        if layout.has_fields and real.f1 is not None:
            found["F1"] = round(real.f1, 4)
        found["reranked"] = {"candidates": 100, "recall@10": reranked(hasher, codes, of, 100)}
    if (recall := getattr(hasher, "neighbor_recall_", None)) is not None:
        found["recall of base points"] = round(float(recall), 4)
    return found | details(fit, hasher, codes, of)


def reranked(hasher: Any, codes: Any, of: Data, candidates: int, vectors: Any = None) -> float:
    """Recall@10 if the vectors rank the candidates of the codes again."""
    index = Index(hasher, codes)
    rows = of.X if vectors is None else vectors
    ids = index.search(of.Q, 10, rerank=rows, candidates=candidates)[1]
    return recall(ids, of)


def recall(ids: Any, of: Data) -> float:
    """Mean share of the ten nearest rows among answers (q, 10); equally near rows count, too."""
    found = 0.0
    for start in range(0, len(ids), 100):
        near = of.neighbors.relevant(start, min(start + 100, len(ids)))
        found += np.take_along_axis(near, ids[start : start + 100], axis=1).sum()
    return round(float(found / ids.size), 4)


def details(fit: Fit, hasher: Any, codes: Any, of: Data) -> dict[str, Any]:
    """What some tables show beyond the ranking: other weights of the second part, numbers of candidates."""
    found: dict[str, Any] = {}
    if (fit.method, fit.bits, fit.seed) == ("imh-hybrid-hamming", 64, 0):
        queries, found["weights"] = hasher.encode(of.Q), {}
        for weight in WEIGHTS:
            layout = hasher.layout_.with_weight(weight)
            own = evaluate_codes(queries, codes, of.truth, 64, neighbors=of.neighbors, layout=layout)
            found["weights"][f"{weight:g}"] = figures(own)
        found["redundancy"] = round(redundancy(hasher, codes), 2)
    curve = fit.method in ("imh-hybrid", "opq", "itq") and fit.data in ("clinc150", "photo-sift1m")
    if curve and (fit.bits, fit.seed) == (64, 0):
        for kind, rows in (("float32", None), ("one byte per value", ByteVectors.of(of.X))):
            found[f"candidates, {kind}"] = {str(n): reranked(hasher, codes, of, n, rows) for n in CANDIDATES}
    return found


def redundancy(hasher: Any, codes: Any) -> float:
    """Bits of the first part for each independent bit, on 2,000 rows."""
    some, first = codes[:: max(1, len(codes) // 2000)], hasher.layout_.look_up_bits
    bits = unpack(some, hasher.n_bits_)[:, :first].astype(float)
    return first / effective_number(np.corrcoef(bits[:, bits.std(axis=0) > 0].T))


def of_rabitq(fit: Fit, of: Data) -> dict[str, Any]:
    """The figures of FAISS's RaBitQ with as many bytes per row, of which eight are two numbers."""
    peer = FaissQuantizer("rabitq", fit.bits - 64, normalize=True, random_state=fit.seed).fit(of.X)
    index = peer.index(peer.encode(of.X))
    ranked = evaluate_ranking(
        lambda start, stop: index.distances(of.Q[start:stop]), of.truth, neighbors=of.neighbors
    )
    found = {"rows": len(of.X), "columns": of.X.shape[1], "layout": f"{fit.bits - 64} bits and 2 numbers"}
    ids = np.asarray(index.search(of.Q, 100)[1])
    near = np.concatenate(
        [
            np.take_along_axis(of.neighbors.relevant(a, min(a + 100, len(ids))), ids[a : a + 100], axis=1)
            for a in range(0, len(ids), 100)
        ]
    )
    share = float(np.minimum(near.sum(axis=1), 10).mean() / 10)
    return found | {
        "asymmetric": figures(ranked),
        "reranked": {"candidates": 100, "recall@10": round(share, 4)},
    }


def scanned() -> tuple[str, ...]:
    """The datasets whose vectors are scanned."""
    return (*SMALL, *TEXTS, *(f"{name}{CUT}" for name in LARGE), *LARGE)


def selected(asked: argparse.Namespace) -> list[Fit]:
    """The fits of the plan that were asked for, or the one that was named."""
    seeds = None if asked.seeds is None else [int(seed) for seed in asked.seeds.split(",")]
    found = [
        fit
        for fit in plan()
        if asked.data in ("", fit.data)
        and asked.method in ("", fit.method)
        and asked.bits in (None, fit.bits)
        and (seeds is None or fit.seed in seeds)
    ]
    if not found and asked.data and asked.method:
        return [Fit(asked.data, asked.method, asked.bits or 64, seed) for seed in seeds or [0]]
    return found


def measured_at_once(asked: argparse.Namespace) -> list[str]:
    """Measure all selected parts in processes of one thread, ``jobs`` at a time; return those that failed."""
    names = [name for name in scanned() if asked.data in ("", name) and asked.method in ("", "scan")]
    jobs = [("--data", name, "--method", "scan") for name in names]
    for fit in selected(asked) if asked.method != "scan" else []:
        if not is_current("quality", fit.part, asked.folder, any_versions=asked.any_versions):
            part = ("--data", fit.data, "--method", fit.method, "--bits", str(fit.bits))
            jobs.append((*part, "--seeds", str(fit.seed)))
    common = ["--folder", str(asked.folder), *(["--any-versions"] if asked.any_versions else [])]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def failed(job: tuple[str, ...]) -> bool:
        program = [sys.executable, __file__, *job, *common]
        return subprocess.run(program, env=os.environ | threads, check=False).returncode != 0

    with ThreadPoolExecutor(asked.jobs) as pool:
        return [" ".join(job) for job, bad in zip(jobs, pool.map(failed, jobs), strict=True) if bad]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this dataset")
    parser.add_argument("--method", default="", help="only this method; scan for the scan of the vectors")
    parser.add_argument("--bits", type=int, help="only this code length")
    parser.add_argument("--seeds", help="only these seeds, separated by commas")
    parser.add_argument("--any-versions", action="store_true", help="keep results of other versions of numpy")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument("--jobs", type=int, default=1, help="number of parts that are measured at once")
    parser.add_argument("--kernels", help="kernels of BLAS, such as Haswell: parts are named by machine")
    asked = parser.parse_args()
    if asked.kernels and ENDING not in os.environ:
        os.environ[ENDING] = f"{vendor()}, {asked.kernels}"
        os.environ["OPENBLAS_CORETYPE"] = asked.kernels  # BLAS reads it when it is loaded
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if asked.jobs > 1:
        if failed := measured_at_once(asked):
            sys.exit("not measured: " + "; ".join(failed))
        return
    _ran.start(calls=True)

    def save(part: str, found: dict[str, Any], recipes: tuple[str, ...] = ()) -> None:
        record("quality", part, found, folder=asked.folder, recipes=recipes)
        print(part, json.dumps(found), flush=True)

    def current(part: str) -> bool:
        return is_current("quality", part, asked.folder, any_versions=asked.any_versions)

    for name in scanned():
        scan = f"{name}, scan"
        if asked.data in ("", name) and asked.method in ("", "scan") and not current(scan):
            of = data_of(name)
            save(scan, figures(evaluate_scan(of.Q, of.X, of.truth, neighbors=of.neighbors)))
    if asked.method == "scan":
        return
    for fit in selected(asked):
        if current(fit.part) or (fit.method == "rabitq" and find_spec("faiss") is None):
            continue
        of, start = data_of(fit.data), time.process_time()
        _ran.forget()
        save(fit.part, found_or_refused(fit, of), () if fit.method == "rabitq" else (fit.recipe,))
        print(f"{time.process_time() - start:.1f} s of CPU time", flush=True)


def found_or_refused(fit: Fit, of: Data) -> dict[str, Any]:
    """The figures of a fit, or why the method refuses the data: more bits than columns."""
    if fit.method != "rabitq":
        made(fit)  # an option that the recipe does not know is an error of the plan
    try:
        return measured(fit, of)
    except ValueError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    main()
