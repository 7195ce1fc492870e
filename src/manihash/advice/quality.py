"""Quality of codes on a sample: first answers with and without re-ranking, the ranking, look-up by radius.

Everything follows from the number of rows at each distance. Ties are in random order: all values are exact
expectations, as in ``manihash.evaluation``. Every value is known for all queries and for groups of queries:
the groups say how far a value is from that of other queries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.code_tables import table_distances
from manihash.codes import hamming
from manihash.compute.largest import query_block
from manihash.evaluation import metrics
from manihash.evaluation.first_answers import NeighborTruth, expected_hits
from manihash.evaluation.truth import Truth
from manihash.hashers._hasher import Hasher
from manihash.types import Codes, Floats, Mask

SHORTLIST = 10  # rows that are re-ranked per answer
GROUPS = 10  # groups of queries


@dataclass(frozen=True)
class Truths:
    """What the answers are compared with: relevant rows, and the ten and the hundred nearest rows.

    ``nearest`` has the nearest 2 % of the rows if the relevant rows are not known from labels.
    """

    relevant: Truth
    ten: NeighborTruth
    hundred: NeighborTruth
    nearest: Truth | None = None

    def masks(self, start: int, stop: int) -> list[Mask]:
        """The rows of each kind for some queries, (stop - start, n) each."""
        kinds = (self.relevant, self.ten, self.hundred, self.nearest)
        return [truth.relevant(start, stop) for truth in kinds if truth is not None]


@dataclass(frozen=True, eq=False)
class LookUpByRadius:
    """Means over the queries within each radius 0 … n_bits, (n_bits + 1,) each."""

    returned: Floats  # rows
    empty: Floats  # share of the queries without an answer
    recall: Floats  # of the ten nearest rows
    relevant_precision: Floats
    relevant_recall: Floats
    nearest_precision: Floats | None = None  # of the nearest 2 %
    nearest_recall: Floats | None = None


@dataclass(frozen=True, eq=False)
class CopiesFound:
    """Share of the planted copies whose original is within each radius, and rows within it: (n_bits + 1,)."""

    found: Floats
    returned: Floats


@dataclass(frozen=True, eq=False)
class Quality:
    """Means over the queries of a sample: values from 0 to 1."""

    lookup: LookUpByRadius | None
    map: float  # of the relevant rows
    precision_at_10: float  # share of relevant rows
    recall_at_10: float
    recall_at_10_reranked: float
    recall_at_100: float
    recall_at_100_reranked: float
    nearest_map: float | None = None  # as map and precision_at_10, of the nearest 2 %
    nearest_precision_at_10: float | None = None
    copies: CopiesFound | None = None


@dataclass(frozen=True, eq=False)
class Qualities:
    """The quality over all queries, and over each of several groups of them."""

    whole: Quality
    groups: tuple[Quality, ...]


def quality_of(hasher: Hasher, codes: Codes, Q: Any, truths: Truths) -> Qualities:
    """Quality of the codes (n, b) of a database for queries Q (q, d), ranked as an index ranks them."""
    layout, queries = hasher.layout_, hasher.encode(Q)
    if layout.has_fields:
        return quality_of_words(queries, hasher.embed(Q), codes, truths, layout)
    return quality_of_codes(queries, codes, truths, layout)


def quality_of_codes(queries: Codes, codes: Codes, truths: Truths, layout: CodeLayout) -> Qualities:
    """Quality of the codes (n, b) of a database for the codes (q, b) of queries, whose parts are signs."""
    ranks, radii = [], []
    for start, stop in _blocks(len(queries), len(codes)):
        masks = truths.masks(start, stop)
        first = hamming(layout.first(queries[start:stop]), layout.first(codes))
        found = _Histograms(first, masks, layout.look_up_bits)
        radii.append(found.within_radii())
        if not layout.is_hamming:
            found = _Histograms(layout.levels(queries[start:stop], codes), masks, layout.n_levels - 1)
        ranks.append(found.ranking())
    return _grouped(np.hstack(ranks), np.concatenate(radii, axis=1))


def quality_of_words(
    queries: Codes, values: Floats, codes: Codes, truths: Truths, layout: CodeLayout
) -> Qualities:
    """Quality of codes (n, b) with fields, for the codes (q, b) and real values (q, v) of queries."""
    split = layout.split(codes)

    def distances(start: int, stop: int) -> Floats:
        return table_distances(layout.tables(values[start:stop]), split)

    first = None
    if layout.look_up_bits:
        first = layout.first(queries), layout.first(codes), layout.look_up_bits
    return quality_of_ranking(distances, truths, first)


def quality_of_ranking(
    distances: Callable[[int, int], Floats], truths: Truths, first: tuple[Codes, Codes, int] | None = None
) -> Qualities:
    """Quality of a ranking by real distances (stop - start, n) to the queries from start to stop.

    ``first`` has the codes of queries and rows that are looked up, and their length.
    """
    ranks, radii = [], []
    for start, stop in _blocks(*truths.ten.shape):
        masks = truths.masks(start, stop)
        rows = zip(distances(start, stop), *masks, strict=True)
        ranks.append(np.array([_ranking(distance, kinds) for distance, *kinds in rows]).T)
        if first is not None:
            queries, codes, n_bits = first
            radii.append(_Histograms(hamming(queries[start:stop], codes), masks, n_bits).within_radii())
    return _grouped(np.hstack(ranks), np.concatenate(radii, axis=1) if radii else None)


def mean_quality(qualities: Sequence[Any]) -> Any:
    """The mean of qualities, or of parts of them, field by field; None where a field is None."""
    one = qualities[0]
    if one is None or isinstance(one, float | np.ndarray):
        mean = None if one is None else np.mean(qualities, axis=0)
        return float(mean) if isinstance(one, float) else mean  # type: ignore[arg-type]
    values = {each.name: [getattr(quality, each.name) for quality in qualities] for each in fields(one)}
    return type(one)(**{name: mean_quality(value) for name, value in values.items()})


def _blocks(q: int, n: int) -> list[tuple[int, int]]:
    step = query_block(n)
    return [(start, min(start + step, q)) for start in range(0, q, step)]


def _grouped(ranks: Floats, radii: Floats | None) -> Qualities:
    """The quality from values (measures, q) of the ranking and (measures, q, radii) of a look-up."""

    def over(some: slice) -> Quality:
        lookup = None if radii is None else LookUpByRadius(*radii[:, some].mean(axis=1))
        return Quality(lookup, *(min(1.0, value) for value in ranks[:, some].mean(axis=1).tolist()))

    number = min(GROUPS, ranks.shape[1])
    return Qualities(over(slice(None)), tuple(over(slice(g, None, number)) for g in range(number)))


def _ranking(distance: Floats, kinds: Sequence[Mask]) -> list[float]:
    """The measures of the ranking of rows by real distances (n,) for the kinds of relevant rows (n,)."""
    order = np.argsort(distance, kind="stable")
    ordered, n = distance[order], len(distance)
    sorted_kinds = [kind[order] for kind in kinds]
    relevant, near, nearer, *nearest = [np.concatenate([[0], np.cumsum(kind)]) for kind in sorted_kinds]

    def hits(count: Any, k: int) -> float:
        """Expected hits among the first k rows: the tie at the k-th place is in random order."""
        k = min(k, n)
        low, high = (int(np.searchsorted(ordered, ordered[k - 1], side)) for side in ("left", "right"))
        return float(count[low] + (count[high] - count[low]) * (k - low) / (high - low))

    def ap(kind: Mask) -> float:
        return metrics.ap_of_ranks(np.flatnonzero(kind) + 1)

    found = [hits(near, 10), hits(near, 10 * SHORTLIST), hits(nearer, 100), hits(nearer, 100 * SHORTLIST)]
    shares = np.array(found) / [near[-1], near[-1], nearer[-1], nearer[-1]]
    first = [hits(count, 10) / min(10, n) for count in (relevant, *nearest)]
    values = [ap(sorted_kinds[0]), first[0], *shares.tolist()]
    return values + ([ap(sorted_kinds[3]), first[1]] if nearest else [])


class _Histograms:
    """Numbers (b, levels) of rows, relevant rows, and true neighbors at each distance to some queries."""

    def __init__(self, distance: NDArray[Any], masks: list[Any], largest: int) -> None:
        pairs = [metrics.histograms(distance, mask, largest) for mask in masks]
        self.all = pairs[0][0]
        self.relevant, self.ten, self.hundred = (hits for _, hits in pairs[:3])
        self.nearest = pairs[3][1] if len(pairs) > 3 else None

    def ranking(self) -> Floats:
        """The measures of the ranking, (measures, b)."""
        n = int(self.all[0].sum())
        ten, hundred = min(10, n), min(100, n)
        values = [
            metrics.expected_ap(self.all, self.relevant),
            expected_hits(self.all, self.relevant, ten) / ten,
            expected_hits(self.all, self.ten, ten) / ten,
            expected_hits(self.all, self.ten, SHORTLIST * ten) / self.ten.sum(axis=1),
            expected_hits(self.all, self.hundred, hundred) / hundred,
            expected_hits(self.all, self.hundred, SHORTLIST * hundred) / self.hundred.sum(axis=1),
        ]
        if self.nearest is not None:
            values.append(metrics.expected_ap(self.all, self.nearest))
            values.append(expected_hits(self.all, self.nearest, ten) / ten)
        return np.stack(values)

    def within_radii(self) -> Floats:
        """The measures of a look-up within each radius, (measures, b, radii)."""
        inside = np.cumsum(self.all, axis=1)
        precision, recall = metrics.within_radii(self.all, self.relevant)
        near = metrics.within_radii(self.all, self.ten)[1]
        parts = [inside, inside == 0, near, precision, recall]
        if self.nearest is not None:
            parts += metrics.within_radii(self.all, self.nearest)
        return np.stack(parts).astype(np.float64)
