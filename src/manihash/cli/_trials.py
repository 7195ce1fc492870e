"""What ``manihash evaluate`` measures: material, its truth, and trials of a recipe on it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from manihash.cli import _inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.evaluation.truth import Truth
    from manihash.hashers._hasher import Hasher

NEAREST = 0.02  # of the database is relevant to a query, where there are no labels


@dataclass(frozen=True)
class Material:
    """Rows X to learn from, which are also the database, and queries Q, with labels or without."""

    X: "NDArray[Any]"
    Q: "NDArray[Any]"
    y: "NDArray[Any] | None"
    y_queries: "NDArray[Any] | None"
    note: str

    @property
    def has_labels(self) -> bool:
        """Whether rows and queries have labels."""
        return self.y is not None and self.y_queries is not None


@dataclass(frozen=True)
class Measures:
    """What one trial gives."""

    map: float
    map_ties: float
    precision: float
    recall: float
    f1: float
    fit_seconds: float
    encode_us_per_row: float


def from_catalog(name: str, n_queries: int | None) -> Material:
    """A set by its name, with the queries it is known with."""
    from manihash import load_dataset

    held = load_dataset(name, n_queries=n_queries)
    return Material(held.X_train, held.X_test, held.y_train, held.y_test, held.note)


def from_files(train: str, labels: str | None, test: str, test_labels: str | None) -> Material:
    """Database and queries from files of their own."""
    X, Q = _inputs.read_vectors(train), _inputs.read_vectors(test)
    if (labels is None) != (test_labels is None):
        raise ValueError(
            "labels came for one of --train and --test: give --labels and --test-labels, or none"
        )
    y = None if labels is None else _inputs.read_labels(labels, len(X))
    y_queries = None if test_labels is None else _inputs.read_labels(test_labels, len(Q))
    return Material(X, Q, y, y_queries, f"{len(Q):,} queries of {test}; database of {_size(X)}, {train}.")


def from_one_file(vectors: str, labels: str | None, n_queries: int | None, seed: int) -> Material:
    """Queries drawn at random from one file, a tenth but at most 1,000; the rest is the database."""
    import numpy as np

    X = _inputs.read_vectors(vectors)
    y = None if labels is None else _inputs.read_labels(labels, len(X))
    q = max(1, min(1000, len(X) // 10)) if n_queries is None else n_queries
    if not 0 < q < len(X) - 1:
        raise ValueError(
            f"{q:,} queries asked of {len(X):,} rows in {vectors}: at least two rows must be left to learn "
            "from. Lower --queries"
        )
    order = np.random.default_rng(seed).permutation(len(X))
    drawn, rest = order[:q], order[q:]
    y_rest, y_drawn = (None, None) if y is None else (y[rest], y[drawn])
    database = X[rest]
    note = f"{vectors}: {q:,} queries drawn at random (seed {seed}); database of {_size(database)}."
    return Material(database, X[drawn], y_rest, y_drawn, note)


def _size(X: "NDArray[Any]") -> str:
    return f"{X.shape[0]:,} x {X.shape[1]:,}"


def truth_of(material: Material) -> "Truth":
    """Rows of the query's label, or without labels the nearest 2 % by Euclidean distance."""
    from manihash.evaluation.truth import LabelTruth, euclidean_truth

    if material.y is not None and material.y_queries is not None:
        return LabelTruth(material.y_queries, material.y)
    return euclidean_truth(material.Q, material.X, fraction=NEAREST)


def scan_map(material: Material, truth: "Truth") -> float:
    """MAP of the exhaustive l2 scan; 1 by definition where the scan itself is the truth."""
    from manihash.evaluation.metrics import evaluate_scan

    return evaluate_scan(material.Q, material.X, truth) if material.has_labels else 1.0


def trial(hasher: "Hasher", material: Material, truth: "Truth", radius: int) -> Measures:
    """Fit, encode and measure once."""
    from manihash.evaluation.metrics import evaluate

    start = perf_counter()
    hasher.fit(material.X, material.y)
    fitted = perf_counter()
    codes = hasher.encode(material.X)
    encoded = perf_counter()
    found = evaluate(hasher.encode(material.Q), codes, truth, hasher.n_bits, radius)
    return Measures(
        found.map,
        found.map_ties,
        found.precision,
        found.recall,
        found.f1,
        fitted - start,
        1e6 * (encoded - fitted) / len(material.X),
    )


def summary(trials: Sequence[Measures]) -> tuple[dict[str, float], dict[str, float] | None]:
    """Means over the trials and, of several, their sample standard deviations."""
    from statistics import fmean, stdev

    columns = {name: [asdict(t)[name] for t in trials] for name in asdict(trials[0])}
    means = {name: fmean(values) for name, values in columns.items()}
    if len(trials) == 1:
        return means, None
    return means, {name: stdev(values) for name, values in columns.items()}
