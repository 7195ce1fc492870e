"""Rows without any difference, and a NaN in a row that the method does not sample, raise an error."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manihash import IMH
from manihash.base import KMeansBase, RandomBase
from manihash.embeddings import PCA
from manihash.hashers import (
    BRE,
    E2LSH,
    KLSH,
    KSH,
    RMMH,
    SKLSH,
    SSH,
    STH,
    LDAHash,
    MahalanobisLSH,
    SpH,
    SupervisedIMH,
)

X, y = load_digits(return_X_y=True)


@pytest.mark.usefixtures("seed_of_zero")
@pytest.mark.parametrize(
    "hasher",
    [
        E2LSH(4),
        SKLSH(4),
        MahalanobisLSH(4),
        KLSH(4, kernel="rbf"),
        KLSH(4, kernel="linear"),
        RMMH(4, kernel="rbf"),
        RMMH(4, kernel="linear"),
    ],
    ids=repr,
)
def test_equal_rows_raise_an_error(hasher):
    with pytest.raises(ValueError, match="all equal"):
        hasher.fit(np.ones((10, 3)))


@pytest.mark.parametrize(
    "hasher",
    [
        E2LSH(4, width=1.0, random_state=0),
        SKLSH(4, gamma=1.0, random_state=0),
        KLSH(4, n_train=5, random_state=0),
        RMMH(4, n_train=5, random_state=0),
        SpH(4, n_train=50, random_state=0),
        STH(4, n_train=50, random_state=0),
        BRE(4, n_train=50, random_state=0),
        KSH(4, n_anchors=5, n_labels=50, gamma=1.0, random_state=0),
        SSH(4, n_labels=50, random_state=0),
        LDAHash(4, n_labels=50, random_state=0),
        IMH(4, base=RandomBase(50), embedding=PCA(), bandwidth=1.0, random_state=0),
        IMH(4, base=X[:50], embedding=PCA(), bandwidth=1.0, random_state=0),
        SupervisedIMH(4, base=KMeansBase(50), embedding=PCA(), n_labels=50, random_state=0),
    ],
    ids=lambda hasher: type(hasher).__name__,
)
def test_nan_in_a_row_that_is_not_sampled_raises_an_error(hasher):
    rows = X.copy()
    rows[1234, 5] = np.nan
    with pytest.raises(ValueError, match="row is 1234"):
        hasher.fit(rows, y)
