"""The most central row of each group, in time proportional to the number of rows."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from manihash.types import Floats, Ints

_VALUES = 2**22  # values of rows that are read at once


def most_central(values: Any, rows: Ints, lims: Ints, *, are_codes: bool) -> Ints:
    """For each group the entry of ``rows`` with the largest sum of products with the others, ties by entry.

    The rows of group i are rows[lims[i] : lims[i + 1]]. The product of two codes (n, b), with bits as -1 and
    1, is the number of bits less twice their Hamming distance; that of vectors (n, d) is their cosine. The
    sum of the products with all rows is the product with their sum.
    """
    width = (8 if are_codes else 1) * values.shape[1]
    step = max(1, _VALUES // width)
    read = _signs if are_codes else _unit_rows
    group = np.repeat(np.arange(len(lims) - 1), np.diff(lims))
    found = np.empty(len(lims) - 1, np.int64)
    for first, last in _batches(lims, step):
        sums, scores = np.zeros((last - first, width)), []
        blocks = [slice(i, min(i + step, lims[last])) for i in range(lims[first], lims[last], step)]
        for block in blocks:
            own = group[block] - first
            start = np.flatnonzero(np.diff(own, prepend=-1))
            sums[own[start]] += np.add.reduceat(read(values, rows[block]), start, axis=0)
        for block in blocks:
            scores.append(np.einsum("ij,ij->i", read(values, rows[block]), sums[group[block] - first]))
        score, own = np.concatenate(scores), group[lims[first] : lims[last]]
        best = np.lexsort((-score, own))  # stable: of equal scores the first entry comes first
        found[first:last] = lims[first] + best[lims[first:last] - lims[first]]
    return found


def _batches(lims: Ints, size: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of consecutive groups of at most ``size`` rows together, or of one larger group."""
    edges, last = [0], len(lims) - 1
    while edges[-1] < last:
        full = int(np.searchsorted(lims, lims[edges[-1]] + size, side="right")) - 1
        edges.append(min(last, max(edges[-1] + 1, full)))
    yield from pairwise(edges)


def _signs(codes: Any, rows: Ints) -> Floats:
    """Bits of codes as -1.0 and 1.0, without those that all rows have in common as padding."""
    return np.unpackbits(np.asarray(codes[rows]), axis=1) * 2.0 - 1


def _unit_rows(X: Any, rows: Ints) -> Floats:
    """Vectors of length 1; zero rows stay zero."""
    block = np.asarray(X[rows], np.float64)
    lengths = np.linalg.norm(block, axis=1, keepdims=True)
    return block / np.where(lengths > 0, lengths, 1)
