"""How often ``drift`` raises an alarm for fresh rows of the same kind, for rows of many shapes.

MANIHASH_CASES sets the number of fits of each shape and size, each asked about fresh rows once.
"""

import os

import numpy as np
import pytest

from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.hashers import IMH, ITQ

CASES = int(os.environ.get("MANIHASH_CASES", "40"))


def unit_rows(n, clusters, d, rng):
    X = clusters[rng.integers(len(clusters), size=n)] + 2 * rng.normal(size=(n, d)) / np.sqrt(d)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def many_clusters(rng):
    centers = rng.normal(size=(20, 256)) / 16
    return lambda n: unit_rows(n, centers, 256, rng)


SHAPES = {
    "many clusters of unit vectors": many_clusters,
    "few columns": lambda rng: lambda n: rng.normal(size=(n, 8)),
    "heavy tails": lambda rng: lambda n: rng.standard_t(1, size=(n, 16)),
    "ties": lambda rng: lambda n: rng.integers(0, 2, size=(n, 8)).astype(float),
    "equal and empty rows": lambda rng: lambda n: rng.normal(size=(n, 8)) * (rng.random((n, 1)) < 0.6),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [(200, 40), (2000, 1000)])
@pytest.mark.filterwarnings("ignore:codes cannot tell")
def test_the_rate_of_false_alarms_is_at_most_twice_the_level(shape, rows):
    rng = np.random.default_rng(0)
    draw = SHAPES[shape](rng)
    methods = [ITQ(6, random_state=0), IMH(6, KMeansBase(80), PCA(), random_state=0)]
    alarms = sum(
        methods[run % 2].fit(draw(rows[0])).drift(draw(rows[1]), level=0.05).drifted for run in range(CASES)
    )
    assert alarms <= 2 * 0.05 * CASES
