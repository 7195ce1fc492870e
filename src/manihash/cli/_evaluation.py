"""The dataset, the measurements and the table of ``manihash evaluate``."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from manihash import progress
from manihash.cli import _inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from manihash.datasets import Dataset
    from manihash.evaluation import Evaluation, RankingQuality
    from manihash.evaluation.truth import Truth
    from manihash.hashers._hasher import Hasher
    from manihash.search import FaissQuantizer


PLAIN = "plain_"  # measures of hybrid codes by the Hamming distance of all bits


def from_catalog(name: str, n_queries: int | None) -> "Dataset":
    """Return a dataset of the catalog, with its usual queries."""
    from manihash import load_dataset

    return load_dataset(name, n_queries=n_queries)


def from_files(train: str, labels: str | None, test: str, test_labels: str | None) -> "Dataset":
    """Return database and queries, read from one file each."""
    from manihash.datasets import Dataset

    X, Q = _inputs.read_vectors(train), _inputs.read_vectors(test)
    if (labels is None) != (test_labels is None):
        raise ValueError(
            "got labels for only one of --train and --test: give both --labels and --test-labels"
        )
    y = None if labels is None else _inputs.read_labels(labels, len(X))
    y_queries = None if test_labels is None else _inputs.read_labels(test_labels, len(Q))
    if y_queries is not None and not (labeled := _inputs.known_labels(y_queries)).all():
        Q, y_queries = Q[labeled], y_queries[labeled]
        progress.note(f"{test}: {(~labeled).sum():,} queries have no label and are left out")
    if not len(Q):
        raise ValueError(f"{test_labels} holds no label: give one label per row of --test")
    note = f"{len(Q):,} queries from {test}; database of {_size(X)} from {train}."
    return Dataset(train, X, y, Q, y_queries, note)


def from_one_file(vectors: str, labels: str | None, n_queries: int | None, seed: int) -> "Dataset":
    """Return random queries from one file, by default a tenth, at most 1,000; the rest is the database.

    Only rows with a label are queries, if there are labels.
    """
    import numpy as np

    from manihash.datasets import Dataset

    X = _inputs.read_vectors(vectors)
    y = None if labels is None else _inputs.read_labels(labels, len(X))
    labeled = np.ones(len(X), bool) if y is None else _inputs.known_labels(y)
    q = max(1, min(1000, int(labeled.sum()) // 10)) if n_queries is None else n_queries
    if not 0 < q <= labeled.sum() or q >= len(X) - 1:
        raise ValueError(
            f"got {q:,} queries for the {len(X):,} rows of {vectors}{_unlabeled(labeled)}: "
            "at least one query and two rows to learn from are needed. Change --queries"
        )
    order = np.random.default_rng(seed).permutation(len(X))
    drawn = order[labeled[order]][:q]
    rest = order[~np.isin(order, drawn)]
    y_rest, y_drawn = (None, None) if y is None else (y[rest], y[drawn])
    database = X[rest]
    note = f"{vectors}: {q:,} random queries (seed {seed}); database of {_size(database)}."
    return Dataset(vectors, database, y_rest, X[drawn], y_drawn, note)


def _unlabeled(labeled: "NDArray[Any]") -> str:
    return "" if labeled.all() else f", of which {labeled.sum():,} have a label"


def _size(X: "NDArray[Any]") -> str:
    return f"{X.shape[0]:,} x {X.shape[1]:,}"


def truths_and_scan(data: "Dataset") -> tuple["Truth", "Truth", dict[str, float]]:
    """Return the ground truth, the true ten nearest rows, and the quality of the exhaustive l2 scan.

    The MAP of the scan is 1 if the truth is Euclidean.
    """
    from manihash.evaluation import NeighborTruth, RankingQuality
    from manihash.evaluation.harness import evaluate_scan
    from manihash.evaluation.truth import LabelTruth, truth_of

    truth = truth_of(data.X_test, data.X_train, data.y_test, data.y_train)
    by_label = isinstance(truth, LabelTruth)
    neighbors = NeighborTruth(data.X_test, data.X_train)
    found = RankingQuality(1.0, 1.0, 1.0)
    if by_label:
        found = evaluate_scan(data.X_test, data.X_train, truth, neighbors=neighbors)
    return truth, neighbors, ranking_measures(found)


def ranking_measures(found: "RankingQuality") -> dict[str, float]:
    """Return the quality of a ranking by the names of the table's columns."""
    assert found.recall_at_10 is not None
    return {
        "map": found.map,
        "precision_at_10": found.precision_at_10,
        "recall_at_10": found.recall_at_10,
    }


def measures(
    hasher: "Hasher | FaissQuantizer",
    data: "Dataset",
    truth: "Truth",
    neighbors: "Truth",
    radius: int,
    *,
    symmetric: bool = False,
) -> dict[str, float]:
    """Return quality and times of a hasher or a baseline, by the names of the table's columns.

    Queries rank by their real values, as in ``index.search``, or by their codes if ``symmetric``.
    """
    from manihash.evaluation.harness import evaluate_codes, measure

    by_codes = partial(evaluate_codes, radius=radius)

    def by_values(*codes: Any, **options: Any) -> "Evaluation":
        return by_codes(*codes, **options | {"values": cast(Any, hasher).embed(data.X_test)})

    metric: Any = by_codes if symmetric else by_values
    found = measure(
        hasher, data.X_train, data.X_test, truth, y=data.y_train, metric=metric, neighbors=neighbors
    )
    plain = getattr(found.result, "plain", None)
    own = _code_measures(found.result)
    if not symmetric:
        own.pop("map_ties", None)  # known for distances of codes only
    return {
        **own,
        **{f"{PLAIN}{name}": value for name, value in (_code_measures(plain) if plain else {}).items()},
        "fit_seconds": found.fit_seconds,
        "encode_us_per_row": 1e6 * found.encode_seconds / len(data.X_train),
        "bytes_per_row": found.bytes_per_row,
    }


def _code_measures(found: "Evaluation | RankingQuality") -> dict[str, float]:
    """Return what was measured; a baseline has no look-up within a radius."""
    assert found.recall_at_10 is not None
    names = ("map", "map_ties", "precision", "recall", "f1", "precision_at_10", "recall_at_10")
    return {name: value for name in names if (value := getattr(found, name, None)) is not None}


def summary(seeds: Sequence[dict[str, float]]) -> tuple[dict[str, float], dict[str, float] | None]:
    """Return means over the seeds and, if there are several, their sample standard deviations.

    The measures of hybrid codes by plain Hamming distance have names of their own, with a prefix.
    """
    from statistics import fmean, stdev

    columns = {name: [each[name] for each in seeds] for name in seeds[0]}
    means = {name: fmean(values) for name, values in columns.items()}
    if len(seeds) == 1:
        return means, None
    return means, {name: stdev(values) for name, values in columns.items()}


def nested(values: dict[str, float]) -> dict[str, Any]:
    """Return measures with those by plain Hamming distance, if there are any, under ``plain``."""
    own = {name: value for name, value in values.items() if not name.startswith(PLAIN)}
    plain = {name.removeprefix(PLAIN): value for name, value in values.items() if name.startswith(PLAIN)}
    return own | ({"plain": plain} if plain else {})


def protocol(
    data: "Dataset", radius: int, n_seeds: int, rows: Sequence[dict[str, Any]], *, symmetric: bool = False
) -> str:
    """Return what was measured and how, and which rows have larger codes than their bits."""
    from manihash.codes import n_bytes
    from manihash.evaluation.truth import NEAREST

    relevant = (
        "a row is relevant if it has the query's label"
        if data.y_train is not None and data.y_test is not None
        else f"a row is relevant if it is among the nearest {NEAREST:.0%} by Euclidean distance"
    )
    by = "the distance of its code to theirs" if symmetric else "its real values and their codes"
    spread = f" Mean ± standard deviation of {n_seeds} seeds." if n_seeds > 1 else ""
    larger = "".join(
        f" {row['recipe']} at {row['bits']} bits stores {row['bytes_per_row']:.0f} bytes per row."
        for row in rows
        if row.get("bytes_per_row", 0) > n_bytes(row["bits"])
    )
    return (
        f"{data.note} Codes are learned from the database and searched in it. A query ranks rows by {by}; "
        f"{relevant}. Precision, recall and F1 within Hamming radius {radius}; for hybrid codes by their "
        f"first part.{_about_plain(rows)}{larger}{spread}"
    )


def _about_plain(rows: Sequence[dict[str, Any]]) -> str:
    """Return what the lines below hybrid codes are, if there are any."""
    if not any("plain" in row for row in rows):
        return ""
    return " plain: the same codes by the Hamming distance of all bits, as a database compares them."


COLUMNS = {  # measure: heading, digits, width
    "map": ("MAP", 3, 7),
    "map_ties": ("ties", 3, 7),
    "precision": ("prec.", 3, 7),
    "recall": ("recall", 3, 8),
    "f1": ("F1", 3, 7),
    "precision_at_10": ("P@10", 3, 7),
    "recall_at_10": ("R@10", 3, 7),
    "fit_seconds": ("fit s", 2, 7),
    "encode_us_per_row": ("µs/row", 2, 8),
}


def head(recipes: Sequence[str], scan: dict[str, float]) -> list[str]:
    """Return the headings and the row of the exhaustive scan."""
    width = name_width(recipes)
    above = f"{'':{width + 13}}{'MAP':>7}"
    headings = "".join(f"{heading:>{columns}}" for heading, _, columns in COLUMNS.values())
    return [above, f"{'recipe':{width}}{'bits':>6}{headings}", f"{'l2 scan':{width}}{'':6}{_cells(scan, '')}"]


def name_width(recipes: Sequence[str]) -> int:
    """Return the width of the column of recipes."""
    return max(map(len, [*recipes, "l2 scan"]))


def lines(row: dict[str, Any], width: int) -> list[str]:
    """Return a row of the table: its values, and its standard deviations below if there are several seeds.

    Below hybrid codes are their values by plain Hamming distance.
    """
    first = f"{row['recipe']:{width}}{row['bits']:>6}"
    if "error" in row:
        return [first + "".join(f"{'-':>{columns}}" for _, _, columns in COLUMNS.values())]
    spread = row.get("spread", {})
    found = _values(first, row, spread, width)
    if "plain" in row:
        found += _values("  plain", row["plain"], spread.get("plain", {}), width)
    return found


def _values(name: str, means: dict[str, Any], spread: dict[str, Any], width: int) -> list[str]:
    """Return a line of values after a name and, if there is a spread, a line of it."""
    cells = [_cells(means, "")] + ([_cells(spread, "±")] if spread else [])
    return [f"{name if i == 0 else '':{width + 6}}{line}" for i, line in enumerate(cells)]


def _cells(values: dict[str, Any], sign: str) -> str:
    """Return the values of a line as text; a measure that it does not have is blank."""
    line = ""
    for name, (_, digits, width) in COLUMNS.items():
        line += f"{f'{sign}{values[name]:.{digits}f}' if values.get(name) is not None else '':>{width}}"
    return line.rstrip()
