"""The sample of rows that candidates are measured on: a database, and queries that are not in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash import checks
from manihash.evaluation.truth import LabelTruth
from manihash.rows import rows_of
from manihash.types import Floats, Mask

FEWEST_ROWS = 200
_MOST_QUERIES = 1000


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows X (n, d) and queries Q (q, d), labels of both or None, drawn from ``n_rows`` rows."""

    X: Floats
    Q: Floats
    y: NDArray[Any] | None
    y_query: NDArray[Any] | None
    n_rows: int

    @property
    def text(self) -> str:
        """What the sample is, in one sentence."""
        n, (q, d) = len(self.X), self.Q.shape
        drawn = "all" if n + q == self.n_rows else f"a random {n + q:,} of"
        return f"{drawn} {self.n_rows:,} rows of {d} columns: {n:,} as database and {q:,} held-out queries"


def draw_sample(X: Any, labels: ArrayLike | None, size: int, rng: np.random.Generator) -> Sample:
    """Draw at most ``size`` rows; a tenth of them, at most 1,000, are queries."""
    checks.check_unmasked(X)
    given = X if hasattr(X, "shape") else np.asarray(X)
    if len(given.shape) == 2 and given.shape[0] < FEWEST_ROWS:
        raise ValueError(
            f"got {given.shape[0]} rows: choose needs at least {FEWEST_ROWS}, since it measures on held-out "
            "queries. For so few rows compare the vectors themselves, or use recipe('sign')"
        )
    checks.shape_of_rows(given.shape, least=FEWEST_ROWS)
    n = int(given.shape[0])
    y = None if labels is None else _checked_labels(labels, n)
    drawn = rng.permutation(n)[: min(n, size)]
    may_ask = np.ones(len(drawn), bool) if y is None else _answerable(y[drawn])
    q = min(_MOST_QUERIES, len(drawn) // 10, int(may_ask.sum()))
    queries = np.sort(drawn[np.flatnonzero(may_ask)[:q]])
    rest = np.sort(np.setdiff1d(drawn, queries))
    rows = rows_of(given)
    y_rest, y_query = (None, None) if y is None else (y[rest], y[queries])
    return Sample(rows.take(rest), rows.take(queries), y_rest, y_query, n)


def _checked_labels(labels: ArrayLike, n: int) -> NDArray[Any]:
    y = np.asarray(labels, None if hasattr(labels, "dtype") else object)
    if y.ndim != 1 or len(y) != n:
        raise ValueError(
            f"got labels of shape {y.shape} for {n:,} rows: give one label per row, -1 or None for a row "
            "without a label"
        )
    return y


def _answerable(y: NDArray[Any]) -> Mask:
    """Which rows have a label that another row has, too; raise if there are hardly any."""
    answerable = np.asarray(LabelTruth(y, y).counts > 1)
    if answerable.sum() < 20:
        raise ValueError(
            f"only {answerable.sum()} of the {len(y):,} rows of the sample share their label with another "
            "row: give labels of classes, not of single rows, or omit labels"
        )
    return answerable
