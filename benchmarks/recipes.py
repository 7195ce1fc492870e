"""Quality of graph and hybrid codes on several data sets, fit by fit: ``make bench-recipes``.

Each part of ``docs/results/recipes.json`` is one fit: MAP, F1 within radius 2, precision@10 and recall@10 of
each ranking by its codes. A fit that was measured with the present code is skipped, so an interrupted run
resumes. Codes of two parts are looked up by the first part; they are ranked by the weighted distance of both
parts, by the Hamming distance of all bits, and by the real values of the queries (asymmetric).
"""

import argparse
import json
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _results import FOLDER, is_current, record

from manihash import EuclideanTruth, LabelTruth, evaluate, load_dataset, recipe
from manihash.evaluation import NeighborTruth, evaluate_ranking
from manihash.evaluation.truth import Truth
from manihash.search import asymmetric_distances
from manihash.types import Floats

FITS = (  # data, recipe, code lengths
    ("mnist", "imh-hybrid-hamming", (64,)),
    ("topics", "imh-hybrid-hamming", (64,)),
    ("photo-sift1m", "imh-hybrid-hamming", (64,)),
    ("cifar10-gist", "imh-hybrid-hamming", (64,)),
    ("mnist", "imh-graph", (16, 32, 64)),
    ("cifar10-gist", "imh-graph", (64,)),
)


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
    layout = hasher.layout_
    found = evaluate(queries, codes, truth, bits, neighbors=neighbors, layout=layout)
    yield ("weighted" if layout.has_two_parts else "Hamming"), found
    if found.plain is not None:
        yield "Hamming", found.plain

    def distances(start: int, stop: int) -> Floats:
        return asymmetric_distances(Y[start:stop], codes, bits, layout=layout)

    yield "asymmetric", evaluate_ranking(distances, truth, neighbors=neighbors)


def measured(hasher: Any, of: tuple[Any, Any, Truth], neighbors: Truth) -> dict[str, Any]:
    """The figures of all rankings of a fitted hasher, and the parts of its codes."""
    found: dict[str, Any] = {"rows": len(of[0]), "weight": float(hasher.layout_.weight)}
    for ranking, quality in rankings(hasher, *of, neighbors):
        values = {
            "MAP": quality.map,
            "F1": getattr(quality, "f1", None),
            "precision@10": quality.precision_at_10,
            "recall@10": quality.recall_at_10,
        }
        found[ranking] = {key: round(value, 4) for key, value in values.items() if value is not None}
    return found


def part_name(name: str, method: str, bits: int, seed: int, asked: Namespace) -> str:
    """The part of a fit: "mnist, imh-graph, 64 bits, seed 0", with what else was set before the seed."""
    rows = f"{asked.rows} rows" if asked.rows else ""
    return ", ".join(filter(None, [name, method, f"{bits} bits", rows, asked.options, f"seed {seed}"]))


def options_of(text: str) -> dict[str, Any]:
    """Options of the hasher, of the form ``name=value name=value``; values are JSON."""
    return {key: json.loads(value) for key, _, value in (each.partition("=") for each in text.split())}


def selected(asked: Namespace) -> list[tuple[str, str, tuple[int, ...]]]:
    """The fits that were asked for: those of the table or, if it lacks them, the one named."""
    fits = [
        (name, method, tuple(bits for bits in lengths if asked.bits in (None, bits)))
        for name, method, lengths in FITS
        if asked.data in ("", name) and asked.recipe in ("", method)
    ]
    if not any(lengths for *_, lengths in fits) and asked.data and asked.recipe:
        return [(asked.data, asked.recipe, (asked.bits or 64,))]
    return fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="", help="only this data set")
    parser.add_argument("--recipe", default="", help="only this recipe")
    parser.add_argument("--bits", type=int, help="only this code length")
    parser.add_argument("--options", default="", help='options of the hasher, such as "normalize=false"')
    parser.add_argument("--rows", type=int, help="only the first rows of the data set")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--again", action="store_true", help="repeat fits measured with the present code")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the results")
    asked = parser.parse_args()
    for name, method, lengths in selected(asked):
        of: Any = None
        for bits in lengths:
            for seed in map(int, asked.seeds.split(",")):
                part = part_name(name, method, bits, seed, asked)
                if not asked.again and is_current("recipes", part, asked.folder):
                    continue
                if of is None:
                    of = data(name, asked.rows)
                    neighbors = NeighborTruth(of[1], of[0])
                start = time.process_time()
                hasher = recipe(method, bits, seed, **options_of(asked.options)).fit(of[0])
                found = measured(hasher, of, neighbors)
                record("recipes", part, found, folder=asked.folder)
                print(part, json.dumps(found), f"{time.process_time() - start:.0f} s of CPU time", flush=True)


if __name__ == "__main__":
    main()
