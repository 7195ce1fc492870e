# ruff: noqa: E402
"""Duplicates among many codes: ``make bench-duplicates``.

Made-up codes of 64 bits, radius 2. The originals are words of the extended BCH code (64, 45), which differ in
at least 8 bits. A fifth of the rows are copies of them with 0 to 2 flipped bits, a twentieth of these of one
original. So rows of different originals differ in at least 4 bits, and the groups are known exactly. Times
are CPU times of one process. Writes ``docs/results/duplicates-scale.json``.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from _results import ROOT, record

from manihash import HammingIndex, dedup, known_rows, load_dataset, recipe
from manihash.search import prepare_tables
from manihash.search.duplicates.near_pairs import ones

BITS, RADIUS = 64, 2
BLOCK = 2**22
COPIES = 0.2  # of the rows
HOT = 0.05  # of the copies, of the first original
GENERATOR = 0o1701317  # of the BCH code (63, 45), which corrects 3 errors
FAISS_QUERIES = 200
KILLS = 20


def tables_of_code() -> Any:
    """The words (6, 256) of each byte of a message of 45 bits; the word of a message is their XOR."""
    words = []
    for bit in range(45):
        word = GENERATOR << bit  # a product of polynomials: the message times the generator
        words.append(word << 1 | bin(word).count("1") % 2)  # and a bit for even parity
    tables = np.zeros((6, 256), np.uint64)
    for byte in range(6):
        for value in range(256):
            for bit in range(8):
                if value >> bit & 1 and 8 * byte + bit < 45:
                    tables[byte, value] ^= np.uint64(words[8 * byte + bit])
    return tables


def originals(rows: Any, tables: Any) -> Any:
    """The codes (m,) of original rows, as integers: words of distinct messages."""
    message = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) & np.uint64(2**45 - 1)
    words = np.zeros(len(rows), np.uint64)
    for byte in range(6):
        words ^= tables[byte][(message >> np.uint64(8 * byte) & np.uint64(255)).astype(np.int64)]
    return words


def source_of(first: int, last: int, n: int) -> Any:
    """The original row of each row from first to last: itself, or of a copy an earlier one."""
    n_originals = n - int(COPIES * n)
    rows = np.arange(first, last)
    rng = np.random.default_rng(first)
    source = rng.integers(n_originals, size=last - first)
    source[rng.random(last - first) < HOT] = 0
    return np.where(rows < n_originals, rows, source)


def write_codes(path: Path, n: int) -> None:
    """Write n codes with planted groups."""
    tables = tables_of_code()
    codes = np.lib.format.open_memmap(path, "w+", np.uint8, (n, BITS // 8))
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        source = source_of(first, last, n)
        words = originals(source, tables)
        rng = np.random.default_rng([first, 1])
        copies = source != np.arange(first, last)
        for _ in range(RADIUS):
            flip = np.uint64(1) << rng.integers(BITS, size=len(words), dtype=np.uint64)
            words ^= np.where(copies & (source != 0) & (rng.random(len(words)) < 0.7), flip, np.uint64(0))
        codes[first:last] = words.view(np.uint8).reshape(-1, 8)
    codes.flush()


def wrong_rows(first_rows: Any, n: int) -> int:
    """The number of rows whose group is not the planted one."""
    wrong = 0
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        wrong += int((first_rows[first:last] != source_of(first, last, n)).sum())
    return wrong


class DiskUse(threading.Thread):
    """The largest size of a folder while it exists."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.largest = folder, 0

    def run(self) -> None:
        while True:
            size = 0
            for path in self.folder.glob("*"):
                try:
                    size += path.stat().st_size
                except OSError:
                    continue
            self.largest = max(self.largest, size)
            time.sleep(0.2)


def measure(folder: Path, n: int, memory: str) -> None:
    """Print the facts of one run in this process, as JSON."""
    disk = DiskUse(folder / "work")
    disk.start()
    start, wall = time.process_time(), time.monotonic()
    codes = np.load(folder / "codes.npy", mmap_mode="r")
    found = dedup(codes, BITS, RADIUS, memory=memory, work=folder / "work")
    seconds, wall = time.process_time() - start, time.monotonic() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts = {
        "rows": n,
        "groups": len(found),
        "largest group": int(np.diff(found.lims).max()),
        "wrong rows": wrong_rows(found.first, n),
        "memory option": memory,
        "peak memory, bytes": peak,
        "peak disk, bytes": disk.largest,
        "CPU seconds": round(seconds, 1),
        "CPU microseconds per row": round(1e6 * seconds / n, 3),
        "wall seconds / CPU seconds": round(wall / seconds, 2),
    }
    print(json.dumps(facts))


def run_scale(folder: Path, n: int) -> None:
    """Measure n codes in a process of its own, and record it."""
    write_codes(folder / "codes.npy", n)
    command = [sys.executable, __file__, "--measure", str(n), "--folder", str(folder)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(output)
    record("duplicates-scale", f"{n:,} codes", facts)
    print(output, flush=True)


def run_faiss(folder: Path, n: int = 10_000_000) -> None:
    """Compare with FAISS on the same codes: a scan of some queries, and its tables of three chunks."""
    import faiss

    faiss.omp_set_num_threads(1)
    write_codes(folder / "codes.npy", n)
    codes = np.load(folder / "codes.npy")
    start = time.process_time()
    found = dedup(codes, BITS, RADIUS)
    ours = time.process_time() - start
    flat = faiss.IndexBinaryFlat(BITS)
    flat.add(codes)
    queries = codes[np.random.default_rng(0).permutation(n)[:FAISS_QUERIES]]
    start = time.process_time()
    flat.range_search(queries, RADIUS + 1)  # FAISS finds distances below its radius
    scan = (time.process_time() - start) * n / FAISS_QUERIES
    del flat
    few = 1_000_000  # its tables compare all pairs of equal codes, so only distinct ones are given
    distinct = np.unique(codes.view(np.uint64))[:few].view(np.uint8).reshape(-1, 8)
    start = time.process_time()
    hashes = faiss.IndexBinaryMultiHash(BITS, 3, 21)
    hashes.add(distinct)
    hashes.range_search(distinct, RADIUS + 1)
    tables = time.process_time() - start
    start = time.process_time()
    dedup(distinct, BITS, RADIUS)
    ours_few = time.process_time() - start
    facts = {
        "rows": n,
        "wrong rows": wrong_rows(found.first, n),
        "queries of FAISS measured": FAISS_QUERIES,
        "FAISS IndexBinaryFlat range_search / ours": round(scan / ours),
        "rows of IndexBinaryMultiHash": few,
        "FAISS IndexBinaryMultiHash add and range_search / ours": round(tables / ours_few, 2),
    }
    record("duplicates-scale", "FAISS", facts)
    print(facts, flush=True)


def run_known(folder: Path, n: int) -> None:
    """Time one new row against an index file of n rows, in a process that maps it."""
    path = folder / "codes.mhx"
    write_codes(folder / "codes.npy", n)
    build = "import numpy as np\nfrom manihash import HammingIndex\n"
    build += "from manihash.search import prepare_tables\n"
    codes = f"np.load({str(folder / 'codes.npy')!r}, mmap_mode='r')"
    build += f"HammingIndex({codes}, {BITS}).save({str(path)!r})\n"
    build += f"prepare_tables(HammingIndex.load({str(path)!r}), {RADIUS})"
    subprocess.run([sys.executable, "-c", build], check=True)
    index = HammingIndex.load(path)
    start = time.perf_counter()
    prepare_tables(index, RADIUS)
    opened = time.perf_counter() - start
    codes = np.load(folder / "codes.npy", mmap_mode="r")
    rng = np.random.default_rng(5)
    rows = rng.integers(n, size=300)
    new = codes[rows].view(np.uint64) ^ (np.uint64(1) << rng.integers(BITS, size=(300, 1), dtype=np.uint64))
    new[::2] = rng.integers(2**63, size=(150, 1), dtype=np.uint64)
    times = []
    for each in new:
        start = time.perf_counter()
        known_rows(index, each[None].view(np.uint8), RADIUS)
        times.append(1e3 * (time.perf_counter() - start))
    known = known_rows(index, new.view(np.uint8), RADIUS)
    facts = {
        "rows": n,
        "index, bytes": path.stat().st_size,
        "tables, bytes": sum(file.stat().st_size for file in Path(f"{path}.tables").iterdir()),
        "ms to map the tables": round(1e3 * opened, 1),
        "new rows": len(new),
        "known": int(known.known.sum()),
        "ms per row, median": round(statistics.median(times), 3),
        "ms per row, 95th percentile": round(sorted(times)[int(0.95 * len(times))], 3),
        "ms of the first row": round(times[0], 3),
    }
    record("duplicates-scale", "one new row", facts)
    print(facts, flush=True)


def run_sift(folder: Path) -> None:
    """Real words, each repeated four times with 0 to 2 flipped bits, beside a scan of some rows."""
    X = load_dataset("photo-sift1m").X_train
    words = recipe("itq", BITS, 0).fit(X[:100_000]).encode(X).view(np.uint64)[:, 0]
    rng = np.random.default_rng(0)
    copies = np.tile(words, 4)
    for _ in range(RADIUS):
        flip = np.uint64(1) << rng.integers(BITS, size=len(copies), dtype=np.uint64)
        copies ^= np.where(rng.random(len(copies)) < 0.5, flip, np.uint64(0))
    every = np.concatenate([words, copies])
    start = time.process_time()
    found = dedup(every.view(np.uint8).reshape(-1, 8), BITS, RADIUS)
    seconds = time.process_time() - start
    n, wrong, pairs = len(words), 0, 0
    for row in rng.integers(len(every), size=500):
        near = np.flatnonzero(ones((every ^ every[row])[:, None]) <= RADIUS)
        pairs += len(near) - 1
        wrong += int((found.first[near] != found.first[row]).sum())
    facts = {
        "rows": len(every),
        "distinct words": len(np.unique(words)),
        "groups": len(found),
        "largest group": int(np.diff(found.lims).max()),
        "copies outside the group of their original": int(
            (found.first[n:] != np.tile(found.first[:n], 4)).sum()
        ),
        "rows compared with all": 500,
        "near rows of these": pairs,
        "near rows in another group": wrong,
        "CPU microseconds per row": round(1e6 * seconds / len(every), 3),
    }
    record("duplicates-scale", "SIFT words", facts)
    print(facts, flush=True)


def run_kill(folder: Path, n: int = 1_000_000) -> None:
    """Kill the command at 20 random moments and run it again: the groups must be the same."""
    write_codes(folder / "codes.npy", n)
    command = [sys.executable, "-m", "manihash", "dedup", str(folder / "codes.npy"), "--radius", str(RADIUS)]
    command += ["--memory", "20M", "-q", "-o", str(folder / "groups.npz")]
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    expected = {name: array.copy() for name, array in np.load(folder / "groups.npz").items()}
    same = killed = 0
    moments, work = random.Random(0), folder / "groups.npz.work"
    while killed < KILLS:
        (folder / "groups.npz").unlink()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not work.exists() and process.poll() is None:
            time.sleep(0.01)
        try:
            process.wait(moments.uniform(0, 0.6) * whole)
            continue  # it has ended before the moment came
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        killed += 1
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = np.load(folder / "groups.npz")
        same += all(np.array_equal(found[name], array) for name, array in expected.items())
    facts = {
        "rows": n,
        "killed": killed,
        "identical groups": same,
        "wrong rows": wrong_rows(expected["first"], n),
    }
    record("duplicates-scale", "kill", facts)
    print(facts, flush=True)


def run_dask(folder: Path, n: int = 1_000_000) -> None:
    """Two workers, one of which is killed while they work."""
    import dask.array as da
    from distributed import Client, LocalCluster

    write_codes(folder / "codes.npy", n)
    codes = np.load(folder / "codes.npy", mmap_mode="r")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        pids = sorted(client.run(os.getpid).values())
        killer = threading.Thread(target=_kill_later, args=(pids[0], folder / "work"))
        killer.start()
        found = dedup(da.from_array(codes, chunks=(100_000, -1)), BITS, RADIUS, work=folder / "work")
        killer.join()
        now = sorted(client.run(os.getpid).values())
    alone = dedup(codes, BITS, RADIUS)
    facts = {
        "rows": n,
        "workers": len(pids),
        "workers killed": int(pids[0] not in now),
        "identical groups": bool(np.array_equal(found.first, alone.first)),
        "wrong rows": wrong_rows(found.first, n),
    }
    record("duplicates-scale", "Dask", facts)
    print(facts, flush=True)


def _kill_later(pid: int, work: Path) -> None:
    """Kill a worker when the first table has been written."""
    while not list(work.glob("stage1-*")):
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts", default="1000000,10000000,FAISS,SIFT words,kill,Dask,100000000,one new row"
    )
    parser.add_argument(
        "--folder", type=Path, help="folder for codes and parts: 6 GB", default=ROOT / "build"
    )
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the index for one new row")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        measure(given.folder, given.measure, "2G")
        return
    given.folder.mkdir(exist_ok=True)
    others = {"FAISS": run_faiss, "SIFT words": run_sift, "kill": run_kill, "Dask": run_dask}
    for part in given.parts.split(","):
        folder = Path(tempfile.mkdtemp(prefix="duplicates-", dir=given.folder))
        try:
            if part == "one new row":
                run_known(folder, given.rows)
            elif part in others:
                others[part](folder)
            else:
                run_scale(folder, int(part))
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
