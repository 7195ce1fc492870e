"""Retrieval with a method's codes: ranking, look-up, curves; and the scan of the vectors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.compute.numpy import squared_norms, unit_rows
from manihash.evaluation.harness import (
    evaluate_codes,
    evaluate_lookup,
    evaluate_ranking,
    evaluate_scan,
    measure,
)
from manihash.evaluation.metrics import f1, precision_at_recall
from manihash.evaluation.truth import LabelTruth, Truth
from manihash.search.faiss_baselines import BASELINES, FaissQuantizer
from manihash.search.tables import asymmetric_distances
from manihash.types import Floats
from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.trial import Figures, Outcome, Trial

RADIUS = 2
# Numbers of points retrieved, and levels of recall, at which curves are stored.
RANKS = (1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 20_000, 30_000, 50_000)
LEVELS = (0.01, 0.02, 0.05, *(round(0.1 * i, 1) for i in range(1, 11)))
_DIGITS = 7


def retrieval(trial: Trial, cache: TrialCache) -> Outcome:
    """All metrics of one fitted method that the figures of retrieval need.

    With a Euclidean truth (a million rows) nothing is ranked: MAP is the tie-aware one alone.
    """
    if trial.method in BASELINES:
        return _baseline_retrieval(trial, cache)
    data, truth = cache.dataset(trial), cache.truth(trial)
    metric = _ranked if isinstance(truth, LabelTruth) else _looked_up
    found = measure(
        cache.hasher(trial),
        data.X_train,
        data.X_test,
        truth,
        y=data.y_train,
        metric=metric,
        neighbors=cache.neighbors(trial),
    )
    seconds = {
        "fit": found.fit_seconds,
        "encode": found.encode_seconds + found.encode_queries_seconds,
        "judge": found.evaluate_seconds,
    }
    return Outcome(found.result, seconds)


def _baseline_retrieval(trial: Trial, cache: TrialCache) -> Outcome:
    """Metrics of a quantizer of FAISS, which has no look-up within a radius."""
    data = cache.dataset(trial)
    baseline = FaissQuantizer(BASELINES[trial.method], trial.bits, random_state=trial.seed)
    truth, neighbors = cache.truth(trial), cache.neighbors(trial)
    found = measure(baseline, data.X_train, data.X_test, truth, metric=evaluate_codes, neighbors=neighbors)
    quality = found.result
    assert quality.recall_at_10 is not None
    figures = {
        "map": quality.map,
        "precision_at_10": quality.precision_at_10,
        "recall_at_10": quality.recall_at_10,
    }
    return Outcome(figures, {"fit": found.fit_seconds, "encode": found.encode_seconds})


def _ranked(query_codes: Any, codes: Any, truth: Truth, n_bits: int, **options: Any) -> Figures:
    found = evaluate_codes(query_codes, codes, truth, n_bits, RADIUS, curves=True, **options)
    curves = found.curves
    assert curves is not None
    ranks = [rank for rank in RANKS if rank <= len(codes)]
    at = np.array(ranks) - 1
    return {
        "map": found.map,
        "map_ties": found.map_ties,
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "precision_at_10": found.precision_at_10,
        "recall_at_10": found.recall_at_10,
        "ranks": ranks,
        "precision_at": _rounded(curves.precision_at[at]),
        "recall_at": _rounded(curves.recall_at[at]),
        "levels": list(LEVELS),
        "precision_at_recall": _rounded(precision_at_recall(curves.precision_at, curves.recall_at, LEVELS)),
        "precision_within": _rounded(curves.precision_within),
        "recall_within": _rounded(curves.recall_within),
    }


def _looked_up(query_codes: Any, codes: Any, truth: Truth, n_bits: int, **options: Any) -> Figures:
    found = evaluate_lookup(query_codes, codes, truth, n_bits, **options)
    radius = min(RADIUS, len(found.precision) - 1)
    precision, recall = float(found.precision[radius]), float(found.recall[radius])
    return {
        "map_ties": found.map_ties,
        "precision": precision,
        "recall": recall,
        "f1": f1(precision, recall),
        "precision_at_10": found.precision_at_10,
        "recall_at_10": found.recall_at_10,
        "precision_within": _rounded(found.precision),
        "recall_within": _rounded(found.recall),
    }


def scan(trial: Trial, cache: TrialCache) -> Outcome:
    """MAP of the exhaustive l2 scan, of the vectors themselves and of unit length, and its precision@10."""
    data, truth = cache.dataset(trial), cache.truth(trial)
    found = evaluate_scan(data.X_test, data.X_train, truth)
    figures = {
        "map": found.map,
        "precision_at_10": found.precision_at_10,
        "map_unit": evaluate_scan(_unit(data.X_test), _unit(data.X_train), truth).map,
    }
    return Outcome(figures)


def _unit(X: NDArray[Any]) -> NDArray[Any]:
    block = np.ascontiguousarray(X, np.float32)
    return unit_rows(block, squared_norms(block))


def asymmetric(trial: Trial, cache: TrialCache) -> Outcome:
    """MAP with the query's real values against the bits of the database, and with Hamming distances."""
    data, truth, hasher = cache.dataset(trial), cache.truth(trial), cache.hasher(trial)
    hasher.fit(data.X_train, data.y_train)
    codes, Y, layout = hasher.encode(data.X_train), hasher.embed(data.X_test), hasher.layout_

    def distances(start: int, stop: int) -> Floats:
        return asymmetric_distances(Y[start:stop], codes, trial.bits, layout=layout)

    hamming = evaluate_codes(hasher.encode(data.X_test), codes, truth, trial.bits, RADIUS, layout=layout)
    return Outcome({"map": evaluate_ranking(distances, truth).map, "map_hamming": hamming.map})


def _rounded(curve: NDArray[Any]) -> list[float]:
    return [round(float(value), _DIGITS) for value in curve]
