"""What a look-up is expected to cost on each route: a small model that can be looked at (``index.explain``).

The constants are seconds on one core of the machine that docs/search.md names. Only their ratios matter: they
decide between routes that give the same answer.
"""

from dataclasses import dataclass
from math import comb, log2, sqrt

CALL = {"scan": 1e-7, "enumerate": 2.5e-7, "multi-index": 1e-7}  # what a query costs whatever is compared
SCAN_CODE = {"faiss": 3e-10, "numpy": 2e-9}  # comparing one code with a query,
SCAN_WORD = {"faiss": 2e-10, "numpy": 6e-9}  # and each eight bytes of it
PROBE = 3e-9  # one step of a binary search among the codes
FOUND = 1e-7  # taking one code that was found
BUCKET = 3e-8, 3e-7  # looking into one bucket of a table, and how much more where tables exceed the cache
CANDIDATE = 3e-8, 6e-8  # the same for comparing one code found there
FAR = 200_000  # codes from which on nothing found through tables is in the cache
FILE_CODE = 6e-7  # putting one code into one table
SORT_CODE = 1.5e-7  # putting one code in order for binary search


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


def answers(codes: int, n_bits: int, radius: int) -> float:
    """Taking what is found, on any route: as much of the ball as of all codes there are."""
    return FOUND * min(codes, ball(n_bits, radius) * codes / 2.0 ** min(n_bits, 1000))


def scan(codes: int, width: int, engine: str, threads: int) -> float:
    """Every distinct code of ``width`` bytes is compared."""
    return CALL["scan"] + codes * (SCAN_CODE[engine] + width / 8 * SCAN_WORD[engine]) / threads


def enumerate_ball(codes: int, n_bits: int, radius: int) -> float:
    """Every code of the ball is looked up by binary search."""
    return CALL["enumerate"] + ball(n_bits, radius) * PROBE * (1 + log2(max(codes, 2)))


def multi_index(codes: int, n_tables: int, bits: int, flips: int, filling: float, threads: int) -> float:
    """In each table the query's own bucket is opened, and those that differ from it by up to ``flips`` bits.

    Its own holds ``filling`` codes. Learned codes lie close together, so the others hold fewer, though more
    than codes spread evenly would: the geometric mean of both.
    """
    far = min(1, codes / FAR)
    bucket, candidate = (near + far * more for near, more in (BUCKET, CANDIDATE))
    flipped = ball(bits, flips) - 1
    candidates = filling + flipped * sqrt(filling * codes / 2**bits)
    return CALL["multi-index"] + n_tables * ((1 + flipped) * bucket + candidates * candidate) / threads
