"""Quality of codes on a sample: first answers with and without rescoring, the ranking, and look-up by radius.

Everything follows from the number of rows at each distance. Ties are in random order: all values are exact
expectations, as in ``manihash.evaluation``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.code_layout import CodeLayout
from manihash.code_tables import table_distances
from manihash.codes import hamming
from manihash.compute.largest import query_block
from manihash.evaluation import metrics
from manihash.evaluation.first_answers import NeighborTruth, expected_hits, expected_hits_ranked
from manihash.evaluation.truth import Truth
from manihash.hashers._hasher import Hasher
from manihash.types import Codes, Floats, Ints, Mask

SHORTLIST = 10  # rows that are rescored per answer


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
class Quality:
    """Means over the queries of a sample: values from 0 to 1."""

    lookup: LookUpByRadius | None
    map: float  # of the relevant rows
    precision_at_10: float  # share of relevant rows
    recall_at_10: float
    recall_at_10_rescored: float
    recall_at_100: float
    recall_at_100_rescored: float
    nearest_map: float | None = None  # as map and precision_at_10, of the nearest 2 %
    nearest_precision_at_10: float | None = None


def quality_of_codes(queries: Codes, codes: Codes, truths: Truths, layout: CodeLayout) -> Quality:
    """Quality of the codes (n, b) of a database for the codes (q, b) of queries, whose parts are signs."""
    (q, n), ranks, radii = (len(queries), len(codes)), _Sums(), _LookUpSums()
    for start in range(0, q, query_block(n)):
        stop = min(start + query_block(n), q)
        masks = truths.masks(start, stop)
        first = hamming(layout.first(queries[start:stop]), layout.first(codes))
        found = _Histograms(first, masks, layout.look_up_bits)
        radii.add(found)
        if not layout.is_hamming:
            found = _Histograms(layout.levels(queries[start:stop], codes), masks, layout.n_levels - 1)
        ranks.add(found)
    return Quality(radii.means(q), *ranks.means(q))


def quality_of(hasher: Hasher, codes: Codes, Q: Any, truths: Truths) -> Quality:
    """Quality of the codes (n, b) of a database for queries Q (q, d), ranked as an index ranks them."""
    layout, queries = hasher.layout_, hasher.encode(Q)
    if layout.has_fields:
        return quality_of_words(queries, hasher.embed(Q), codes, truths, layout)
    return quality_of_codes(queries, codes, truths, layout)


def quality_of_words(
    queries: Codes, values: Floats, codes: Codes, truths: Truths, layout: CodeLayout
) -> Quality:
    """Quality of codes (n, b) with fields, for the codes (q, b) and real values (q, v) of queries."""
    split = layout.split(codes)

    def distances(start: int, stop: int) -> Floats:
        return table_distances(layout.tables(values[start:stop]), split)

    ranking = quality_of_ranking(distances, truths)
    if not layout.look_up_bits:
        return ranking
    first = CodeLayout(layout.look_up_bits)
    look_up = quality_of_codes(layout.first(queries), layout.first(codes), truths, first)
    return replace(ranking, lookup=look_up.lookup)


def quality_of_ranking(distances: Callable[[int, int], Floats], truths: Truths) -> Quality:
    """Quality of a ranking by real distances (stop - start, n) to the queries from start to stop."""
    (q, n), sums = truths.ten.shape, np.zeros(6 if truths.nearest is None else 8)
    ten, hundred = min(10, n), min(100, n)
    for start in range(0, q, query_block(n)):
        stop = min(start + query_block(n), q)
        distance, (relevant, near, nearer, *nearest) = distances(start, stop), truths.masks(start, stop)
        depths = [(near, ten), (near, SHORTLIST * ten), (nearer, hundred), (nearer, SHORTLIST * hundred)]
        found = [expected_hits_ranked(distance, mask, min(k, n)) / mask.sum(axis=1) for mask, k in depths]
        first = [expected_hits_ranked(distance, mask, ten) / ten for mask in (relevant, *nearest)]
        ap = [metrics.average_precision(distance, mask) for mask in (relevant, *nearest)]
        sums += [each.sum() for each in (ap[0], first[0], *found, *ap[1:], *first[1:])]
    return Quality(None, *(min(1.0, value) for value in (sums / q).tolist()))


class _Histograms:
    """Numbers (b, levels) of rows, relevant rows, and true neighbors at each distance to some queries."""

    def __init__(self, distance: NDArray[Any], masks: list[Any], largest: int) -> None:
        pairs = [metrics.histograms(distance, mask, largest) for mask in masks]
        self.all = pairs[0][0]
        self.relevant, self.ten, self.hundred = (hits for _, hits in pairs[:3])
        self.nearest = pairs[3][1] if len(pairs) > 3 else None


class _Sums:
    """Sums over queries of the measures of the ranking."""

    def __init__(self) -> None:
        self._sums: Floats | float = 0.0

    def add(self, found: _Histograms) -> None:
        n = int(found.all[0].sum())
        ten, hundred = min(10, n), min(100, n)
        near, nearer = found.hundred, found.ten
        sums = [
            metrics.expected_ap(found.all, found.relevant).sum(),
            expected_hits(found.all, found.relevant, ten).sum() / ten,
            (expected_hits(found.all, nearer, ten) / ten).sum(),
            (expected_hits(found.all, nearer, SHORTLIST * ten) / nearer.sum(axis=1)).sum(),
            (expected_hits(found.all, near, hundred) / hundred).sum(),
            (expected_hits(found.all, near, SHORTLIST * hundred) / near.sum(axis=1)).sum(),
        ]
        if found.nearest is not None:
            sums.append(metrics.expected_ap(found.all, found.nearest).sum())
            sums.append(expected_hits(found.all, found.nearest, ten).sum() / ten)
        self._sums = self._sums + np.array(sums)

    def means(self, q: int) -> list[float]:
        return [min(1.0, float(value)) for value in np.asarray(self._sums) / q]


class _LookUpSums:
    """Sums over queries of the measures of a look-up within each radius."""

    def __init__(self) -> None:
        self._sums: Floats | None = None

    def add(self, found: _Histograms) -> None:
        inside: Ints = np.cumsum(found.all, axis=1)
        precision, recall = metrics.within_radii(found.all, found.relevant)
        near = metrics.within_radii(found.all, found.ten)[1]
        parts = [inside, inside == 0, near, precision, recall]
        if found.nearest is not None:
            parts += metrics.within_radii(found.all, found.nearest)
        sums = np.stack([part.sum(axis=0) for part in parts])
        self._sums = sums if self._sums is None else self._sums + sums

    def means(self, q: int) -> LookUpByRadius:
        assert self._sums is not None
        return LookUpByRadius(*(self._sums / q))
