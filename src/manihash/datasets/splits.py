"""Which rows are queries and which the database, and in what order: ties in a ranking follow the database."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PAPER_SEED = 2013

Rows = NDArray[np.int64]


def balanced_split(y: NDArray[Any], n_queries: int, seed: int) -> tuple[Rows, Rows]:
    """Rows of the queries, as many of each class, and of the database, both in seeded random order.

    With 1,000 queries of MNIST (training images first) and the seed 2013 these are ``test_idx`` and
    ``train_idx`` of imh-golden, the split that the authors' code was run on.
    """
    classes, sizes = np.unique(y, return_counts=True)
    if n_queries % len(classes) or n_queries // len(classes) >= sizes.min():
        raise ValueError(
            f"{n_queries} queries asked, as many of each of {len(classes)} classes, and the smallest has "
            f"{sizes.min()} rows: give a multiple of {len(classes)} below {len(classes) * sizes.min()}"
        )
    rng = np.random.default_rng(seed)
    each = n_queries // len(classes)
    queries = np.concatenate([rng.choice(np.flatnonzero(y == c), each, replace=False) for c in classes])
    return rng.permutation(queries), rng.permutation(np.setdiff1d(np.arange(len(y)), queries))


def database_order(n: int, seed: int) -> Rows:
    """A seeded random order of n rows."""
    return np.random.default_rng(seed).permutation(n)
