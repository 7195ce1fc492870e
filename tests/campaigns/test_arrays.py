"""Generated hashers and rows: the codes of a float64 reference, or an error that names the remedy.

``MANIHASH_CASES=2000 python -m pytest tests/campaigns/test_arrays.py`` runs more cases than ``make test``.
"""

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from manihash import ITQ, KLSH, LSH, PCAH, RMMH, MahalanobisLSH, SpH

N_CASES = int(os.environ.get("MANIHASH_CASES", "60"))
TYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.longdouble, ">f4"]
REMEDY = re.compile(r"scale|give|lower|raise|remove|use", re.IGNORECASE)


def generated_rows(rng: np.random.Generator) -> np.ndarray | sp.csr_array:
    """Rows of a random type, order, offset and scale, some of them equal, some columns constant."""
    n, d = int(rng.integers(2, 60)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, d)) + rng.choice([0, 0, 1, 1e3, 1e6])
    X = X * 10.0 ** rng.choice([0, 0, 0, *range(-30, 31)])
    X[rng.random(n) < rng.choice([0, 0.5])] = X[0]
    X[:, rng.random(d) < rng.choice([0, 0.3])] = X[0, 0]
    given = np.dtype(rng.choice(np.array(TYPES, object)))
    if given.kind in "iu":
        X = np.clip(np.nan_to_num(X), np.iinfo(given).min // 2, np.iinfo(given).max // 2)
    with np.errstate(over="ignore"):
        X = np.asarray(X.astype(given), order=rng.choice(["C", "F"]))
    if rng.random() < 0.2 and given in (np.float32, np.float64):
        return sp.csr_array(X)
    return X


def generated_hasher(rng: np.random.Generator, d: int) -> object:
    """A hasher with random options."""
    method = [LSH, PCAH, ITQ, MahalanobisLSH, KLSH, RMMH, SpH][rng.integers(7)]
    bits = int(rng.integers(1, d + 1)) if method in (PCAH, ITQ) else int(rng.integers(1, 20))
    options = {"kernel": str(rng.choice(["rbf", "linear"]))} if method in (KLSH, RMMH) else {}
    options |= {"center": bool(rng.integers(2))} if method in (LSH, MahalanobisLSH) else {}
    return method(bits, normalize=bool(rng.random() < 0.3), random_state=0, **options)


def reference(hasher: object, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The real values (n, r) of the method's equation in float64, and the size of their terms."""
    X = X.astype(np.float64)
    if hasher.normalize:
        X = X / np.maximum(np.abs(X).max(axis=1, keepdims=True), 1e-300)
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    X = X if hasher.origin_ is None else X - hasher.origin_
    if isinstance(hasher, SpH):
        distance = cdist(X, hasher.centers_)
        return hasher.radii_ - distance, hasher.radii_ + distance
    if isinstance(hasher, KLSH | RMMH):
        P, b = hasher.weights_, hasher.offset_
        if hasher.points_ is not None:
            X = np.exp(-hasher.gamma_ * cdist(X, hasher.points_, "sqeuclidean"))
    else:
        P, b = hasher.projection_, hasher.offset_
    return X @ P - b, np.abs(X) @ np.abs(P) + np.abs(b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(N_CASES))
def test_codes_are_those_of_the_reference_or_the_error_names_the_remedy(seed):
    rng = np.random.default_rng(seed)
    X = generated_rows(rng)
    hasher = generated_hasher(rng, X.shape[1])
    try:
        bits = hasher.fit(X).transform(X)
    except ValueError as error:
        assert REMEDY.search(str(error))  # noqa: PT017
        return
    Y, size = reference(hasher, X.toarray() if sp.issparse(X) else X)
    decided = np.abs(Y) > 1e-4 * size
    assert np.array_equal(bits[decided], (Y > 0)[decided])
