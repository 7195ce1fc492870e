"""Measure again what is missing or older than the code, piece by piece: ``make bench-all``.

A piece whose recorded results are of the present code is skipped, so that an interrupted run continues where
it stopped. How long each piece took is kept in ``build/bench-minutes.json``, for the estimate of the next
run. ``--quality`` measures only what other work on the machine does not disturb, ``--jobs`` pieces at
once; ``--timings`` measures only times, one after the other: stop other work first. ``--list`` shows the
pieces and, for each older result, the modules that changed and the commits that changed them. The GPU
(``make bench-gpu``) and the report on the paper (``make paper``) have their own commands.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from _results import (
    FOLDER,
    ROOT,
    drop_unused,
    held,
    is_current,
    kernels_here,
    locked,
    merge,
    reasons,
    vendor,
    write,
)

HERE = Path(__file__).parent
TAKEN = ROOT / "build" / "bench-minutes.json"  # minutes of each piece, as measured on this machine


@dataclass(frozen=True)
class Piece:
    """Parts of a file of results, the program that measures them, and its minutes on one core of two.

    A timing in CPU time of one thread can run beside others; one in wall time or on two threads runs alone.
    """

    result: str
    parts: tuple[str, ...]
    program: tuple[str, ...]
    minutes: float
    timing: bool = False
    alone: bool = False
    needs: str = ""

    def __str__(self) -> str:
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.result}: {self.parts[0]}{more}"

    def older(self, any_versions: bool = False) -> list[str]:
        """The parts that are missing or older than the code."""
        return [part for part in self.parts if not is_current(self.result, part, any_versions=any_versions)]


def pieces() -> Iterator[Piece]:
    """All pieces, in the order of their worth."""
    yield from _codes()
    yield from _quality()
    yield from _timings()


# Minutes of a fit with its evaluation on a large dataset (60,000 to 100,000 rows) and on a small one.
_MINUTES = {"imh-graph": (0.6, 0.2), "imh-hybrid": (0.8, 0.3), "imh-hybrid-hamming": (0.8, 0.3)}
_MINUTES |= {"imh-large": (0.3, 0.1), "bre": (1.0, 0.2), "sph": (0.4, 0.05), "sth": (0.3, 0.1)}
_FIT = (0.15, 0.05)


def _codes() -> Iterator[Piece]:
    """Codes by dataset and method."""
    from quality import CUT, LARGE, MACHINES, plan, scanned

    for data in scanned():
        yield Piece("quality", (f"{data}, scan",), ("quality.py", "--data", data, "--method", "scan"), 0.3)
    fits: dict[tuple[str, str], list[str]] = {}
    for fit in plan():
        fits.setdefault((fit.data, fit.method), []).append(fit.part)
    for (data, method), parts in fits.items():
        minutes = _MINUTES.get(method.split(",")[0], _FIT)[data not in (*LARGE, "topics")]
        minutes *= 2.5 if data.endswith(CUT) else 1
        program = ("quality.py", "--data", data, "--method", method)
        needs = "faiss" if method == "rabitq" else ""
        yield Piece("quality", tuple(parts), program, minutes * len(parts), needs=needs)
    for kernels in kernels_here():
        for data, method, seeds in MACHINES:
            numbers = ",".join(map(str, range(seeds)))
            program = ("quality.py", "--kernels", kernels, "--data", data, "--method", method)
            program += ("--bits", "64", "--seeds", numbers)
            parts = [
                f"{data}, {method}, 64 bits, seed {seed}, {vendor()}, {kernels}" for seed in range(seeds)
            ]
            yield Piece("quality", tuple(parts), program, 0.3 * seeds)


def _quality() -> Iterator[Piece]:
    from quantizers import SETS
    from same_bits import RECIPES
    from same_bits import SETS as ENCODED
    from svm import ROWS

    for name in ROWS:
        yield Piece("svm", (name,), ("svm.py", "--only", name), 3)
    for data in SETS:
        program = ("quantizers.py", "--data", data)
        yield Piece("quantizers", (f"{data}, 8 bytes",), program, 3, needs="faiss")
    for part in ("drift", "update", "refit"):
        yield Piece("maintenance", (f"{part}, imh-tsne-rotated",), ("maintenance.py", "--parts", part), 1.5)
    for part in ("drift", "update"):
        program = ("maintenance.py", "--parts", part, "--recipe", "imh-graph")
        yield Piece("maintenance", (f"{part}, imh-graph",), program, 2.5)
    for name in ("imh-tsne-rotated", "imh-graph", "imh-hybrid"):
        program = ("maintenance.py", "--parts", "new digits", "--recipe", name)
        yield Piece("maintenance", (f"new digits, {name}",), program, 2.5)
    for part, minutes in (("false alarms", 5), ("kills", 3)):
        yield Piece("maintenance", (part,), ("maintenance.py", "--parts", part), minutes)
    last = "CIFAR-10 GIST (512) to CIFAR-10 strongly nonlinear (1,024)"
    for name in ("imh-tsne", "itq"):
        program = ("bridge.py", "--parts", "changes", "--recipes", name)
        yield Piece("bridge", (f"{last}, {name}",), program, 2)
    program = ("bridge.py", "--parts", "changes", "--recipes", "imh-hybrid")
    yield Piece("bridge", ("MNIST pixels (784) to MNIST convolutions (256), imh-hybrid",), program, 8)
    for part in ("widths", "wrong", "pairs"):
        yield Piece("bridge", (part,), ("bridge.py", "--parts", part), 2)
    for data in ENCODED:
        for name in RECIPES:
            program = ("same_bits.py", "--data", data, "--recipes", name)
            yield Piece("same-bits", (f"{data}, {name}",), program, 2.5, needs="dask")
    for name in ("digits", "clinc150", "agnews", "mnist", "cifar10-gist", "photo-sift1m"):
        program = ("choose.py", "--only", name, "--rows", "10000")
        yield Piece("choose", (f"full, {name}",), program, 4)
    yield Piece("choose", ("without labels",), ("choose_without_labels.py",), 15)


def _timings() -> Iterator[Piece]:
    from databases import DATABASES
    from quality import BYTES

    def timing(result: str, part: str, program: tuple[str, ...], minutes: float, alone: bool = True) -> Piece:
        return Piece(result, (part,), program, minutes, timing=True, alone=alone)

    for n_bytes in BYTES:
        program = ("compared_speed.py", "--bytes", str(n_bytes))
        yield timing("compared-speed", f"{n_bytes} bytes", program, 2, alone=False)
    for kernels in kernels_here():
        for threads in ("1", "2"):
            program = ("speed.py", "--kernels", kernels, "--threads", threads)
            part = f"{vendor()}, {kernels}, {threads} thread{'s' * (threads != '1')}"
            yield timing("speed", part, program, 1, alone=threads != "1")
    for threads in ("1", "2"):
        ending = f"{threads} thread{'s' * (threads != '1')}"
        for part in ("recipes", "k-means", "peers", *(["warm"] if threads == "2" else [])):
            yield timing("fit", f"{part}, {ending}", ("fit.py", "--threads", threads, "--parts", part), 1.5)
    for section, minutes in {"top": 0.2, "radius": 0.2, "routes": 0.5, "open": 0.3, "learned": 3}.items():
        yield timing("search", f"{section}, 1 thread", ("search.py", section, "--threads", "1"), minutes)
    yield timing("word-search", "MNIST, first parts repeat", ("word_search.py",), 5, alone=False)
    for data in ("clinc150", "mnist"):
        parts = tuple(f"{data}, {name}" for name in ("imh-graph", "imh-hybrid"))
        yield Piece("base-sizes", parts, ("base_sizes.py", "--data", data), 2, timing=True)
    yield timing("baseline-speed", "2 threads", ("baseline_speed.py",), 2)
    yield timing("choose", "time", ("choose.py", "--only", "time"), 1)
    yield timing("bridge-speed", "cost", ("bridge.py", "--parts", "cost"), 1, alone=False)
    yield timing("onnx", "KSH", ("onnx_files.py",), 0.5)
    for name in ("cifar10-gist", "mnist"):
        yield timing("duplicates", name, ("duplicates.py", "--sets", name), 0.5)
    for name in DATABASES:
        yield timing("databases", name, ("databases.py", "--only", name), 0.2)
    parts = {"1000000": 0.1, "10000000": 0.2, "100000000": 1.5, "FAISS": 0.5, "SIFT words": 0.3, "kill": 0.5}
    for part, minutes in (parts | {"Dask": 0.3, "one new row": 2}).items():
        name = f"{int(part):,} codes" if part.isdecimal() else part
        yield timing("duplicates-scale", name, ("duplicates_scale.py", "--parts", part), minutes, alone=False)
    for part, minutes in (("load", 4), ("malformed", 0.5), ("kill", 1.5)):
        yield timing("serve", part, ("serve.py", "--parts", part), minutes, alone=part == "load")
    yield timing("explore", "page", ("explore.py",), 1)
    for part, minutes in (("fit", 1), ("encode", 1), ("dask", 2), ("kill", 4)):
        yield timing("scale", part, ("scale.py", "write", part), minutes)


def is_compared(piece: Piece) -> bool:
    """Whether the page that compares methods shows a piece of the codes."""
    from quality import COMPARED

    return is_of(piece, (*COMPARED, "scan"))


def is_of(piece: Piece, methods: tuple[str, ...]) -> bool:
    """Whether a piece has codes of one of some methods."""
    return piece.result == "quality" and "--kernels" not in piece.program and piece.program[-1] in methods


def taken() -> dict[str, float]:
    """The minutes that pieces took when all their parts were measured, by name."""
    return json.loads(TAKEN.read_text("utf-8")) if TAKEN.exists() else {}


def estimated(wanted: list[Piece], jobs: int) -> float:
    """Minutes for some pieces, from those of earlier runs if they are known."""
    known = taken()
    return sum(known.get(str(piece), piece.minutes) / (1 if piece.alone else jobs) for piece in wanted)


def keep_minutes(piece: Piece, minutes: float) -> None:
    """Keep how long a piece took."""
    TAKEN.parent.mkdir(exist_ok=True)
    part = TAKEN.with_suffix(".part")
    part.write_text(json.dumps(taken() | {str(piece): round(minutes, 2)}, indent=0), "utf-8")
    os.replace(part, TAKEN)


def measure(todo: dict[Piece, int], jobs: int = 1) -> list[Piece]:
    """Run the programs of the pieces, each with its number of older parts; return the pieces that failed."""
    start, failed, total = time.perf_counter(), [], estimated([*todo], 1)
    done = 0.0
    # As many threads for each process as cores are left for it.
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads) if jobs > 1 else {}

    def run(piece: Piece) -> tuple[Piece, int, float]:
        env = os.environ | ({} if piece.timing else limits)
        command = [sys.executable, str(HERE / piece.program[0]), *piece.program[1:]]
        began = time.perf_counter()
        code = subprocess.run(command, env=env, check=False).returncode
        return piece, code, (time.perf_counter() - began) / 60

    groups = [
        [p for p in todo if (p.timing, p.alone) == kind]
        for kind in ((False, False), (True, False), (True, True))
    ]
    for group, workers in zip(groups, (jobs, jobs, 1), strict=True):
        with ThreadPoolExecutor(workers) as pool:
            for number, (piece, code, minutes) in enumerate(pool.map(run, group), 1):
                failed += [piece] if code else []
                done += estimated([piece], 1)
                if not code and todo[piece] == len(piece.parts):
                    keep_minutes(piece, minutes)
                left = (time.perf_counter() - start) / 60 * (total - done) / done
                about = f"{number} of {len(group)}, about {left:.0f} minutes left, {minutes:.1f} for"
                print(f"== {about} {piece}", flush=True)
    return failed


def drop_unplanned(folder: Path = FOLDER) -> int:
    """Remove seeds and lengths that are not planned any more if their method is current; their number."""
    found = held("quality", folder)
    planned = {part for piece in pieces() if piece.result == "quality" for part in piece.parts}
    current = [
        piece for piece in pieces() if piece.result == "quality" and not piece.older(any_versions=True)
    ]
    starts = {re.sub(r"\d+ bits, seed .*", "", piece.parts[0]) for piece in current}
    gone = {
        part
        for part in found.keys() - planned
        if re.sub(r"\d+ bits, seed .*", "", part) in starts and re.search(r"seed \d+$", part)
    }
    if gone:
        with locked(folder):
            own = held("quality", folder)
            write("quality", {part: own[part] for part in own if part not in gone}, folder)
    return len(gone)


def shown(piece: Piece, older: list[str]) -> Iterator[str]:
    """The lines about a piece: why it is measured again."""
    yield f"{'to measure' if older else 'current   '}  {piece}"
    recorded = held(piece.result)
    missing = sum(part not in recorded for part in older)
    if missing:
        yield f"              not measured: {missing} of {len(piece.parts)} parts"
    why = {reason: None for part in older if part in recorded for reason in reasons(recorded[part])}
    yield from (f"              {reason}" for reason in why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--timings", action="store_true", help="only what other work on the machine disturbs")
    kind.add_argument("--quality", action="store_true", help="only what it does not disturb")
    parser.add_argument("--only", default="", help="only pieces whose name contains this")
    parser.add_argument(
        "--compared", action="store_true", help="of the codes, only methods that are compared"
    )
    parser.add_argument("--methods", help="of the codes, only these methods, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="pieces of quality that are measured at once")
    parser.add_argument("--any-versions", action="store_true", help="keep results of other versions of numpy")
    parser.add_argument("--list", action="store_true", help="show the pieces and measure nothing")
    parser.add_argument("--merge", type=Path, help="take newer results of this folder, and measure nothing")
    options = parser.parse_args()
    if options.merge:
        print(f"{merge(options.merge)} parts taken; write the pages with: make figures")
        return
    skipped = {False} if options.timings else {True} if options.quality else set()
    wanted = [piece for piece in pieces() if options.only in str(piece) and piece.timing not in skipped]
    wanted = [piece for piece in wanted if not options.compared or is_compared(piece)]
    if options.methods:
        wanted = [piece for piece in wanted if is_of(piece, tuple(options.methods.split(",")))]
    older = {piece: piece.older(options.any_versions) for piece in wanted}
    todo = [piece for piece in wanted if older[piece]]
    absent = [piece for piece in todo if piece.needs and find_spec(piece.needs) is None]
    todo = [piece for piece in todo if piece not in absent]
    minutes, whole = (estimated(some, options.jobs) for some in (todo, wanted))
    print(f"{len(wanted)} pieces, about {whole:.0f} minutes with {options.jobs} jobs")
    print(f"{len(todo)} to measure, about {minutes:.0f} minutes")
    print("".join(f"left out, {piece.needs} is not installed: {piece}\n" for piece in absent), end="")
    if options.list:
        print("\n".join(line for piece in wanted for line in shown(piece, older[piece])))
        return
    failed = measure({piece: len(older[piece]) for piece in todo}, options.jobs)
    drop_unplanned()
    drop_unused()
    print("\n".join(f"failed: {piece}" for piece in failed) or "done; write the pages with: make figures")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
