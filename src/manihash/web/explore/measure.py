"""Measures of a sample of rows as queries: answers within each radius, and the first answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.codes import hamming
from manihash.types import Ids
from manihash.web.explore.coded import CodedRows
from manihash.web.explore.exploration import Exploration
from manihash.web.explore.rows import NO_LABEL, ExploredRows

QUERIES = 200
DEPTHS = (10, 50, 100)


@dataclass(frozen=True, eq=False)
class RadiusCounts:
    """For each radius of a look-up the means over the queries; shares are NaN without labels."""

    answers: NDArray[np.float64]
    precision: NDArray[np.float64]  # over the queries that have an answer
    recall: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AnswerShares:
    """Shares of the first answers by depth: with the query's label, and among as many nearest vectors."""

    right_by_code: tuple[float, ...]
    right_by_vectors: tuple[float, ...]
    shared: tuple[float, ...]
    depths: tuple[int, ...]
    # Half the width of a 95 % interval of each of the three, at the first depth; NaN for a single query.
    errors: tuple[float, float, float]


def sampled_queries(rows: ExploredRows, most: int = QUERIES) -> Ids:
    """Rows at equal distances, at most ``most``."""
    return np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64))


def radius_counts(exploration: Exploration, model: CodedRows, queries: Ids) -> RadiusCounts:
    """Number of answers, precision and recall within each radius; the query itself is left out."""
    codes, most = model.look_up_codes, model.look_up_bits
    found = np.zeros((len(queries), most + 1))
    right = np.zeros_like(found)
    labels = exploration.rows.labels
    for i, row in enumerate(queries.tolist()):
        distance = hamming(codes[row : row + 1], codes)[0].astype(np.int64)
        found[i] = np.bincount(distance, minlength=most + 1)
        found[i, 0] -= 1
        if labels is not None and labels.numbers[row] != NO_LABEL:
            same = labels.numbers == labels.numbers[row]
            right[i] = np.bincount(distance[same], minlength=most + 1)
            right[i, 0] -= 1
    found, right = found.cumsum(axis=1), right.cumsum(axis=1)
    precision, recall = np.full((2, most + 1), np.nan)
    if labels is not None:
        known = labels.numbers[queries] != NO_LABEL
        precision = _mean(right[known], found[known])
        recall = _mean(right[known], np.broadcast_to(right[known, -1:], right[known].shape))
    return RadiusCounts(found.mean(axis=0), precision, recall)


def first_answers(exploration: Exploration, model: CodedRows, queries: Ids) -> AnswerShares:
    """Shares of right and shared answers among the first, by code and by vectors."""
    rows, labels = exploration.rows, exploration.rows.labels
    depths = tuple(depth for depth in DEPTHS if depth < len(rows)) or (len(rows) - 1,)
    by_code: list[list[float]] = []
    by_vectors: list[list[float]] = []
    shared: list[list[float]] = []
    for row in queries.tolist():
        near = rows.nearest(rows.vectors([row])[0], depths[-1], without=row)[0]
        coded = answers_by_code(model, row, depths[-1])
        shared.append([len(np.intersect1d(near[:d], coded[:d])) / d for d in depths])
        if labels is not None and labels.numbers[row] != NO_LABEL:
            for ids, shares in ((coded, by_code), (near, by_vectors)):
                right = labels.numbers[ids] == labels.numbers[row]
                shares.append([right[:d].mean() for d in depths])
    errors = _error(by_code), _error(by_vectors), _error(shared)
    return AnswerShares(_columns(by_code), _columns(by_vectors), _columns(shared), depths, errors)


def answers_by_code(model: CodedRows, row: int, k: int) -> Ids:
    """The k rows whose codes are nearest to that of a row, without itself."""
    ids: Any = model.index.search(model.codes[row : row + 1], min(k + 1, len(model.codes)))[1][0]
    return ids[ids != row][:k]


def _mean(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over the queries of part / whole where the whole is not 0; NaN where it is 0 for all."""
    valid = whole > 0
    shares = np.divide(part, whole, out=np.zeros_like(part), where=valid)
    count = valid.sum(axis=0)
    return np.divide(shares.sum(axis=0), count, out=np.full(part.shape[1], np.nan), where=count > 0)


def _error(shares: list[list[float]]) -> float:
    """Half the width of a 95 % interval of the mean of the first shares."""
    first = np.array([share[0] for share in shares])
    return float(1.96 * first.std(ddof=1) / np.sqrt(len(first))) if len(first) > 1 else float("nan")


def _columns(shares: list[list[float]]) -> tuple[float, ...]:
    return tuple(np.mean(shares, axis=0).tolist()) if shares else ()
