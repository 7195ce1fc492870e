"""Exact search among packed codes by Hamming distance, made for codes that repeat."""

import logging
import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manihash.checks import positive_int
from manihash.codes import check_codes, n_bytes
from manihash.search import cost, files
from manihash.search.buckets import Ints, aligned, build
from manihash.search.engines import engine
from manihash.search.ids import LARGEST_ID, Filter, check_ids, check_there, masks
from manihash.search.living import Living
from manihash.search.rescore import Asymmetric, Rescore
from manihash.search.routes import scan
from manihash.search.stats import Stats, stats
from manihash.types import Codes

_log = logging.getLogger(__name__)

_MOST_BITS = 2**16 - 1


class HammingIndex:
    """Distinct codes, each with the list of its rows: exact answers, nearest first, ties by id.

    ``codes`` (n, ceil(n_bits / 8)) are bytes as ``encode`` makes them; ``ids`` are n different whole numbers,
    without them a row's id is its position. ``made_by`` is anything that tells the model of the codes from
    others; files keep it. Several threads may read at once while none writes.

    >>> index = HammingIndex(codes, n_bits=64)
    >>> distances, ids = index.search(queries, k=10)
    >>> lims, distances, ids = index.within(queries, radius=2)
    """

    def __init__(self, codes: ArrayLike, n_bits: int, ids: ArrayLike | None = None) -> None:
        self.n_bits = positive_int(n_bits, "n_bits")
        if self.n_bits > _MOST_BITS:
            raise ValueError(f"codes of {n_bits} bits came: an index takes at most {_MOST_BITS}")
        database = check_codes(codes, self.n_bits)
        if not len(database):
            raise ValueError("no codes came: an index needs at least one, give it the output of encode()")
        given = None
        if ids is not None:
            given = check_ids(ids, len(database))
            order = np.argsort(given)
            given, database = given[order], database[order]
        self._living = Living(build(database, given), self.n_bits)
        self._file: files.IndexFile | None = None
        self.made_by: str | None = None

    def __len__(self) -> int:
        return len(self._living)

    @property
    def ids(self) -> Ints:
        """The ids of all rows, ascending: the order that a boolean filter is in."""
        return self._living.ids()

    @property
    def codes(self) -> Codes:
        """The codes of all rows, in the order of ``ids``: (n, ceil(n_bits / 8))."""
        return self._living.settled().of_rows()[0][:, : n_bytes(self.n_bits)]

    @property
    def distinct_codes(self) -> int:
        """How many different codes the rows have."""
        parts = [part.living().codes for part in self._living.parts()]
        return len(parts[0]) if len(parts) == 1 else len(self._living.settled().codes)

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        filter: Filter = None,
        asymmetric: ArrayLike | None = None,
        rescore: Rescore | None = None,
    ) -> tuple[NDArray[Any], Ints]:
        """Distances and ids of the k nearest rows of each query, nearest first, ties by id: two (q, k).

        Where there are fewer than k rows, there are as many columns as rows. ``filter`` keeps some rows: ids,
        or a boolean for each row in the order of ``ids``. ``asymmetric`` is the queries' real embedding
        (q, n_bits), by which rows are ranked instead of by the queries' bits (``asymmetric_distances``).
        ``rescore`` ranks a shortlist by the original vectors.
        """
        k, asked = positive_int(k, "k"), self._checked(queries)
        if rescore is not None:
            rescore.check(len(asked))
        fetch = k if rescore is None else rescore.length(k)
        ask: _Symmetric | Asymmetric = (
            _Symmetric(asked) if asymmetric is None else Asymmetric(asymmetric, self.n_bits)
        )
        if len(ask) != len(asked):
            raise ValueError(f"{len(asked)} queries came with the embedding of {len(ask)}: give one row each")
        levels, ids = self._nearest(ask, len(asked), fetch, filter)
        if k > ids.shape[1]:
            kept = "codes" if filter is None else "rows that the filter keeps"
            n = ids.shape[1]
            _log.warning("%d nearest asked of an index of %d %s: all %d are given", k, n, kept, n)
        return (ask.distance(levels), ids) if rescore is None else rescore.best(ids, k)

    def within(
        self, queries: ArrayLike, radius: int, *, filter: Filter = None
    ) -> tuple[Ints, NDArray[np.int32], Ints]:
        """All rows at a distance of at most ``radius``: lims (q + 1,), distances and ids.

        The answers of query i are those from lims[i] to lims[i + 1], nearest first, ties by id.
        """
        asked, radius = self._checked(queries), self._radius(radius)
        parts = zip(self._living.parts(), masks(self._living, filter), strict=True)
        found = [part.within(asked, radius, mask) for part, mask in parts]
        lims, distance, ids = found[0]
        if len(found) > 1:
            query = np.concatenate([np.repeat(np.arange(len(asked)), np.diff(f[0])) for f in found])
            distance, ids = (np.concatenate([f[i] for f in found]) for i in (1, 2))
            order = np.lexsort((ids, distance, query))
            lims, distance, ids = found[0][0] + found[1][0], distance[order], ids[order]
        return lims, distance.astype(np.int32), ids

    def count(self, queries: ArrayLike, radius: int = 0, *, filter: Filter = None) -> Ints:
        """How many rows lie within ``radius`` of each query: (q,)."""
        asked, radius = self._checked(queries), self._radius(radius)
        parts = zip(self._living.parts(), masks(self._living, filter), strict=True)
        return np.sum([part.count(asked, radius, mask) for part, mask in parts], axis=0)

    def bucket(self, code: ArrayLike) -> Ints:
        """Ids of the rows that have exactly this code (ceil(n_bits / 8),), ascending."""
        asked = np.atleast_2d(np.asarray(code))
        if len(asked) != 1:
            raise ValueError(
                f"{len(asked)} codes came, a bucket is that of one: use within(codes, 0) for several"
            )
        return self.within(asked, 0)[2]

    def add(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ints:
        """Take in more rows, under ids not in use or else under the next free ones; gives the ids."""
        new = self._checked(codes, "codes")
        if ids is None:
            start = self._living.next_id
            if start + len(new) > LARGEST_ID:
                raise ValueError(f"no free ids are left after {start - 1}: give ids of your own")
            given = np.arange(start, start + len(new))
        else:
            given = check_ids(ids, len(new))
            check_there(self._living, given, wanted=False)
        self._living.put(new, given)
        return given

    def remove(self, ids: ArrayLike) -> None:
        """Take out the rows of these ids, all of which must be in the index."""
        gone = check_ids(ids)
        check_there(self._living, gone, wanted=True)
        self._living.drop(gone)

    def update(self, codes: ArrayLike, ids: ArrayLike) -> None:
        """Give new codes to rows whose ids are in the index."""
        new = self._checked(codes, "codes")
        changed = check_ids(ids, len(new))
        check_there(self._living, changed, wanted=True)
        self._living.drop(changed)
        self._living.put(new, changed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, whole or not at all."""
        files.write(path, self._living.settled(), self.n_bits, self._living.next_id, self.made_by)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True) -> Self:
        """Open an index that ``save`` wrote, mapped into memory (at once, whatever its size) or read whole.

        Header, sizes and offsets are checked; ``verify`` checks every byte. A file must not be changed while
        it is mapped; ``save`` to the same path puts a new file in its place and is safe.
        """
        file = files.read(path, mmap=mmap)
        index = cls.__new__(cls)
        index.n_bits, index.made_by, index._file = file.n_bits, file.made_by, file
        index._living = Living(file.buckets, file.n_bits, file.next_id)
        return index

    def verify(self) -> None:
        """Read every byte of the file that was loaded; raise ``DamagedIndexError`` where it is not whole."""
        if self._file is None:
            raise ValueError("this index was not loaded from a file: there is nothing to verify")
        self._file.verify()

    def explain(self, *, k: int | None = None, radius: int | None = None, n_queries: int = 1) -> cost.Plan:
        """How the next so many queries would be answered, and what each route is expected to cost.

        Of the rows added lately only the large rest is spoken of.
        """
        if (k is None) == (radius is None):
            raise ValueError("give k or radius, one of the two: what is to be explained?")
        n_queries, part = positive_int(n_queries, "n_queries"), self._living.parts()[0]
        if radius is not None:
            return part.routes.plan(self._radius(radius), n_queries)
        estimate = scan(part.living().codes, engine(), n_queries)
        return cost.Plan(f"nearest {positive_int(k, 'k')}", n_queries, (estimate,))

    def stats(self) -> Stats:
        """Rows, distinct codes, bucket sizes, bits that tell nothing; warnings where codes have collapsed."""
        if not len(self):
            raise ValueError("the index is empty: add codes first")
        return stats(self._living.settled(), self.n_bits, self._living.nbytes(), self._living.table_nbytes())

    def _nearest(self, ask: "_Symmetric | Asymmetric", q: int, k: int, filter: Filter) -> tuple[Ints, Ints]:
        """Levels and ids of the k nearest rows, or of all there are."""
        parts = zip(self._living.parts(), masks(self._living, filter), strict=True)
        found = [part.nearest(ask, q, k, mask) for part, mask in parts]
        if len(found) == 1:
            return found[0]
        levels, ids = (np.concatenate(column, axis=1) for column in zip(*found, strict=True))
        order = np.lexsort((ids, levels), axis=1)[:, :k]
        return np.take_along_axis(levels, order, axis=1), np.take_along_axis(ids, order, axis=1)

    def _checked(self, codes: ArrayLike, name: str = "queries") -> Codes:
        return aligned(check_codes(codes, self.n_bits, name))

    def _radius(self, radius: Any) -> int:
        return min(positive_int(radius, "radius", least=0), self.n_bits)


class _Symmetric:
    """Asks for the nearest codes by Hamming distance; levels are distances."""

    def __init__(self, queries: Codes) -> None:
        self._queries, self._engine = queries, engine()

    def __len__(self) -> int:
        return len(self._queries)

    def __call__(self, which: Ints, codes: Codes, m: int) -> tuple[Ints, Ints]:
        return self._engine.nearest(self._queries[which], codes, m)

    @staticmethod
    def distance(level: Ints) -> NDArray[np.int32]:
        return level.astype(np.int32)
