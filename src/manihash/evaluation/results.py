"""Results of an evaluation: the quality of codes and rankings, and the times of a hasher."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from manihash.display import Shown, axes, frame, html
from manihash.types import Floats

R = TypeVar("R")


@dataclass(frozen=True, eq=False, repr=False)
class Curves(Shown):
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

    def to_frame(self, by: str = "rank") -> Any:
        """Return the curves as a table.

        Parameters
        ----------
        by : {"rank", "radius"}, default="rank"
            Precision and recall at every rank, or within every radius.

        Returns
        -------
        pandas.DataFrame
            The columns ``precision`` and ``recall``, by rank from 1 or by radius from 0.
        """
        precision, recall = self._curve(by)
        index = np.arange(len(precision)) + (by == "rank")
        made = frame({"precision": precision, "recall": recall}, index=index)
        made.index.name = by
        return made

    def plot(self, by: str = "rank", ax: Any = None, **options: Any) -> Any:
        """Draw precision against recall.

        Parameters
        ----------
        by : {"rank", "radius"}, default="rank"
            One point per rank, or one per radius.
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None for new ones.
        **options : dict
            Options of ``Axes.plot``, such as ``label``.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        precision, recall = self._curve(by)
        ax = axes(ax, "recall", "precision")
        ax.plot(recall, precision, **{"marker": "." if by == "radius" else None, **options})
        ax.set_xlim(0, 1.02)
        ax.set_ylim(0, 1.02)
        return ax

    def _facts(self) -> dict[str, Any]:
        return {"ranks": len(self.precision_at), "radii": len(self.precision_within)}

    def _curve(self, by: str) -> tuple[Floats, Floats]:
        """Precision and recall by rank or by radius."""
        if by not in ("rank", "radius"):
            raise ValueError(f'by must be "rank" or "radius", not {by!r}')
        if by == "rank":
            return self.precision_at, self.recall_at
        return self.precision_within, self.recall_within


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
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

    def to_frame(self) -> Any:
        """Return the measures as a table.

        Returns
        -------
        pandas.DataFrame
            One column per measure and one row, ``ranking``; codes of two parts have a second row, ``plain``.
        """
        rows = {"ranking": self._measures()} | ({"plain": self.plain._measures()} if self.plain else {})
        return frame(list(rows.values()), index=list(rows))

    def plot(self, by: str = "rank", ax: Any = None, **options: Any) -> Any:
        """Draw precision against recall; ``evaluate`` must have been called with ``curves=True``.

        Parameters
        ----------
        by : {"rank", "radius"}, default="rank"
            One point per rank, or one per radius.
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None for new ones.
        **options : dict
            Options of ``Axes.plot``, such as ``label``.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        if self.curves is None:
            raise ValueError("this evaluation has no curves: call evaluate(..., curves=True)")
        return self.curves.plot(by, ax, **options)

    def _measures(self) -> dict[str, float]:
        """The measures by name, without those that were not measured."""
        names = ("map", "map_ties", "precision", "recall", "f1", "precision_at_10", "recall_at_10")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _facts(self) -> dict[str, Any]:
        return self._measures()

    def _repr_html_(self) -> str:
        if self.plain is None:
            return html(type(self).__name__, self._measures())
        both = [{"": "ranking", **self._measures()}, {"": "plain", **self.plain._measures()}]
        return html(type(self).__name__, {}, table=both)


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
    """The result of an evaluation, the size of a code, and the seconds that each step took."""

    result: R
    bytes_per_row: int
    fit_seconds: float
    encode_seconds: float  # of the database
    encode_queries_seconds: float
    evaluate_seconds: float
