"""Three ways to all codes within a radius, every one of them exact: enumerate the ball, multi-index, scan."""

import threading
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from math import log2

import numpy as np
from numpy.typing import NDArray

from manihash.codes import Codes, n_bytes
from manihash.search import cost
from manihash.search.buckets import words
from manihash.search.engines import Engine, Found, Layout, Tables

# A ball of more codes than this is not enumerated.
_LARGEST_BALL = 2**17
# Probes held at once.
_PROBES = 2**20
# Codes by which the filling of tables is judged before they are made.
_SAMPLE = 8192
_MOST_FLIPS = 2


class Scan:
    """Compare every distinct code."""

    def __init__(self, codes: Codes, engine: Engine) -> None:
        self._codes, self._engine = codes, engine

    def estimate(self, radius: int) -> cost.Estimate:
        """Seconds by the cost model."""
        (u, width), engine = self._codes.shape, self._engine
        seconds = cost.scan(u, width, engine.name, engine.threads())
        return cost.Estimate("scan", seconds, 0, f"{u:,} distinct codes compared by {engine.name}")

    def within(self, queries: Codes, radius: int) -> Found:
        """All codes within the radius."""
        return self._engine.within(queries, self._codes, radius)


class Enumerate:
    """Look up every code that could lie within the radius, by binary search in sorted keys of the codes."""

    def __init__(self, codes: Codes, n_bits: int) -> None:
        self._codes, self._n_bits = codes, n_bits
        self._lock = threading.Lock()
        self._keys: tuple[NDArray[np.uint64], NDArray[np.uint32]] | None = None

    def estimate(self, radius: int) -> cost.Estimate | None:
        """Seconds by the cost model; None where the ball is too large to enumerate."""
        probes = cost.ball(self._n_bits, radius)
        if probes > _LARGEST_BALL:
            return None
        prepare = 0.0 if self._keys else cost.SORT_CODE * len(self._codes)
        seconds = cost.enumerate_ball(len(self._codes), self._n_bits, radius)
        return cost.Estimate("enumerate", seconds, prepare, f"{probes:,} codes in the ball looked up")

    def within(self, queries: Codes, radius: int) -> Found:
        """All codes within the radius."""
        keys, order = self._sorted()
        masks, weights = _masks(self._n_bits, radius)
        mask_keys = _keys(masks)
        block = max(1, _PROBES // len(masks))
        found = []
        for i in range(0, len(queries), block):
            word = words(queries[i : i + block])
            probe = (_keys(word)[:, None] ^ mask_keys).ravel()
            for hit, position in _matches(keys, order, probe):
                query, mask = np.divmod(hit, len(masks))
                same = (words(self._codes[position]) == word[query] ^ masks[mask]).all(axis=1)
                found.append((query[same] + i, weights[mask[same]], position[same]))
        query, distance, position = (np.concatenate(part) for part in zip(_NONE, *found, strict=True))
        order_of_query = np.argsort(query, kind="stable")
        lims = np.searchsorted(query[order_of_query], np.arange(len(queries) + 1))
        return lims, distance[order_of_query], position[order_of_query]

    def _sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        with self._lock:
            if self._keys is None:
                keys = _keys(words(self._codes))
                order = np.argsort(keys, kind="stable")
                self._keys = keys[order], order.astype(np.uint32)
            return self._keys


_NONE = tuple(np.empty(0, np.int64) for _ in range(3))


def _matches(
    keys: NDArray[np.uint64], order: NDArray[np.uint32], probe: NDArray[np.uint64]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Which probes meet an equal key, and at which code; long codes may share a key, so ties are followed."""
    at = np.searchsorted(keys, probe)
    waiting, met = np.arange(len(probe)), []
    while len(waiting):
        here = at[waiting]
        equal = (here < len(keys)) & (keys[np.minimum(here, len(keys) - 1)] == probe[waiting])
        waiting = waiting[equal]
        met.append((waiting, order[at[waiting]].astype(np.int64)))
        at[waiting] += 1
    return met


def _keys(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words (n, w) folded into one (n,), so that the key of a ^ b is the key of a ^ the key of b."""
    key = word[:, 0].copy()
    for i in range(1, word.shape[1]):
        turn = np.uint64(1 + 23 * i % 63)
        key ^= (word[:, i] << turn) | (word[:, i] >> (np.uint64(64) - turn))
    return key


@lru_cache(maxsize=8)
def _masks(n_bits: int, radius: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All words (ball, w) with at most ``radius`` of the n_bits set, and how many are set."""
    masks, weights = [], []
    for weight in range(min(radius, n_bits) + 1):
        chosen = list(combinations(range(n_bits), weight))
        places = np.array(chosen, np.int64).reshape(len(chosen), weight)
        bits = np.zeros((len(places), 8 * n_bytes(n_bits)), np.uint8)
        np.put_along_axis(bits, places, 1, axis=1)
        masks.append(words(np.packbits(bits, axis=1)))
        weights.append(np.full(len(places), weight))
    return np.concatenate(masks), np.concatenate(weights)


class MultiIndex:
    """Multi-index hashing: codes filed under parts of themselves, so that near codes share one part."""

    def __init__(self, codes: Codes, n_bits: int, engine: Engine) -> None:
        self._codes, self._width, self._engine = codes, 8 * n_bytes(n_bits), engine
        self._lock = threading.Lock()
        self._tables: dict[Layout, Tables] = {}
        self._layouts: dict[int, tuple[Layout, float]] = {}

    def estimate(self, radius: int) -> cost.Estimate | None:
        """Seconds by the cost model, of the best layout; None without FAISS or where parts are too short."""
        if self._engine.name != "faiss" or radius >= self._width:
            return None
        layout, seconds = self._best(radius)
        prepare = 0.0 if layout in self._tables else cost.FILE_CODE * len(self._codes) * layout.n_tables
        why = f"{layout.n_tables} tables of {layout.bits} bits, {layout.flips} flipped"
        return cost.Estimate("multi-index", seconds, prepare, why)

    def within(self, queries: Codes, radius: int) -> Found:
        """All codes within the radius."""
        layout, _ = self._best(radius)
        with self._lock:
            if layout not in self._tables:
                self._tables[layout] = self._engine.tables(self._codes, layout)
            tables = self._tables[layout]
        return tables.within(queries, radius)

    def _best(self, radius: int) -> tuple[Layout, float]:
        """The cheapest layout that is exact for a radius, and what a query costs there."""
        if radius not in self._layouts:
            wanted = max(1, round(log2(max(1, len(self._codes)))))
            layouts = []
            for flips in range(min(radius, _MOST_FLIPS) + 1):
                n_tables = -(-(radius + 1) // (flips + 1))
                layouts.append(Layout(n_tables, min(self._width // n_tables, wanted), flips))
            seconds, best = min(((self._seconds(layout), layout) for layout in layouts), key=lambda s: s[0])
            self._layouts[radius] = best, seconds
        return self._layouts[radius]

    def _seconds(self, layout: Layout) -> float:
        u, filling, threads = len(self._codes), self._filling(layout), self._engine.threads()
        return cost.multi_index(u, layout.n_tables, layout.bits, layout.flips, filling, threads)

    def _filling(self, layout: Layout) -> float:
        """Codes that share a bucket with a code, on average; learned bits are not independent: measured."""
        u = len(self._codes)
        sample = self._codes[np.linspace(0, u - 1, min(u, _SAMPLE)).astype(np.int64)]
        bits = np.unpackbits(sample, axis=1, bitorder="little")  # FAISS cuts codes in this order
        pairs = 0.0
        for i in range(layout.n_tables):
            part = words(np.packbits(bits[:, i * layout.bits : (i + 1) * layout.bits], axis=1))
            count = np.unique(part[:, 0], return_counts=True)[1].astype(np.float64)
            pairs += float((count * (count - 1)).sum())
        return 1 + u * pairs / layout.n_tables / max(1, len(sample) * (len(sample) - 1))


class Routes:
    """The three routes to some codes, and the choice between them; what one needs is made at first use."""

    def __init__(self, codes: Codes, n_bits: int, engine: Engine) -> None:
        self._codes, self._n_bits = codes, n_bits
        self._scan = Scan(codes, engine)
        self._enumerate = Enumerate(codes, n_bits)
        self._multi = MultiIndex(codes, n_bits, engine)
        self._asked = 0

    def plan(self, radius: int, n_queries: int) -> cost.Plan:
        """What so many more queries would cost; queries asked before count, so that tables pay in the end."""
        estimates = (route.estimate(radius) for route in (self._scan, self._enumerate, self._multi))
        answers = cost.answers(len(self._codes), self._n_bits, radius)
        possible = tuple(replace(e, query=e.query + answers) for e in estimates if e is not None)
        return cost.Plan(f"within {radius}", self._asked + n_queries, possible)

    def within(self, queries: Codes, radius: int, route: str | None = None) -> Found:
        """All codes within the radius, in no order, by the route named or else by the cheapest."""
        if route is None:
            route = self.plan(radius, len(queries)).route
            self._asked += len(queries)
        routes: dict[str, Scan | Enumerate | MultiIndex] = {
            "scan": self._scan,
            "enumerate": self._enumerate,
            "multi-index": self._multi,
        }
        return routes[route].within(queries, radius)
