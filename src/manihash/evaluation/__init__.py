"""Ground truth, metrics, and the harness that evaluates codes and hashers."""

from manihash.evaluation.first_answers import NeighborTruth
from manihash.evaluation.harness import (
    evaluate,
    evaluate_codes,
    evaluate_lookup,
    evaluate_ranking,
    evaluate_scan,
    measure,
)
from manihash.evaluation.metrics import recall_at_k
from manihash.evaluation.results import Curves, Evaluation, RankingQuality
from manihash.evaluation.truth import EuclideanTruth, LabelTruth, nearest_euclidean

__all__ = [
    "Curves",
    "EuclideanTruth",
    "Evaluation",
    "LabelTruth",
    "NeighborTruth",
    "RankingQuality",
    "evaluate",
    "evaluate_codes",
    "evaluate_lookup",
    "evaluate_ranking",
    "evaluate_scan",
    "measure",
    "nearest_euclidean",
    "recall_at_k",
]
