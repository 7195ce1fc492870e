"""Metrics of retrieval on one block of queries, against a ground truth.

Most functions take distances (b, n) and relevance (b, n), with columns in database order, and return one
number per query or a curve of means over the queries. Rows are ranked by distance, with ties in database
order, as the paper's authors rank them. A query without relevant rows scores 0 in every metric.
``manihash.evaluation.harness`` applies these functions to all queries, block by block.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from manihash.types import Floats, Ids, Ints, Mask

_ROUNDING = 1e-9  # of a sum of recalls, which may end just below 1


def average_precision(distance: Floats, relevant: Mask) -> Floats:
    """AP of each query (b,): the mean precision at the ranks of its R relevant rows, 1/R Σ_i i / rank_i."""
    _check_block(distance, relevant)
    return np.array([ap_of_ranks(ranks) for ranks in relevant_ranks(distance, relevant)], np.float64)


def tie_aware_average_precision(distance: Floats, relevant: Mask) -> Floats:
    """Exact expectation of each query's AP (b,) over random order inside ties (McSherry & Najork 2008)."""
    _check_block(distance, relevant)
    _check_whole(distance)
    return expected_ap(*histograms(distance, relevant, int(distance.max())))


def precision_recall_at(distance: Floats, relevant: Mask) -> tuple[Floats, Floats]:
    """Precision@N and recall@N for N = 1 … n, means over the queries: two arrays (n,)."""
    _check_block(distance, relevant)
    curve = RankCurve(distance.shape[1])
    for ranks in relevant_ranks(distance, relevant):
        curve.add(ranks)
    return curve.means(len(distance))


def precision_recall_within(distance: Floats, relevant: Mask, n_bits: int) -> tuple[Floats, Floats]:
    """Precision and recall within every Hamming radius, means over the queries: two arrays (n_bits + 1,)."""
    _check_block(distance, relevant)
    _check_whole(distance, n_bits)
    precision, recall = within_radii(*histograms(distance, relevant, n_bits))
    return precision.mean(axis=0), recall.mean(axis=0)


def precision_at_recall(precision: Floats, recall: Floats, levels: ArrayLike) -> Floats:
    """Precision at the first rank where recall reaches each level; 0 for a level that it never reaches.

    ``precision`` and ``recall`` (n,) are those at ranks 1 … n, so recall never decreases.
    """
    rank = np.searchsorted(recall, np.asarray(levels, np.float64) - _ROUNDING)
    return np.append(precision, 0.0)[rank]


def lookup(distance: Floats, relevant: Mask, radius: int = 2) -> tuple[Floats, Floats]:
    """Precision and recall of each query within the radius, 0 if nothing is retrieved: two arrays (b,)."""
    _check_block(distance, relevant)
    near = distance <= radius
    hits = np.count_nonzero(near & relevant, axis=1)
    return _ratio(hits, near.sum(axis=1)), _ratio(hits, relevant.sum(axis=1))


def f1(precision: float, recall: float) -> float:
    """F1 = 2PR / (P + R), or 0 if both are 0. The authors compute it from the means over the queries."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def recall_at_k(ids: ArrayLike, nearest: ArrayLike) -> Floats:
    """Share of each query's true k nearest rows (q, k) that are among its rows found (q, any): (q,)."""
    found, true = np.asarray(ids, np.int64), np.asarray(nearest, np.int64)
    if found.ndim != 2 or true.ndim != 2 or len(found) != len(true) or not true.size:
        raise ValueError(
            f"ids and nearest must be 2-D, with one row per query and the same queries in both, "
            f"got {found.shape} and {true.shape}"
        )
    return np.array([np.isin(t, f).mean() for f, t in zip(found, true, strict=True)])


class RankCurve:
    """Precision and recall at every rank, accumulated query by query."""

    def __init__(self, n: int) -> None:
        self._hits = np.zeros(n, np.int64)
        self._gain = np.zeros(n)  # 1/R at the ranks of a query's R relevant rows

    def add(self, ranks: Ids) -> None:
        """Add a query, given the ranks of its relevant rows."""
        self._hits[ranks - 1] += 1
        self._gain[ranks - 1] += 1 / max(1, len(ranks))

    def means(self, q: int) -> tuple[Floats, Floats]:
        """Precision and recall at ranks 1 … n, means over q queries: two arrays (n,)."""
        N = np.arange(1, len(self._hits) + 1)
        return np.cumsum(self._hits) / (N * q), np.cumsum(self._gain) / q


def relevant_ranks(distance: Floats, relevant: Mask) -> Iterator[Ids]:
    """Ranks, from 1, of the relevant rows of each query in turn."""
    for d, is_relevant in zip(distance, relevant, strict=True):
        yield np.flatnonzero(is_relevant[np.argsort(d, kind="stable")]) + 1  # linear for 16-bit distances


def ap_of_ranks(ranks: Ids) -> float:
    """AP of a query, given the ranks of its relevant rows."""
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0


def histograms(distance: Floats, relevant: Mask, largest: int) -> tuple[Ints, Ints]:
    """Number of rows, and of relevant rows, at each distance 0 … largest: two arrays (b, largest + 1)."""
    counts = np.empty((len(distance), largest + 1, 2), np.int64)
    for d, is_relevant, out in zip(distance, relevant, counts, strict=True):
        out[:] = np.bincount(2 * d.astype(np.int64) + is_relevant, minlength=out.size).reshape(out.shape)
    return counts.sum(axis=2), counts[:, :, 1]


def expected_ap(retrieved: Ints, hits: Ints) -> Floats:
    """Tie-aware AP (b,) from the histograms.

    A tie of t rows, s of them relevant, that follows N rows, M of them relevant, is expected to add
    s/t Σ_{j=1..t} (M + 1 + (j - 1) a) / (N + j) with a = (s - 1) / (t - 1), to the sum of precisions.
    With h = Σ_j 1 / (N + j) this is s/t ((M + 1) h + a (t - (N + 1) h)).
    """
    t, s = retrieved, hits
    N, M = np.cumsum(t, axis=1) - t, np.cumsum(s, axis=1) - s
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, t[0].sum() + 1))])
    h = harmonic[N + t] - harmonic[N]
    a = (s - 1) / np.maximum(t - 1, 1)
    gain = _ratio(s, t) * ((M + 1) * h + a * (t - (N + 1) * h))
    return _ratio(gain.sum(axis=1), s.sum(axis=1))


def within_radii(retrieved: Ints, hits: Ints) -> tuple[Floats, Floats]:
    """Precision and recall of each query within each radius, from the histograms: two (b, n_bits + 1)."""
    inside = np.cumsum(hits, axis=1)
    return _ratio(inside, np.cumsum(retrieved, axis=1)), _ratio(inside, inside[:, -1:])


def _ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, or 0 where whole is 0 (part is 0 there, too)."""
    return part / np.maximum(whole, 1)


def _check_block(distance: Floats, relevant: Mask) -> None:
    if distance.ndim != 2 or not distance.size or distance.shape != relevant.shape or relevant.dtype != bool:
        raise ValueError(
            "distances and relevance must be 2-D, of one shape and not empty, with relevance of bool, "
            f"got {distance.shape} and {relevant.shape} of {relevant.dtype}"
        )


def _check_whole(distance: Floats, largest: int | None = None) -> None:
    if distance.dtype.kind not in "iu" or distance.min() < 0:
        raise ValueError("distances must be whole numbers of at least 0, as hamming() returns them")
    if largest is not None and distance.max() > largest:
        raise ValueError(
            f"got a distance of {distance.max()} between codes of {largest} bits: "
            "pass the n_bits that the codes were made with"
        )
