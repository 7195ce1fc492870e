"""What a look-up is expected to cost on each route: a small model that can be looked at (``index.explain``).

The constants are seconds on one core of the machine that docs/search.md names. Only their ratios matter: they
decide between routes that give the same answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

CALL = {"scan": 8e-6, "table": 4.5e-5}  # what a call costs however few queries it has, for each table anew
SCAN_CODE = {"faiss": 5e-10, "numpy": 2e-9}  # comparing one code with a query,
SCAN_WORD = {"faiss": 1e-10, "numpy": 6e-9}  # and each eight bytes of it
TABLE = 8e-8  # a query in one table whatever is found there
BUCKET = 1.4e-8, 1.6e-8  # looking into one bucket of a table, and how much more where it exceeds the cache
CANDIDATE = 8e-9, 2e-9  # the same for comparing one code found there
FAR = 200_000  # codes from which on nothing found through tables is in the cache
FOUND = {"scan": 1e-8, "table": 3e-8}  # taking one code that was found
FILE_CODE = 1e-7  # putting one code into one table


@dataclass(frozen=True)
class Estimate:
    """One route: seconds a query, seconds to make what it needs (0 where that is made), and why so."""

    route: str
    query: float
    prepare: float
    why: str

    def total(self, n_queries: int) -> float:
        """Seconds for so many queries."""
        return self.prepare + n_queries * self.query


@dataclass(frozen=True)
class Plan:
    """The route chosen, and what was expected of every route that could have been taken."""

    what: str
    n_queries: int
    estimates: tuple[Estimate, ...]

    @property
    def route(self) -> str:
        """The cheapest route: ``scan``, ``enumerate`` or ``multi-index``."""
        return min(self.estimates, key=lambda estimate: estimate.total(self.n_queries)).route

    def __str__(self) -> str:
        lines = [f"{self.what}, {self.n_queries:,} queries so far: {self.route}"]
        for e in sorted(self.estimates, key=lambda e: e.total(self.n_queries)):
            once = f" + {e.prepare:.2g} s once" if e.prepare else ""
            lines.append(f"  {e.route:<12} {1e6 * e.query:>10,.1f} us a query{once}   {e.why}")
        return "\n".join(lines)


def ball(n_bits: int, radius: int) -> int:
    """How many codes lie within a radius of one: sum of C(n_bits, j) for j up to the radius, cut at 2^62."""
    inside = 0
    for j in range(min(radius, n_bits) + 1):
        inside += comb(n_bits, j)
        if inside >= 2**62:
            break
    return inside


def scan(codes: int, width: int, engine: str, threads: int, n_queries: int) -> float:
    """Every distinct code of ``width`` bytes is compared."""
    each = SCAN_CODE[engine] + width / 8 * SCAN_WORD[engine]
    return CALL["scan"] / n_queries + codes * each / min(threads, n_queries)


def look_up(codes: int, probes: int, shared: Sequence[float]) -> float:
    """In each table so many buckets are looked into, and the codes in them, ``shared`` ones, compared."""
    far = min(1, codes / FAR)
    bucket, candidate = (near + far * more for near, more in (BUCKET, CANDIDATE))
    return len(shared) * (TABLE + probes * bucket) + sum(shared) * candidate
