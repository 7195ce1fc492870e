"""How good codes are: what a ranking or a look-up by Hamming distance finds, against a truth.

The functions on a block take distances (b, n) and relevance (b, n), rows in database order, and give a number
for each of the b queries, or a curve that is their mean. ``evaluate`` visits all queries in such blocks. A
ranking is by distance, ties in database order, as the paper's authors rank. A query without any relevant row
counts 0 in every measure.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes, hamming
from manihash.evaluation.truth import EuclideanScan, Truth, query_block
from manihash.progress import advance

_log = logging.getLogger(__name__)

_ROUNDING = 1e-9  # of a sum of recalls: the last of a million shares does not always make 1

Floats = NDArray[np.float64]
Distances = NDArray[Any]  # (b, n), whole numbers where a function counts ties
Relevance = NDArray[np.bool_]  # (b, n)


@dataclass(frozen=True, eq=False)
class Curves:
    """Means over the queries: at every rank N = 1 … n, and within every radius 0 … n_bits."""

    precision_at: Floats  # (n,)
    recall_at: Floats  # (n,)
    precision_within: Floats  # (n_bits + 1,)
    recall_within: Floats  # (n_bits + 1,)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One line of a table; every number between 0 and 1."""

    map: float  # ties in database order
    map_ties: float  # its expectation over random order inside each tie
    precision: float  # within the radius
    recall: float
    f1: float  # of the two means above
    curves: Curves | None = None


@dataclass(frozen=True, eq=False)
class LookUp:
    """What a look-up within every radius 0 … n_bits finds: means over the queries."""

    precision: Floats  # (n_bits + 1,)
    recall: Floats  # (n_bits + 1,)
    map_ties: float  # tie-aware MAP, which needs no ranking of rows


def evaluate(
    query_codes: ArrayLike,
    codes: ArrayLike,
    truth: Truth,
    n_bits: int,
    radius: int = 2,
    *,
    curves: bool = False,
    block: int | None = None,
) -> Evaluation:
    """Ranking and look-up of all queries, in one pass over blocks of them.

    ``curves`` adds precision and recall at every rank and within every radius. ``block`` is the number of
    queries held at once (by default about 16 million pairs); it changes no digit of the answer.
    """
    n_bits, radius = positive_int(n_bits, "n_bits"), positive_int(radius, "radius", least=0)
    queries, database = check_codes(query_codes, n_bits, "query codes"), check_codes(codes, n_bits)
    q, n = _agree(truth, (len(queries), len(database)))
    block = query_block(n) if block is None else positive_int(block, "block")
    ap, ap_ties = np.empty(q), np.empty(q)
    precision, recall = np.empty((q, n_bits + 1)), np.empty((q, n_bits + 1))
    curve = _RankCurve(n) if curves else None
    for start in range(0, q, block):
        rows = slice(start, min(start + block, q))
        distance, relevant = hamming(queries[rows], database), truth.relevant(start, rows.stop)
        retrieved, hits = _histograms(distance, relevant, n_bits)
        ap_ties[rows] = _expected_ap(retrieved, hits)
        precision[rows], recall[rows] = _within(retrieved, hits)
        for i, ranks in enumerate(_relevant_ranks(distance, relevant), start):
            ap[i] = _ap(ranks)
            if curve:
                curve.add(ranks)
        advance("evaluation", rows.stop, q)
    within = precision.mean(axis=0), recall.mean(axis=0)
    p, r = (float(curve_within[min(radius, n_bits)]) for curve_within in within)
    found = Curves(*curve.means(q), *within) if curve else None
    return Evaluation(float(ap.mean()), float(ap_ties.mean()), p, r, f1(p, r), found)


def evaluate_lookup(query_codes: ArrayLike, codes: ArrayLike, truth: Truth, n_bits: int) -> LookUp:
    """Look-up within every radius, from counts of rows at each distance: nothing is sorted.

    On a million rows this is several times faster than ``evaluate``.
    """
    n_bits = positive_int(n_bits, "n_bits")
    queries, database = check_codes(query_codes, n_bits, "query codes"), check_codes(codes, n_bits)
    q, n = _agree(truth, (len(queries), len(database)))
    precision, recall, ap_ties = np.zeros(n_bits + 1), np.zeros(n_bits + 1), 0.0
    for start in range(0, q, query_block(n)):
        stop = min(start + query_block(n), q)
        counts = _histograms(hamming(queries[start:stop], database), truth.relevant(start, stop), n_bits)
        within = _within(*counts)
        precision += within[0].sum(axis=0)
        recall += within[1].sum(axis=0)
        ap_ties += float(_expected_ap(*counts).sum())
        advance("look-up", stop, q)
    return LookUp(precision / q, recall / q, ap_ties / q)


def evaluate_scan(Q: ArrayLike, X: ArrayLike, truth: Truth) -> float:
    """MAP of the exhaustive l2 scan: rows of X (n, d) ranked by Euclidean distance to the queries (q, d)."""
    scan = EuclideanScan(Q, X)
    ap = np.empty(_agree(truth, scan.shape)[0])
    for rows, keys in scan.blocks("l2 scan"):
        ap[rows] = average_precision(keys, truth.relevant(rows.start, rows.stop))
    return float(ap.mean())


def average_precision(distance: Distances, relevant: Relevance) -> Floats:
    """AP of each query: mean over its R relevant rows of the precision at their ranks, 1/R Σ_i i / rank_i.

    The whole database is ranked by distance, ties in database order.
    """
    _check_block(distance, relevant)
    return np.array([_ap(ranks) for ranks in _relevant_ranks(distance, relevant)], np.float64)


def tie_aware_average_precision(distance: Distances, relevant: Relevance) -> Floats:
    """AP of each query in expectation over random order inside each tie (McSherry & Najork 2008), exactly."""
    _check_block(distance, relevant)
    _check_whole(distance)
    return _expected_ap(*_histograms(distance, relevant, int(distance.max())))


def precision_recall_at(distance: Distances, relevant: Relevance) -> tuple[Floats, Floats]:
    """Precision@N and recall@N, means over the queries, for N = 1 … n: two arrays (n,)."""
    _check_block(distance, relevant)
    curve = _RankCurve(distance.shape[1])
    for ranks in _relevant_ranks(distance, relevant):
        curve.add(ranks)
    return curve.means(len(distance))


def precision_recall_within(distance: Distances, relevant: Relevance, n_bits: int) -> tuple[Floats, Floats]:
    """The precision-recall curve over Hamming radii 0 … n_bits, means over the queries: two (n_bits + 1,)."""
    _check_block(distance, relevant)
    _check_whole(distance, n_bits)
    precision, recall = _within(*_histograms(distance, relevant, n_bits))
    return precision.mean(axis=0), recall.mean(axis=0)


def precision_at_recall(precision: Floats, recall: Floats, levels: ArrayLike) -> Floats:
    """The precision-recall curve at fixed levels: precision where recall first reaches each of them.

    ``precision`` and ``recall`` are those at ranks 1 … n, so recall never falls; a level that it never
    reaches has precision 0.
    """
    rank = np.searchsorted(recall, np.asarray(levels, np.float64) - _ROUNDING)
    return np.append(precision, 0.0)[rank]


def lookup(distance: Distances, relevant: Relevance, radius: int = 2) -> tuple[Floats, Floats]:
    """Precision and recall of each query within the radius; 0 and 0 where nothing is retrieved: two (b,)."""
    _check_block(distance, relevant)
    near = distance <= radius
    hits = np.count_nonzero(near & relevant, axis=1)
    return _ratio(hits, near.sum(axis=1)), _ratio(hits, relevant.sum(axis=1))


def f1(precision: float, recall: float) -> float:
    """F1 = 2PR / (P + R), 0 if both are. The authors take it of the two means over the queries."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def recall_at_k(ids: ArrayLike, nearest: ArrayLike) -> Floats:
    """Share of a query's true k nearest rows (q, k) that are among the rows found (q, any number): (q,)."""
    found, true = np.asarray(ids, np.int64), np.asarray(nearest, np.int64)
    if found.ndim != 2 or true.ndim != 2 or len(found) != len(true) or not true.size:
        raise ValueError(
            f"ids and nearest must be 2-D, one row a query, the same queries in both: "
            f"{found.shape} and {true.shape} came"
        )
    return np.array([np.isin(t, f).mean() for f, t in zip(found, true, strict=True)])


class _RankCurve:
    """Sums over queries of what is gained at each rank; their running sums are the curves."""

    def __init__(self, n: int) -> None:
        self._hits = np.zeros(n, np.int64)
        self._gain = np.zeros(n)  # 1/R where a query with R relevant rows has one

    def add(self, ranks: NDArray[np.int64]) -> None:
        self._hits[ranks - 1] += 1
        self._gain[ranks - 1] += 1 / max(1, len(ranks))

    def means(self, q: int) -> tuple[Floats, Floats]:
        N = np.arange(1, len(self._hits) + 1)
        return np.cumsum(self._hits) / (N * q), np.cumsum(self._gain) / q


def _relevant_ranks(distance: Distances, relevant: Relevance) -> Iterator[NDArray[np.int64]]:
    """For each query the ranks, from 1, of its relevant rows. (For 16-bit distances the sort is linear.)"""
    for d, is_relevant in zip(distance, relevant, strict=True):
        yield np.flatnonzero(is_relevant[np.argsort(d, kind="stable")]) + 1


def _ap(ranks: NDArray[np.int64]) -> float:
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0


def _histograms(
    distance: Distances, relevant: Relevance, largest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows, and relevant rows, at each distance 0 … largest: two (b, largest + 1)."""
    counts = np.empty((len(distance), largest + 1, 2), np.int64)
    for d, is_relevant, out in zip(distance, relevant, counts, strict=True):
        out[:] = np.bincount(2 * d.astype(np.int64) + is_relevant, minlength=out.size).reshape(out.shape)
    return counts.sum(axis=2), counts[:, :, 1]


def _expected_ap(retrieved: NDArray[np.int64], hits: NDArray[np.int64]) -> Floats:
    """Tie-aware AP from the histograms.

    A tie of t rows, s of them relevant, behind N rows, M of them relevant, is expected to add
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


def _within(retrieved: NDArray[np.int64], hits: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Precision and recall of each query within each radius, from the histograms: two (b, n_bits + 1)."""
    inside = np.cumsum(hits, axis=1)
    return _ratio(inside, np.cumsum(retrieved, axis=1)), _ratio(inside, inside[:, -1:])


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """part / whole, 0 where whole is 0 (part then is too)."""
    return part / np.maximum(whole, 1)


def _check_block(distance: Distances, relevant: Relevance) -> None:
    if distance.ndim != 2 or not distance.size or distance.shape != relevant.shape or relevant.dtype != bool:
        raise ValueError(
            "distances and relevance must be 2-D, of one shape and not empty, relevance of bool: "
            f"{distance.shape} and {relevant.shape} of {relevant.dtype} came"
        )


def _check_whole(distance: Distances, largest: int | None = None) -> None:
    if distance.dtype.kind not in "iu" or distance.min() < 0:
        raise ValueError("distances must be whole numbers of at least 0 here, as hamming() gives them")
    if largest is not None and distance.max() > largest:
        raise ValueError(
            f"a distance of {distance.max()} between codes of {largest} bits: "
            "give the n_bits that the codes were made with"
        )


def _agree(truth: Truth, shape: tuple[int, int]) -> tuple[int, int]:
    """The shape, if the truth is about as many queries and rows; a warning if it is empty for some query."""
    if truth.shape != shape or not all(shape):
        raise ValueError(
            f"{shape[0]} queries and {shape[1]} rows came with a truth for {truth.shape[0]} and "
            f"{truth.shape[1]}: both must be the same, in the same order, at least one of each"
        )
    without = int(np.count_nonzero(truth.counts == 0))
    if without:
        _log.warning("%d of %d queries have no relevant row and count 0 in every mean", without, shape[0])
    return shape
