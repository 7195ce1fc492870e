"""The results of the benchmarks: one JSON file for each in ``docs/results``.

A file holds parts. Each has its numbers, commit, date, machine, and a fingerprint of the measured code::

    {"mnist, itq, 64 bits, seed 0": {"commit": …, "code": …, "date": …, "machine": {…}, "results": {…}}}

``docs/results/modules.json`` has, for each fingerprint, the modules that the measurement ran (``_ran``) and
a hash of the syntax tree of each one, without docstrings. A result is older than the code if one of these
hashes has changed. Commits are rewritten when a branch is rebased, and a package has none: the hashes tell
without git whether a result is of the present code, and ``reasons`` names the commit that changed a module.
"""

import ast
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import _ran

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
sys.path.append(str(ROOT))  # of the package reproduction
SOURCE = ROOT / "src" / "manihash"
MODULES = "modules"  # the file of the hashes of modules
RECIPES = "hashers/recipe_table.py"
NAMES = "__init__.py"  # of the package: it has the version and the public names, and computes nothing
UNKNOWN = "recorded without its modules"
INSTRUCTIONS = {"Haswell": "AVX2", "SkylakeX": "AVX-512"}  # of the kinds of kernels of BLAS

CODES = ("base", "embeddings", "hashers/imh.py", "induction.py", "rotation.py")
SPEED = (*CODES, "compute", "rows", "hashers/_hasher.py")
PAPER = ("hashers", "evaluation", "linalg.py", "reproduction/paper/tasks", "reproduction/paper/figures")
DUPLICATES = ("search/duplicates", "search/routes.py")


@dataclass(frozen=True)
class Benchmark:
    """The command that repeats a benchmark.

    ``measures`` is the code of manihash and of ``reproduction`` that counts if the modules that ran are not
    known: for timings with Python 3.11, where watching them would take time. ``files`` count always.
    """

    command: str
    measures: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


BENCHMARKS = {  # by the name of the file of results
    "base-sizes": Benchmark("make bench-base-sizes", (*SPEED, "hashers", "maintenance", "embeddings")),
    "baseline-speed": Benchmark("make bench-baselines", (*SPEED, "hashers")),
    "bridge": Benchmark("make bench-bridge"),
    "bridge-speed": Benchmark("make bench-bridge", ("maintenance/bridge_map.py", "hashers/bridged.py")),
    "choose": Benchmark("make bench-choose", ("advice",)),
    "compared-speed": Benchmark("make bench-compared", (*SPEED, "hashers", "search")),
    "databases": Benchmark("make bench-databases", ("stores",)),
    "duplicates": Benchmark("make bench-duplicates", ("search", "hashers/itq.py")),
    "duplicates-scale": Benchmark("make bench-duplicates", DUPLICATES),
    "explore": Benchmark("make bench-explore", ("web/explore", "web/server.py"), ("web/explore",)),
    "fit": Benchmark("make bench-fit", SPEED),
    "h200": Benchmark("make bench-gpu", ("compute", "rows", "search/tensor_index.py")),
    "maintenance": Benchmark("make bench-maintenance"),
    "onnx": Benchmark("make bench-onnx", ("export",)),
    "paper": Benchmark("make bench-paper", (*SPEED, *PAPER)),
    "quality": Benchmark("make bench-quality"),
    "quantizers": Benchmark("make bench-quantizers"),
    "same-bits": Benchmark("make bench-same-bits"),
    "scale": Benchmark("make bench-scale", (*SPEED, "files/resumable.py", "cli/encode.py")),
    "search": Benchmark("make bench-search", ("search",)),
    "serve": Benchmark("make bench-serve", ("web/api", "web/server.py", "search")),
    "speed": Benchmark("make bench", (*SPEED, "hashers/_linear.py", "hashers/agh.py", "search")),
    "svm": Benchmark("make bench-quality"),
    "word-search": Benchmark("make bench-word-search", ("search", "code_layout.py", "code_tables.py")),
}


def held(name: str, folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """The recorded parts of a benchmark."""
    path = folder / f"{name}.json"
    return dict(_parsed(path, path.stat().st_mtime_ns)) if path.exists() else {}


@lru_cache(64)
def _parsed(path: Path, modified: int) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text("utf-8"))


def record(
    name: str,
    part: str,
    results: Mapping[str, Any] | list[dict[str, Any]],
    *,
    folder: Path = FOLDER,
    machine: Mapping[str, str] | None = None,
    recipes: tuple[str, ...] = (),
) -> None:
    """Write the results of one part with their origin; the other parts of the file stay.

    Several processes can record at once. ``machine`` adds to what is known about the machine: the name of a
    GPU, the threads of another process. If ``recipes`` are named, the result depends on their settings and
    not on the whole table of recipes.
    """
    from reproduction.paper.run import provenance

    about = dict(provenance.machine()) | threads_and_blas() | dict(machine or {})
    hashes = hashes_of(name, recipes)
    entry = {"commit": commit(), "code": fingerprint(hashes), "date": provenance.now()}
    about.pop("commit")
    with locked(folder):
        write(MODULES, held(MODULES, folder) | {entry["code"]: hashes}, folder)
        write(name, held(name, folder) | {part: entry | {"machine": about, "results": results}}, folder)


@cache
def commit() -> str:
    """The commit of the measured code, with "-dirty" if package or benchmarks have changed since then.

    A copy of the code without git gets it from the environment variable MANIHASH_COMMIT.
    """
    if "MANIHASH_COMMIT" in os.environ:
        return os.environ["MANIHASH_COMMIT"]
    git = ["git", "-C", str(ROOT)]
    code = ("src", "reproduction", "benchmarks")
    asked = [[*git, "rev-parse", "--short", "HEAD"], [*git, "status", "--porcelain", *code]]
    done = [subprocess.run(each, capture_output=True, text=True, check=False) for each in asked]
    return (
        f"{done[0].stdout.strip()}{'-dirty' * bool(done[1].stdout)}" if not done[0].returncode else "unknown"
    )


def vendor(processor: str = "") -> str:
    """The maker of a processor, by default of this machine's: results of two kinds of machines stay apart."""
    from reproduction.paper.run import provenance

    name = processor or provenance.machine()["processor"]
    return next((maker for maker in ("AMD", "Intel") if maker in name), name.split()[0])


@cache
def kernels_here() -> tuple[str, ...]:
    """Kinds of kernels of BLAS to compare: for AVX2, and for AVX-512 if the processor has it."""
    flags = Path("/proc/cpuinfo").read_text("utf-8") if Path("/proc/cpuinfo").exists() else ""
    return ("Haswell", "SkylakeX") if " avx512f " in flags else ("Haswell",)


def threads_and_blas() -> dict[str, str]:
    """The threads and the version of numpy's BLAS."""
    import numpy as np  # noqa: F401  # loads BLAS
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    pools.sort(key=lambda pool: "numpy" not in pool["filepath"])  # SciPy brings its own
    blas = f"{pools[0]['internal_api']} {pools[0]['version']}" if pools else "unknown"
    return {"threads": str(pools[0]["num_threads"] if pools else 1), "blas": blas}


def write(name: str, parts: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Replace a file of results; each part is one line."""
    rows = [f"{json.dumps(part)}: {json.dumps(parts[part], ensure_ascii=False)}" for part in parts]
    written = folder / f"{name}.json.part"
    written.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")
    os.replace(written, folder / f"{name}.json")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change the results of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def merge(other: Path, folder: Path = FOLDER) -> int:
    """Take the parts of another folder that are newer, such as those of another machine; their number."""
    taken = 0
    with locked(folder):
        write(MODULES, held(MODULES, folder) | held(MODULES, other), folder)
        for path in sorted(other.glob("*.json")):
            if path.stem in BENCHMARKS:
                own, new = held(path.stem, folder), held(path.stem, other)
                newer = {part for part in new if part not in own or new[part]["date"] > own[part]["date"]}
                taken += len(newer)
                write(path.stem, own | {part: new[part] for part in new if part in newer}, folder)
    return taken


def drop_unused(folder: Path = FOLDER) -> None:
    """Remove the hashes of modules that no result names."""
    with locked(folder):
        used = {
            part.get("code")
            for path in folder.glob("*.json")
            if path.stem in BENCHMARKS
            for part in held(path.stem, folder).values()
        }
        write(MODULES, {code: own for code, own in held(MODULES, folder).items() if code in used}, folder)


def hashes_of(name: str, recipes: tuple[str, ...] = ()) -> dict[str, str]:
    """The hash of each module that ran, or of the code that the benchmark says it measures."""
    benchmark, ran = BENCHMARKS[name], _ran.modules()
    paths = set(_files(benchmark.measures) if ran is None else ran) | set(_files(benchmark.files))
    paths.discard(NAMES)
    if recipes:
        paths.discard(RECIPES)
    return {path: now(path) for path in sorted(paths)} | {
        f"recipe {recipe}": now(f"recipe {recipe}") for recipe in sorted(recipes)
    }


def _files(measures: tuple[str, ...]) -> list[str]:
    paths = [file_of(path) for path in measures]
    found = [file for path in paths for file in ([path] if path.suffix else path.rglob("*.*"))]
    return [
        file.relative_to(SOURCE if file.is_relative_to(SOURCE) else ROOT).as_posix()
        for file in found
        if file.suffix in (".py", ".js")
    ]


def fingerprint(hashes: Mapping[str, str]) -> str:
    """One hash of many."""
    return _hash(json.dumps(hashes, sort_keys=True))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def now(path: str) -> str:
    """The present hash of a module or of the settings of a recipe; "" if it is gone."""
    if path.startswith("recipe "):
        from manihash import recipe, recipe_names

        name = path.removeprefix("recipe ")
        return _hash(str(sorted(recipe(name).get_params().items()))) if name in recipe_names() else ""
    file = file_of(path)
    return _hash(bare_code(file.read_text("utf-8"), file.suffix)) if file.exists() else ""


def file_of(path: str) -> Path:
    """The file of a module: below ``src/manihash``, or that of a module of ``reproduction``."""
    return (ROOT if path.startswith("reproduction/") else SOURCE) / path


def bare_code(text: str, suffix: str = ".py") -> str:
    """The syntax tree of a program without docstrings, equal in all versions of Python; other text as is."""
    return _tree(ast.parse(text)) if suffix == ".py" else text


def _tree(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join(map(_tree, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    body = fields.get("body")
    if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
        fields["body"] = body[1:] if isinstance(body[0].value, ast.Constant) else body
    own = [f"{key}={_tree(value)}" for key, value in fields.items() if value not in (None, [])]
    return f"{type(node).__name__}({','.join(own)})"


def is_older(entry: Mapping[str, Any], folder: Path = FOLDER) -> bool:
    """Whether the code has changed since a part was measured, or is not known."""
    return bool(changed(entry["code"], folder))


def is_current(name: str, part: str, folder: Path = FOLDER, *, any_versions: bool = False) -> bool:
    """Whether a part is recorded, of the present code and of the present versions of numpy and BLAS."""
    entry = held(name, folder).get(part)
    return entry is not None and not reasons(entry, folder, any_versions=any_versions, commits=False)


def changed(code: str, folder: Path = FOLDER) -> list[str]:
    """The modules that have changed since a fingerprint."""
    file = folder / f"{MODULES}.json"
    known = _known(folder, file.stat().st_mtime_ns if file.exists() else 0)
    if code not in known:
        return [UNKNOWN]
    return [path for path, hashed in known[code].items() if path != NAMES and now(path) != hashed]


@cache
def _known(folder: Path, modified: int) -> dict[str, dict[str, str]]:
    return held(MODULES, folder)


def reasons(
    entry: Mapping[str, Any], folder: Path = FOLDER, *, any_versions: bool = False, commits: bool = True
) -> list[str]:
    """Why a part must be measured again, each with the commit of the change; nothing if it is current."""
    found = changed(entry["code"], folder)
    if commits and found != [UNKNOWN]:
        found = [f"{path} ({commit_of(path, entry)})" for path in found]
    if any_versions or "card" in entry["machine"]:
        return found
    import numpy as np

    present = {"numpy": np.__version__, "blas": threads_and_blas()["blas"]}
    recorded = {key: entry["machine"].get(key, "an unknown version") for key in present}
    other = [key for key in present if recorded[key] != present[key]]
    return found + [f"{key}: {recorded[key]}, now {present[key]}" for key in other]


@cache
def _log(path: str) -> list[str]:
    """The commits that changed a file, newest first."""
    asked = ["git", "-C", str(ROOT), "log", "--format=%h %as %s", "-n", "20", "--", path]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


@cache
def _hash_at(commit: str, file: str) -> str:
    asked = ["git", "-C", str(ROOT), "show", f"{commit}:{file}"]
    text = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return _hash(bare_code(text, Path(file).suffix))


def commit_of(path: str, entry: Mapping[str, Any]) -> str:
    """The commit that changed a module since a part was measured: its first word, date and subject."""
    name = RECIPES if path.startswith("recipe ") else path
    file = file_of(name).relative_to(ROOT).as_posix()
    hashed = _known(FOLDER, (FOLDER / f"{MODULES}.json").stat().st_mtime_ns).get(entry["code"], {}).get(path)
    found = "not committed"
    for line in _log(file):
        if line.split()[1] < entry["date"][:10] or hashed == _hash_at(line.split()[0], file):
            break
        found = line
    return found


if Path(sys.argv[0]).resolve().parent == Path(__file__).parent:  # a benchmark, and neither tests nor pages
    _ran.start()
