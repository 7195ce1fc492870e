"""Which rows count as relevant to a query: by labels, or by clusters and neighbors."""

from dataclasses import dataclass

import numpy as np

from manihash.advice.communities import communities, neighbor_graph
from manihash.advice.quality import Truths
from manihash.advice.sample import Sample
from manihash.evaluation.first_answers import NeighborTruth
from manihash.evaluation.truth import NEAREST, EuclideanTruth, LabelTruth, nearest_euclidean
from manihash.types import Ids

_NEIGHBORS = 10


@dataclass(frozen=True, eq=False)
class Relevance:
    """The relevant rows of each query, and how they are known.

    Without labels nobody knows which rows are relevant, and two stand-ins are used: rows of the query's
    community of the neighbor graph, which manifold codes keep together, and the nearest 2 % of the rows.
    """

    truths: Truths
    by_labels: bool
    text: str
    spacing: float  # median distance of a row to its nearest row


def relevance_of(sample: Sample, rng: np.random.Generator) -> Relevance:
    """The relevance by labels if there are labels, otherwise by communities and by distance."""
    ten, hundred = (NeighborTruth(sample.Q, sample.X, k) for k in (_NEIGHBORS, 10 * _NEIGHBORS))
    if sample.y is not None and sample.y_query is not None:
        truths = Truths(LabelTruth(sample.y_query, sample.y), ten, hundred)
        text = "A row is relevant to a query if both have the same label."
        return Relevance(truths, True, text, _spacing(sample))
    rows, q = np.concatenate([sample.Q, sample.X]), len(sample.Q)
    others = without_self(nearest_euclidean(rows, rows, _NEIGHBORS + 1))
    found = communities(neighbor_graph(others), rng)
    truth = LabelTruth(found.label[:q], found.label[q:])
    text = (
        "There are no labels. Codes are therefore judged by two stand-ins: rows of the query's cluster "
        f"(the graph of the ten nearest rows has {found.number} communities, modularity "
        f"{found.modularity:.2f}), and the nearest {NEAREST:.0%} of the rows."
    )
    truths = Truths(truth, ten, hundred, EuclideanTruth(sample.Q, sample.X))
    return Relevance(truths, False, text, _spacing(sample))


def _spacing(sample: Sample) -> float:
    """The median distance of a query to the nearest row of the database."""
    near = nearest_euclidean(sample.Q, sample.X, 1)[:, 0]
    return float(np.median(np.linalg.norm(np.asarray(sample.Q, np.float64) - sample.X[near], axis=1)))


def without_self(nearest: Ids) -> Ids:
    """The nearest rows (n, k + 1) without the row itself: (n, k)."""
    other = nearest != np.arange(len(nearest))[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may miss itself
    return nearest[other].reshape(len(nearest), -1)
