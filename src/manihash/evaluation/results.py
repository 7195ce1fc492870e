"""Results of an evaluation: the quality of codes and rankings, and the times of a hasher."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from manihash.types import Floats

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Curves:
    """Precision and recall at every rank and within every radius, means over the queries.

    Returned by ``evaluate`` with ``curves=True`` as ``Evaluation.curves``.

    Parameters
    ----------
    precision_at : ndarray of shape (n,)
        Precision among the first N rows of the ranking, for N = 1 … n.
    recall_at : ndarray of shape (n,)
        Recall among the first N rows of the ranking, for N = 1 … n.
    precision_within : ndarray of shape (n_bits + 1,)
        Precision within Hamming radius 0 … n_bits; of the first part alone, if codes have two parts.
    recall_within : ndarray of shape (n_bits + 1,)
        Recall within Hamming radius 0 … n_bits.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import LabelTruth, evaluate
    >>> codes = np.array([[0b0001], [0b0011], [0b1111]], np.uint8)
    >>> truth = LabelTruth(["cat"], ["cat", "cat", "dog"])
    >>> evaluate(codes[:1], codes, truth, n_bits=8, curves=True).curves.recall_at
    array([0.5, 1. , 1. ])
    """

    precision_at: Floats
    recall_at: Floats
    precision_within: Floats
    recall_within: Floats


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Quality of a set of codes: the result of ``evaluate``.

    All values are between 0 and 1, and 1 is best.

    Parameters
    ----------
    map : float
        Mean average precision of the ranking of the whole database by Hamming distance, with ties in database
        order.
    map_ties : float
        Expectation of ``map`` over random order inside each tie.
    precision : float or None
        Mean precision of the look-up within the radius. A query that retrieves nothing counts 0. None if
        codes have no signs, as those of a product quantizer: they have no Hamming radius.
    recall : float or None
        Mean recall of the look-up within the radius; None as ``precision``.
    f1 : float or None
        F1 of ``precision`` and ``recall``; None as these.
    precision_at_10 : float
        Share of relevant rows among the first ten answers, ties in random order (the exact expectation).
    recall_at_10 : float or None, default=None
        Share of the true ten nearest rows among the first ten answers, ties in random order, if ``evaluate``
        was called with ``neighbors``.
    curves : Curves or None, default=None
        Precision and recall at every rank and within every radius, if requested.
    plain : Evaluation or None, default=None
        The same measures for the Hamming distance of all bits, if the codes have two parts.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import LabelTruth, evaluate
    >>> codes = np.array([[0b0001], [0b0011], [0b1111]], np.uint8)
    >>> result = evaluate(codes[:1], codes, LabelTruth(["cat"], ["cat", "cat", "dog"]), n_bits=8)
    >>> result.map, result.precision, result.recall
    (1.0, 1.0, 1.0)
    """

    map: float
    map_ties: float
    precision: float | None
    recall: float | None
    f1: float | None
    precision_at_10: float
    recall_at_10: float | None = None
    curves: Curves | None = None
    plain: "Evaluation | None" = None


@dataclass(frozen=True, eq=False)
class LookUp:
    """Precision and recall within every radius 0 … n_bits, (n_bits + 1,) each, and tie-aware metrics."""

    precision: Floats
    recall: Floats
    map_ties: float
    precision_at_10: float
    recall_at_10: float | None = None


@dataclass(frozen=True)
class RankingQuality:
    """Quality of a ranking by any distance, ties of the first answers in random order."""

    map: float
    precision_at_10: float
    recall_at_10: float | None = None


@dataclass(frozen=True)
class Measurement(Generic[R]):
    """The result of an evaluation of a hasher, and the seconds that each step took."""

    result: R
    fit_seconds: float
    encode_seconds: float  # of the database
    encode_queries_seconds: float
    evaluate_seconds: float
