"""Near-duplicates: groups of rows connected by steps of at most a radius."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from manihash.checks import positive_int
from manihash.codes import check_codes
from manihash.progress import advance
from manihash.search.buckets import build
from manihash.search.ids import check_ids
from manihash.search.routes import CodeFinder
from manihash.search.scanners import default_scanner
from manihash.types import Codes, Ids, Ints

# Distinct codes looked up at once.
_BLOCK = 4096
# Pairs of near codes held at once, at least; more are held if there are more distinct codes.
_PAIRS = 2**22


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Groups of at least two rows, as ``dedup`` returns them.

    Iterating yields the ids of each group; ``len`` is the number of groups.

    Parameters
    ----------
    first : ndarray of shape (n,)
        For each row the lowest id of its group, or the id of the row if it has no duplicate.
    lims : ndarray of shape (groups + 1,), int64
        The ids of group i are at ``lims[i]`` to ``lims[i + 1]``.
    ids : ndarray
        Ids of the grouped rows, ascending in each group; groups are in order of their lowest id.

    Examples
    --------
    >>> from manihash import dedup, pack
    >>> found = dedup(pack([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]), n_bits=4, radius=1)
    >>> [group.tolist() for group in found]
    [[0, 2]]
    >>> found.first
    array([0, 1, 0])
    >>> found.extra
    array([2])
    """

    first: Ids
    lims: Ints
    ids: Ids

    def __len__(self) -> int:
        return len(self.lims) - 1

    def __iter__(self) -> Iterator[Ids]:
        for start, stop in pairwise(self.lims):
            yield self.ids[start:stop]

    @property
    def extra(self) -> Ids:
        """Ids of all rows except the first of each group, ascending.

        Of ``dedup`` these are candidates: equal codes do not mean equal vectors. Of ``verified_duplicates``
        the vector of each of these rows was compared with that of the first row of its group.

        Returns
        -------
        ndarray
            Ids.
        """
        rest = np.ones(len(self.ids), np.bool_)
        rest[self.lims[:-1]] = False
        return np.sort(self.ids[rest])


def dedup(codes: ArrayLike, n_bits: int, radius: int = 0, ids: ArrayLike | None = None) -> Duplicates:
    """Find groups of rows whose codes are at most ``radius`` bits apart, exactly.

    Two rows are in one group if a chain of rows connects them in steps of at most ``radius`` bits. Equal
    codes are merged first, so time depends on the number of distinct codes. Any codes are valid, for example
    perceptual hashes of images.

    Parameters
    ----------
    codes : array-like of shape (n, ceil(n_bits / 8)), uint8
        Packed codes; at least one.
    n_bits : int
        Length of a code.
    radius : int, default=0
        Largest Hamming distance of a step; 0 groups equal codes only.
    ids : array-like of shape (n,), default=None
        Distinct integers or strings, one per row. By default the id of a row is its position.

    Returns
    -------
    Duplicates
        The groups of at least two rows.

    Examples
    --------
    >>> from manihash import dedup, pack
    >>> codes = pack([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]])
    >>> [group.tolist() for group in dedup(codes, n_bits=4, radius=1)]
    [[0, 2, 3]]
    """
    n_bits, radius = positive_int(n_bits, "n_bits"), positive_int(radius, "radius", least=0)
    given = check_codes(codes, n_bits)
    if not len(given):
        raise ValueError("codes are empty: dedup needs at least one row")
    row_ids = np.arange(len(given)) if ids is None else check_ids(ids, len(given))
    order = np.argsort(row_ids, kind="stable")
    buckets = build(given[order], row_ids[order])
    label = _components(buckets.codes, n_bits, min(radius, n_bits))
    bucket = np.empty(len(given), np.int64)
    bucket[buckets.rows] = buckets.code_positions()
    return grouped(label[bucket], row_ids, order)


def _components(codes: Codes, n_bits: int, radius: int) -> Ints:
    """For each distinct code (u, b) the position of the first code of its group: (u,).

    Pairs are merged into groups whenever many are held, so that memory does not grow with their number.
    """
    u = len(codes)
    label = np.arange(u)
    if not radius:
        return label
    finder = CodeFinder(codes, n_bits, default_scanner())
    pairs: list[tuple[Ints, Ints]] = []
    held = 0
    for start in range(0, u, _BLOCK):
        queries = codes[start : start + _BLOCK]
        lims, _, other = finder.within(queries, radius, finder.plan(radius, u).route)
        one = np.repeat(np.arange(start, start + len(queries)), np.diff(lims))
        new = one < other
        a, b = label[one[new]], label[other[new]]
        pairs.append((a[a != b], b[a != b]))
        held += len(pairs[-1][0])
        if held > max(_PAIRS, u):
            label, pairs, held = _merged(label, pairs), [], 0
        advance("near-duplicates", start + len(queries), u)
    return _merged(label, pairs) if pairs else label


def _merged(label: Ints, pairs: list[tuple[Ints, Ints]]) -> Ints:
    """The labels (u,) after groups are merged whose labels are paired; a label is a position in its group."""
    a, b = (np.concatenate(column) for column in zip(*pairs, strict=True))
    u = len(label)
    component = connected(u, a, b)
    first = np.empty(component.max() + 1, np.int64)
    first[component[::-1]] = np.arange(u)[::-1]  # the last assignment, which is the lowest position, remains
    return first[component][label]


def connected(n: int, a: Ints, b: Ints) -> Ints:
    """The number of the connected component of each of n nodes, (n,), for edges from a to b."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(a), np.int8), (a, b)), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def grouped(label: Ints, row_ids: Ids, order: Ints) -> Duplicates:
    """Groups of rows with equal labels; label (n,) is in the order of row_ids[order], which is ascending."""
    by_label = np.argsort(label, kind="stable")
    start = np.flatnonzero(np.diff(label[by_label], prepend=-1))
    size = np.diff(start, append=len(label))
    sorted_ids = row_ids[order]
    first = np.empty(len(row_ids), row_ids.dtype)
    first[order[by_label]] = np.repeat(sorted_ids[by_label[start]], size)
    many = np.repeat(size > 1, size)
    lims = np.concatenate([[0], np.cumsum(size[size > 1])])
    return Duplicates(first, lims, sorted_ids[by_label[many]])
