"""Measure again what is missing or older than the code, piece by piece: ``make bench-all``.

A piece whose recorded result is of the present code is skipped, so that an interrupted run continues where
it stopped. ``--timings`` measures only times, for which other work on the machine must be stopped, and
``--quality`` only the rest. ``--list`` shows the pieces. The GPU (``make bench-gpu``) and the report on the
paper (``manihash paper``) have their own commands.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _results import is_current

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Piece:
    """A part of a file of results, the program that measures it, and about how many minutes that takes."""

    result: str
    part: str
    program: tuple[str, ...]
    minutes: float
    timing: bool = False

    def __str__(self) -> str:
        return f"{self.result}: {self.part}"


def pieces() -> Iterator[Piece]:
    """All pieces, in the order of their worth."""
    yield from _quality()
    yield from _timings()


def _quality() -> Iterator[Piece]:
    from hybrid import CATALOG, OTHERS
    from quality import PARTS
    from quantizers import SETS
    from recipes import FITS
    from seeds import ROWS

    for name, lengths in ROWS.items():
        for bits in lengths:
            yield Piece(
                "seeds", f"{name}, {bits} bits", ("seeds.py", "--recipe", name, "--bits", str(bits)), 1.5
            )
    yield Piece("seeds", "scan of the pixels", ("seeds.py", "--recipe", "scan"), 0.3)
    for part, rows in PARTS.items():
        for name in rows:
            yield Piece("large", f"{part}, {name}", ("quality.py", "--parts", part, "--only", name), 4)
    for data, name, lengths in FITS:
        for bits in lengths:
            program = ("recipes.py", "--data", data, "--recipe", name, "--bits", str(bits))
            yield Piece("recipes", f"{data}, {name}, {bits} bits, seed 2", program, 10)
    for data in (*CATALOG, *OTHERS):
        yield Piece("hybrid", f"{data}, seed 0", ("hybrid.py", "--data", data), 5)
    for data in SETS:
        yield Piece("quantizers", f"{data}, 16 bytes", ("quantizers.py", "--data", data), 10)
    for part in ("drift", "update", "refit"):
        yield Piece("maintenance", f"{part}, imh-tsne-rotated", ("maintenance.py", "--parts", part), 3)
    for part in ("drift", "update"):
        program = ("maintenance.py", "--parts", part, "--recipe", "imh-graph")
        yield Piece("maintenance", f"{part}, imh-graph", program, 6)
    yield Piece("maintenance", "false alarms", ("maintenance.py", "--parts", "false alarms"), 5)
    yield Piece("maintenance", "kills", ("maintenance.py", "--parts", "kills"), 3)
    last = "CIFAR-10 GIST (512) to CIFAR-10 strongly nonlinear (1,024)"
    for name in ("imh-tsne", "itq"):
        yield Piece("bridge", f"{last}, {name}", ("bridge.py", "--parts", "changes", "--recipes", name), 8)
    program = ("bridge.py", "--parts", "changes", "--recipes", "imh-hybrid")
    yield Piece("bridge", "MNIST pixels (784) to MNIST convolutions (256), imh-hybrid", program, 15)
    for part in ("widths", "wrong", "pairs"):
        yield Piece("bridge", part, ("bridge.py", "--parts", part), 5)
    yield from _baselines()
    yield Piece("search", "asymmetric, 1 thread", ("search.py", "asymmetric", "--threads", "1"), 10)
    yield Piece("same-bits", "photo-sift1m, imh-graph", ("same_bits.py",), 25)
    for name in ("digits", "clinc150", "agnews", "mnist", "cifar10-gist", "photo-sift1m"):
        yield Piece("choose", f"full, {name}", ("choose.py", "--only", name), 15)
    yield Piece("choose", "without labels", ("choose_without_labels.py",), 20)


def _baselines() -> Iterator[Piece]:
    from baselines import lines

    for data in ("mnist", "cifar10-gist"):
        last = {name: bits for name, bits, _ in lines(data, [])}  # the longest codes end a piece
        for name, bits in last.items():
            program = ("baselines.py", "--data", data, "--recipe", name)
            yield Piece(f"{data}-baselines", f"{name}, {bits} bits", program, 2)


def _timings() -> Iterator[Piece]:
    from databases import DATABASES

    yield Piece("speed", "Haswell, 2 threads", ("speed.py",), 10, timing=True)
    for threads in ("1", "2"):
        ending = f"{threads} thread{'s' * (threads != '1')}"
        for part in ("recipes", "k-means", "peers", *(["warm"] if threads == "2" else [])):
            program = ("fit.py", "--threads", threads, "--parts", part)
            yield Piece("fit", f"{part}, {ending}", program, 5, timing=True)
        for section in ("top", "radius", "routes", "open", "learned"):
            program = ("search.py", section, "--threads", threads)
            yield Piece("search", f"{section}, {ending}", program, 5, timing=True)
    yield Piece("baseline-speed", "2 threads", ("baseline_speed.py",), 6, timing=True)
    yield Piece("choose", "time", ("choose.py", "--only", "time"), 6, timing=True)
    yield Piece("bridge-speed", "cost", ("bridge.py", "--parts", "cost"), 4, timing=True)
    yield Piece("onnx", "KSH", ("onnx_files.py",), 5, timing=True)
    for name in ("cifar10-gist", "mnist"):
        yield Piece("duplicates", name, ("duplicates.py", "--sets", name), 1, timing=True)
    for name in DATABASES:
        yield Piece("databases", name, ("databases.py", "--only", name), 1, timing=True)
    parts = {"1000000": 1, "10000000": 2, "100000000": 8, "FAISS": 4, "SIFT words": 3, "kill": 3, "Dask": 1}
    for part, minutes in (parts | {"one new row": 10}).items():
        name = f"{int(part):,} codes" if part.isdecimal() else part
        program = ("duplicates_scale.py", "--parts", part)
        yield Piece("duplicates-scale", name, program, minutes, timing=True)
    for part in ("load", "malformed", "kill"):
        yield Piece("serve", part, ("serve.py", "--parts", part), 4, timing=True)
    yield Piece("explore", "page", ("explore.py",), 2, timing=True)
    for part in ("fit", "encode", "dask", "kill"):
        yield Piece("scale", part, ("scale.py", "write", part), 4, timing=True)


def measure(todo: list[Piece]) -> list[Piece]:
    """Run the programs of the pieces one after the other; return the pieces that failed."""
    failed, spent, planned = [], 0.0, 0.0
    for number, piece in enumerate(todo, 1):
        rate = spent / planned if planned else 1.0
        left = rate * sum(other.minutes for other in todo[number - 1 :])
        print(f"\n== {number} of {len(todo)}, about {left:.0f} minutes left: {piece}", flush=True)
        start = time.perf_counter()
        done = subprocess.run([sys.executable, str(HERE / piece.program[0]), *piece.program[1:]], check=False)
        spent, planned = spent + (time.perf_counter() - start) / 60, planned + piece.minutes
        if done.returncode:
            failed.append(piece)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--timings", action="store_true", help="only what other work on the machine disturbs")
    kind.add_argument("--quality", action="store_true", help="only what it does not disturb")
    parser.add_argument("--only", default="", help="only files of results whose name contains this")
    parser.add_argument("--list", action="store_true", help="show the pieces and measure nothing")
    options = parser.parse_args()
    skipped = {False} if options.timings else {True} if options.quality else set()
    wanted = [piece for piece in pieces() if options.only in piece.result and piece.timing not in skipped]
    todo = [piece for piece in wanted if not is_current(piece.result, piece.part)]
    minutes = sum(piece.minutes for piece in todo)
    print(f"{len(wanted)} pieces, {len(todo)} to measure, about {minutes:.0f} minutes on two cores")
    if options.list:
        print("\n".join(f"{'to measure' if piece in todo else 'current   '}  {piece}" for piece in wanted))
        return
    failed = measure(todo)
    print("\n".join(f"failed: {piece}" for piece in failed) or "done; write the pages with: make figures")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
