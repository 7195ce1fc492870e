"""Out of core and on a cluster: ``make bench-scale`` (needs photo-sift1m and 4 GB of disk).

``write``: files of 2, 4 and 20 million rows of 128 bytes, made from photo-sift1m with noise. ``fit``
and ``encode``: the command on 2M and 20M rows (m = 1,000, 64 bits): peak of anonymous memory, time per row.
``dask``: 4M rows encoded by one worker and by two, and with one of two killed. ``kill``: an encoding of 4M
rows killed twenty times at random moments, and resumed. Results are written to docs/results/scale.json.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _results import record

from manihash import load, load_dataset
from manihash.files.formats import open_vectors, read_rows
from manihash.rows import dask as dask_rows

MILLION = 1_000_000
M, BITS, KILLS = 1000, 64, 20
OPTIONS = ("--recipe=imh-tsne", f"--bits={BITS}", f"--set=base__size={M}")


def write_rows(folder: Path, millions: int) -> Path:
    """Rows of photo-sift1m, with different noise for each million."""
    path = folder / f"rows{millions}m.npy"
    if path.exists():
        return path
    base = load_dataset("photo-sift1m", shuffle=False).X_train
    part = path.with_suffix(".part")
    out = np.lib.format.open_memmap(part, "w+", np.uint8, (millions * MILLION, base.shape[1]))
    for million in range(millions):
        rng = np.random.default_rng(million)
        for start in range(0, MILLION, 100_000):
            rows = base[start : start + 100_000].astype(np.int16)
            rows += rng.integers(-8, 9, rows.shape, np.int16)
            out[million * MILLION + start :][: len(rows)] = rows.clip(0, 255)
    out.flush()
    part.rename(path)
    return path


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "manihash", *map(str, arguments), "--json", "--quiet"]


def watched(*arguments: Any) -> dict[str, Any]:
    """The JSON output of the command, and its peak anonymous memory, sampled 20 times per second."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(
                peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
            )
        except (OSError, TypeError):
            pass
        time.sleep(0.05)
    assert process.stdout is not None
    said = json.loads(process.stdout.read())
    return {"rows": said["rows"], "seconds": said["seconds"], "anonymous_MiB": round(peak / 1024)}


def model_file(folder: Path) -> Path:
    """The model that is fitted to 2M rows."""
    path = folder / "2m.mhash"
    if not path.exists():
        watched("fit", write_rows(folder, 2), *OPTIONS, "-o", path)
    return path


def memory(folder: Path, work: str) -> dict[str, Any]:
    """Fit or encode at 2M and 20M rows."""
    found = []
    for millions in (2, 20):
        rows = write_rows(folder, millions)
        if work == "fit":
            found.append(watched("fit", rows, *OPTIONS, "-o", folder / f"{millions}m.mhash"))
        else:
            out = folder / f"codes{millions}m.npy"
            found.append(watched("encode", model_file(folder), rows, "-o", out, "--restart"))
        print(work, found[-1], flush=True)
    small, large = (run["seconds"] / run["rows"] for run in found)
    return {"runs": found, "time_per_row_20M_over_2M": round(large / small, 3)}


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array)).hexdigest()


def on_workers(n: int, path: Path, hasher: Any, *, kill: bool = False) -> tuple[float, str]:
    """Seconds to encode the file with n workers, and the digest of the codes; ``kill`` kills one worker."""
    import distributed

    X = open_vectors(path)
    with dask_rows.connected(str(n)):
        client = distributed.default_client()
        array = dask_rows.array_of(partial(read_rows, path=str(path)), X.shape, X.dtype)
        hasher.encode(array[: n * 200_000]).compute()  # workers load what they need
        pids = sorted(client.run(os.getpid).values())
        if kill:
            threading.Timer(5, os.kill, (pids[0], signal.SIGKILL)).start()
        start = time.perf_counter()
        codes = hasher.encode(array).compute()
        return time.perf_counter() - start, digest(codes)


def dask(folder: Path) -> dict[str, Any]:
    """One worker and two workers, alternating; then two workers of which one is killed after five seconds."""
    path, hasher = write_rows(folder, 4), load(model_file(folder))
    here = digest(hasher.encode(open_vectors(path)))
    one, two, same = [], [], True
    for _ in range(3):
        for n, times in ((1, one), (2, two)):
            seconds, codes = on_workers(n, path, hasher)
            times.append(seconds)
            same &= codes == here
            print(n, "workers", round(seconds, 1), flush=True)
    killed, codes = on_workers(2, path, hasher, kill=True)
    return {
        "one_worker_s": round(statistics.median(one), 2),
        "two_workers_s": round(statistics.median(two), 2),
        "speed_up": round(statistics.median(one) / statistics.median(two), 2),
        "identical_codes": bool(same),
        "one_killed_s": round(killed, 2),
        "identical_codes_with_one_killed": codes == here,
    }


def kill(folder: Path) -> dict[str, Any]:
    """Kill -9 the command at random moments; whenever it completes, compare its codes."""
    rows, out = write_rows(folder, 4), folder / "killed.npy"
    expected = digest(load(model_file(folder)).encode(open_vectors(rows)))
    draw, kept, identical = random.Random(0), [], []
    for path in folder.glob("killed.npy*"):
        path.unlink()
    ended = False
    while len(kept) < KILLS or not ended:
        work = command("encode", model_file(folder), rows, "-o", out)
        process = subprocess.Popen(work, stdout=subprocess.DEVNULL)
        if len(kept) < KILLS:
            time.sleep(draw.uniform(0, 10))
            process.kill()
        ended = process.wait() == 0
        if ended:
            identical.append(digest(np.load(out)) == expected)
            out.unlink()
        else:
            notes = Path(f"{out}.part.json")
            kept.append(json.loads(notes.read_text())["done"] if notes.exists() else 0)
            assert not out.exists()
    left = sorted(path.name for path in folder.glob("killed.npy*"))
    return {"rows_kept_after_each_kill": kept, "identical_at_each_end": identical, "files_left": left}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {
        "write": lambda folder: [write_rows(folder, n).name for n in (2, 4, 20)],
        "fit": partial(memory, work="fit"),
        "encode": partial(memory, work="encode"),
        "dask": dask,
        "kill": kill,
    }
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="all, unless named")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "manihash-scale")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    for name in options.parts or parts:
        found = parts[name](options.folder)
        if name != "write":
            record("scale", name, found)
        print(json.dumps({name: found}, indent=1), flush=True)


if __name__ == "__main__":
    main()
