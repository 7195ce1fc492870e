"""The evaluation harness: codes, rankings and hashers measured on a database, queries and a ground truth.

``evaluate`` measures a fitted hasher, ``evaluate_codes`` and ``evaluate_lookup`` codes, ``evaluate_ranking``
and ``evaluate_scan`` any ranking, ``measure`` a hasher or a baseline of FAISS, with its times. Queries are
visited in blocks: no array of all queries by all rows is held.
"""

import logging
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.code_layout import CodeLayout
from manihash.code_tables import table_distances
from manihash.codes import check_codes, hamming
from manihash.compute.largest import query_block
from manihash.evaluation import metrics
from manihash.evaluation.first_answers import FirstAnswers
from manihash.evaluation.results import Curves, Evaluation, LookUp, Measurement, RankingQuality
from manihash.evaluation.truth import EuclideanScan, Truth
from manihash.progress import advance
from manihash.types import Codes, Floats, Ids, Ints, Mask

if TYPE_CHECKING:
    from manihash.hashers._hasher import Hasher
    from manihash.search.faiss_baselines import FaissQuantizer

_log = logging.getLogger(__name__)


def _or_codes(of_hasher: Callable[..., Evaluation]) -> Callable[..., Evaluation]:
    """Let a call whose first argument is not a hasher be one of ``evaluate_codes``."""

    @wraps(of_hasher)
    def evaluated(*args: Any, **options: Any) -> Evaluation:
        first = args[0] if args else options.get("hasher")
        return (of_hasher if hasattr(first, "encode") else evaluate_codes)(*args, **options)

    return evaluated


@_or_codes
def evaluate(
    hasher: "Hasher",
    X: ArrayLike,
    Q: ArrayLike,
    truth: Truth,
    radius: int = 2,
    *,
    neighbors: Truth | None = None,
    curves: bool = False,
    block: int | None = None,
    symmetric: bool = False,
) -> Evaluation:
    """Measure how well the codes of a fitted hasher retrieve the relevant rows.

    Rows and queries are encoded. The ranking is that of ``hasher.index(X).search(Q)``, and the look-up within
    a radius that of ``within``: the parts of the codes and their weight are those of the hasher. Bare codes
    are measured by ``evaluate(query_codes, codes, truth, n_bits)``, which is ``evaluate_codes`` of
    ``manihash.evaluation``.

    Parameters
    ----------
    hasher : Hasher
        A fitted hasher.
    X : array-like of shape (n, d)
        The rows of the database.
    Q : array-like of shape (q, d)
        The queries.
    truth : LabelTruth or EuclideanTruth
        The rows that are relevant to each query. Any object with their ``shape``, ``counts`` and ``relevant``
        can be used.
    radius : int, default=2
        Hamming radius of the look-up, in bits; of the first part, if codes have two parts.
    neighbors : NeighborTruth, default=None
        The true ten nearest rows of each query, ``NeighborTruth(Q, X)``, for ``recall_at_10``.
    curves : bool, default=False
        Whether to compute precision and recall at every rank and within every radius, too.
    block : int, default=None
        Number of queries compared with the database at a time. The result does not depend on it. By default
        a block has about 16 million pairs of a query and a row.
    symmetric : bool, default=False
        Rank by the distance of two codes, as ``search(Q, symmetric=True)``, and not by that of the real
        values of the queries to the codes.

    Returns
    -------
    Evaluation
        MAP, precision, recall and F1 of the look-up, and precision@10 and recall@10: means over the queries.

    Raises
    ------
    ValueError
        If rows, queries and truth differ in their numbers.

    See Also
    --------
    LabelTruth : Rows with the same label are relevant.
    EuclideanTruth : The nearest rows are relevant.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import LabelTruth, evaluate
    >>> from manihash.hashers import ITQ
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQ(n_bits=32, random_state=0).fit(X[100:])
    >>> result = evaluate(hasher, X[100:], X[:100], LabelTruth(y[:100], y[100:]))
    >>> 0.5 < result.map < 1
    True
    """
    layout = hasher.layout_
    return evaluate_codes(
        np.asarray(hasher.encode(Q)),
        np.asarray(hasher.encode(X)),
        truth,
        layout.n_bits,
        radius,
        neighbors=neighbors,
        curves=curves,
        block=block,
        layout=layout,
        values=None if symmetric else np.asarray(hasher.embed(Q)),
    )


def evaluate_codes(
    query_codes: ArrayLike,
    codes: ArrayLike,
    truth: Truth,
    n_bits: int,
    radius: int = 2,
    *,
    neighbors: Truth | None = None,
    curves: bool = False,
    block: int | None = None,
    layout: CodeLayout | None = None,
    values: ArrayLike | None = None,
) -> Evaluation:
    """Measure how well distances between codes retrieve the relevant rows.

    The whole database is ranked by Hamming distance, or by the distance of the layout of the codes, for mean
    average precision (MAP). All rows within a Hamming radius are retrieved for precision, recall and F1. The
    first ten answers count for precision@10 and recall@10.

    Parameters
    ----------
    query_codes : array-like of shape (n_queries, n_bytes)
        Packed codes of the queries, of dtype uint8.
    codes : array-like of shape (n_rows, n_bytes)
        Packed codes of the database, of dtype uint8.
    truth : LabelTruth or EuclideanTruth
        The rows that are relevant to each query. Any object with their ``shape``, ``counts`` and ``relevant``
        can be used.
    n_bits : int
        Number of bits of a code.
    radius : int, default=2
        Hamming radius of the look-up, in bits.
    neighbors : NeighborTruth, default=None
        The true ten nearest rows of each query, ``NeighborTruth(Q, X)``, for ``recall_at_10``.
    curves : bool, default=False
        Whether to compute precision and recall at every rank and within every radius, too.
    block : int, default=None
        Number of queries compared with the database at a time. The result does not depend on it. By default
        a block has about 16 million pairs of a query and a row.
    layout : CodeLayout, default=None
        The parts of the codes, ``hasher.layout_``. If there are two, the ranking is by the distance of both
        and the radius is that of the first part; if both are signs, ``Evaluation.plain`` has the same
        measures for the Hamming distance of all bits. None for codes that are one part of signs.
    values : array-like of shape (n_queries, v), default=None
        Real values of the queries, ``hasher.embed(Q)``: the ranking is then by the distance of these values
        to the codes (asymmetric distance).

    Returns
    -------
    Evaluation
        MAP, precision, recall and F1 of the look-up, and precision@10 and recall@10: means over the queries.

    Raises
    ------
    ValueError
        If codes and truth differ in the number of queries or rows, or codes do not have ``n_bits`` bits.

    References
    ----------
    .. [1] F. McSherry and M. Najork, "Computing information retrieval performance measures efficiently in the
       presence of tied scores", ECIR 2008 (``Evaluation.map_ties``).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import LabelTruth
    >>> from manihash.hashers import ITQ
    >>> from manihash.evaluation import evaluate_codes
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = ITQ(n_bits=32, random_state=0).fit(X[100:])
    >>> truth = LabelTruth(y[:100], y[100:])
    >>> result = evaluate_codes(hasher.encode(X[:100]), hasher.encode(X[100:]), truth, n_bits=32)
    >>> 0.5 < result.map < 1
    True
    """
    n_bits, radius = positive_int(n_bits, "n_bits"), positive_int(radius, "radius", least=0)
    queries, database = check_codes(query_codes, n_bits, "query codes"), check_codes(codes, n_bits)
    q, n = _check_truth(truth, (len(queries), len(database)))
    compared = _CodeDistances(queries, database, layout or CodeLayout(n_bits), values)
    block = query_block(n) if block is None else positive_int(block, "block")
    ap, ap_ties = np.empty(q), np.empty(q)
    precision, recall = np.empty((2, q, compared.radii))
    curve = metrics.RankCurve(n) if curves else None
    first = FirstAnswers((q, n), neighbors)
    for start in range(0, q, block):
        rows = slice(start, min(start + block, q))
        relevant = truth.relevant(start, rows.stop)
        distance, counts, inside = compared.block(rows, relevant)
        precision[rows], recall[rows] = metrics.within_radii(*inside)
        if counts is None:
            first.add_ranked(start, distance, relevant)
        else:
            ap_ties[rows] = metrics.expected_ap(*counts)
            first.add(start, distance, *counts)
        for i, ranks in enumerate(metrics.relevant_ranks(distance, relevant), start):
            ap[i] = metrics.ap_of_ranks(ranks)
            if curve:
                curve.add(ranks)
        advance("evaluation", rows.stop, q)
    if compared.by_tables:
        ap_ties = ap  # real distances are hardly ever equal
    within = precision.mean(axis=0), recall.mean(axis=0)
    p, r = (float(values[min(radius, compared.radii - 1)]) for values in within)
    # Codes without signs have no radius to look up by.
    has_look_up = compared.layout.look_up_bits > 0
    drawn = Curves(*curve.means(q), *within) if curve else None
    plain = None
    if compared.layout.has_two_parts and not compared.layout.has_fields and values is None:
        plain = evaluate_codes(
            queries, database, truth, n_bits, radius, neighbors=neighbors, curves=curves, block=block
        )
    at_10, recall_at_10 = first.means()
    return Evaluation(
        map=float(ap.mean()),
        map_ties=float(ap_ties.mean()),
        precision=p if has_look_up else None,
        recall=r if has_look_up else None,
        f1=metrics.f1(p, r) if has_look_up else None,
        precision_at_10=at_10,
        recall_at_10=recall_at_10,
        curves=drawn,
        plain=plain,
    )


class _CodeDistances:
    """The distances of queries (q, b) to a database (n, b), for its ranking and for the look-up in it."""

    def __init__(
        self, queries: Codes, database: Codes, layout: CodeLayout, values: ArrayLike | None = None
    ) -> None:
        self._queries, self._database, self.layout = queries, database, layout
        self._values = None if values is None else layout.checked_values(values)
        self.by_tables = layout.has_fields or values is not None
        self.radii = 1 + layout.look_up_bits
        self._split = layout.split(database) if self.by_tables else None

    def block(
        self, rows: slice, relevant: Mask
    ) -> tuple[NDArray[Any], tuple[Ints, Ints] | None, tuple[Ints, Ints]]:
        """Distances (b, n) that order the database for some queries, and two pairs of histograms.

        The first pair counts rows by these distances, None if they are real numbers; the second by the
        distance of the look-up.
        """
        queries, layout = self._queries[rows], self.layout
        first = hamming(layout.first(queries), layout.first(self._database))
        inside = metrics.histograms(first, relevant, layout.look_up_bits)
        if self._split is not None:
            values = layout.values_of(queries) if self._values is None else self._values[rows]
            return table_distances(layout.tables(values), self._split), None, inside
        if layout.is_hamming:
            return first, inside, inside
        level = layout.levels(queries, self._database)
        return level, metrics.histograms(level, relevant, layout.n_levels - 1), inside


def evaluate_lookup(
    query_codes: ArrayLike,
    codes: ArrayLike,
    truth: Truth,
    n_bits: int,
    neighbors: Truth | None = None,
    *,
    layout: CodeLayout | None = None,
    values: ArrayLike | None = None,
) -> LookUp:
    """Precision and recall within every radius, and tie-aware metrics of the ranking.

    They follow from the number of rows at each distance; nothing is sorted. On a million rows this is several
    times faster than ``evaluate_codes``. ``layout`` and ``values`` are those of ``evaluate_codes``.
    """
    n_bits = positive_int(n_bits, "n_bits")
    queries, database = check_codes(query_codes, n_bits, "query codes"), check_codes(codes, n_bits)
    q, n = _check_truth(truth, (len(queries), len(database)))
    compared = _CodeDistances(queries, database, layout or CodeLayout(n_bits), values)
    precision, recall, ap_ties = np.zeros(compared.radii), np.zeros(compared.radii), 0.0
    first = FirstAnswers((q, n), neighbors)
    for start in range(0, q, query_block(n)):
        stop = min(start + query_block(n), q)
        relevant = truth.relevant(start, stop)
        distance, counts, inside = compared.block(slice(start, stop), relevant)
        within = metrics.within_radii(*inside)
        precision += within[0].sum(axis=0)
        recall += within[1].sum(axis=0)
        if counts is None:
            ap_ties += float(metrics.average_precision(distance, relevant).sum())
            first.add_ranked(start, distance, relevant)
        else:
            ap_ties += float(metrics.expected_ap(*counts).sum())
            first.add(start, distance, *counts)
        advance("look-up", stop, q)
    return LookUp(precision / q, recall / q, ap_ties / q, *first.means())


def evaluate_ranking(
    distances: Callable[[int, int], Floats],
    truth: Truth,
    stage: str = "evaluation",
    *,
    neighbors: Truth | None = None,
) -> RankingQuality:
    """Quality of the ranking by ``distances(start, stop)``, an array (stop - start, n) for these queries."""
    q, n = truth.shape
    ap, first = np.empty(q), FirstAnswers((q, n), neighbors)
    for start in range(0, q, query_block(n)):
        stop = min(start + query_block(n), q)
        distance, relevant = distances(start, stop), truth.relevant(start, stop)
        ap[start:stop] = metrics.average_precision(distance, relevant)
        first.add_ranked(start, distance, relevant)
        advance(stage, stop, q)
    return RankingQuality(float(ap.mean()), *first.means())


def evaluate_scan(
    Q: ArrayLike, X: ArrayLike, truth: Truth, *, neighbors: Truth | None = None
) -> RankingQuality:
    """Quality of the exhaustive l2 scan: rows of X (n, d) ranked by Euclidean distance to queries (q, d)."""
    scan = EuclideanScan(Q, X)
    _check_truth(truth, scan.shape)
    return evaluate_ranking(scan.keys, truth, "l2 scan", neighbors=neighbors)


def measure(
    quantizer: "Hasher | FaissQuantizer",
    X: ArrayLike,
    Q: ArrayLike,
    truth: Truth,
    *,
    y: ArrayLike | None = None,
    fit: bool = True,
    metric: Callable[..., Any],
    neighbors: Truth | None = None,
) -> Measurement[Any]:
    """Fit a quantizer (unless ``fit`` is False), encode rows and queries, and compute a metric.

    ``X`` (n, d), with labels ``y`` (n,) or none, is the training set and the database; ``Q`` (q, d) are the
    queries. ``metric`` is called with query codes, codes, truth, number of bits and ``neighbors``:
    ``evaluate_codes``, ``evaluate_lookup``, or one of them with some arguments bound. It gets the layout of
    the codes and, if codes have fields, the real values of the queries, too. A baseline of FAISS, whose codes
    have no layout, is measured by ``evaluate_ranking`` instead: it ranks by its own estimates.
    """
    times = [perf_counter()]
    if fit:
        quantizer.fit(X, y)
    times.append(perf_counter())
    codes = quantizer.encode(X)
    times.append(perf_counter())
    layout = getattr(quantizer, "layout_", None)
    if layout is None:
        index, queries = quantizer.index(codes), np.asarray(Q)
        times.append(times[-1])
        result: Any = evaluate_ranking(
            lambda start, stop: index.distances(queries[start:stop]),  # type: ignore[union-attr]
            truth,
            neighbors=neighbors,
        )
    else:
        query_codes = quantizer.encode(Q)
        values = quantizer.embed(Q) if layout.has_fields else None  # type: ignore[union-attr]
        times.append(perf_counter())
        result = metric(
            query_codes, codes, truth, layout.n_bits, neighbors=neighbors, layout=layout, values=values
        )
    times.append(perf_counter())
    return Measurement(result, codes.shape[1], *(after - before for before, after in pairwise(times)))


def relevant_answers(ids: Ids, truth: Truth) -> Mask:
    """Whether each answer is relevant to its query: ids (q, k) -> (q, k). The mean is the precision at k."""
    relevant = np.empty(ids.shape, bool)
    step = query_block(truth.shape[1])
    for start in range(0, len(ids), step):
        rows = slice(start, min(start + step, len(ids)))
        relevant[rows] = np.take_along_axis(truth.relevant(rows.start, rows.stop), ids[rows], axis=1)
    return relevant


def _check_truth(truth: Truth, shape: tuple[int, int]) -> tuple[int, int]:
    """The shape (q, n), if it is that of the truth; warns about queries without relevant rows."""
    if truth.shape != shape or not all(shape):
        raise ValueError(
            f"got {shape[0]} queries and {shape[1]} rows with a truth for {truth.shape[0]} queries and "
            f"{truth.shape[1]} rows: both must have the same queries and rows, at least one of each"
        )
    without = int(np.count_nonzero(truth.counts == 0))
    if without:
        _log.warning("%d of %d queries have no relevant row and count 0 in every mean", without, shape[0])
    return shape
