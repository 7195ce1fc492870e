"""The answers to queries, for the figures that show pictures."""

import numpy as np

from manihash.codes import hamming, pack
from manihash.compute.largest import smallest
from manihash.compute.numpy import squared_distances, squared_norms, unit_rows
from manihash.embeddings.tsne import TSNE
from manihash.evaluation.harness import relevant_answers
from manihash.hashers.lsh import LSH
from manihash.search import HammingIndex
from manihash.types import Floats, Ints
from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.trial import Outcome, Trial

DEPTH = 20
SAMPLE, TOP = 300, 10
EMBEDDED, LSH_BITS = 48, 128


def answers(trial: Trial, cache: TrialCache) -> Outcome:
    """The nearest rows to the first query by Hamming distance, and the precision over all queries."""
    data, hasher = cache.dataset(trial), cache.hasher(trial)
    hasher.fit(data.X_train, data.y_train)
    index = HammingIndex(hasher.encode(data.X_train), trial.bits)
    _, ids = index.search(hasher.encode(data.X_test), DEPTH)
    right = relevant_answers(ids, cache.truth(trial))
    return Outcome({"ids": ids[0].tolist(), "precision": float(right.mean())})


def sample(trial: Trial, cache: TrialCache) -> Outcome:
    """The paper's figure 1: the ten nearest of 300 rows to each of them, by four searches.

    ``rows`` are the sample, ``queries`` the first four of different classes in it, ``ids`` the answers as
    positions in the sample, ``precision`` the mean over all 300 rows as queries.
    """
    data = cache.dataset(trial)
    assert data.y_train is not None
    drawn = np.random.default_rng(trial.seed).choice(len(data.X_train), SAMPLE, replace=False)
    X = data.X_train[drawn].astype(np.float64)
    U = unit_rows(X, squared_norms(X))
    y = data.y_train[drawn]
    Y = TSNE(n_components=EMBEDDED, random_state=trial.seed).fit_transform(U)
    lsh = LSH(LSH_BITS, normalize=True, random_state=trial.seed).fit(X).encode(X)
    bits = pack(Y > 0)
    ways = {
        "pixels": squared_distances(X, X),
        "lsh": hamming(lsh, lsh).astype(np.float64),
        "embedded": squared_distances(Y, Y),
        "bits": hamming(bits, bits).astype(np.float64),
    }
    ids = {way: _nearest_others(distance) for way, distance in ways.items()}
    first = [int(np.flatnonzero(y == c)[0]) for c in np.unique(y)[:4]]
    return Outcome(
        {
            "rows": drawn.tolist(),
            "queries": first,
            "ids": {way: found[first].tolist() for way, found in ids.items()},
            "precision": {way: float((y[found] == y[:, None]).mean()) for way, found in ids.items()},
        }
    )


def _nearest_others(distance: Floats) -> Ints:
    """The ten nearest other rows of each row, ties by position: (n, n) -> (n, 10)."""
    np.fill_diagonal(distance, np.inf)
    return smallest(distance, TOP)
