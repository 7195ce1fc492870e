"""What holds for every recipe: useful codes, and codes of a row that do not depend on its batch."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import IMH, recipe, recipe_names
from manihash.base import KMeansBase
from manihash.codes import pack, unpack
from manihash.embeddings import TSNE
from manihash.hashers import E2LSH, KLSH, RMMH
from manihash.rotation import ITQRotation

X, y = load_digits(return_X_y=True)
SMALL = {"base__size": 60, "base__base__size": 200, "base__n_components": 20, "embedding__n_iter": 20}


def small_recipe(name):
    hasher = recipe(name, n_bits=16, random_state=0)
    known = hasher.get_params()
    small = SMALL | {f"first__{option}": value for option, value in SMALL.items()}
    return hasher.set_params(**{option: value for option, value in small.items() if option in known})


HASHERS = {name: small_recipe(name) for name in recipe_names()}
HASHERS |= {
    "klsh, linear kernel": KLSH(16, kernel="linear", random_state=0),
    "rmmh, Gaussian kernel": RMMH(16, kernel="rbf", random_state=0),
    "e2lsh, p=1": E2LSH(16, p=1, random_state=0),
    "imh, 13 bits": IMH(13, KMeansBase(60), TSNE(n_iter=60), rotation=ITQRotation(5), random_state=0),
}


@pytest.mark.parametrize("name", HASHERS)
def test_bits_are_neither_constant_nor_all_alike(name):
    hasher = HASHERS[name].fit(X, y)
    codes = hasher.encode(X)
    assert codes.shape == (len(X), 2)
    assert 0.05 < unpack(codes, hasher.n_bits).mean() < 0.95
    assert len(np.unique(codes, axis=0)) > 10


@pytest.mark.cases(36)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HASHERS)
def test_the_values_and_the_code_of_a_row_do_not_depend_on_the_batch(name, dtype):
    rows = X.astype(dtype)
    hasher = HASHERS[name].fit(rows, y)
    whole = hasher.embed(np.tile(rows, (6, 1)))[: len(X)]
    codes = hasher.encode(rows)
    if not hasher.layout_.has_fields:
        assert np.array_equal(codes, pack(whole > 0))
    assert whole.dtype == dtype
    for size in (*range(1, 21), 50, 400):
        batch = slice(50, 50 + size)
        assert np.array_equal(hasher.embed(rows[batch]), whole[batch])
        assert np.array_equal(hasher.encode(rows[batch]), codes[batch])
