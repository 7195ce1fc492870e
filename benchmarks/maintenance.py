"""Drift, update and refit on MNIST, and updates that are killed: ``make bench-maintenance``.

Drift: alarms at level 1 % in draws of 1,000 rows: fresh rows, rows with noise of 0.2 per pixel, rows rotated
by 20 degrees, and digits that the model was not trained on. Update: fit on the digits 0 to 7, update with 8
and 9. Refit: on the same rows with another seed. New digits: fit on the digits 0 to 7, refit on all.
Kills: ``manihash update`` of an index and a store is killed
at random moments and run again. False alarms: fresh rows of many shapes of data, each with many models.
Writes ``docs/results/maintenance.json``.
"""

import argparse
import json
import logging
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _results import record
from scipy.ndimage import rotate

from manihash import IMH, HammingIndex, LabelTruth, evaluate, load_dataset, open_store, recipe
from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.hashers import ITQ, CollapsedCodesWarning

BITS, DRAW, FRESH_DRAWS, OTHER_DRAWS, KILLS, QUERIES = 64, 1_000, 200, 50, 20, 2_000


def mnist() -> tuple[Any, Any, Any, Any]:
    """Training images (n, 784) and labels, query images and labels."""
    data = load_dataset("mnist")
    X, Q = (rows.reshape(len(rows), -1).astype(np.float32) for rows in (data.X_train, data.X_test))
    return X, np.asarray(data.y_train), Q, np.asarray(data.y_test)


def alarms(hasher: Any, rows: Any, draws: int, rng: np.random.Generator) -> int:
    """Number of draws of 1,000 rows in which drift is reported."""
    return sum(hasher.drift(rows[rng.choice(len(rows), DRAW, replace=False)]).drifted for _ in range(draws))


def drift(name: str) -> dict[str, Any]:
    X, y, _, _ = mnist()
    rng = np.random.default_rng(0)
    fresh = np.zeros(len(X), bool)
    fresh[rng.choice(len(X), 20_000, replace=False)] = True
    hasher = recipe(name, n_bits=BITS, random_state=0).fit(X[~fresh])
    some = X[fresh][:5_000]
    noisy = some + rng.normal(0, 0.2 * 255, some.shape).astype(np.float32)
    turned = rotate(some.reshape(-1, 28, 28), 20, axes=(1, 2), reshape=False, order=1).reshape(some.shape)
    partial = recipe(name, n_bits=BITS, random_state=0).fit(X[y < 8])
    return {
        f"alarms in {FRESH_DRAWS} draws of fresh rows": alarms(hasher, X[fresh], FRESH_DRAWS, rng),
        f"alarms in {OTHER_DRAWS} draws with noise": alarms(hasher, noisy, OTHER_DRAWS, rng),
        f"alarms in {OTHER_DRAWS} draws of rotated rows": alarms(hasher, turned, OTHER_DRAWS, rng),
        f"alarms in {OTHER_DRAWS} draws of new digits": alarms(partial, X[y >= 8], OTHER_DRAWS, rng),
        "advice for new digits": partial.drift(X[y >= 8][:DRAW]).advice,
    }


def mean_average_precision(hasher: Any, X: Any, y: Any, Q: Any, yq: Any) -> float:
    return float(evaluate(hasher, X, Q, LabelTruth(yq, y)).map)


def update(name: str) -> dict[str, Any]:
    X, y, Q, yq = mnist()
    full = recipe(name, n_bits=BITS, random_state=0).fit(X)
    hasher, old = recipe(name, n_bits=BITS, random_state=0).fit(X[y < 8]), y < 8
    before = hasher.encode(X[old])
    values = {"MAP of a full fit": mean_average_precision(full, X, y, Q, yq)}
    values["MAP before the update"] = mean_average_precision(hasher, X, y, Q, yq)
    start = time.process_time()
    result = hasher.update(X[~old], X[old])
    values["CPU seconds"] = round(time.process_time() - start, 1)
    values["MAP after the update"] = mean_average_precision(hasher, X, y, Q, yq)
    unchanged = float((hasher.encode(X[old]) == before).all(axis=1).mean())
    return values | {"old rows whose code is unchanged": unchanged, "base points added": result.n_added}


def refit(name: str) -> dict[str, Any]:
    X, y, Q, yq = mnist()
    hasher = recipe(name, n_bits=BITS, random_state=0).fit(X)
    fresh = recipe(name, n_bits=BITS, random_state=1).fit(X)
    before = hasher.transform(X)
    values = {
        "MAP of the old model": mean_average_precision(hasher, X, y, Q, yq),
        "MAP of a fresh fit": mean_average_precision(fresh, X, y, Q, yq),
        "bits that change by a fresh fit": float((fresh.transform(X) != before).mean()),
    }
    result = hasher.set_params(random_state=1).refit(X)
    return values | {
        "MAP after the refit": mean_average_precision(hasher, X, y, Q, yq),
        "bits that change by the refit": result.changed_bits,
    }


def new_digits(name: str) -> dict[str, Any]:
    """A refit on all digits of a model of 0 to 7 beside a new fit; bits that change in rows of old digits."""
    X, y, Q, yq = mnist()
    Q, yq = Q[:QUERIES], yq[:QUERIES]
    old, new = y < 8, yq >= 8
    hasher = recipe(name, n_bits=BITS, random_state=0).fit(X[old])
    fresh = recipe(name, n_bits=BITS, random_state=0).fit(X)
    before = hasher.transform(X)
    heard = _Heard()
    logging.getLogger("manihash").addHandler(heard)
    result = hasher.refit(X)
    logging.getLogger("manihash").removeHandler(heard)
    values: dict[str, Any] = {"warnings before the refit": heard.texts}
    for model, made in ((hasher, "the refit"), (fresh, "a new fit")):
        for part, some in (("all", yq >= 0), ("old", ~new), ("new", new)):
            values[f"MAP of {made}, {part} digits"] = mean_average_precision(model, X, y, Q[some], yq[some])
    changed = hasher.transform(X) != before
    values |= {
        "bits that change": float(changed.mean()),
        "bits that change, rows of old digits": float(changed[old].mean()),
        "bits that change, as reported": result.changed_bits,
    }
    rng = np.random.default_rng(0)
    values["drift after the refit"] = hasher.drift(X[rng.choice(len(X), DRAW, replace=False)]).advice
    return values


class _Heard(logging.Handler):
    """The texts of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def kills() -> dict[str, Any]:
    """Kill the command at random moments, run it again, and compare with a run that was not killed."""
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(6, 10))
    old = (centers[rng.integers(4, size=20_000)] + rng.normal(size=(20_000, 10))).astype(np.float32)
    new = (centers[rng.integers(4, 6, size=2_000)] + rng.normal(size=(2_000, 10))).astype(np.float32)
    identical, killed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "old.npy", old)
        np.save(folder / "new.npy", new)
        hasher = recipe("imh-tsne", n_bits=BITS, random_state=0).set_params(base__size=200).fit(old)
        hasher.save(folder / "model.mhash")
        seconds, expected = _whole_run(folder, hasher.encode(old), hasher.lineage_["id"])
        for _ in range(KILLS):
            _targets(folder, hasher.encode(old), hasher.lineage_["id"])
            process = subprocess.Popen(_command(folder), stdout=subprocess.DEVNULL)
            try:
                process.wait(rng.uniform(0.2, 1.0) * seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
            process.wait()
            subprocess.run(_command(folder), check=True, stdout=subprocess.DEVNULL)
            identical += all(np.array_equal(a, b) for a, b in zip(_state(folder), expected, strict=True))
    return {"runs": KILLS, "killed": killed, "identical after the second run": identical}


def _whole_run(folder: Path, codes: Any, made_by: str) -> tuple[float, tuple[Any, ...]]:
    _targets(folder, codes, made_by)
    start = time.perf_counter()
    subprocess.run(_command(folder), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, _state(folder)


def _targets(folder: Path, codes: Any, made_by: str) -> None:
    """Write the codes, the index and the store of the old model."""
    (folder / "codes.faiss").unlink(missing_ok=True)
    index = HammingIndex(codes, BITS)
    index.made_by = made_by
    index.save(folder / "codes.mhx")
    with open_store(str(folder / "codes.faiss"), BITS) as store:
        store.add(codes, np.arange(len(codes)))


def _command(folder: Path) -> list[str]:
    given = [str(folder / name) for name in ("model.mhash", "new.npy")]
    options = ["-o", "model2.mhash", "--vectors", "old.npy", "--codes", "codes.mhx", "--store", "codes.faiss"]
    paths = [text if text.startswith("-") else str(folder / text) for text in options]
    return [sys.executable, "-m", "manihash", "update", *given, *paths, "--max-changed", "0.5", "--quiet"]


def _state(folder: Path) -> tuple[Any, ...]:
    index = HammingIndex.load(folder / "codes.mhx", mmap=False)
    with open_store(str(folder / "codes.faiss")) as store:
        return index.codes, index.ids, store.get(index.ids), np.array([len(store)])


MODELS, DRAWS, LEVEL = 40, 10, 0.01


def shapes() -> dict[str, Any]:
    """Functions that draw n rows from a distribution, given a random generator, by their names."""

    def clusters(c: int, d: int, unit: bool = False) -> Any:
        centers = np.random.default_rng(c * d).normal(size=(c, d))

        def draw(rng: np.random.Generator, n: int) -> Any:
            X = centers[rng.integers(c, size=n)] + 0.5 * rng.normal(size=(n, d))
            return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X

        return draw

    def mixed_with(draw: Any, share: float, value: float) -> Any:
        def mixed(rng: np.random.Generator, n: int) -> Any:
            X = draw(rng, n)
            X[rng.random(n) < share] = value
            return X

        return mixed

    found = {f"{c} clusters, {d} columns": clusters(c, d) for d in (8, 64, 256, 1024) for c in (1, 20, 100)}
    found["20 clusters of unit vectors, 256 columns"] = clusters(20, 256, unit=True)
    for freedom in (1, 3):
        found[f"heavy tails (t with {freedom} degrees of freedom), 32 columns"] = lambda rng, n, f=freedom: (
            rng.standard_t(f, size=(n, 32))
        )
    found["binary rows, 8 columns"] = lambda rng, n: rng.integers(0, 2, size=(n, 8)).astype(float)
    found["binary rows, 64 columns"] = lambda rng, n: rng.integers(0, 2, size=(n, 64)).astype(float)
    found["30 % equal rows, 32 columns"] = mixed_with(clusters(5, 32), 0.3, 0.7)
    found["95 % equal rows, 32 columns"] = mixed_with(clusters(5, 32), 0.95, 0.7)
    found["half of the rows empty, 32 columns"] = mixed_with(clusters(5, 32), 0.5, 0.0)
    return found


def false_alarms() -> dict[str, Any]:
    """Alarms at level 1 % in fresh rows, by shape: 400 draws each, 10 for each of 40 models.

    Models are fitted to 200 or 2,000 rows; draws have 50 or 1,000 rows, as float32 or float64.
    """
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedCodesWarning)
        for name, draw in shapes().items():
            rng, alarms = np.random.default_rng(0), 0
            for model in range(MODELS):
                n, new = ((200, 50), (2_000, 1_000))[model % 2]
                hasher = (
                    ITQ(8) if model % 4 < 2 else IMH(2, KMeansBase(50), PCA(), n_neighbors=2)
                ).set_params(random_state=model)
                hasher.fit(draw(rng, n).astype(np.float32 if model % 8 < 4 else np.float64))
                alarms += sum(hasher.drift(draw(rng, new), level=LEVEL).drifted for _ in range(DRAWS))
            found[name] = alarms
            print(name, alarms, flush=True)
    return found


PARTS = {
    "false alarms": lambda name: false_alarms(),
    "drift": drift,
    "update": update,
    "refit": refit,
    "new digits": new_digits,
    "kills": lambda name: kills(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--recipe", default="imh-tsne-rotated")
    given = parser.parse_args()
    _ran.start(calls=True)
    for part in given.parts.split(","):
        key = part if part in ("kills", "false alarms") else f"{part}, {given.recipe}"
        found = PARTS[part](given.recipe)
        record("maintenance", key, found)
        print(key, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
