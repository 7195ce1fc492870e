"""How much of the experiments is run: code lengths, seeds, and the number of rows and queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reproduction.paper.run.trial import Trial, trial

BITS = (16, 32, 64, 96, 128)
# The nine methods that the paper compares, in the order of its legends.
PAPER_METHODS = ("imh-tsne", "imh-le", "agh", "sph", "sth", "bre", "itq", "sh", "pcah")
LARGE_SETS = ("sift1m", "gist1m", "photo-sift1m", "tiny-gist960")
_WITH_BASE = {"imh-tsne", "imh-le", "agh"}
_DETERMINISTIC = {"sh", "pcah", ""}  # one trial is enough


@dataclass(frozen=True)
class RunSettings:
    """Code lengths, seeds and sizes of a run.

    ``rows`` limits every set; None keeps all rows. ``queries`` applies to sets with classes, with None for
    the paper's 1,000; ``large_queries`` applies to the large sets, whose truth is Euclidean. ``available``
    are the sets on this machine.
    """

    bits: tuple[int, ...] = BITS
    seeds: int = 3
    quick: bool = False
    rows: int | None = None
    queries: int | None = None
    large_queries: int = 1000
    available: frozenset[str] = field(default_factory=frozenset)

    def first_available(self, names: Sequence[str]) -> str:
        """The first of these sets that is on this machine, or the last one if none is."""
        return next((name for name in names if name in self.available), names[-1])

    def seeded(self, task: str, data: str, method: str = "", bits: int = 0, **options: Any) -> list[Trial]:
        """The trials of one number: one per seed, or a single one if the method is deterministic."""
        seeds = 1 if method in _DETERMINISTIC else self.seeds
        limits = {"rows": self.rows, "queries": self.queries_of(data)}
        return [trial(task, data, method, bits, seed, **(limits | options)) for seed in range(seeds)]

    def lengths(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        """The code lengths of an experiment: its ``usual`` ones, or those of them that were requested.

        A quick run uses all requested lengths in every experiment with several lengths.
        """
        if self.bits == BITS:
            return usual
        if self.quick and len(usual) > 1:
            return self.bits
        return tuple(bits for bits in usual if bits in self.bits) or self.bits

    def queries_of(self, data: str) -> int | None:
        """The number of queries of a set; None for its usual number."""
        return self.large_queries if data in LARGE_SETS else self.queries


def base_options(method: str, **options: Any) -> dict[str, Any]:
    """The options if the method has a base set, otherwise none."""
    return options if method in _WITH_BASE else {}
