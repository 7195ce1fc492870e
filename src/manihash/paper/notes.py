"""What the report says about the sets that its figures were measured on."""

from manihash.datasets import CATALOG
from manihash.evaluation.truth import NEAREST
from manihash.paper.scope import LARGE, Scope


def data_note(name: str, scope: Scope) -> str:
    """The set, its size, its queries and truth, and whether it is the paper's own."""
    entry = CATALOG[name]
    rows = f"its first {scope.rows:,} rows" if scope.rows else "all rows"
    queries = scope.queries_of(name) or entry.n_queries
    truth = f"the nearest {NEAREST:.0%} by Euclidean distance" if name in LARGE else "the query's class"
    own = "the paper's own set" if entry.is_papers_own else "not the paper's own set"
    return f"{name} ({own}): {entry.description}. {queries:,} queries, {rows} as database; truth: {truth}."


def how_to_get(names: tuple[str, ...]) -> str:
    """What to do for an experiment whose sets are not here."""
    ways = " or ".join(f"`manihash data get {name}`" for name in names)
    return (
        f"Not run: {' and '.join(names)} {'is' if len(names) == 1 else 'are'} not on this machine. "
        f"Get it with {ways}; where a set has no public home, the message says which file to put where."
    )
