"""Fitted models that benchmarks share, in ``build/bench-models``.

The name of a file is a hash of the recipe, its options and the training rows. Beside each model is the list
of the modules that its fit ran, with their hashes: a model of other code, or of other versions of numpy and
BLAS, is fitted again.
"""

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _results import NAMES, RECIPES, ROOT, now, threads_and_blas

FOLDER = ROOT / "build" / "bench-models"


def fitted(hasher: Any, X: Any, y: Any = None, folder: Path = FOLDER) -> tuple[Any, float]:
    """The hasher fitted to X (n, d) and labels y, or its stored model, and the seconds that the fit took."""
    from manihash import load

    file = folder / f"{key_of(hasher, X, y)}.mhash"
    about = file.with_suffix(".json")
    if about.exists():
        stored = json.loads(about.read_text("utf-8"))
        if stored["versions"] == versions() and all(
            now(path) == own for path, own in stored["modules"].items()
        ):
            model = load(file)
            _ran.add(stored["modules"])
            return model, stored["seconds"]
    start = time.perf_counter()
    hasher.fit(X, y)
    seconds = time.perf_counter() - start
    ran = _ran.modules()
    if ran is not None:
        folder.mkdir(parents=True, exist_ok=True)
        modules = {path: now(path) for path in sorted(ran - {RECIPES, NAMES})}
        hasher.save(file)
        text = json.dumps({"seconds": seconds, "versions": versions(), "modules": modules}, indent=1)
        part = about.with_suffix(f".{os.getpid()}")
        part.write_text(text, "utf-8")
        os.replace(part, about)
    return hasher, seconds


def key_of(hasher: Any, X: Any, y: Any = None) -> str:
    """A hash of the parameters of an unfitted hasher, its kind, its training rows and labels."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{type(hasher).__name__} {sorted(hasher.get_params().items(), key=str)}".encode())
    for rows in (X, y):
        array = np.ascontiguousarray(() if rows is None else rows)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.data if array.dtype != object else str(array.tolist()).encode())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """The versions of numpy and BLAS, and the kernels of BLAS: the bits of a fit depend on them."""
    kernels = os.environ.get("OPENBLAS_CORETYPE", "own")
    return {"numpy": np.__version__, "blas": threads_and_blas()["blas"], "kernels": kernels}
