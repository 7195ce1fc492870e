"""Random distances and relevance: metrics against scikit-learn and against all orders inside ties.

MANIHASH_CASES sets the number of cases, and the seed of a case is its number.
"""

import os
from itertools import chain, permutations, product

import numpy as np
from sklearn.metrics import average_precision_score

from manihash.evaluation.first_answers import expected_hits_ranked
from manihash.evaluation.metrics import average_precision, lookup, tie_aware_average_precision

CASES = int(os.environ.get("MANIHASH_CASES", "200"))


def orders_inside_ties(distance):
    """All rankings of a few rows that sort the distances, as lists of rows."""
    groups = [np.flatnonzero(distance == d).tolist() for d in np.unique(distance)]
    return [list(chain(*order)) for order in product(*(permutations(group) for group in groups))]


def test_without_ties_average_precision_is_that_of_scikit_learn():
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        distance = rng.permutation(n)[None]
        relevant = rng.random((1, n)) < rng.random()
        relevant[0, rng.integers(n)] = True
        expected = average_precision_score(relevant[0], -distance[0])
        found = average_precision(distance, relevant)[0], tie_aware_average_precision(distance, relevant)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=str(seed))


def test_with_ties_the_metrics_are_means_over_all_orders():
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 7))
        distance, relevant = rng.integers(0, 4, n), rng.random(n) < 0.5
        orders = orders_inside_ties(distance)
        hits = np.array([relevant[order] for order in orders])
        ranks = np.arange(1, n + 1)
        precision = np.cumsum(hits, axis=1) / ranks
        ap = (precision * hits).sum(axis=1) / max(1, relevant.sum())
        found = tie_aware_average_precision(distance[None], relevant[None])[0]
        np.testing.assert_allclose(found, ap.mean(), rtol=1e-12, err_msg=str(seed))
        k = int(rng.integers(1, n + 1))
        first = expected_hits_ranked(distance[None].astype(float), relevant[None], k)[0]
        np.testing.assert_allclose(first, hits[:, :k].sum(axis=1).mean(), rtol=1e-12, err_msg=str(seed))
        within = distance <= 2
        expected = (
            (within & relevant).sum() / max(1, within.sum()),
            (within & relevant).sum() / max(1, relevant.sum()),
        )
        np.testing.assert_allclose([value[0] for value in lookup(distance[None], relevant[None])], expected)
