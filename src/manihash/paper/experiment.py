"""What an experiment is: a name, the sets it needs, the trials it is made of, and the section it becomes."""

from collections.abc import Callable
from dataclasses import dataclass

from manihash.paper.run.trial import Trial
from manihash.paper.scope import Held, Scope
from manihash.report.section import Section


@dataclass(frozen=True)
class Experiment:
    """One table or figure. ``data`` are sets that serve in its place, the paper's own first."""

    id: str
    title: str
    data: tuple[str, ...]
    trials: Callable[[Scope], list[Trial]]
    section: Callable[[Held, Scope], Section]
