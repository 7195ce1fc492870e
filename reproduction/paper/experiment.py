"""An experiment of the paper, and what the report says about its data."""

from collections.abc import Callable
from dataclasses import dataclass

from manihash.datasets import CATALOG
from manihash.evaluation.truth import NEAREST
from reproduction.paper.run.trial import Results, Trial
from reproduction.paper.section import Section
from reproduction.paper.settings import LARGE_SETS, RunSettings


@dataclass(frozen=True)
class Experiment:
    """One table or figure: its trials, and the section made from their results.

    ``data`` are the sets that it can be run on, the paper's own first.
    """

    id: str
    title: str
    data: tuple[str, ...]
    trials: Callable[[RunSettings], list[Trial]]
    section: Callable[[Results, RunSettings], Section]


def data_note(name: str, settings: RunSettings) -> str:
    """The set, its size, its queries and truth, and whether it is the paper's own."""
    entry = CATALOG[name]
    rows = f"its first {settings.rows:,} rows" if settings.rows else "all rows"
    queries = settings.queries_of(name) or entry.n_queries
    truth = f"the nearest {NEAREST:.0%} by Euclidean distance" if name in LARGE_SETS else "the query's class"
    own = "the paper's own set" if entry.is_papers_own else "not the paper's own set"
    return f"{name} ({own}): {entry.description}. {queries:,} queries, {rows} as database; truth: {truth}."


def how_to_get(names: tuple[str, ...]) -> str:
    """What to do about an experiment whose sets are not on this machine."""
    commands = " or ".join(f"`manihash data get {name}`" for name in names)
    return (
        f"Not run: {' and '.join(names)} {'is' if len(names) == 1 else 'are'} not on this machine. "
        f"Get the data with {commands}. If a download fails, the command says where to put the files."
    )
