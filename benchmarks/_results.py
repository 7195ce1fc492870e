"""The results of the benchmarks: what a benchmark measures, and one JSON file for each in ``docs/results``.

A file holds parts. Each has its numbers, commit, date, machine, and a fingerprint of the measured code::

    {"imh-tsne, 64 bits": {"commit": …, "code": …, "date": …, "machine": {…}, "results": {"MAP": […]}}}

Commits are rewritten when a branch is rebased, and a package has none. The fingerprint of the code tells
without git whether a result is older than what it measures.
"""

import ast
import hashlib
import io
import json
import os
import sys
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
sys.path.append(str(ROOT))  # of the package reproduction

CODES = ("base", "embeddings", "hashers/imh.py", "hashers/recipe_table.py", "induction.py", "rotation.py")
HYBRIDS = (*CODES, "hashers/hybrid.py", "hashers/_hybrid_parts.py", "hashers/itq.py")
QUANTIZERS = ("base/lloyd.py", "base/principal.py", "hashers/_codebooks.py", "hashers/product.py")
WORDS = (
    *HYBRIDS,
    "hashers/product.py",
    "hashers/_codebooks.py",
    "hashers/_codebook_map.py",
    "code_layout.py",
    "code_tables.py",
)
SPEED = (*CODES, "compute", "rows", "hashers/_hasher.py")

DUPLICATES = tuple(
    f"search/{name}.py"
    for name in ("duplicates", "known", "multi_index", "near_pairs", "self_join", "union_find", "work_store")
)


@dataclass(frozen=True)
class Benchmark:
    """The command that repeats a benchmark, and the code below ``src/manihash`` that it measures."""

    command: str
    measures: tuple[str, ...]


BENCHMARKS = {  # by the name of the file of results
    "baseline-speed": Benchmark("make bench-baselines", (*SPEED, "hashers")),
    "bridge": Benchmark("make bench-bridge", ("maintenance/bridge_fit.py", "maintenance/bridge_quality.py")),
    "bridge-speed": Benchmark("make bench-bridge", ("maintenance/bridge_map.py", "hashers/bridged.py")),
    "choose": Benchmark("make bench-choose", ("advice",)),
    "cifar10-gist-baselines": Benchmark("make bench-baselines", (*CODES, "hashers")),
    "databases": Benchmark("make bench-databases", ("stores",)),
    "duplicates": Benchmark("make bench-duplicates", ("search", "hashers/itq.py")),
    "duplicates-scale": Benchmark("make bench-duplicates", DUPLICATES),
    "explore": Benchmark("make bench-explore", ("web/explore", "web/server.py")),
    "fit": Benchmark("make bench-fit", SPEED),
    "h200": Benchmark("make bench-gpu", ("compute", "rows", "search/tensor_index.py")),
    "hybrid": Benchmark("make bench-hybrid", HYBRIDS),
    "large": Benchmark("make bench-quality", (*CODES, "hashers/hybrid.py")),
    "maintenance": Benchmark("make bench-maintenance", (*CODES, "maintenance")),
    "mnist-baselines": Benchmark("make bench-baselines", (*CODES, "hashers")),
    "onnx": Benchmark("make bench-onnx", ("export",)),
    "quantizers": Benchmark("make bench-quantizers", QUANTIZERS),
    "recipes": Benchmark("make bench-recipes", HYBRIDS),
    "same-bits": Benchmark("make bench-same-bits", SPEED),
    "scale": Benchmark("make bench-scale", (*SPEED, "files/resumable.py", "cli/encode.py")),
    "search": Benchmark("make bench-search", ("search",)),
    "seeds": Benchmark("make bench-seeds", CODES),
    "word": Benchmark("make bench-word", WORDS),
    "word-search": Benchmark("make bench-word-search", ("search", "code_layout.py", "code_tables.py")),
    "speed": Benchmark("make bench", (*SPEED, "hashers/_linear_map.py", "hashers/agh.py", "search")),
    "serve": Benchmark("make bench-serve", ("web/api", "web/server.py", "search")),
}


def held(name: str, folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """The recorded parts of a benchmark."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def record(
    name: str,
    part: str,
    results: Mapping[str, Any] | list[dict[str, Any]],
    *,
    folder: Path = FOLDER,
    machine: Mapping[str, str] | None = None,
) -> None:
    """Write the results of one part with their origin; the other parts of the file stay.

    ``machine`` adds to what is known about the machine: the name of a GPU, the threads of another process.
    """
    from threadpoolctl import threadpool_info

    from reproduction.paper.run import provenance

    about = dict(provenance.machine())
    threads = (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    about |= {"threads": str(next(threads, 1))} | dict(machine or {})
    entry = {"commit": about.pop("commit"), "code": fingerprint(name), "date": provenance.now()}
    parts = held(name, folder) | {part: entry | {"machine": about, "results": results}}
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{name}.json.part"
    written.write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    os.replace(written, folder / f"{name}.json")


def is_current(name: str, part: str, folder: Path = FOLDER) -> bool:
    """Whether a part is recorded and its code has not changed since."""
    return held(name, folder).get(part, {}).get("code") == fingerprint(name)


def fingerprint(name: str, source: Path = ROOT / "src" / "manihash") -> str:
    """A hash of the code that a benchmark measures, without comments, docstrings and blank lines."""
    digest = hashlib.sha256()
    for file in _files(source, BENCHMARKS[name].measures):
        digest.update(f"{file.relative_to(source).as_posix()}\n".encode())
        text = file.read_text("utf-8")
        digest.update((bare_code(text) if file.suffix == ".py" else text).encode())
    return digest.hexdigest()[:12]


def _files(source: Path, measures: Iterable[str]) -> list[Path]:
    paths = [source / path for path in measures]
    found = [file for path in paths for file in ([path] if path.suffix else path.rglob("*.*"))]
    return sorted({file for file in found if file.suffix in (".py", ".js") and file.exists()})


@cache
def bare_code(text: str) -> str:
    """A program without comments, docstrings and blank lines; equal in all versions of Python."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
    return "".join(f"{line.rstrip()}\n" for line in lines if line.strip())
