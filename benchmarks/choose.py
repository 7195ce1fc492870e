"""How good the recommendations of ``choose`` are: ``make bench-choose``.

On six sets the recommendation from a sample, with and without labels, is compared with the best candidate of
64 bits on the full set. There, methods that learn from labels see those of half of the rows, and all methods
are judged by held-out queries on the other half. photo-sift1m is cut to 60,000 rows; ``--rows`` cuts all
sets. ``--only time`` times ``choose`` on 8,000 and on 50,000 made-up rows of 512 columns; other work must be
stopped for it. Writes ``docs/results/choose.json`` set by set. With ``--kept`` an interrupted run resumes:
what was measured is kept in a folder. Take a new folder if the code has changed.
"""

import argparse
import pickle
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _ran
import numpy as np
from _results import record
from choose_sets import sets

from manihash import choose
from manihash.advice import candidates as advice
from manihash.advice.candidates import Candidate, Measured, Split, candidates, measure
from manihash.advice.quality import Truths
from manihash.advice.relevance import relevance_of
from manihash.advice.sample import Sample, draw_sample
from manihash.advice.scores import Purpose
from manihash.evaluation import NeighborTruth

BITS, SEED = 64, 0
GOALS = ("first", "group", "ranking")
FULL = {"digits": None, "clinc150": None, "agnews": None, "mnist": None, "cifar10-gist": None}
FULL |= {"photo-sift1m": 60_000}
KINDS = ("with labels", "without labels")


def remembered(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that is made once for the same rows and labels: the goals of a set share most of their fits.

    The seconds of the fit are remembered, too, since the faster one of two equal candidates is chosen.
    """
    known: dict[Any, tuple[Any, float]] = {}

    def fitted(candidate: Candidate, sample: Sample, seed: int) -> tuple[Any, float]:
        lesson = sample.lesson if candidate.uses_labels else None
        key = (
            candidate,
            seed,
            hash(sample.X.tobytes()),
            None if lesson is None else hash(str(lesson.tolist())),
        )
        if key not in known:
            known[key] = fit(candidate, sample, seed)
        return known[key]

    return fitted


class Kept:
    """Values that are made once, and kept in a folder if there is one, with the modules that ran."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def value(self, name: str, make: Callable[[], Any]) -> Any:
        """The value of a name, made by a function if it is not known."""
        if self._folder is None:
            return make()
        path = self._folder / f"{name}.pickle"
        if path.exists():
            value, ran = pickle.loads(path.read_bytes())
            _ran.add(ran)
            return value
        value = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps((value, _ran.modules() or set())))
        return value


def full_set(name: str, n_rows: int | None, kept: Kept) -> dict[str, Any]:
    """The scores of all candidates of 64 bits on the full set, and those of the recommendations."""
    X, y = sets(None)[name]()
    X, y = np.asarray(X[:n_rows], np.float32), None if y is None else np.asarray(y)[:n_rows]
    # The queries of the full set are in no sample.
    full = draw_sample(X, y, len(X), np.random.default_rng(SEED + 1))
    kinds = dict(zip(KINDS, (full.y, None), strict=True)) if y is not None else {KINDS[1]: None}
    chosen = {}
    for kind, labels in kinds.items():
        for goal in GOALS:

            def chosen_one(goal: str = goal, labels: Any = labels) -> tuple[Candidate, str]:
                choice = choose(full.X, BITS, goal, labels, SEED)
                return Candidate(choice.recipe, choice.n_bits), choice.reasons[0]

            chosen[kind, goal] = kept.value(f"{name}, {kind}, {goal}", chosen_one)
            print(f"  {kind}, {goal}: {chosen[kind, goal][1]}", flush=True)
    found = measured(name, full, {candidate for candidate, _ in chosen.values()}, kept)
    rows = [_row(kind, goal, *chosen[kind, goal], found, full) for kind, goal in chosen]
    return {"rows": len(full.X), "queries": len(full.Q), "goals": rows}


def measured(name: str, full: Sample, wanted: set[Candidate], kept: Kept) -> dict[Candidate, Measured]:
    """All candidates of all goals, and those that were recommended, on the full set."""
    tried = {
        c for goal in GOALS for c in candidates(BITS, BITS, goal, labels=full.y is not None, faster=False)
    }
    tried = {c for c in tried if c.recipe not in advice.WHOLE} | wanted
    truths = relevance_of(full, np.random.default_rng(SEED)).truths
    if full.y is None:  # judged by the nearest 2 %
        nearest = NeighborTruth(full.Q, full.database, max(1, round(0.02 * len(full.database))))
        truths = Truths(nearest, truths.ten, truths.hundred)
    found = {}
    for candidate in sorted(tried, key=str):
        make = partial(measure, candidate, Split(full, truths, SEED))
        found[candidate] = kept.value(f"{name}, {candidate}", make)
        print(f"  {candidate}: fit {found[candidate].fit_seconds:.1f} s", flush=True)
    return found


def _row(
    kind: str,
    goal: str,
    chosen: Candidate,
    sentence: str,
    found: dict[Candidate, Measured],
    full: Sample,
) -> dict[str, Any]:
    """A recommendation's score on the full set beside the best one, by labels or else the nearest 2 %."""
    labels, n = kind == KINDS[0], len(full.database)
    budget = n / 100
    if labels and full.y_query is not None and full.y_database is not None:
        budget = float((full.y_query[:, None] == full.y_database).sum(axis=1).mean())
    purpose = Purpose(goal, budget, True)
    scores = {
        str(c): score
        for c, m in found.items()
        if (labels or not c.uses_labels) and (score := purpose.score(m)) is not None
    }
    best = max(scores, key=scores.__getitem__)
    own = found[chosen].quality
    return {
        "labels": kind,
        "goal": goal,
        "recommended": str(chosen),
        "sentence": sentence,
        "score": round(scores[str(chosen)], 4),
        "precision@10": None if own is None else round(own.precision_at_10, 4),
        "best": best,
        "best score": round(scores[best], 4),
        "share": round(scores[str(chosen)] / scores[best], 4),
        "scores": {name: round(score, 4) for name, score in scores.items()},
    }


def timed() -> dict[str, Any]:
    """The time of ``choose`` on 8,000 and 50,000 rows of 512 columns around 100 centers."""
    rng = np.random.default_rng(SEED)
    centers, own = rng.normal(size=(100, 512)), rng.integers(100, size=50_000)
    X = (centers[own] + 1.5 * rng.normal(size=(50_000, 512))).astype(np.float32)
    found: dict[str, Any] = {"columns": 512}
    for rows in (8_000, 50_000):
        start, used = time.perf_counter(), time.process_time()
        choice = choose(X[:rows], n_bits=BITS, random_state=SEED)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        found[f"{rows} rows"] = {"seconds": seconds, "CPU seconds": used, "candidates": len(choice.table)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FULL), help="sets, or time")
    parser.add_argument("--rows", type=int, help="largest number of rows of a set")
    parser.add_argument("--kept", type=Path, help="folder of what was measured")
    options = parser.parse_args()
    _ran.start(calls=options.only != "time")
    fit = advice.fitted
    for name in options.only.split(","):
        if name == "time":
            advice.fitted = fit
            record("choose", "time", timed())
            continue
        advice.fitted = remembered(fit)
        start = time.perf_counter()
        print(name, flush=True)
        found = full_set(name, options.rows or FULL[name], Kept(options.kept))
        record("choose", f"full, {name}", found)
        for row in found["goals"]:
            print("  ", {key: value for key, value in row.items() if key != "scores"}, flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
