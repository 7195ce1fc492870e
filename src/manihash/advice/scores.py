"""The score of a candidate for a goal, its error, and the radius that goes with it."""

from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from manihash.advice.candidates import Measured
from manihash.advice.quality import CopiesFound, LookUpByRadius, Quality
from manihash.evaluation import metrics
from manihash.types import Floats

GOALS = ("auto", "first", "group", "ranking", "neighbors", "duplicates")
ALIASES = {"lookup": "group"}
LOOK_UPS = ("group", "duplicates")  # goals that need a look-up within a radius
# A look-up is answered from tables up to this radius: at least one of n_bits / 16 parts of 16 bits is equal.
_BITS_PER_TABLE = 16
# Weights of communities, of the nearest 2 % and of the ten nearest rows. About half of the weight is that of
# clusters, which manifold codes keep, half that of distances: docs/benchmarks/choosing.md compares rules.
# Few codes rank exactly the ten nearest rows first, and ten good answers need not be these.
WEIGHTS = {
    "first": (0.5, 0.5, 0.0),
    "group": (0.6, 0.2, 0.2),
    "ranking": (0.5, 0.25, 0.25),
    "auto": (0.5, 0.25, 0.25),
}
SHOWN = 0.0005  # differences of scores below this are 0.000 in a text
_LEAST = 1e-9  # instead of 0 in a geometric mean, so that the other part still counts


def checked_goal(goal: str) -> str:
    """The name of a goal, for its former name as well; raise if there is no such goal."""
    if goal not in (*GOALS, *ALIASES):
        close = get_close_matches(str(goal).lower(), (*GOALS, *ALIASES), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"unknown goal {goal!r}{hint}: the goals are {', '.join(GOALS)}")
    return ALIASES.get(goal, goal)


@dataclass(frozen=True)
class Purpose:
    """What codes are chosen for: the goal, rows that a look-up may return, and whether there are labels.

    Without labels, a score is the weighted geometric mean of the score by communities, of that by the nearest
    2 % of the rows, and of the recall of the ten nearest rows (not for the goal "first").
    """

    goal: str
    budget: float  # rows of the database of the sample; for "duplicates" of all rows
    has_labels: bool
    is_limit: bool = False  # whether the user gave the budget: codes that exceed it score less
    share: float = 1.0  # rows of the database of the sample, as a share of all rows

    def radius(self, measured: Measured) -> int | None:
        """The largest radius at which a look-up returns at most ``budget`` rows on average, else 0."""
        quality = measured.quality
        if quality is None or quality.lookup is None:
            return None
        if self.goal == "duplicates" and quality.copies is not None:
            return _largest(self.for_a_copy(quality.copies), self.budget)
        returned = quality.lookup.returned
        return _largest(returned[: from_tables(returned)] if self.goal == "group" else returned, self.budget)

    def score(self, measured: Measured) -> float | None:
        """The score for the goal, from 0 to 1; None if the candidate cannot serve it."""
        radius = self.radius(measured)
        if measured.quality is None or (radius is None and self.goal in LOOK_UPS):
            return None
        return self._score(measured.quality, radius)

    def group_scores(self, measured: Measured) -> Floats:
        """The scores over groups of queries, which say how precise the score is: (groups,).

        Their mean is the score: that of F1 or of a geometric mean over groups is another one.
        """
        radius = self.radius(measured)
        scores = np.array([self._score(group, radius) for group in measured.groups])
        return scores + ((self.score(measured) or 0.0) - scores.mean()) if len(scores) else scores

    def is_better(self, one: Measured, other: Measured) -> bool:
        """Whether a candidate is better by more than the error of the difference, and than what is shown."""
        difference = self.group_scores(one) - self.group_scores(other)
        return float(difference.mean()) > max(error_of(difference), SHOWN)

    def _score(self, quality: Quality, radius: int | None) -> float:
        if self.goal in ("first", "ranking", "auto"):
            return self._ranking_score(quality)
        if self.goal == "neighbors":
            return quality.recall_at_10_reranked
        if self.goal == "duplicates" and quality.copies is not None:
            found, returned = quality.copies.found[radius], self.for_a_copy(quality.copies)[radius]
            return float(found * min(1.0, self.budget / returned)) if returned else 0.0
        assert quality.lookup is not None
        return self._lookup_score(quality.lookup)

    def for_a_copy(self, copies: CopiesFound) -> Floats:
        """Rows that a look-up of a copy returns within each radius, of all rows: (radii,).

        The row that was copied is one of them; the sample has a share of the others.
        """
        return copies.found + (copies.returned - copies.found) / self.share

    def _ranking_score(self, quality: Quality) -> float:
        """MAP, precision@10 or the geometric mean of both, of all kinds of relevant rows."""
        of_map, of_first = {"ranking": (1.0, 0.0), "first": (0.0, 1.0), "auto": (0.5, 0.5)}[self.goal]
        relevant = float(quality.map**of_map * quality.precision_at_10**of_first)
        if quality.nearest_map is None or quality.nearest_precision_at_10 is None:
            return relevant
        nearest = float(quality.nearest_map**of_map * quality.nearest_precision_at_10**of_first)
        return self._mean(relevant, nearest, quality.recall_at_10)

    @property
    def is_estimate(self) -> bool:
        """Whether the score is estimated from clusters and nearest rows, because there are no labels."""
        return not self.has_labels and self.goal in WEIGHTS

    @property
    def measure(self) -> str:
        """What the score is, in words; the names of measures that need labels only if there are labels."""
        if self.is_estimate:
            return "score for the goal"
        return {
            "ranking": "MAP",
            "first": "precision@10",
            "auto": "geometric mean of MAP and precision@10",
            "group": "F1 of a look-up",
            "neighbors": "recall@10 after re-ranking 100 rows",
            "duplicates": f"share of planted copies found among at most {self.budget:,.0f} rows",
        }[self.goal]

    def _lookup_score(self, lookup: LookUpByRadius) -> float:
        """F1 at the budget, of all kinds of relevant rows."""
        part = slice(from_tables(lookup.returned))
        returned = lookup.returned[part]
        score = f1_at(self.budget, returned, lookup.relevant_precision[part], lookup.relevant_recall[part])
        if lookup.nearest_precision is not None and lookup.nearest_recall is not None:
            nearest = f1_at(
                self.budget, returned, lookup.nearest_precision[part], lookup.nearest_recall[part]
            )
            score = self._mean(score, nearest, float(np.interp(self.budget, returned, lookup.recall[part])))
        share = min(1.0, self.budget / returned[0]) if self.is_limit and returned[0] else 1.0
        return share * score

    def _mean(self, communities: float, nearest: float, ten: float) -> float:
        """The weighted geometric mean of the scores by the proxies of relevant rows."""
        logs = np.log(np.maximum([communities, nearest, ten], _LEAST))
        return float(np.exp(np.dot(WEIGHTS[self.goal], logs)))


def error_of(values: Floats) -> float:
    """The standard error of the mean of scores or differences over groups of queries (groups,)."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


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
