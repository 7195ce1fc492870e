"""Quality of recipes on several data sets: MAP, F1 within radius 2, first answers: ``make bench-recipes``.

Writes ``docs/results/recipes.json``, a list of records: one for each data set, recipe, code length, seed and
ranking. The file is written fit by fit, and fits that it already holds are skipped (``--again`` repeats
them), so an interrupted run resumes. The F1 of codes of two parts is that of the look-up by the first part.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from manihash import EuclideanTruth, LabelTruth, evaluate, load_dataset, recipe
from manihash.evaluation import NeighborTruth, evaluate_ranking
from manihash.evaluation.truth import Truth
from manihash.files.atomic import atomic_write
from manihash.paper.run.provenance import machine, now
from manihash.search import asymmetric_distances
from manihash.types import Floats

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "recipes.json"
FITS = (  # data, recipe, code lengths
    ("mnist", "imh-hybrid", (64,)),
    ("topics", "imh-hybrid", (64,)),
    ("photo-sift1m", "imh-hybrid", (64,)),
    ("mnist", "imh-graph", (16, 32, 64, 128)),
    ("cifar10-gist", "imh-graph", (64,)),
    ("cifar10-gist", "imh-hybrid", (64,)),
    ("mnist", "imh-graph-small", (64,)),
)
Record = dict[str, Any]


def topics(n: int = 50_000, d: int = 384, noise: float = 1.75) -> tuple[Floats, Floats, Truth]:
    """Rows and 1,000 queries of 300 Gaussian topics; the ten nearest rows are of one topic to 99.9 %."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 300, n + 1000)
    centers = rng.standard_normal((300, d), np.float32)
    X = centers[y] + np.float32(noise) * rng.standard_normal((n + 1000, d), np.float32)
    return X[1000:], X[:1000], LabelTruth(y[:1000], y[1000:])


def data(name: str, n_rows: int | None) -> tuple[Any, Any, Truth]:
    """Rows, at most 1,000 queries, and the truth: by label, or the nearest 2 %."""
    if name == "topics":
        return topics()
    given = load_dataset(name)
    X, Q = np.asarray(given.X_train[:n_rows]), np.asarray(given.X_test[:1000])
    if given.y_train is None or given.y_test is None:
        return X, Q, EuclideanTruth(Q, X)
    return X, Q, LabelTruth(given.y_test[: len(Q)], given.y_train[: len(X)])


def rankings(hasher: Any, X: Any, Q: Any, truth: Truth, neighbors: Truth) -> Iterator[tuple[str, Any]]:
    """Name and quality of each ranking by the codes of a fitted hasher."""
    codes, queries, Y, bits = hasher.encode(X), hasher.encode(Q), hasher.embed(Q), hasher.n_bits_
    parts: dict[str, Any] = {}
    if hasattr(hasher, "first_bits_"):
        parts = {"first_bits": hasher.first_bits_, "weight": hasher.weight_}
    found = evaluate(queries, codes, truth, bits, neighbors=neighbors, **parts)
    yield (f"weight {hasher.weight_:g}" if parts else "Hamming"), found
    if found.plain is not None:
        yield "Hamming", found.plain
    yield (
        "asymmetric",
        evaluate_ranking(
            lambda i, j: asymmetric_distances(Y[i:j], codes, bits, **parts), truth, neighbors=neighbors
        ),
    )


def records(common: Record, hasher: Any, of: tuple[Any, Any, Truth], neighbors: Truth) -> list[Record]:
    """One record per ranking."""
    found = []
    for ranking, quality in rankings(hasher, *of, neighbors):
        values = {
            "MAP": quality.map,
            "F1": getattr(quality, "f1", None),
            "precision@10": quality.precision_at_10,
            "recall@10": quality.recall_at_10,
        }
        figures = {key: round(value, 4) for key, value in values.items() if value is not None}
        found.append(common | {"ranking": ranking} | figures | {"date": now(), "machine": machine()})
    return found


def held(path: Path) -> list[Record]:
    """The records of earlier runs."""
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def store(path: Path, new: list[Record]) -> None:
    """Add records to the file, in place of those of the same fit."""
    keys = {identity(record) for record in new}
    kept = [record for record in held(path) if identity(record) not in keys]
    rows = sorted([*kept, *new], key=lambda record: (*identity(record), record["ranking"]))
    with atomic_write(path) as part:
        part.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def identity(record: Record) -> tuple[Any, ...]:
    """What tells one fit from another."""
    return tuple(record[key] for key in ("data", "rows", "recipe", "options", "bits", "seed"))


def options_of(text: str) -> dict[str, Any]:
    """Options of the hasher, of the form ``name=value name=value``; values are JSON."""
    return {key: json.loads(value) for key, _, value in (each.partition("=") for each in text.split())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this data set")
    parser.add_argument("--recipe", default="", help="only this recipe")
    parser.add_argument("--bits", type=int, help="only this code length")
    parser.add_argument("--options", default="", help='options of the hasher, such as "normalize=false"')
    parser.add_argument("--rows", type=int, help="only the first rows of the data set")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--again", action="store_true", help="repeat fits that the file already holds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    for name, method, lengths in selected(asked):
        of = data(name, asked.rows)
        neighbors = NeighborTruth(of[1], of[0])
        for bits in lengths:
            for seed in map(int, asked.seeds.split(",")):
                common = {"data": name, "rows": len(of[0]), "recipe": method, "options": asked.options}
                common |= {"bits": bits, "seed": seed}
                if not asked.again and identity(common) in map(identity, held(asked.out)):
                    continue
                start = time.process_time()
                hasher = recipe(method, bits, seed, **options_of(asked.options)).fit(of[0])
                found = records(common, hasher, of, neighbors)
                store(asked.out, found)
                for record in found:
                    print(json.dumps({k: v for k, v in record.items() if k != "machine"}), flush=True)
                print(f"{time.process_time() - start:.0f} s of CPU time", flush=True)


def selected(asked: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    """The fits that were asked for: those of the table, or the one named."""
    fits = [
        (name, method, tuple(bits for bits in lengths if asked.bits in (None, bits)))
        for name, method, lengths in FITS
        if asked.data in ("", name) and asked.recipe in ("", method)
    ]
    if not any(lengths for *_, lengths in fits) and asked.data and asked.recipe:
        return [(asked.data, asked.recipe, (asked.bits or 64,))]
    return fits


if __name__ == "__main__":
    main()
