"""The sample of rows that candidates are measured on: a database, and queries that are not in it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash import checks
from manihash.evaluation.truth import LabelTruth
from manihash.hashers._labels import rank_in_class
from manihash.rows import rows_of
from manihash.types import Floats, Ids, Mask

FEWEST_ROWS = 200
_MOST_QUERIES = 1000
_HIDDEN = 5  # one of so many classes is hidden from the methods that learn from labels
_FEWEST_QUERIES = 20


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows X (n, d) and queries Q (q, d), labels of both or None, drawn from ``n_rows`` rows.

    ``taught`` (n,) marks the rows whose labels methods may learn from. Answers are judged on the others.
    """

    X: Floats
    Q: Floats
    y: NDArray[Any] | None
    y_query: NDArray[Any] | None
    n_rows: int
    taught: Mask | None = None
    shown: Mask | None = None  # taught rows whose labels methods see; None for all of them

    @property
    def database(self) -> Floats:
        """The rows (m, d) that answers are taken from: those whose labels no method has seen."""
        return self.X if self.taught is None else self.X[~self.taught]

    @property
    def y_database(self) -> NDArray[Any] | None:
        """The labels (m,) of the database."""
        return self.y if self.y is None or self.taught is None else self.y[~self.taught]

    @property
    def lesson(self) -> NDArray[Any] | None:
        """The labels (n,) that methods learn from; None for a row that they must not know the label of."""
        if self.y is None or self.taught is None:
            return None
        labels = self.y.astype(object)
        labels[~(self.taught if self.shown is None else self.shown)] = None
        return labels

    @property
    def text(self) -> str:
        """What the sample is, in one sentence."""
        n, (q, d) = len(self.X), self.Q.shape
        drawn = "all" if n + q == self.n_rows else f"a random {n + q:,} of"
        text = f"{drawn} {self.n_rows:,} rows of {d} columns: {n:,} as database and {q:,} held-out queries"
        if self.taught is not None:
            text += (
                f"; methods that learn from labels saw those of {self.taught.sum():,} rows, and answers are "
                "taken from the other rows"
            )
        return text

    def part(self, rows: int, queries: int, rng: np.random.Generator) -> "Sample":
        """A smaller sample, of random rows and queries of this one."""
        some = np.sort(rng.permutation(len(self.X))[:rows])
        asked = np.sort(rng.permutation(len(self.Q))[:queries])
        return replace(
            self,
            X=self.X[some],
            Q=self.Q[asked],
            y=None if self.y is None else self.y[some],
            y_query=None if self.y_query is None else self.y_query[asked],
            taught=None if self.taught is None else self.taught[some],
        )

    def split_again(self, rng: np.random.Generator) -> "Sample":
        """The same rows with other queries, and other rows whose labels methods may learn from."""
        rows = np.concatenate([self.X, self.Q])
        y = None if self.y is None or self.y_query is None else np.concatenate([self.y, self.y_query])
        queries, rest = _split(len(rows), y, len(self.Q), rng)
        return replace(self, **_parts(rows[rest], rows[queries], y, rest, queries, rng))

    def without_classes(self, rng: np.random.Generator) -> "Sample | None":
        """The same rows with queries of a fifth of the classes only, whose labels no method has seen.

        None if there are fewer than five classes, or hardly any such queries.
        """
        if self.y is None or self.y_query is None or self.taught is None:
            return None
        classes = np.unique(_names(self.y[self.taught]))
        hidden = rng.permutation(classes)[: len(classes) // _HIDDEN]
        asked = np.isin(_names(self.y_query), hidden)
        if len(classes) < _HIDDEN or asked.sum() < _FEWEST_QUERIES:
            return None
        known = self.taught & ~np.isin(_names(self.y), hidden)
        return replace(self, Q=self.Q[asked], y_query=self.y_query[asked], shown=known)


def draw_sample(X: Any, labels: ArrayLike | None, size: int, rng: np.random.Generator) -> Sample:
    """Draw at most ``size`` rows; a tenth of them, at most 1,000, are queries."""
    checks.check_unmasked(X)
    given = X if hasattr(X, "shape") and hasattr(X, "dtype") else np.asarray(X)
    given = given.tocsr() if hasattr(given, "tocsr") else given  # other sparse matrices have no single rows
    if len(given.shape) == 2 and given.shape[0] < FEWEST_ROWS:
        raise ValueError(
            f"got {given.shape[0]} rows: choose needs at least {FEWEST_ROWS}, since it measures on held-out "
            "queries. For so few rows compare the vectors themselves, or use recipe('sign')"
        )
    checks.shape_of_rows(given.shape, least=FEWEST_ROWS)
    if getattr(given.dtype, "kind", "f") not in "fiubO":  # types of torch have no kind
        raise checks.not_numbers(given.dtype)
    n = int(given.shape[0])
    y = None if labels is None else _checked_labels(labels, n)
    drawn = np.sort(rng.permutation(n)[: min(n, size)])
    y = None if y is None else y[drawn]
    queries, rest = _split(len(drawn), y, _MOST_QUERIES, rng)
    rows = rows_of(given)
    parts = _parts(rows.take(drawn[rest]), rows.take(drawn[queries]), y, rest, queries, rng)
    if all((parts[name] == parts["X"][0]).all() for name in ("X", "Q")):
        raise ValueError(
            f"the {len(drawn):,} rows of the sample are all equal, so there is nothing to measure: give rows "
            "that differ"
        )
    return Sample(**parts, n_rows=n)


def _split(n: int, y: NDArray[Any] | None, most: int, rng: np.random.Generator) -> tuple[Ids, Ids]:
    """Ascending positions of the queries, a tenth of n rows, at most ``most``, and of the other rows."""
    order = rng.permutation(n)
    may_ask = order if y is None else order[_answerable(y)[order]]
    queries = np.sort(may_ask[: min(most, n // 10)])
    return queries, np.setdiff1d(order, queries)


def _parts(
    X: Floats, Q: Floats, y: NDArray[Any] | None, rest: Ids, queries: Ids, rng: np.random.Generator
) -> dict[str, Any]:
    """Fields of a sample of rows X and queries Q, whose positions in the labels y are given."""
    if y is None:
        return {"X": X, "Q": Q, "y": None, "y_query": None, "taught": None}
    return {"X": X, "Q": Q, "y": y[rest], "y_query": y[queries], "taught": _taught(y[rest], rng)}


def _taught(y: NDArray[Any], rng: np.random.Generator) -> Mask:
    """Which rows methods may learn from: half of the rows of each class."""
    index, classes = np.arange(len(y)), np.unique(_names(y), return_inverse=True)[1]
    order = rng.permutation(len(y))
    taught = np.zeros(len(y), np.bool_)
    taught[index[order]] = rank_in_class(classes[order]) % 2 == 0
    return taught & np.asarray(LabelTruth(y, y).counts > 0)


def _names(y: NDArray[Any]) -> NDArray[Any]:
    """Labels as strings, which can be compared and sorted whatever they are."""
    return y.astype(str)


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
    if len(names := np.unique(_names(y[answerable]))) == 1:
        raise ValueError(
            f"all labels of the sample that several rows share are {str(names[0])!r}, so every answer is "
            "right: give labels of at least two classes, or omit labels"
        )
    return answerable
