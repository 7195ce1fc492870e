"""Compare the Hamming index with FAISS on random, repeated and learned codes: ``make bench-search``.

Medians of ratios of times measured one after the other, so that a busy machine slows both. The sections
top, radius, routes and open need no data; learned and asymmetric need MNIST and photo-sift1m.
"""

import argparse
import ctypes
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from _results import record

from manihash import HammingIndex, load_dataset, recipe
from manihash.codes import pack
from manihash.evaluation import evaluate_ranking, recall_at_k
from manihash.evaluation.truth import truth_of
from manihash.search import asymmetric_distances, scanners
from manihash.search.buckets import aligned
from manihash.search.routes import CodeFinder

N = 1_000_000
QUERIES = 1000
REPEATS = 5
RNG = np.random.default_rng(0)
LINES: dict[str, str] = {}  # of the section that is measured


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(ours: Callable[[int], Any], theirs: Callable[[int], Any], share: float = 1.0) -> float:
    """Median ratio of our time to theirs, with new queries each time; theirs gets ``share`` of them."""
    ours(0), theirs(0)
    return statistics.median(
        seconds(lambda: ours(i)) * share / seconds(lambda: theirs(i))  # noqa: B023
        for i in range(1, REPEATS + 1)
    )


def random_codes(n: int, n_bits: int = 64) -> np.ndarray:
    return np.packbits(RNG.integers(0, 2, (n, n_bits), np.uint8), axis=1)


def batches(codes: np.ndarray, flips: int) -> list[np.ndarray]:
    """Queries near codes of the database, different ones for each repetition."""
    drawn = codes[RNG.integers(0, len(codes), (REPEATS + 1) * QUERIES)].copy()
    for _ in range(flips):
        bit = np.uint8(1) << RNG.integers(0, 8, len(drawn), np.uint8)
        drawn[np.arange(len(drawn)), RNG.integers(0, codes.shape[1], len(drawn))] ^= bit
    return np.split(drawn, REPEATS + 1)


def flat(codes: np.ndarray) -> Any:
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    return index


def line(what: str, value: str) -> None:
    LINES[what] = value
    print(f"{what}: {value}", flush=True)


def top() -> None:
    """Top 100 of 1M codes, all distinct and with 5,000 distinct ones."""
    distinct = random_codes(N)
    for name, codes, target in (
        ("1M distinct random codes", distinct, "at most 1.2"),
        ("1M codes, 5,000 distinct", distinct[RNG.integers(0, 5000, N)], "at most 1/40"),
    ):
        line(f"top 100 of {name}, ours / FAISS flat ({target})", top_ratio(codes, batches(codes, 8)))


def top_ratio(codes: np.ndarray, queries: list[np.ndarray], n_bits: int | None = None) -> str:
    index, peer = HammingIndex(codes, n_bits or 8 * codes.shape[1]), flat(codes)
    fewer = 10
    distances, ids = index.search(queries[0][:50], 100)
    d, i = peer.search(queries[0][:50], 100)
    same = (distances == d).all() and (ids == i).all()
    found = ratio(
        lambda j: index.search(queries[j], 100),
        lambda j: peer.search(queries[j][: QUERIES // fewer], 100),
        1 / fewer,
    )
    speed = f"{found:.2f}" if found > 0.5 else f"1/{1 / found:.0f}"
    return f"{speed}; {'same answers' if same else 'other members of ties'}"


def radius() -> None:
    """Look-up within 2 and 3 bits in 1M codes, compared with FAISS MultiHash where it is exact."""
    distinct = random_codes(N)
    for name, codes in (
        ("1M distinct random codes", distinct),
        ("1M codes, 5,000 distinct", distinct[RNG.integers(0, 5000, N)]),
    ):
        for within in (2, 3):
            radius_ratio(name, codes, batches(codes, 1), within, 64)


def radius_ratio(
    name: str, codes: np.ndarray, queries: list[np.ndarray], within: int, n_bits: int, fewer: int = 1
) -> None:
    """Time and tables of look-up within a radius, compared with FAISS MultiHash configured to be exact."""
    index = HammingIndex(codes, n_bits)
    before = allocated()
    peer = faiss.IndexBinaryMultiHash(8 * codes.shape[1], within + 1, min(20, n_bits // (within + 1)))
    peer.add(codes)
    theirs = allocated() - before - codes.nbytes
    index.count(np.tile(np.concatenate(queries), (40, 1)), within)  # enough to have paid for tables
    found = ratio(
        lambda i: index.within(queries[i], within),
        lambda i: peer.range_search(queries[i][: len(queries[i]) // fewer], within + 1),
        1 / fewer,
    )
    lims, _, ids = index.within(queries[0][:50], within)
    their_lims, _, their_ids = peer.range_search(queries[0][:50], within + 1)
    same = (lims == their_lims).all() and all(
        (np.sort(ids[a:b]) == np.sort(their_ids[a:b])).all() for a, b in pairwise(lims.tolist())
    )
    route = index.explain(radius=within, n_queries=QUERIES).route
    ours = index.stats().table_bytes
    line(
        f"within {within} of {name}, ours ({route}) / FAISS MultiHash (at most 1.2)",
        f"{found:.3f}; {'same answers' if same else 'OTHER ANSWERS'}; {lims[-1] / 50:.0f} rows per query; "
        f"tables of {ours / 1e6:.1f} MB, FAISS's {theirs / 1e6:.0f} MB",
    )


class _MallInfo(ctypes.Structure):
    """Glibc's struct mallinfo2: hblkhd is mapped block by block, uordblks in use in the heap."""

    _names = "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"
    _fields_ = tuple((name, ctypes.c_size_t) for name in (*_names, "keepcost"))


def allocated() -> int:
    """Bytes in use by this process, as glibc counts them: FAISS's tables are in the C++ heap."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _MallInfo
    counted = mallinfo2()
    return int(counted.hblkhd + counted.uordblks)


def routes() -> None:
    """Time of the chosen route divided by that of the best one, for uniform and clustered codes."""
    worse, much, asked = [], 0, 0
    for clusters in (0, 200):
        for n in (1000, 30_000, 300_000):
            for n_bits in (13, 16, 32, 64, 128):
                finder = CodeFinder(distinct_codes(n, n_bits, clusters), n_bits, scanners.default_scanner())
                for within in (0, 1, 2, 3, 5, 8):
                    asked += 1
                    over, lost, said = chosen_over_best(finder, within)
                    if over > 1.5:
                        much += lost > 5e-6
                        worse.append(
                            f"{over:.1f}: {'clusters' if clusters else 'even'}, {n}, {n_bits}, {said}"
                        )
    line("chosen route within 1.5 of the best one", f"{asked - len(worse)} of {asked}")
    line("or at most 5 us per query slower than it", f"{asked - much} of {asked}")
    for said in worse:
        line("not so", said)


def distinct_codes(n: int, n_bits: int, clusters: int) -> np.ndarray:
    bits = RNG.integers(0, 2, (n, n_bits), np.uint8)
    if clusters:
        bits = bits[RNG.integers(0, clusters, n)] ^ (RNG.random((n, n_bits)) < 0.12)
    codes = np.unique(pack(bits), axis=0)
    return aligned(codes[RNG.permutation(len(codes))])


def chosen_over_best(finder: CodeFinder, within: int) -> tuple[float, float, str]:
    """Time per query of the chosen route divided by that of the best route, and the difference.

    All tables are built before. The time of a route is the fastest of five.
    """
    codes, q = finder.codes, 200
    plan = {e.route: e.query for e in finder.plan(within, q).estimates}
    fastest, times = min(plan.values()), {}
    for route, expected in plan.items():
        if expected > 20 * fastest:
            continue
        finder.within(codes[:1], within, route)
        times[route] = min(
            seconds(lambda: finder.within(codes[RNG.integers(0, len(codes), q)], within, route)) / q  # noqa: B023
            for _ in range(REPEATS)
        )
    chosen, best = min(plan, key=lambda route: plan[route]), min(times.values())
    shown = ", ".join(f"{route} {1e6 * t:.1f} us" for route, t in times.items())
    lost = times[chosen] - best
    return times[chosen] / best, lost, f"within {within}: {chosen} chosen from {shown}"


def opening() -> None:
    """Time to open a saved index of 10M codes, and its size in memory."""
    index = HammingIndex(random_codes(10 * N), 64)
    line(
        "bytes of a 10M index over codes + 8 bytes per row (at most 1.5)",
        f"{index.stats().bytes / 160e6:.2f}",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.mhx"
        index.save(path)
        times = [seconds(lambda: HammingIndex.load(path)) for _ in range(REPEATS)]
        line("open a saved 10M index (under 0.2 s)", f"{statistics.median(times):.3f} s")
        line("verify it", f"{seconds(HammingIndex.load(path).verify):.2f} s")


def learned(sets: list[str], keep: Path | None) -> None:
    """IMH-tSNE codes of real data: top 100 and radius look-up, compared with FAISS and with graph indexes."""
    for name in sets:
        for n_bits in (32, 64):
            codes, queries = learned_codes(name, n_bits, keep)
            drawn = [queries[RNG.integers(0, len(queries), QUERIES)] for _ in range(REPEATS + 1)]
            index = HammingIndex(codes, n_bits)
            times = len(codes) / index.distinct_codes
            bar = min(times / 3, 20)
            what = f"{name}, {n_bits} bits, {times:.1f} rows per code"
            target = f"at most {min(1.2, 1 / bar):.2f}"
            line(f"{what}: top 100, ours / FAISS flat ({target})", top_ratio(codes, drawn, n_bits))
            for within in (2, 3):
                radius_ratio(what, codes, [some[:100] for some in drawn], within, n_bits, fewer=5)
            graphs(what, codes, queries[:QUERIES], index)


def learned_codes(name: str, n_bits: int, keep: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """IMH-tSNE codes of a dataset and of its queries, cached if a folder is given."""
    file = keep / f"{name}-{n_bits}.npz" if keep else None
    if file and file.exists():
        kept = np.load(file)
        return kept["codes"], kept["queries"]
    data = load_dataset(name)
    hasher = recipe("imh-tsne", n_bits, random_state=0).fit(data.X_train)
    codes, queries = hasher.encode(data.X_train), hasher.encode(data.X_test)
    if file:
        np.savez(file, codes=codes, queries=queries)
    return codes, queries


def graphs(what: str, codes: np.ndarray, queries: np.ndarray, index: HammingIndex) -> None:
    """Graph indexes on the same codes: their recall of the ten nearest, time and memory."""
    distances, ids = index.search(queries, 10)
    hnsw = faiss.IndexBinaryHNSW(8 * codes.shape[1], 16)
    built = seconds(lambda: hnsw.add(codes))
    size = faiss.serialize_index_binary(hnsw).nbytes
    peers = [("FAISS HNSW", lambda: hnsw.search(queries, 10), built, size)]
    with suppress(ImportError):
        from usearch.index import Index

        other = Index(ndim=8 * codes.shape[1], metric="hamming", dtype="b1")
        threads = faiss.omp_get_max_threads()
        built = seconds(lambda: other.add(np.arange(len(codes)), codes, threads=threads))
        size = other.memory_usage
        peers.append(("usearch", lambda: other.search(queries, 10, threads=threads), built, size))
    for name, search, built, size in peers:
        found: Any = search()
        d, i = found if isinstance(found, tuple) else (found.distances, found.keys.astype(np.int64))
        near = (np.asarray(d) <= distances[:, -1:]).mean()  # a row as near as the 10th is as good as it
        over = seconds(lambda: index.search(queries, 10)) / seconds(search)
        line(
            f"{what}: {name}, top 10",
            f"its recall {near:.3f} by distance, {recall_at_k(i, ids).mean():.3f} by id, ours 1.0; ours "
            f"takes {over:.2f} of its time and {index.stats().bytes / size:.2f} of its memory; it is built "
            f"in {built:.1f} s",
        )


def asymmetric(sets: list[str]) -> None:
    """MAP of asymmetric rankings, compared with rankings by Hamming distance."""
    for name in sets:
        data = load_dataset(name)
        X = data.X_train
        Q = data.X_test[: min(QUERIES, 2 * 10**8 // len(X))]
        labels = None if data.y_test is None else data.y_test[: len(Q)]
        truth = truth_of(Q, X, labels, data.y_train)
        for method in ("imh-tsne", "itq"):
            for n_bits in (16, 32, 64, 128):
                hasher = recipe(method, n_bits, random_state=0).fit(X)
                codes, Y = hasher.encode(X), hasher.embed(Q)
                signs = np.where(Y > 0, 1.0, -1.0)
                maps = ", ".join(f"{mean_ap(truth, real, codes, n_bits):.4f}" for real in (signs, Y))
                line(f"{name}, {method}, {n_bits} bits: MAP symmetric, asymmetric", maps)


def mean_ap(truth: Any, Y: np.ndarray, codes: np.ndarray, n_bits: int) -> float:
    """MAP of the ranking by the asymmetric distance; for signs this is the Hamming distance."""
    return evaluate_ranking(lambda start, stop: asymmetric_distances(Y[start:stop], codes, n_bits), truth).map


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sections = ["top", "radius", "routes", "open", "learned", "asymmetric"]
    parser.add_argument("sections", nargs="*", default=[], help=f"of {', '.join(sections)}; all without")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sets", nargs="+", default=["mnist", "photo-sift1m"])
    parser.add_argument("--keep", type=Path, help="a folder where learned codes are kept for the next run")
    asked = parser.parse_args()
    for threads in asked.threads:
        faiss.omp_set_num_threads(threads)
        for name in asked.sections or sections:
            if name == "learned":
                learned(asked.sets, asked.keep)
            elif name == "asymmetric":
                asymmetric(asked.sets)
            else:
                {"top": top, "radius": radius, "routes": routes, "open": opening}[name]()
            number = f"{threads} thread{'s' * (threads > 1)}"
            record("search", f"{name}, {number}", LINES, machine={"threads": str(threads)})
            LINES.clear()


if __name__ == "__main__":
    main()
