"""Times to train and to encode, and the bare matrix product of the same run as a yardstick."""

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from manihash import checks
from manihash.base.graph import choose_base
from manihash.base.kmeans import KMeansBase
from manihash.compute import numpy as numpy_backend
from manihash.hashers.agh import AGH
from manihash.hashers.imh import IMH
from manihash.hashers.recipes import recipe
from manihash.rows.local import LocalRows
from reproduction.paper.run.cache import TrialCache
from reproduction.paper.run.trial import Outcome, Trial

PRODUCT_COLUMNS = 400  # base points of the paper: the product is n x d x 400
_ONCE_OVER = 5.0  # seconds: a longer run is not repeated
_REPEATS = 3
SIZES = (0.125, 0.25, 0.5, 1.0)  # shares of the rows to measure the growth of the times at


def times(trial: Trial, cache: TrialCache) -> Outcome:
    """Seconds to fit, for k-means alone, and to encode one query; medians of three runs if they are short."""
    data = cache.dataset(trial)
    X, Q = data.X_train, data.X_test
    made = recipe(trial.method, n_bits=trial.bits, random_state=trial.seed, **dict(trial.options))
    product = _seconds(lambda: bare_product(X))
    fit = _seconds(lambda: made.fit(X, data.y_train))
    figures = {
        "fit": fit,
        "encode_query": _seconds(lambda: made.encode(Q)) / len(Q),
        "encode_row": _seconds(lambda: made.encode(X)) / len(X),
        "product": product,
        "fit_products": fit / product,
    }
    if isinstance(made, IMH | AGH):
        rows = LocalRows(X, normalize=made.normalize)
        seed = checks.seed(checks.generator(trial.seed))
        figures["kmeans"] = _seconds(lambda: choose_base(made.base, rows, seed))
    return Outcome(figures)


def growth(trial: Trial, cache: TrialCache) -> Outcome:
    """Seconds to fit on growing numbers of rows, and to encode a query with each model."""
    data = cache.dataset(trial)
    sizes = [round(share * len(data.X_train)) for share in SIZES]
    fit, query = [], []
    for n in sizes:
        made = recipe(trial.method, n_bits=trial.bits, random_state=trial.seed, base=KMeansBase())
        fit.append(_seconds(partial(made.fit, data.X_train[:n])))
        query.append(_seconds(partial(made.encode, data.X_test)) / len(data.X_test))
    return Outcome({"rows": sizes, "fit": fit, "encode_query": query})


def bare_product(X: Any) -> float:
    """The product of X with 400 vectors in float32, block by block: a lower bound for finding base points."""
    C = np.ones((PRODUCT_COLUMNS, X.shape[1]), np.float32)
    return float(sum(LocalRows(X).map(lambda block: float(numpy_backend.product(block, C)[0, 0]))))


def _seconds(work: Callable[[], Any]) -> float:
    """Median seconds of three runs, or of one run if it is long."""
    found: list[float] = []
    while len(found) < _REPEATS and (not found or found[0] < _ONCE_OVER):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return median(found)
