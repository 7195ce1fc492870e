"""After an update or a refit, ``drift`` has nothing to advise for the same rows: for every recipe."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import recipe, recipe_names

X, y = load_digits(return_X_y=True)
OLD, NEW = X[y < 8], X[y >= 8]
SMALL = {"base__size": 60, "base__base__size": 200, "base__n_components": 20, "embedding__n_iter": 60}
UPDATED = [
    "imh-tsne",
    "imh-tsne-turned",
    "imh-tsne-rotated",
    "imh-large",
    "imh-graph",
    "imh-graph-small",
    "imh-mixed",
    "imh-hybrid",
    "imh-hybrid-hamming",
    "imh-large-ee",
    "imh-sne",
    "imh-ee",
    "imh-tsne-random",
]
REFITTED = [*UPDATED, "imh-large-fast", "itq"]


def fitted(name):
    """A recipe with a small base set, fitted to the digits 0 to 7."""
    hasher = recipe(name, n_bits=16, random_state=0)
    known = hasher.get_params()
    small = SMALL | {f"first__{option}": value for option, value in SMALL.items()}
    hasher.set_params(**{option: value for option, value in small.items() if option in known})
    return hasher.fit(OLD, y[y < 8])


def update(hasher):
    """Update a hasher, and return the rows that it must know then."""
    hasher.update(NEW, OLD)
    return [NEW, OLD, X, np.vstack([OLD[:200], NEW])]


def refit(hasher):
    """Refit a hasher, and return the rows that it must know then."""
    hasher.refit(X)
    return [X, NEW, OLD]


@pytest.mark.cases(10)
@pytest.mark.filterwarnings("ignore:codes cannot tell")
@pytest.mark.parametrize(
    ("name", "change"), [*((name, update) for name in UPDATED), *((name, refit) for name in REFITTED)]
)
def test_the_same_rows_are_no_drift_afterwards(name, change):
    hasher = fitted(name)
    assert hasher.drift(NEW).drifted
    for rows in change(hasher):
        assert hasher.drift(rows).advice == "nothing"


@pytest.mark.cases(12)
@pytest.mark.filterwarnings("ignore:codes cannot tell")
@pytest.mark.parametrize("name", sorted(set(recipe_names()) - set(UPDATED)))
def test_other_recipes_name_what_is_possible(name):
    hasher = fitted(name)
    possible = r"hasher\.refit\(X\)" if name in REFITTED else r"fit a new model"
    with pytest.raises(ValueError, match=rf"cannot be updated.*{possible}") as refused:
        hasher.update(NEW, OLD)
    assert name in REFITTED or "refit" not in str(refused.value)
    if name not in REFITTED:
        with pytest.raises(ValueError, match=r"cannot be refitted.*fit a new model"):
            hasher.refit(X)
