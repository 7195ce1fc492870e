"""Routes to all codes within a radius, and a cost model that chooses between them.

A route scans all codes, enumerates the ball around the query in one table, or probes several tables, which
index the codes by substrings of themselves: near codes share a substring (multi-index hashing). All routes
are exact. ``HammingIndex.explain`` shows the estimated costs. The constants are seconds on one core of the
machine that docs/guide/search.md names; only their ratios matter.

References
----------
M. Norouzi, A. Punjani and D. J. Fleet, "Fast search in Hamming space with multi-index hashing", CVPR 2012.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import comb, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.compute.threads import ForkSafeLock
from manihash.search.scanners import Matches, Scanner
from manihash.types import Codes, Ints, Mask

# Buckets probed, and codes compared, at once: these arrays stay in the cache.
_PROBES = 2**15
_CANDIDATES = 2**16

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
        """The cheapest route: ``"scan"``, ``"enumerate"``, ``"multi-index"`` or ``"first parts"``.

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


@dataclass(frozen=True)
class TableLayout:
    """Number of tables, bits of the substring that each indexes, and how many of them a probe may flip.

    Two codes at most n_tables (flips + 1) - 1 bits apart differ in at most ``flips`` bits of one substring.
    """

    n_tables: int
    bits: int
    flips: int

    @property
    def starts(self) -> range:
        """First bit of each substring."""
        return range(0, self.n_tables * self.bits, self.bits)


@dataclass(frozen=True, eq=False)
class BucketTable:
    """The positions of the codes whose substring is v are order[offsets[v]:offsets[v + 1]]."""

    offsets: NDArray[np.uint32]  # (2^bits + 1,)
    order: NDArray[np.uint32]  # (u,)


class MultiIndex:
    """Tables of codes (u, b); each is built when a layout first needs it and is shared by all layouts."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._lock = ForkSafeLock()
        self._tables: dict[tuple[int, int], BucketTable] = {}  # by first bit and number of bits

    @property
    def nbytes(self) -> int:
        """Bytes of the tables built so far."""
        tables = list(self._tables.values())  # a copy, because another thread may add a table
        return sum(table.offsets.nbytes + table.order.nbytes for table in tables)

    def use(self, table: tuple[int, int], built: "BucketTable") -> None:
        """Use a table, known by its first bit and number of bits, that was built before."""
        with self._lock:
            self._tables.setdefault(table, built)

    def build(self, layout: TableLayout) -> dict[tuple[int, int], "BucketTable"]:
        """Build the missing tables of a layout now, and return them."""
        built = set(self._tables)
        self._build(layout)
        every = {(start, layout.bits): self._tables[start, layout.bits] for start in layout.starts}
        return {table: found for table, found in every.items() if table not in built}

    def missing(self, layout: TableLayout) -> int:
        """Number of tables of a layout that are not built yet."""
        return sum((start, layout.bits) not in self._tables for start in layout.starts)

    def within(self, queries: Codes, radius: int, layout: TableLayout) -> Matches:
        """All codes within the radius, which must be at most n_tables (flips + 1) - 1."""
        tables, flipped = self._build(layout), _masks(layout.bits, layout.flips)
        block = max(1, _PROBES // len(flipped))
        found = [_NONE]
        for i in range(0, len(queries), block):
            some = queries[i : i + block]
            for number, (start, table) in enumerate(zip(layout.starts, tables, strict=True)):
                probes = (substring(some, start, layout.bits)[:, None] ^ flipped).ravel()
                for probe, position in _candidates(table, probes):
                    query = probe // len(flipped) if len(flipped) > 1 else probe
                    differ = np.take(self._codes, position, axis=0) ^ np.take(some, query, axis=0)
                    distance = ones(differ)
                    near = np.flatnonzero(distance <= radius)
                    near = near[~_found_before(differ[near], layout, number)]
                    found.append((query[near] + i, distance[near], position[near]))
        query, distance, position = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(query, kind="stable")
        lims = np.searchsorted(query[order], np.arange(len(queries) + 1))
        return lims, distance[order].astype(np.int64), position[order].astype(np.int64)

    def _build(self, layout: TableLayout) -> list[BucketTable]:
        """The tables of a layout; builds the missing ones."""
        with self._lock:
            for start in layout.starts:
                if (start, layout.bits) not in self._tables:
                    self._tables[start, layout.bits] = _table(self._codes, start, layout.bits)
            return [self._tables[start, layout.bits] for start in layout.starts]


_NONE = np.empty(0, np.int64), np.empty(0, np.uint16), np.empty(0, np.uint32)


def substring(codes: Codes, start: int, bits: int) -> Ints:
    """Bits ``start`` to ``start + bits`` of codes (n, b), as one integer per code: (n,)."""
    stop = start + bits
    value = np.zeros(len(codes), np.int64)
    for column in range(start // 8, -(-stop // 8)):
        value <<= 8
        value |= codes[:, column]
    value >>= -stop % 8
    value &= (1 << bits) - 1
    return value


def _table(codes: Codes, start: int, bits: int) -> BucketTable:
    """The table of codes (u, b) by one substring."""
    value = substring(codes, start, bits)
    offsets = np.zeros(2**bits + 1, np.uint32)
    np.cumsum(np.bincount(value, minlength=2**bits), out=offsets[1:])
    value <<= 32
    value |= np.arange(len(codes))
    value.sort()
    return BucketTable(offsets, value.astype(np.uint32))


def _candidates(table: BucketTable, probes: Ints) -> Iterator[tuple[Ints, NDArray[np.uint32]]]:
    """Codes in the probed buckets, in blocks of bounded size: index of the probe, position of the code."""
    first = table.offsets.take(probes)
    count = table.offsets.take(probes + 1) - first
    filled = np.flatnonzero(count)
    first, count = first[filled], count[filled].astype(np.int64)
    end = np.cumsum(count)
    i, done = 0, 0
    while i < len(filled):
        j = max(i + 1, int(np.searchsorted(end, done + _CANDIDATES, side="right")))
        each = count[i:j]
        at = np.repeat(first[i:j] - (end[i:j] - each), each)
        at += np.arange(done, end[j - 1])
        yield np.repeat(filled[i:j], each), table.order.take(at)
        i, done = j, int(end[j - 1])


def ones(differ: Codes) -> NDArray[np.uint16]:
    """Number of bits set in each row of (m, b), b a multiple of four: (m,)."""
    word = differ.view(np.uint64 if differ.shape[1] % 8 == 0 else np.uint32)
    count = np.bitwise_count(word[:, 0]).astype(np.uint16)
    for column in range(1, word.shape[1]):
        count += np.bitwise_count(word[:, column])
    return count


def _found_before(differ: Codes, layout: TableLayout, number: int) -> Mask:
    """Whether pairs with these differing bits (m, b) are found in a table before table ``number``: (m,)."""
    before = np.zeros(len(differ), np.bool_)
    for start in layout.starts[:number]:
        before |= np.bitwise_count(substring(differ, start, layout.bits)) <= layout.flips
    return before


@lru_cache(maxsize=16)
def _masks(bits: int, flips: int) -> Ints:
    """All integers of ``bits`` bits with at most ``flips`` bits set."""
    masks = [np.zeros(1, np.int64)]
    for weight in range(1, flips + 1):
        chosen = np.array(list(combinations(range(bits), weight)), np.int64).reshape(-1, weight)
        masks.append((1 << chosen).sum(axis=1))
    return np.concatenate(masks)


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
