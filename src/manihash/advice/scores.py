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
    is_limit: bool = False  # whether the user gave the budget: codes that exceed it score less

    def radius(self, measured: Measured) -> int | None:
        """The largest radius at which a look-up returns at most ``budget`` rows on average, else 0."""
        if measured.quality is None or measured.quality.lookup is None:
            return None
        if self.goal == "duplicates" and measured.copies is not None:
            return _largest(measured.copies.returned, _DUPLICATE_CANDIDATES)
        returned = measured.quality.lookup.returned
        return _largest(returned[: from_tables(returned)] if self.goal == "lookup" else returned, self.budget)

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
        return self._lookup_score(quality.lookup)

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
            both = "" if self.has_labels else "geometric mean over both stand-ins of the "
            return f"{both}F1 of as many rows as the budget allows"
        if self.goal == "neighbors":
            return "recall@10 after rescoring 100 rows"
        return "share of planted copies within the radius"

    def _lookup_score(self, lookup: LookUpByRadius) -> float:
        """The geometric mean of F1 at the budget, of all kinds of relevant rows."""
        part = slice(from_tables(lookup.returned))
        kinds = [(lookup.relevant_precision, lookup.relevant_recall)]
        if lookup.nearest_precision is not None and lookup.nearest_recall is not None:
            kinds.append((lookup.nearest_precision, lookup.nearest_recall))
        values = [f1_at(self.budget, lookup.returned[part], p[part], r[part]) for p, r in kinds]
        share = min(1.0, self.budget / lookup.returned[0]) if self.is_limit and lookup.returned[0] else 1.0
        return float(share * np.prod(values) ** (1 / len(values)))


def f1_at(budget: float, returned: Floats, precision: Floats, recall: Floats) -> float:
    """F1 of a look-up that returns some rows, from values (radii,) within each radius.

    Between two radii it is interpolated: whether the budget is just above or below the rows of a radius says
    little about other rows. A bucket is returned whole: if radius 0 returns more rows, its F1 counts.
    """
    return metrics.f1(*(float(np.interp(budget, returned, each)) for each in (precision, recall)))


def from_tables(returned: Floats) -> int:
    """The number of radii, from 0 on, that an index answers from its tables."""
    return max(2, (len(returned) - 1) // _BITS_PER_TABLE) + 1


def _largest(returned: Floats, budget: float) -> int:
    """The largest radius whose number of rows, ascending, is at most the budget; 0 if there is none."""
    return max(0, int(np.searchsorted(returned, budget, side="right")) - 1)
