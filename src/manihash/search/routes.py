"""Three ways to all codes within a radius, every one of them exact: enumerate the ball, multi-index, scan."""

from dataclasses import dataclass, replace
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manihash.search import cost
from manihash.search.engines import Engine, Found
from manihash.search.multi_index import Layout, Tables, ones, part
from manihash.types import Codes

# More tables are not made, nor more buckets of one looked into for a query: a scan would be faster.
_MOST_TABLES = 16
_MOST_PROBES = 2**17
# Codes whose differences stand for those of all pairs.
_SAMPLE = 64, 2048


def scan(codes: Codes, engine: Engine, n_queries: int) -> cost.Estimate:
    """What it costs to compare every distinct code."""
    u, width = codes.shape
    seconds = cost.scan(u, width, engine.name, engine.threads(u * n_queries), n_queries)
    return cost.Estimate("scan", seconds, 0, f"{u:,} distinct codes compared by {engine.name}")


class Routes:
    """The routes to some codes, and the choice between them; the tables one needs are made at first use.

    With one table all bits in which near codes may differ are flipped, which enumerates the ball; with more,
    fewer are. Of the layouts with more than one table the cheapest counts.
    """

    def __init__(self, codes: Codes, n_bits: int, engine: Engine) -> None:
        self._codes, self._n_bits, self._engine = codes, n_bits, engine
        self._tables = Tables(codes)
        self._choices: dict[int, _Choice] = {}
        self._asked = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the tables made so far."""
        return self._tables.nbytes

    def plan(self, radius: int, n_queries: int) -> cost.Plan:
        """What a call with so many queries costs; those asked before count, so that tables pay in the end."""
        chosen = self._choice(radius)
        found = scan(self._codes, self._engine, n_queries)
        estimates = [replace(found, query=found.query + chosen.answers * cost.FOUND["scan"])]
        for route, (layout, seconds) in chosen.layouts.items():
            seconds += layout.n_tables * cost.CALL["table"] / n_queries + chosen.answers * cost.FOUND["table"]
            prepare = cost.FILE_CODE * len(self._codes) * self._tables.missing(layout)
            tables = "1 table" if layout.n_tables == 1 else f"{layout.n_tables} tables"
            why = f"{tables} of {layout.bits} bits, {layout.flips} flipped"
            estimates.append(cost.Estimate(route, seconds, prepare, why))
        return cost.Plan(f"within {radius}", self._asked + n_queries, tuple(estimates))

    def within(self, queries: Codes, radius: int, route: str | None = None) -> Found:
        """All codes within the radius, in no order, by the route named or else by the cheapest."""
        if route is None:
            route = self.plan(radius, len(queries)).route
            self._asked += len(queries)
        if route == "scan":
            return self._engine.within(queries, self._codes, radius)
        return self._tables.within(queries, radius, self._choice(radius).layouts[route][0])

    def _choice(self, radius: int) -> "_Choice":
        if radius not in self._choices:
            differ, u = _differences(self._codes), len(self._codes)
            layouts: dict[str, tuple[Layout, float]] = {}
            for layout in self._possible(radius):
                route = "enumerate" if layout.n_tables == 1 else "multi-index"
                parts = (part(differ, start, layout.bits) for start in layout.starts)
                shared = [_near(np.bitwise_count(values), layout.flips, u) for values in parts]
                seconds = cost.look_up(u, cost.ball(layout.bits, layout.flips), shared)
                if route not in layouts or seconds < layouts[route][1]:
                    layouts[route] = layout, seconds
            self._choices[radius] = _Choice(layouts, _near(ones(differ), radius, u))
        return self._choices[radius]

    def _possible(self, radius: int) -> list[Layout]:
        """Layouts that reach the radius, for each number of flips the one of the fewest tables."""
        wanted = max(1, round(log2(max(1, len(self._codes)))))
        layouts = []
        for flips in range(min(radius + 1, wanted)):
            n_tables = -(-(radius + 1) // (flips + 1))
            bits = min(self._n_bits // n_tables, wanted)
            if flips < bits and n_tables <= _MOST_TABLES and cost.ball(bits, flips) <= _MOST_PROBES:
                layouts.append(Layout(n_tables, bits, flips))
        return layouts


@dataclass(frozen=True)
class _Choice:
    """The best layout for each route through tables, with seconds a query; and how many codes are found."""

    layouts: dict[str, tuple[Layout, float]]
    answers: float


def _differences(codes: Codes) -> Codes:
    """In which bits two codes differ, for some pairs (p, b)."""
    u, width = codes.shape
    some, many = (codes[np.linspace(0, u - 1, min(u, n)).astype(np.int64)] for n in _SAMPLE)
    differ = (some[:, None] ^ many).reshape(-1, width)
    return differ[differ.any(axis=1)]


def _near(distance: NDArray[Any], most: int, u: int) -> float:
    """How many of u codes are at most so far from one of them, itself included, by the distances of pairs.

    Learned bits depend on each other, so this is measured and not derived.
    """
    return 1 + (u - 1) * float(np.mean(distance <= most)) if len(distance) else 1.0
