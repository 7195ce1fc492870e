"""How good the recommendations of ``choose`` are: ``make bench-choose``.

On four sets the recommendation from a sample of 20,000 rows, with and without labels, is compared with the
best candidate of 64 bits on the full set. photo-sift1m is cut to 60,000 rows: a set then takes less than 8
minutes on two cores.
``--only time`` times ``choose`` on 50,000 made-up rows of 512 columns; other work must be stopped for it.
Writes ``docs/results/choose.json`` set by set, so that an interrupted run loses nothing.
"""

import argparse
import time
from datetime import date
from typing import Any

import numpy as np
from _results import record

from manihash import EuclideanTruth, LabelTruth, choose, load_dataset, recipe
from manihash.advice.candidates import Candidate, Measured, candidates
from manihash.advice.choose import purpose_of, recommend
from manihash.advice.quality import Quality, Truths, quality_of
from manihash.advice.relevance import relevance_of
from manihash.advice.sample import Sample, draw_sample
from manihash.evaluation import NeighborTruth

BITS, SEED, SAMPLE = 64, 0, 20_000
GOALS = ("auto", "ranking", "lookup", "neighbors")
FULL = {"digits": None, "mnist": None, "cifar10-gist": None, "photo-sift1m": 60_000}


def measured(candidate: Candidate, sample: Sample, kinds: dict[str, Truths]) -> dict[str, Measured]:
    """A candidate fitted once and measured by several kinds of truth; no entry if it cannot be fitted."""
    start = time.perf_counter()
    try:
        hasher = recipe(candidate.recipe, candidate.n_bits, SEED).fit(sample.X)
    except ValueError as error:
        return {kind: Measured(candidate, reason=str(error)) for kind in kinds}
    seconds = time.perf_counter() - start
    codes = hasher.encode(sample.X)
    found: dict[str, Measured] = {}
    for kind, truths in kinds.items():
        quality: Quality = quality_of(hasher, codes, sample.Q, truths)
        found[kind] = Measured(candidate, quality, candidate.n_bits // 8, seconds)
    print(f"  {candidate}: fit {seconds:.1f} s", flush=True)
    return found


def recommended(X: Any, y: Any) -> dict[str, dict[str, Candidate]]:
    """The candidate that is recommended for each goal from a sample, with and without labels."""
    kinds = {"with labels": y, "without labels": None} if y is not None else {"without labels": None}
    samples = {
        kind: draw_sample(X, labels, SAMPLE, np.random.default_rng(SEED)) for kind, labels in kinds.items()
    }
    sample = next(iter(samples.values()))
    relevances = {}
    for kind, labels in kinds.items():
        part = sample if labels is not None else Sample(sample.X, sample.Q, None, None, sample.n_rows)
        relevances[kind] = relevance_of(part, np.random.default_rng(SEED))
    truths = {kind: relevance.truths for kind, relevance in relevances.items()}
    tried = [c for c in candidates((BITS // 2, BITS), len(sample.X)) if not c.is_peer]
    found = [measured(candidate, sample, truths) for candidate in tried]
    chosen: dict[str, dict[str, Candidate]] = {}
    for kind, relevance in relevances.items():
        for goal in GOALS:
            purpose = purpose_of(goal, None, sample, relevance)
            choice = recommend([each[kind] for each in found], purpose, BITS, sample, relevance, None, SEED)
            chosen.setdefault(kind, {})[goal] = Candidate(choice.recipe, choice.n_bits)
    return chosen


def full_set(name: str, n_rows: int | None) -> dict[str, Any]:
    """The scores of all candidates of 64 bits on the full set, and those of the recommendations."""
    data = load_dataset(name)
    X = data.X_train[:n_rows]
    labels = None if data.y_train is None else data.y_train[:n_rows]
    chosen = recommended(X, labels)
    sample = Sample(
        X, data.X_test[:1000], labels, None if data.y_test is None else data.y_test[:1000], len(X)
    )
    relevant = (
        EuclideanTruth(sample.Q, sample.X)
        if labels is None or sample.y_query is None
        else LabelTruth(sample.y_query, labels)
    )
    truths = Truths(relevant, NeighborTruth(sample.Q, sample.X, 10), NeighborTruth(sample.Q, sample.X, 100))
    wanted = {c for goals in chosen.values() for c in goals.values()}
    tried = sorted(
        {*(c for c in candidates((BITS,), len(X)) if not c.is_peer), *wanted},
        key=lambda c: (c.n_bits, c.recipe),
    )
    found = {c: measured(c, sample, {"full": truths})["full"] for c in tried}
    rows = []
    for kind, goals in chosen.items():
        for goal, candidate in goals.items():
            rows.append(_row(kind, goal, candidate, found, sample, truths, labels is not None))
    return {"rows": len(X), "queries": len(sample.Q), "date": str(date.today()), "goals": rows}


def _row(
    kind: str,
    goal: str,
    chosen: Candidate,
    found: dict[Candidate, Measured],
    sample: Sample,
    truths: Truths,
    has_labels: bool,
) -> dict[str, Any]:
    """A recommendation's score on the full set beside the best one, by labels or else the nearest 2 %."""
    from manihash.advice.scores import Purpose

    known = has_labels and kind == "with labels"
    budget = float(truths.relevant.counts.mean()) if known else max(100.0, len(sample.X) / 100)
    purpose = Purpose(goal, budget, has_labels)
    scores = {str(c): score for c, m in found.items() if (score := purpose.score(m)) is not None}
    best = max(scores, key=scores.__getitem__)
    return {
        "labels": kind,
        "goal": goal,
        "recommended": str(chosen),
        "score": round(scores[str(chosen)], 4),
        "best": best,
        "best score": round(scores[best], 4),
        "share": round(scores[str(chosen)] / scores[best], 4),
        "scores": {name: round(score, 4) for name, score in scores.items()},
    }


def timed() -> dict[str, Any]:
    """The time of ``choose`` on 50,000 rows of 512 columns around 100 centers."""
    rng = np.random.default_rng(SEED)
    centers, own = rng.normal(size=(100, 512)), rng.integers(100, size=50_000)
    X = (centers[own] + 1.5 * rng.normal(size=(50_000, 512))).astype(np.float32)
    start = time.perf_counter()
    choice = choose(X, n_bits=BITS, random_state=SEED)
    seconds = time.perf_counter() - start
    return {"rows": 50_000, "columns": 512, "candidates": len(choice.table), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FULL), help="sets, or time")
    options = parser.parse_args()
    for name in options.only.split(","):
        if name == "time":
            record("choose", "time", timed())
            continue
        start = time.perf_counter()
        print(name, flush=True)
        found = full_set(name, FULL[name])
        record("choose", f"full, {name}", found)
        for row in found["goals"]:
            print("  ", {key: value for key, value in row.items() if key != "scores"}, flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
