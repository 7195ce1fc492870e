"""Which rows count as relevant to a query: by labels, or by clusters and neighbors."""

from dataclasses import dataclass

import numpy as np

from manihash.advice.communities import Communities, communities, neighbor_graph
from manihash.advice.quality import Truths
from manihash.advice.sample import Sample
from manihash.evaluation.first_answers import NeighborTruth
from manihash.evaluation.truth import NEAREST, LabelTruth, nearest_euclidean
from manihash.types import Floats, Ids

_NEIGHBORS = 10
# Resolutions of large and of small communities, and the modularity from which on small ones are clear groups.
LARGE, SMALL, CLEAR = 1.0, 16.0, 0.75


@dataclass(frozen=True, eq=False)
class Relevance:
    """The relevant rows of each query, and how they are known.

    Without labels nobody knows which rows are relevant, and proxies are used: rows of the query's community
    of the neighbor graph, which manifold codes keep together, the nearest 2 % of the rows, and the ten
    nearest.
    """

    truths: Truths
    by_labels: bool
    text: str


def resolution_for(goal: str, sample: Sample, rng: np.random.Generator) -> float:
    """The resolution of the communities that stand for relevant rows if there are no labels.

    Ten answers come from a small community. A look-up returns a large one, unless the rows fall into many
    small ones: nearly all edges of the graph stay inside them then.
    """
    if sample.y is not None or goal not in ("first", "group"):
        return LARGE
    if goal == "first":
        return SMALL
    rows = np.concatenate([sample.Q, sample.database])
    return SMALL if communities_of(rows, rng, SMALL).modularity >= CLEAR else LARGE


def relevance_of(sample: Sample, rng: np.random.Generator, resolution: float = LARGE) -> Relevance:
    """The relevance by labels if there are labels, otherwise by communities and by distance."""
    X, Q = sample.database, sample.Q
    sizes = [_NEIGHBORS, 10 * _NEIGHBORS, max(1, round(NEAREST * len(X)))]
    if sample.y_database is not None and sample.y_query is not None:
        ten, hundred = NeighborTruth.of_each(Q, X, sizes[:2])
        truths = Truths(LabelTruth(sample.y_query, sample.y_database), ten, hundred)
        return Relevance(truths, True, "A row is relevant to a query if both have the same label.")
    ten, hundred, nearest = NeighborTruth.of_each(Q, X, sizes)
    q, found = len(Q), communities_of(np.concatenate([Q, X]), rng, resolution)
    text = (
        "There are no labels. Codes are therefore judged by proxies: rows of the query's cluster (one of "
        f"{found.number}{' small' if resolution == SMALL else ''} communities of the graph of the ten "
        "nearest rows), and its nearest rows. Labels of a part of the rows make the advice more certain."
    )
    truths = Truths(LabelTruth(found.label[:q], found.label[q:]), ten, hundred, nearest)
    return Relevance(truths, False, text)


def communities_of(rows: Floats, rng: np.random.Generator, resolution: float) -> Communities:
    """The communities of the graph of the ten nearest rows."""
    return communities(neighbor_graph(nearest_others(rows)), rng, resolution)


def nearest_others(rows: Floats) -> Ids:
    """The ten rows nearest to each row (n, d), without itself: (n, 10)."""
    nearest = nearest_euclidean(rows, rows, _NEIGHBORS + 1)
    other = nearest != np.arange(len(nearest))[:, None]
    other[other.all(axis=1), -1] = False  # among many equal rows a row may miss itself
    return nearest[other].reshape(len(nearest), -1)


def spacing(sample: Sample) -> float:
    """The median distance of a query to the nearest row of the database."""
    near = nearest_euclidean(sample.Q, sample.X, 1)[:, 0]
    return float(np.median(np.linalg.norm(np.asarray(sample.Q, np.float64) - sample.X[near], axis=1)))
