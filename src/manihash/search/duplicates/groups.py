"""Near-duplicates: groups of rows connected by steps of at most a radius."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manihash.checks import check_unmasked, positive_int
from manihash.codes import check_codes
from manihash.display import Shown, frame, html
from manihash.rows.dask import is_dask
from manihash.search.duplicates.self_join import MEMORY, Nodes, SelfJoin, WorkOptions, parse_memory
from manihash.search.ids import check_ids, rows_of_ids
from manihash.types import Floats, Ids, Ints

_BLOCK = 2**22  # rows whose labels are compared at once
_GROUPS_SHOWN = 10
_VALUES = 2**22  # values of rows that are read at once


@dataclass(frozen=True, eq=False, repr=False)
class Duplicates(Shown):
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

    def _has_positions(self) -> bool:
        """Whether ids are positions of rows: then the first row of a group is not after the others."""
        if self.first.dtype == object or self.first.min() < 0:
            return False
        return bool((self.first <= np.arange(len(self.first))).all())

    def to_frame(self) -> Any:
        """Return the groups as a table.

        Returns
        -------
        pandas.DataFrame
            One row per grouped row, with the columns ``group`` (numbered from 0) and ``id``.
        """
        return frame({"group": np.repeat(np.arange(len(self)), np.diff(self.lims)), "id": self.ids})

    def _facts(self) -> dict[str, Any]:
        sizes = np.diff(self.lims)
        largest = int(sizes.max()) if len(sizes) else 0
        facts = {"rows": len(self.first), "groups": len(self), "largest_group": largest}
        return facts | {"duplicates": len(self.ids) - len(self)}

    def _repr_html_(self) -> str:
        shown = range(min(len(self), _GROUPS_SHOWN))
        groups = [{"group": i, "ids": self.ids[self.lims[i] : self.lims[i + 1]].tolist()} for i in shown]
        more = len(self) - len(groups)
        notes = [f"The first {len(groups)} of {len(self)} groups are listed."] if more else []
        return html(type(self).__name__, self._facts(), notes, groups)

    def keep(
        self,
        by: str = "first",
        *,
        codes: ArrayLike | None = None,
        vectors: Any = None,
        ids: ArrayLike | None = None,
    ) -> Ids:
        """Choose the rows to keep: all rows without a duplicate, and one row of each group.

        Parameters
        ----------
        by : {"first", "central"}, default="first"
            Keep the row of the lowest id, or the most central one: that with the smallest sum of Hamming
            distances to the other codes of its group or, given vectors, with the largest sum of cosines. Of
            several such rows that of the lowest id is kept.
        codes : array-like of shape (n, bytes), uint8, default=None
            The codes that the groups were made from, for ``by="central"``.
        vectors : array-like of shape (n, d), default=None
            Original vectors, for ``by="central"`` instead of codes.
        ids : array-like of shape (n,), default=None
            Ids of the rows, if they were given for the groups.

        Returns
        -------
        ndarray
            Ids to keep, ascending.

        Examples
        --------
        >>> from manihash import dedup, pack
        >>> codes = pack([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]])
        >>> found = dedup(codes, n_bits=4, radius=1)
        >>> found.keep(), found.keep("central", codes=codes)
        (array([0, 3]), array([1, 3]))
        """
        if by not in ("first", "central"):
            raise ValueError(f'by must be "first" or "central", not {by!r}')
        kept = _distinct(self.first)
        if by == "first" or not len(self):
            return kept
        if (codes is None) == (vectors is None):
            raise ValueError('by="central" needs codes or vectors: what the most central row is measured by')
        given = codes if vectors is None else vectors
        values: Any = given if hasattr(given, "shape") else np.asarray(given)
        if len(values) != len(self.first):
            raise ValueError(f"got {len(values):,} rows, expected the {len(self.first):,} rows of the groups")
        if ids is None and not self._has_positions():
            raise ValueError(
                "the groups have ids that are not the positions of rows: give ids=, one id per row, as for "
                "the groups"
            )
        rows = self.ids if ids is None else rows_of_ids(self.ids, ids, len(values))
        central = most_central(values, rows, self.lims, are_codes=vectors is None)
        rest = np.searchsorted(kept, self.ids[self.lims[:-1]])
        kept[rest] = self.ids[central]
        return np.sort(kept)


def dedup(
    codes: Any,
    n_bits: int,
    radius: int = 0,
    ids: ArrayLike | None = None,
    *,
    memory: int | str = MEMORY,
    work: str | os.PathLike[str] | None = None,
    restart: bool = False,
) -> Duplicates:
    """Find groups of rows whose codes are at most ``radius`` bits apart, exactly.

    Two rows are in one group if a chain of rows connects them in steps of at most ``radius`` bits. Equal
    codes are merged first. The others are compared only where some of their bits are equal, so that the time
    grows with the number of distinct codes, not with its square. Any codes are valid, for example perceptual
    hashes of images.

    Codes that do not fit into ``memory`` are divided into parts on disk. The groups are the same for any
    amount of memory, and on a cluster.

    Parameters
    ----------
    codes : array-like or dask array of shape (n, ceil(n_bits / 8)), uint8
        Packed codes; at least one. A memory map is read block by block. The workers of a Dask cluster
        compute the groups of a dask array.
    n_bits : int
        Length of a code.
    radius : int, default=0
        Largest Hamming distance of a step; 0 groups equal codes only.
    ids : array-like of shape (n,), default=None
        Distinct integers or strings, one per row. By default the id of a row is its position.
    memory : int or str, default=2 GiB
        Memory for the work, in bytes or as ``"500M"`` or ``"2G"``. The result needs about 16 bytes per row
        besides.
    work : str or path-like, default=None
        New or empty folder for parts on disk. If the process is killed, the same call resumes its work. The
        folder is removed at the end. By default parts are in a temporary folder, and only if they do not fit
        into memory. With a dask array, all workers must be able to write to this folder.
    restart : bool, default=False
        Discard the work of an earlier call in the folder.

    Returns
    -------
    Duplicates
        The groups of at least two rows.

    Raises
    ------
    ResumeError
        If the folder holds the work on other codes or with another radius or amount of memory.

    Examples
    --------
    >>> from manihash import dedup, pack
    >>> codes = pack([[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]])
    >>> [group.tolist() for group in dedup(codes, n_bits=4, radius=1)]
    [[0, 2, 3]]
    """
    n_bits, radius = positive_int(n_bits, "n_bits"), positive_int(radius, "radius", least=0)
    options = WorkOptions(parse_memory(memory), None if work is None else Path(work), restart)
    given = checked_rows(codes, n_bits)
    row_ids = None if ids is None else check_ids(ids, len(given))
    return grouped(SelfJoin(given, n_bits, min(radius, n_bits), options).run(), row_ids)


def checked_rows(codes: Any, n_bits: int) -> Any:
    """Codes (n, b) whose shape and type are right; each block of a file or dask array is checked later."""
    check_unmasked(codes, "codes")
    given = codes if is_dask(codes) or isinstance(codes, np.memmap) else np.asarray(codes)
    if len(given.shape) != 2 or given.dtype != np.uint8 or not len(given):
        check_codes(np.asarray(given), n_bits)
        raise ValueError("codes are empty: dedup needs at least one row")
    check_codes(np.empty((0, given.shape[1]), np.uint8), n_bits)
    return given


def grouped(label: Nodes, row_ids: Ids | None) -> Duplicates:
    """Groups of at least two rows with equal labels (n,); the label of a group is one of its rows."""
    rest = np.concatenate(
        [
            start + np.flatnonzero(block != np.arange(start, start + len(block), dtype=np.uint32))
            for start in range(0, len(label), _BLOCK)
            for block in [label[start : start + _BLOCK]]
        ]
    ).astype(np.uint32)
    rows = np.concatenate([rest, _distinct(label[rest]).astype(np.uint32)])
    del rest
    rank, lowest, order = rows, label, None  # without ids, the rank of a row is its position
    if row_ids is not None:
        order = np.argsort(row_ids, kind="stable")
        place = np.empty(len(order), np.uint32)
        place[order] = np.arange(len(order), dtype=np.uint32)
        rank, lowest = place[rows], place.copy()
        np.minimum.at(lowest, label[rows], rank)
    # Sorted by the lowest rank of the group, and by rank.
    key = lowest[label[rows]].astype(np.uint64)
    key <<= np.uint64(32)
    key |= rank
    del rows, rank
    key.sort()
    group = (key >> np.uint64(32)).astype(np.uint32)
    new = np.ones(len(group), np.bool_)
    new[1:] = group[1:] != group[:-1]
    lims = np.append(np.flatnonzero(new), len(group)).astype(np.int64)
    del group, new
    key &= np.uint64(2**32 - 1)
    members = key.view(np.int64)
    if row_ids is None or order is None:
        return Duplicates(label.astype(np.int64), lims, members)
    members = order[members]
    first = row_ids.copy()
    first[members] = np.repeat(row_ids[members[lims[:-1]]], np.diff(lims))
    return Duplicates(first, lims, row_ids[members])


def _distinct(ids: Ids) -> Ids:
    """Distinct ids, ascending; without a sort if they are nearly the positions of rows."""
    if not len(ids) or ids.dtype == object or ids.min() < 0 or ids.max() > 64 * len(ids):
        return np.unique(ids)
    seen = np.zeros(int(ids.max()) + 1, np.bool_)
    seen[ids] = True
    return np.flatnonzero(seen)


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
