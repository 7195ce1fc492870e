"""The score of a candidate for a goal, and the radius that goes with it."""

from dataclasses import dataclass

import numpy as np

from manihash.advice.candidates import Measured
from manihash.advice.quality import LookUpByRadius, Quality
from manihash.evaluation import metrics
from manihash.types import Floats

GOALS = ("auto", "ranking", "lookup", "neighbors", "duplicates")
# Rows that a look-up for duplicates may return.
_DUPLICATE_CANDIDATES = 10
# A look-up is answered from tables up to this radius: at least one of n_bits / 16 parts of 16 bits is equal.
_BITS_PER_TABLE = 16


@dataclass(frozen=True)
class Purpose:
    """What codes are chosen for: the goal, rows that a look-up may return, and whether there are labels."""

    goal: str
    budget: float  # rows of the sample
    has_labels: bool

    def radius(self, measured: Measured) -> int | None:
        """The largest radius at which a look-up returns at most ``budget`` rows on average, else 0."""
        if measured.quality is None or measured.quality.lookup is None:
            return None
        if self.goal == "duplicates" and measured.copies is not None:
            return _largest(measured.copies.returned, _DUPLICATE_CANDIDATES)
        n_bits = len(measured.quality.lookup.returned) - 1
        most = max(2, n_bits // _BITS_PER_TABLE) if self.goal == "lookup" else n_bits
        return _largest(measured.quality.lookup.returned[: most + 1], self.budget)

    def score(self, measured: Measured) -> float | None:
        """The score for the goal, from 0 to 1; None if the candidate cannot serve it."""
        quality, radius = measured.quality, self.radius(measured)
        if quality is None or (radius is None and self.goal in ("lookup", "duplicates")):
            return None
        if self.goal in ("ranking", "auto"):
            return self._ranking_score(quality)
        if self.goal == "neighbors":
            return quality.recall_at_10_rescored
        assert radius is not None
        if self.goal == "duplicates" and measured.copies is not None:
            found, returned = measured.copies.found[radius], measured.copies.returned[radius]
            return float(found * min(1.0, _DUPLICATE_CANDIDATES / returned))
        assert quality.lookup is not None
        return self._lookup_score(quality.lookup, radius)

    def _ranking_score(self, quality: Quality) -> float:
        """The geometric mean of MAP, for "auto" also of precision@10, of all kinds of relevant rows."""
        parts = [quality.map, quality.nearest_map]
        if self.goal == "auto":
            parts += [quality.precision_at_10, quality.nearest_precision_at_10]
        known = np.array([part for part in parts if part is not None])
        return float(np.prod(known) ** (1 / len(known)))

    @property
    def measure(self) -> str:
        """What the score is, in words."""
        if self.goal == "ranking":
            return "MAP" if self.has_labels else "geometric mean of MAP for both stand-ins"
        if self.goal == "auto":
            both = "MAP and precision@10"
            return f"geometric mean of {both}" + ("" if self.has_labels else " for both stand-ins")
        if self.goal == "lookup":
            return (
                "F1 within the radius" if self.has_labels else "recall of the ten nearest within the radius"
            )
        if self.goal == "neighbors":
            return "recall@10 after rescoring 100 rows"
        return "share of planted copies within the radius"

    def _lookup_score(self, lookup: LookUpByRadius, radius: int) -> float:
        """F1 with labels; otherwise recall, lowered if more rows are returned than the budget allows."""
        if self.has_labels:
            return f1_within(lookup, radius)
        return float(lookup.recall[radius] * min(1.0, self.budget / max(1e-9, lookup.returned[radius])))


def f1_within(lookup: LookUpByRadius, radius: int) -> float:
    """F1 of the relevant rows within a radius."""
    return metrics.f1(float(lookup.relevant_precision[radius]), float(lookup.relevant_recall[radius]))


def _largest(returned: Floats, budget: float) -> int:
    """The largest radius whose number of rows, ascending, is at most the budget; 0 if there is none."""
    return max(0, int(np.searchsorted(returned, budget, side="right")) - 1)
