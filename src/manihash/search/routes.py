"""Routes to all codes within a radius, and a cost model that chooses between them.

A route scans all codes, enumerates the ball around the query in one table, or probes several tables
(multi-index). All routes are exact. ``HammingIndex.explain`` shows the estimated costs. The constants are
seconds on one core of the machine that docs/guide/search.md names; only their ratios matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.search.multi_index import BucketTable, MultiIndex, TableLayout, ones, substring
from manihash.search.scanners import Matches, Scanner
from manihash.types import Codes

_CALL = {"scan": 8e-6, "table": 4.5e-5}  # one call with any number of queries; for tables, per table
_SCAN_CODE = {"faiss": 5e-10, "numpy": 2e-9}  # compare one code with a query
_SCAN_WORD = {"faiss": 1e-10, "numpy": 6e-9}  # and each eight bytes of the code
_TABLE = 8e-8  # one query in one table, without its answers
_BUCKET = 1.4e-8, 1.6e-8  # probe one bucket of a table, and the surcharge outside the cache
_CANDIDATE = 8e-9, 2e-9  # the same for comparing one code found there
_UNCACHED = 200_000  # number of codes from which on nothing found through tables is in the cache
_MATCH = {"scan": 1e-8, "table": 3e-8}  # collect one code that was found
_BUILD_CODE = 1e-7  # insert one code into one table

# Layouts with more tables, or more probes of one table per query, are not considered: a scan is faster.
_MAX_TABLES = 16
_MAX_PROBES = 2**17
# Numbers of codes whose pairwise differences represent those of all pairs.
_SAMPLE = 64, 2048


@dataclass(frozen=True)
class RouteEstimate:
    """Estimated cost of one route: seconds per query, and seconds to build its tables (0 if built)."""

    route: str
    query: float
    prepare: float
    why: str

    def total(self, n_queries: int) -> float:
        """Seconds for ``n_queries`` queries, with the tables."""
        return self.prepare + n_queries * self.query


@dataclass(frozen=True)
class QueryPlan:
    """Estimated costs of the routes that can answer a query; returned by ``HammingIndex.explain``.

    ``print(plan)`` shows the chosen route and all estimates.

    Parameters
    ----------
    what : str
        The query, such as ``"within 2"`` or ``"nearest 10"``.
    n_queries : int
        Number of queries that the costs are compared for. It includes earlier queries of the index, so that
        tables are built when they pay for themselves.
    estimates : tuple of RouteEstimate
        One estimate per possible route, with the fields ``route``, ``query`` (seconds per query), ``prepare``
        (seconds to build tables) and ``why``.

    Examples
    --------
    >>> import numpy as np
    >>> from manihash import HammingIndex
    >>> codes = np.arange(200, dtype=np.uint8).reshape(-1, 1)
    >>> plan = HammingIndex(codes, n_bits=8).explain(radius=1)
    >>> plan.what, plan.route
    ('within 1', 'scan')
    """

    what: str
    n_queries: int
    estimates: tuple[RouteEstimate, ...]

    @property
    def route(self) -> str:
        """The cheapest route: ``"scan"``, ``"enumerate"`` or ``"multi-index"``.

        Returns
        -------
        str
            Name of the route.
        """
        return min(self.estimates, key=lambda estimate: estimate.total(self.n_queries)).route

    def __str__(self) -> str:
        lines = [f"{self.what}, {self.n_queries:,} queries so far: {self.route}"]
        for e in sorted(self.estimates, key=lambda e: e.total(self.n_queries)):
            once = f" + {e.prepare:.2g} s once" if e.prepare else ""
            lines.append(f"  {e.route:<12} {1e6 * e.query:>10,.1f} us per query{once}   {e.why}")
        return "\n".join(lines)


class CodeFinder:
    """Finds all codes (u, b) within a radius by the cheapest route; tables are built at first use.

    With one table, all bits in which a near code may differ are flipped, which enumerates the ball. With
    several, fewer bits are flipped in each; of such layouts only the cheapest is considered.
    """

    def __init__(self, codes: Codes, n_bits: int, scanner: Scanner) -> None:
        self.codes, self._n_bits, self._scanner = codes, n_bits, scanner
        self._multi_index = MultiIndex(codes)
        self._choices: dict[int, _Choice] = {}  # by radius
        self._n_queries = 0
        self._routes: dict[tuple[int, int], tuple[str, int]] = {}  # by radius and queries of a call

    @property
    def nbytes(self) -> int:
        """Bytes of the tables built so far."""
        return self._multi_index.nbytes

    def plan(self, radius: int, n_queries: int) -> QueryPlan:
        """Estimated costs of a call with ``n_queries`` queries; earlier queries count as well."""
        chosen = self._choice(radius)
        scan = estimate_scan(self.codes, self._scanner, n_queries)
        estimates = [replace(scan, query=scan.query + chosen.matches * _MATCH["scan"])]
        for route, (layout, seconds) in chosen.layouts.items():
            seconds += layout.n_tables * _CALL["table"] / n_queries + chosen.matches * _MATCH["table"]
            prepare = _BUILD_CODE * len(self.codes) * self._multi_index.missing(layout)
            tables = "1 table" if layout.n_tables == 1 else f"{layout.n_tables} tables"
            why = f"{tables} of {layout.bits} bits, {layout.flips} flipped"
            estimates.append(RouteEstimate(route, seconds, prepare, why))
        return QueryPlan(f"within {radius}", self._n_queries + n_queries, tuple(estimates))

    def tables_for(self, radius: int) -> list[tuple[int, int]]:
        """First bit and number of bits of each table of the fastest layout; none if a scan is faster."""
        layout = self._fastest(radius)
        return [] if layout is None else [(start, layout.bits) for start in layout.starts]

    def use(self, table: tuple[int, int], built: BucketTable) -> None:
        """Use a table that was built before."""
        self._multi_index.use(table, built)
        self._routes.clear()

    def build(self, radius: int) -> dict[tuple[int, int], BucketTable]:
        """Build the missing tables of the fastest layout for a radius, and return them."""
        layout = self._fastest(radius)
        built = {} if layout is None else self._multi_index.build(layout)
        self._routes.clear()
        return built

    def _fastest(self, radius: int) -> TableLayout | None:
        """The layout with the fastest queries once its tables are built; None if a scan is faster."""
        scan, *others = self.plan(radius, 1).estimates
        fastest = min(others, key=lambda estimate: estimate.query, default=scan)
        return self._choice(radius).layouts[fastest.route][0] if fastest.query < scan.query else None

    def within(self, queries: Codes, radius: int, route: str | None = None) -> Matches:
        """All codes within the radius of queries (q, b), in any order, by the cheapest or a given route."""
        if route is None:
            route = self._route(radius, len(queries))
            self._n_queries += len(queries)
        if route == "scan":
            return self._scanner.within(queries, self.codes, radius)
        return self._multi_index.within(queries, radius, self._choice(radius).layouts[route][0])

    def _route(self, radius: int, n_queries: int) -> str:
        """The cheapest route, chosen anew when the number of queries has doubled: one query must be fast."""
        route, until = self._routes.get((radius, n_queries), ("", -1))
        if self._n_queries > until:
            route = self.plan(radius, n_queries).route
            self._routes[radius, n_queries] = route, 2 * self._n_queries
        return route

    def _choice(self, radius: int) -> "_Choice":
        if radius not in self._choices:
            differ, u = _differences(self.codes), len(self.codes)
            layouts: dict[str, tuple[TableLayout, float]] = {}
            for layout in self._possible(radius):
                route = "enumerate" if layout.n_tables == 1 else "multi-index"
                parts = (substring(differ, start, layout.bits) for start in layout.starts)
                candidates = [_mean_near(np.bitwise_count(values), layout.flips, u) for values in parts]
                seconds = _probe_seconds(u, ball(layout.bits, layout.flips), candidates)
                if route not in layouts or seconds < layouts[route][1]:
                    layouts[route] = layout, seconds
            self._choices[radius] = _Choice(layouts, _mean_near(ones(differ), radius, u))
        return self._choices[radius]

    def _possible(self, radius: int) -> list[TableLayout]:
        """Layouts that find all codes within the radius: for each number of flips, that of fewest tables."""
        most = max(1, round(log2(max(1, len(self.codes)))))  # more bits would leave most buckets empty
        layouts = []
        for flips in range(min(radius + 1, most)):
            n_tables = -(-(radius + 1) // (flips + 1))
            bits = min(self._n_bits // n_tables, most)
            if flips < bits and n_tables <= _MAX_TABLES and ball(bits, flips) <= _MAX_PROBES:
                layouts.append(TableLayout(n_tables, bits, flips))
        return layouts


@dataclass(frozen=True)
class _Choice:
    """The best layout of each route through tables, with seconds per query; and the expected matches."""

    layouts: dict[str, tuple[TableLayout, float]]
    matches: float


def plan_nearest(codes: Codes, scanner: Scanner, k: int, n_queries: int) -> QueryPlan:
    """The plan of a search for the k nearest rows, which always scans the distinct codes."""
    return QueryPlan(f"nearest {k}", n_queries, (estimate_scan(codes, scanner, n_queries),))


def estimate_scan(codes: Codes, scanner: Scanner, n_queries: int) -> RouteEstimate:
    """Estimated cost of comparing queries with all codes (u, b)."""
    u, width = codes.shape
    code = _SCAN_CODE[scanner.name] + width / 8 * _SCAN_WORD[scanner.name]
    seconds = _CALL["scan"] / n_queries + u * code / min(scanner.threads(u * n_queries), n_queries)
    return RouteEstimate("scan", seconds, 0, f"{u:,} distinct codes compared by {scanner.name}")


def _probe_seconds(u: int, probes: int, candidates: Sequence[float]) -> float:
    """Seconds per query to probe tables of u codes and compare the expected candidates of each table."""
    uncached = min(1, u / _UNCACHED)
    bucket, candidate = (cached + uncached * more for cached, more in (_BUCKET, _CANDIDATE))
    return len(candidates) * (_TABLE + probes * bucket) + sum(candidates) * candidate


def ball(n_bits: int, radius: int) -> int:
    """Number of codes within a radius of one, Σ C(n_bits, j) for j up to the radius; stops beyond 2^62."""
    inside = 0
    for j in range(min(radius, n_bits) + 1):
        inside += comb(n_bits, j)
        if inside >= 2**62:
            break
    return inside


def _differences(codes: Codes) -> Codes:
    """Differing bits (p, b) of a sample of pairs of distinct codes."""
    u, width = codes.shape
    some, many = (codes[np.linspace(0, u - 1, min(u, n)).astype(np.int64)] for n in _SAMPLE)
    differ = (some[:, None] ^ many).reshape(-1, width)
    return differ[differ.any(axis=1)]


def _mean_near(distance: NDArray[Any], radius: int, u: int) -> float:
    """Expected number of u codes within the radius of one of them, itself included, from sampled distances.

    It is measured and not derived, because learned bits are not independent.
    """
    return 1 + (u - 1) * float(np.mean(distance <= radius)) if len(distance) else 1.0
