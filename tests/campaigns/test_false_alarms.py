"""How often ``drift`` raises an alarm for fresh rows of the same kind, for rows of many shapes.

MANIHASH_CASES sets the number of fits of each shape and size, and of each recipe, each asked about fresh rows
once; the seed of a fit of a recipe is its number. ``python -m pytest -s`` shows the counts.
"""

import os
from collections import Counter

import numpy as np
import pytest
from dask_vectors import small_recipe

from manihash.base import KMeansBase
from manihash.embeddings import PCA
from manihash.hashers import IMH, ITQ

CASES = int(os.environ.get("MANIHASH_CASES", "40"))
FIRST = int(os.environ.get("MANIHASH_FIRST", "0"))


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


@pytest.mark.parametrize("name", ["imh-graph", "itq", "pq", "imh-hybrid", "imh-tsne"])
@pytest.mark.filterwarnings("ignore:codes cannot tell", "ignore:the rows have too few distinct values")
def test_the_rate_of_false_alarms_of_a_recipe_is_at_most_twice_the_level(name):
    alarms, hasher = Counter(), small_recipe(name)
    if name == "itq":
        hasher.set_params(n_bits=8)  # the least number of columns
    for seed in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng([seed, *name.encode()])  # draws of its own
        shape = list(SHAPES)[seed % len(SHAPES)]
        draw, (n, new) = SHAPES[shape](rng), ((300, 50), (2000, 1000))[seed // len(SHAPES) % 2]
        p_value = hasher.set_params(random_state=seed).fit(draw(n)).drift(draw(new)).p_value
        alarms.update({level: p_value < level for level in (0.01, 0.05)} | {shape: p_value < 0.05})
    print(f"{name}: alarms in {CASES} fits: {dict(alarms)}")
    assert alarms[0.05] <= 2 * 0.05 * CASES


@pytest.mark.parametrize("name", ["itq", "lsh", "sign"])
def test_the_rate_of_false_alarms_does_not_depend_on_columns_and_clusters(name):
    """From 8 to 1,024 columns, from 1 to 100 clusters of any spread and of unequal sizes."""
    alarms = Counter()
    for seed in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng([seed, *name.encode()])
        d, k, spread = rng.choice([8, 64, 256, 1024]), rng.choice([1, 10, 100]), rng.choice([0.3, 2, 50])
        centers, shares = spread * rng.normal(size=(k, d)), rng.dirichlet(np.ones(k))
        unit, (n, new) = seed % 2, ((60, 30), (300, 50), (300, 600))[rng.integers(3)]

        def draw(n, centers=centers, shares=shares, unit=unit, rng=rng):
            X = centers[rng.choice(len(centers), n, p=shares)] + rng.normal(size=(n, centers.shape[1]))
            return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X

        hasher = small_recipe(name).set_params(n_bits=8, random_state=seed).fit(draw(n))
        p_value = hasher.drift(draw(new)).p_value
        found = p_value < 0.05
        alarms.update({level: p_value < level for level in (0.01, 0.05)} | {f"d={d}": found, f"k={k}": found})
    print(f"{name}: alarms in {CASES} fits: {dict(alarms)}")
    assert alarms[0.05] <= 2 * 0.05 * CASES
