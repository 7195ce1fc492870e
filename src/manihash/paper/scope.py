"""How much of the experiments is run, and the trials and means that follow from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from manihash.paper.run.trial import Result, Trial, trial
from manihash.report.section import Value

BITS = (16, 32, 64, 96, 128)
# The nine methods of the paper, in the order of its figures' keys.
NINE = ("imh-tsne", "imh-le", "agh", "sph", "sth", "bre", "itq", "sh", "pcah")
LARGE = ("sift1m", "gist1m", "photo-sift1m", "tiny-gist960")
# Methods on a base set: what a larger one is set on.
_ON_BASE = {"imh-tsne", "imh-le", "agh"}
# Methods that draw nothing at random: one trial says all.
_CERTAIN = {"sh", "pcah", ""}

Held = Mapping[Trial, Result]


@dataclass(frozen=True)
class Scope:
    """Lengths, seeds and sizes.

    ``rows`` limits every set, None leaves it whole. ``queries`` are those of sets with classes, None for the
    paper's 1,000; ``large_queries`` those of the large sets, where the truth is Euclidean.
    """

    bits: tuple[int, ...] = BITS
    seeds: int = 3
    quick: bool = False
    rows: int | None = None
    queries: int | None = None
    large_queries: int = 1000
    at_hand: frozenset[str] = field(default_factory=frozenset)

    def first_at_hand(self, names: Sequence[str]) -> str:
        """The first of these sets that is on this machine; the last if none is."""
        return next((name for name in names if name in self.at_hand), names[-1])

    def seeded(self, task: str, data: str, method: str = "", bits: int = 0, **options: Any) -> list[Trial]:
        """The trials of one figure: one for each seed, or a single one where nothing is random."""
        seeds = 1 if method in _CERTAIN else self.seeds
        limits = {"rows": self.rows, "queries": self.queries_of(data)}
        return [trial(task, data, method, bits, seed, **(limits | options)) for seed in range(seeds)]

    def lengths(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        """The lengths of an experiment: its own ``usual`` ones, or those of them that were asked for.

        A quick run has all that were asked for wherever an experiment has several.
        """
        if self.bits == BITS:
            return usual
        if self.quick and len(usual) > 1:
            return self.bits
        return tuple(bits for bits in usual if bits in self.bits) or self.bits

    def queries_of(self, data: str) -> int | None:
        """How many queries a set is asked for; None for as many as it is known with."""
        return self.large_queries if data in LARGE else self.queries


def mean(held: Held, trials: Iterable[Trial], name: str, factor: float = 1.0) -> Value | None:
    """The mean of a figure over those of the trials that have a result."""
    found = [factor * held[each].figures[name] for each in trials if each in held]
    return average(found) if found else None


def on_base(method: str, **options: Any) -> dict[str, Any]:
    """Options of those of the nine methods that have a base set; nothing for the others."""
    return options if method in _ON_BASE else {}


def mean_curve(held: Held, trials: Iterable[Trial], x: str, y: str) -> dict[float, Value | None]:
    """The mean of a curve in percent over those of the trials that have a result, at each of its places."""
    found = [held[each].figures for each in trials if each in held]
    if not found:
        return {}
    columns = zip(*(figures[y] for figures in found), strict=True)
    return {
        float(at): average([100 * v for v in column]) for at, column in zip(found[0][x], columns, strict=True)
    }


def average(values: Sequence[float]) -> Value:
    """The mean of some values and, of several, their sample standard deviation."""
    return Value(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
