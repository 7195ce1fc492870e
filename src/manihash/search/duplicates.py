"""Near-duplicates: groups of rows that hang together by steps of at most a radius."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.progress import advance
from manihash.search.buckets import Ints, build
from manihash.search.engines import engine
from manihash.search.ids import check_ids
from manihash.search.routes import Routes

# Distinct codes looked up at once.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Groups of two rows and more; iterating gives the ids of one group after the other."""

    first: Ints  # (n,): for each row the lowest id of its group, its own where it stands alone
    lims: Ints  # (groups + 1,)
    ids: Ints  # those of group i from lims[i] to lims[i + 1], ascending; groups in order of their lowest id

    def __len__(self) -> int:
        return len(self.lims) - 1

    def __iter__(self) -> Iterator[Ints]:
        for start, stop in pairwise(self.lims):
            yield self.ids[start:stop]

    @property
    def extra(self) -> Ints:
        """Ids of all rows but the first of each group: what may be deleted."""
        return np.setdiff1d(self.ids, self.ids[self.lims[:-1]])


def dedup(codes: ArrayLike, n_bits: int, radius: int = 0, ids: ArrayLike | None = None) -> Duplicates:
    """Groups of rows within ``radius`` bits of each other, exactly; any codes, perceptual hashes among them.

    Two rows are in one group if a chain of rows leads from one to the other in steps of at most the radius.
    Equal codes are one from the start, so the work is that of the distinct codes.
    """
    n_bits, radius = positive_int(n_bits, "n_bits"), positive_int(radius, "radius", least=0)
    given = check_codes(codes, n_bits)
    if not len(given):
        raise ValueError("no codes came: duplicates need at least one row")
    names = np.arange(len(given)) if ids is None else check_ids(ids, len(given))
    order = np.argsort(names, kind="stable")
    buckets = build(given[order], names[order])
    label = _components(buckets.codes, n_bits, radius)
    bucket = np.empty(len(given), np.int64)
    bucket[buckets.rows] = buckets.bucket_of_listed()
    return _groups(label[bucket], names, order)


def _components(codes: NDArray[np.uint8], n_bits: int, radius: int) -> Ints:
    """For each distinct code the position of the first one in its group: union-find over blocks of pairs."""
    u = len(codes)
    parent = np.arange(u)
    if not radius:
        return parent
    routes = Routes(codes, n_bits, engine())
    for start in range(0, u, _BLOCK):
        queries = codes[start : start + _BLOCK]
        lims, _, other = routes.within(queries, min(radius, n_bits), routes.plan(radius, u).route)
        one = np.repeat(np.arange(start, start + len(queries)), np.diff(lims))
        _unite(parent, one[one < other], other[one < other])
        advance("near-duplicates", start + len(queries), u)
    return _roots(parent)


def _unite(parent: Ints, a: Ints, b: Ints) -> None:
    """Join the groups of each pair: roots hang under the lowest root they meet, until all hang."""
    while len(a):
        a, b = _root_of(parent, a), _root_of(parent, b)
        apart = a != b
        a, b = np.minimum(a[apart], b[apart]), np.maximum(a[apart], b[apart])
        np.minimum.at(parent, b, a)


def _root_of(parent: Ints, node: Ints) -> Ints:
    up = parent[node]
    while (up != parent[up]).any():
        parent[node] = up = parent[up]
    return up


def _roots(parent: Ints) -> Ints:
    while (parent != (up := parent[parent])).any():
        parent = up
    return parent


def _groups(label: Ints, names: Ints, order: Ints) -> Duplicates:
    """Groups from the label of each row, rows in ascending order of id."""
    by_label = np.argsort(label, kind="stable")
    start = np.flatnonzero(np.diff(label[by_label], prepend=-1))
    size = np.diff(start, append=len(label))
    sorted_names = names[order]
    first = np.empty(len(names), np.int64)
    first[order[by_label]] = np.repeat(sorted_names[by_label[start]], size)
    many = np.repeat(size > 1, size)
    lims = np.concatenate([[0], np.cumsum(size[size > 1])])
    return Duplicates(first, lims, sorted_names[by_label[many]])
