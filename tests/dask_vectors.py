"""Vectors and small models that the tests of dask compute with."""

import numpy as np

from manihash import recipe

N, D = 18_000, 16


def vectors(dtype=np.float32):
    """Clusters of points, in nine blocks of rows."""
    rng = np.random.default_rng(0)
    return (4 * rng.standard_normal((9, D))[rng.integers(9, size=N)] + rng.standard_normal((N, D))).astype(
        dtype
    )


SMALL = {"base__size": 60, "base__base__size": 120, "base__n_components": 20, "embedding__n_iter": 20}


def small_recipe(name):
    """A hasher of 16 bits with few base points and iterations."""
    hasher = recipe(name, n_bits=16, random_state=0)
    known = hasher.get_params()
    small = SMALL | {f"first__{option}": value for option, value in SMALL.items()}
    return hasher.set_params(**{option: value for option, value in small.items() if option in known})


def fitted_arrays(model, prefix=""):
    """The bytes of each array that a model holds, those of its parts included, by name."""
    found = {}
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            found[prefix + name] = value.tobytes()
        elif type(value).__module__.startswith("manihash"):
            found |= fitted_arrays(value, f"{prefix}{name}.")
    return found


def differing(one, other):
    """The names of the arrays in which two fitted models differ."""
    a, b = fitted_arrays(one), fitted_arrays(other)
    return [name for name in a.keys() | b.keys() if a.get(name) != b.get(name)]
